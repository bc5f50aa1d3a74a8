"""The table of protobuf messages agrees with the release that the control plane is built from."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bosket.apiserver.request.protobuf import decode_protobuf
from bosket.apiserver.request.protobuf.schema import find_message
from tests.controlplane import protobuf_table
from tests.controlplane.release import KUBERNETES

pytestmark = pytest.mark.real


@pytest.fixture
def modules() -> Path:
    """Go's module cache, where the build of the control plane put Kubernetes' API."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no go on the PATH")
    found = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    if not _samples(Path(found)).is_dir():
        pytest.skip("the modules of the control plane are not in Go's module cache")
    return Path(found)


def _samples(modules: Path) -> Path:
    return modules / "k8s.io" / f"api@{KUBERNETES.replace('v1.', 'v0.')}" / "testdata" / "HEAD"


def test_the_table_is_what_its_maker_makes(modules: Path) -> None:
    assert protobuf_table.TABLE.read_text() == protobuf_table.table(modules)


def test_every_kind_that_is_known_is_read_as_its_json(modules: Path) -> None:
    """Kubernetes keeps a sample of each kind with all fields set, in protobuf and in JSON."""
    compared = 0
    for sample in sorted(_samples(modules).glob("*.pb")):
        expected = json.loads(sample.with_suffix(".json").read_text())
        if find_message(expected.get("apiVersion", ""), expected.get("kind", "")) is not None:
            assert _without_nulls(decode_protobuf(sample.read_bytes(), 100)) == _without_nulls(expected), sample.name
            compared += 1
    assert compared > 70


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value
