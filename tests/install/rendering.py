"""Values files, and what comes of them: snapshots that both `bosket manifests` and Helm must match."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from bosket.install.chart import as_yaml, manifests
from bosket.install.values import read_values

ROOT: Final = Path(__file__).parent.parent.parent
CHART: Final = ROOT / "charts" / "bosket"
NAMESPACE: Final = "scheduling"
_CASES: Final = Path(__file__).parent / "cases"
CASES: Final = tuple(sorted(each.name.removesuffix(".values.yaml") for each in _CASES.glob("*.values.yaml")))

Manifests = dict[tuple[str, str, str], dict[str, Any]]


def values_file(case: str) -> Path:
    return _CASES / f"{case}.values.yaml"


def snapshot_file(case: str) -> Path:
    return _CASES / f"{case}.snapshot.yaml"


def rendered(case: str) -> str:
    """What `bosket manifests` prints, without the definitions: these are the same for all."""
    values = read_values(values_file(case).read_text(), case)
    return as_yaml(manifests(values, NAMESPACE, definitions=False))


def by_identity(text: str) -> Manifests:
    """Objects by kind, namespace and name: Helm has an order of its own."""
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in documents
    }
    assert len(found) == len(documents), "an object is there twice"
    return found
