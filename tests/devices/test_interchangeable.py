"""Devices that are found without a search are those that the search finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from bosket.api.resource_k8s import (
    Counter,
    CounterSet,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceTaint,
    ResourceClaimSpec,
)
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.plugins.dynamicresources.allocator import Given, Reach, allocate
from bosket.scheduler.plugins.dynamicresources.demand import Demand, demand_of
from bosket.scheduler.plugins.dynamicresources.interchangeable import Interchangeable
from bosket.scheduler.plugins.dynamicresources.reach import Reaches
from bosket.scheduler.plugins.dynamicresources.use import DeviceUse
from bosket.testing.device import DRIVER, claim_spec, device, device_request, device_slice
from tests.devices.test_allocator import CLASSES, EXPRESSIONS, MODELS, holding, reach


class OneNode(Reaches):
    """Stands for the nodes' reaches: every row reaches the same pools."""

    def __init__(self, reach: Sequence[Reach]) -> None:
        self._reach = tuple(reach)

    def of(self, row: int) -> tuple[Reach, ...]:
        return self._reach


def demands_for(*specs: ResourceClaimSpec) -> list[Demand]:
    return [demand_of(spec, CLASSES, f"claim {place}") for place, spec in enumerate(specs)]


def found_at_once(
    reached: Sequence[Reach], demands: Sequence[Demand], use: DeviceUse
) -> tuple[tuple[Given, ...], ...] | None:
    return Interchangeable(OneNode(reached)).allocate(demands, NodeRow(0), use)


DRAWS = {"consumesCounters": (DeviceCounterConsumption(counterSet="s", counters={"m": Counter(value=1)}),)}
TAINT = {"taints": (DeviceTaint(key="broken", effect="NoSchedule"),)}
SHARED = {"allowMultipleAllocations": True}


@st.composite
def situations(draw: st.DrawFn) -> Any:
    """Mostly plain devices and one request; now and then something that takes a search."""
    kinds = st.sampled_from([{}] * 12 + [DRAWS, TAINT, TAINT, SHARED])
    devices = [
        device(f"d{number}", fields=draw(kinds), model=draw(st.sampled_from(MODELS)))
        for number in range(draw(st.integers(0, 6)))
    ]
    counters = CounterSet(name="s", counters={"m": Counter(value=1)})
    specs = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        mode = draw(st.sampled_from(["ExactCount"] * 4 + ["All"]))
        count = draw(st.integers(1, 4)) if mode == "ExactCount" else 0
        request = device_request("r", draw(st.sampled_from(EXPRESSIONS)), allocationMode=mode, count=count)
        constraint = draw(st.sampled_from([()] * 3 + [(DeviceConstraint(distinctAttribute=f"{DRIVER}/model"),)]))
        specs.append(claim_spec(request, constraints=constraint))
    used = draw(st.sets(st.sampled_from([each.name for each in devices]))) if devices else set()
    return device_slice("n", *devices, sharedCounters=(counters,)), specs, used


@given(situations())
@settings(max_examples=300, deadline=None)
def test_what_is_found_at_once_is_what_the_search_finds(situation: Any) -> None:
    slices, specs, used = situation
    demands, use, reached = demands_for(*specs), holding(*sorted(used)), reach(slices)
    found = found_at_once(reached, demands, use)
    event("found at once" if found is not None else "left to the search")
    if found is not None:
        assert found == allocate(demands, reached, use)


def test_the_first_devices_that_are_free_are_found() -> None:
    slices = device_slice("n", *[device(f"d{number}", model="A") for number in range(4)])
    demands = demands_for(claim_spec(device_request("r", count=2)))
    (given_,) = found_at_once(reach(slices), demands, holding("d0", "d2")) or ()
    assert [each.offer.id.device for each in given_] == ["d1", "d3"]


@pytest.mark.parametrize("fields", [DRAWS, SHARED])
def test_devices_that_others_draw_on_or_share_are_left_to_the_search(
    fields: Mapping[str, Any],
) -> None:
    slices = device_slice("n", device("d0", model="A"), device("d1", fields=fields, model="A"))
    demands = demands_for(claim_spec(device_request("r", count=1)))
    assert found_at_once(reach(slices), demands, holding()) is None
