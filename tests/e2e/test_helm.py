"""Real Helm renders from the chart what `bosket manifests` prints, for any values; and API servers take it."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bosket.install.chart import as_yaml, manifests
from bosket.install.values import default_values
from bosket.kube.errors import AlreadyExists
from tests.controlplane.helm import find_helm
from tests.e2e.cluster import Cluster
from tests.install.rendering import CASES, CHART, NAMESPACE, by_identity, snapshot_file, values_file

#: How many values are tried, each as some change of the defaults.
RANDOM_VALUES = 12


def helm(*arguments: str | Path) -> str:
    program = find_helm()
    if program is None:
        pytest.fail("there is no Helm: `make e2e` builds it, or `python -m tests.controlplane build`")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(values: Path, *flags: str) -> str:
    return helm("template", "bosket", CHART, f"--namespace={NAMESPACE}", f"--values={values}", *flags)


@pytest.mark.real
def test_the_chart_lints_clean() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)


@pytest.mark.real
@pytest.mark.parametrize("case", CASES)
def test_helm_renders_the_snapshots(case: str) -> None:
    assert by_identity(template(values_file(case))) == by_identity(snapshot_file(case).read_text())


@pytest.mark.real
def test_helm_brings_the_definitions_along(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("{}")
    assert by_identity(template(values, "--include-crds")) == by_identity(as_yaml(manifests({}, NAMESPACE)))


@pytest.mark.real
def test_any_values_render_the_same(tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    for seed in range(RANDOM_VALUES):
        values = changed(default_values(), random.Random(seed), schema)
        file = tmp_path / f"{seed}.yaml"
        file.write_text(yaml.safe_dump(values))
        assert by_identity(template(file)) == by_identity(as_yaml(manifests(values, NAMESPACE, definitions=False))), (
            values
        )


def changed(default: Any, choice: random.Random, schema: dict[str, Any]) -> Any:
    """Values like the defaults, of which some are others, odd ones among them; all as the schema wants them."""
    if isinstance(default, dict) and default:
        kinds = schema.get("properties", {})
        return {
            name: changed(each, choice, kinds.get(name, {})) for name, each in default.items() if choice.random() < 0.8
        }
    if "enum" in schema:
        return choice.choice(schema["enum"])
    if isinstance(default, bool):
        return choice.random() < 0.5
    if isinstance(default, int):
        return choice.choice((default, 1, 3))
    if default == "":
        return choice.choice(("", "some-text"))
    return default


async def test_an_api_server_takes_every_object(cluster: Cluster) -> None:
    async def create(manifest: dict[str, Any]) -> None:
        try:
            await cluster.client.create(manifest, dry_run=True)
        except AlreadyExists:
            return  # tests run on a cluster that has queues, priority classes and roles already

    values = {"grove": {"enabled": True, "config": {"authorizer": {"enabled": True}}}}
    await asyncio.gather(*(create(each) for each in manifests(values, "kai-scheduler", definitions=False)))
