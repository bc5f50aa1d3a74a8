"""How kinds find their groupers, and how another package brings one."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from bosket.services.podgrouper import Grouping, Options, Workload, base_group
from bosket.services.podgrouper.groupers.default import default
from bosket.services.podgrouper.grouping import group
from bosket.services.podgrouper.owner import GroupVersionKind
from bosket.services.podgrouper.table import GROUPERS, GrouperTable, load_table
from tests.podgrouper.sketch import SketchedCluster, owner, pod


def simulation(workload: Workload) -> Grouping:
    """A grouper as another package would write it."""
    workers = workload.top.content["spec"]["workers"]
    return Grouping(base_group(workload, min_member=workers), subgroup="workers")


def test_an_exact_version_comes_before_any_version_and_that_before_the_default() -> None:
    def exact(_: Workload) -> Grouping:
        raise AssertionError

    table = GrouperTable({"example.com/v1/Simulation": exact, "example.com/*/Simulation": simulation})
    assert table.find(GroupVersionKind("example.com", "v1", "Simulation"), Options(karta_fallback=False)) is exact
    assert table.find(GroupVersionKind("example.com", "v2", "Simulation"), Options(karta_fallback=False)) is simulation
    assert table.find(GroupVersionKind("example.org", "v1", "Simulation"), Options(karta_fallback=False)) is default
    assert table.find(GroupVersionKind("batch", "v1", "Job"), Options(karta_fallback=False)) is default


def test_the_core_group_has_no_name() -> None:
    assert GrouperTable(GROUPERS).find(GroupVersionKind("", "v1", "Pod"), Options()) is GROUPERS["v1/Pod"]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="bosket.groupers")


def test_a_package_brings_a_grouper_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("example_grouping")
    package.simulation = simulation  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "example_grouping", package)
    table = load_table([entry("example.com/*/Simulation", "example_grouping:simulation")])
    top = owner("example.com/v1/Simulation", "sim", spec={"workers": 5})
    found = group(pod("a", top), (top,), SketchedCluster(), Options(), table)
    assert found is not None
    assert (found.pod_group.spec.minMember, found.subgroup) == (5, "workers")


@pytest.mark.parametrize(
    "broken",
    [
        entry("example.com/v1/A", "no_such_module:f"),
        entry("example.com/v1/A", "json:no_such_name"),
        entry("A", "json:loads"),
    ],
)
def test_a_grouper_that_cant_be_loaded_leaves_the_others_alone(broken: EntryPoint) -> None:
    table = load_table([broken])
    assert table.find(GroupVersionKind("batch", "v1", "Job"), Options(karta_fallback=False)) is GROUPERS["batch/v1/Job"]
    assert table.find(GroupVersionKind("example.com", "v1", "A"), Options(karta_fallback=False)) is default
