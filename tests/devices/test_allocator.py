"""The search for devices: what it finds is right, and it finds something whenever there is something to find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.quantity import Quantity, parse
from bosket.api.resource_k8s import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceCapacity,
    DeviceClass,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ResourceClaimSpec,
    ResourceSlice,
)
from bosket.scheduler.model.device import DeviceId, Pool, PoolId
from bosket.scheduler.model.inventory import build_pool
from bosket.scheduler.plugins.dynamicresources.allocator import Given, Reach, Refusal, allocate
from bosket.scheduler.plugins.dynamicresources.demand import UnusableClaim, demand_of
from bosket.scheduler.plugins.dynamicresources.result import allocation_of
from bosket.scheduler.plugins.dynamicresources.use import DeviceUse
from bosket.testing.device import (
    CLASS,
    DRIVER,
    claim_spec,
    device,
    device_class,
    device_request,
    device_slice,
    selectors,
)

CLASSES = {CLASS: device_class()}


def pool_of(*slices: ResourceSlice) -> Pool:
    pool = slices[0].spec.pool
    assert pool is not None
    key = PoolId(slices[0].spec.driver, pool.name)
    return build_pool(key, slices)


def reach(*slices: ResourceSlice) -> list[Reach]:
    pool = pool_of(*slices)
    return [Reach(pool, tuple(enumerate(pool.offers)))]


def holding(*devices: str, pool: str = "n", parts: dict[str, Quantity] | None = None) -> DeviceUse:
    use = DeviceUse()
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver=DRIVER, pool=pool, device=each, consumedCapacity=parts or {})
        for each in devices
    )
    use.add(AllocationResult(devices=DeviceAllocationResult(results=results)))
    return use


def search(
    slices: Sequence[ResourceSlice],
    *specs: ResourceClaimSpec,
    use: DeviceUse | None = None,
    classes: Mapping[str, DeviceClass] = CLASSES,
) -> Refusal | tuple[tuple[Given, ...], ...]:
    demands = [demand_of(spec, classes, "claim") for spec in specs]
    return allocate(demands, reach(*slices), use or DeviceUse())


def found_in(
    slices: Sequence[ResourceSlice], *specs: ResourceClaimSpec, use: DeviceUse | None = None
) -> tuple[tuple[Given, ...], ...]:
    """What a search finds that must find something."""
    found = search(slices, *specs, use=use)
    assert not isinstance(found, Refusal), found.text
    return found


def names(found: Refusal | tuple[tuple[Given, ...], ...]) -> list[list[str]] | None:
    """Device names by claim; None where there is nothing."""
    return None if isinstance(found, Refusal) else [[each.offer.id.device for each in given] for given in found]


PLAIN = device_slice("n", device("a"), device("b"), device("c"))


def test_devices_are_given_in_order_and_those_in_use_are_not() -> None:
    assert names(search([PLAIN], claim_spec(device_request(count=2)))) == [["a", "b"]]
    assert names(search([PLAIN], claim_spec(device_request(count=2)), use=holding("a"))) == [["b", "c"]]
    assert names(search([PLAIN], claim_spec(device_request(count=3)), use=holding("a"))) is None


def test_all_means_every_device_that_matches_and_none_of_them_may_be_in_use() -> None:
    every = claim_spec(device_request(allocationMode="All", count=0))
    assert names(search([PLAIN], every)) == [["a", "b", "c"]]
    assert names(search([PLAIN], every, use=holding("b"))) is None
    assert names(search([device_slice("n")], every)) is None, "all of nothing is nothing"


def test_the_first_alternative_that_can_be_served_is_taken() -> None:
    slices = [device_slice("n", device("big", size="l"), device("s1", size="s"), device("s2", size="s"))]
    large = DeviceSubRequest(
        name="large",
        deviceClassName=CLASS,
        selectors=selectors(f'device.attributes["{DRIVER}"].size == "l"'),
        allocationMode="ExactCount",
        count=1,
    )
    small = DeviceSubRequest(
        name="small",
        deviceClassName=CLASS,
        selectors=selectors(f'device.attributes["{DRIVER}"].size == "s"'),
        allocationMode="ExactCount",
        count=2,
    )
    spec = claim_spec(DeviceRequest(name="r", firstAvailable=(large, small)))
    assert names(search(slices, spec)) == [["big"]]
    assert names(search(slices, spec, use=holding("big"))) == [["s1", "s2"]]
    assert names(search(slices, spec, use=holding("big", "s1"))) is None
    (given,) = found_in(slices, spec, use=holding("big"))
    demand = demand_of(spec, CLASSES, "claim")
    results = allocation_of(demand, given, CLASSES, node="n", owner="o").devices.results
    assert [each.request for each in results] == ["r/small", "r/small"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (f'device.attributes["{DRIVER}"].model == "A"', ["a"]),
        (f'device.attributes["{DRIVER}"].index > 1', ["b"]),
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("50Gi")) >= 0', ["b"]),
        (f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("1.9.0"))', ["b"]),
        (f'cel.bind(d, device.attributes["{DRIVER}"], d.model == "B" && d.index == 2)', ["b"]),
        ('"other.example.com" in device.attributes && device.attributes["other.example.com"].x', None),
        ('device.driver == "gpu.example.com" && !device.allowMultipleAllocations', ["a"]),
        ('has(device.attributes["other.example.com"].x)', None),
        (f'device.attributes["{DRIVER}"].missing == "A"', None),
        ("device.driver", None),
    ],
)
def test_selectors_see_attributes_and_capacities(expression: str, found: Sequence[str] | None) -> None:
    slices = [
        device_slice(
            "n",
            device("a", capacity={"memory": "40Gi"}, model="A", index=1, driverVersion="1.2.3"),
            device("b", capacity={"memory": "80Gi"}, model="B", index=2, driverVersion="1.10.0"),
        )
    ]
    got = names(search(slices, claim_spec(device_request("r", expression))))
    assert got == ([found] if found else None)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            claim_spec(device_request("r", "device.driver ==")),
            "claim: spec.devices.requests[0].exactly.selectors[0].cel",
        ),
        (claim_spec(device_request("r", "devices.driver == ''")), "Undefined variable or function: 'devices'"),
        (claim_spec(device_request("r", of="nope")), 'exactly.deviceClassName: DeviceClass "nope" was not found'),
        (claim_spec(device_request("r", allocationMode="Some")), 'allocationMode is "Some"'),
        (claim_spec(device_request("r", count=33)), "33 devices, a claim has 32 at most"),
        (claim_spec(DeviceRequest(name="r")), "has neither exactly nor firstAvailable"),
        (claim_spec(device_request(), constraints=(DeviceConstraint(),)), "spec.devices.constraints[0]"),
        (
            claim_spec(device_request("r", capacity=CapacityRequirements(requests={"memory": "lots"}))),
            "exactly.capacity.requests[memory]",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_names_the_field(spec: ResourceClaimSpec, text: str) -> None:
    with pytest.raises(UnusableClaim) as error:
        demand_of(spec, CLASSES, "claim")
    assert text in str(error.value)


def test_a_malformed_selector_of_a_class_names_the_class() -> None:
    with pytest.raises(UnusableClaim, match=r"^DeviceClass gpu: spec\.selectors\[1\]\.cel\.expression: "):
        demand_of(claim_spec(), {CLASS: device_class(CLASS, "true", "device.")}, "claim")


def test_constraints_hold_over_the_requests_that_they_name() -> None:
    slices = [device_slice("n", device("a", rack="x"), device("b", rack="y"), device("c", rack="y"))]
    match = DeviceConstraint(matchAttribute=f"{DRIVER}/rack")
    differ = DeviceConstraint(distinctAttribute=f"{DRIVER}/rack")
    pair = device_request(count=2)
    assert names(search(slices, claim_spec(pair, constraints=(match,)))) == [["b", "c"]]
    assert names(search(slices, claim_spec(pair, constraints=(differ,)))) == [["a", "b"]]
    only = DeviceConstraint(matchAttribute=f"{DRIVER}/rack", requests=("p",))
    two = claim_spec(device_request("q"), device_request("p", count=2), constraints=(only,))
    assert names(search(slices, two)) == [["a", "b", "c"]]
    none = DeviceConstraint(matchAttribute=f"{DRIVER}/slot")
    assert names(search(slices, claim_spec(constraints=(none,)))) is None, "a device without the attribute matches none"


def test_partitions_draw_from_counters_that_they_share() -> None:
    def part(name: str, memory: str) -> Device:
        draws = DeviceCounterConsumption(counterSet="gpu-0", counters={"memory": Counter(value=memory)})
        return device(name, fields={"consumesCounters": (draws,)})

    shared = CounterSet(name="gpu-0", counters={"memory": Counter(value="40Gi")})
    slices = [
        device_slice(
            "n", part("whole", "40Gi"), part("half-0", "20Gi"), part("half-1", "20Gi"), sharedCounters=(shared,)
        )
    ]
    assert names(search(slices, claim_spec())) == [["whole"]]
    assert names(search(slices, claim_spec(device_request(count=2)))) == [["half-0", "half-1"]]
    assert names(search(slices, claim_spec(), use=holding("half-0"))) == [["half-1"]]
    assert names(search(slices, claim_spec(), use=holding("whole"))) is None


def test_a_device_for_several_is_shared_out_by_capacity() -> None:
    capacity = {
        "memory": DeviceCapacity(
            value="40Gi",
            requestPolicy=CapacityRequestPolicy(
                default="10Gi", validRange=CapacityRequestPolicyRange(min="5Gi", step="5Gi", max="40Gi")
            ),
        )
    }
    slices = [device_slice("n", device("d", fields={"allowMultipleAllocations": True, "capacity": capacity}))]

    def asking(amount: str) -> ResourceClaimSpec:
        return claim_spec(device_request("r", capacity=CapacityRequirements(requests={"memory": amount})))

    (given,) = found_in(slices, asking("11Gi"))
    assert given[0].taken == {"memory": parse("15Gi")}
    (given,) = found_in(slices, claim_spec())
    assert given[0].taken == {"memory": parse("10Gi")}, "the default"
    assert names(search(slices, asking("20Gi"), asking("20Gi"))) == [["d"], ["d"]]
    assert names(search(slices, asking("20Gi"), asking("21Gi"))) is None
    assert names(search(slices, asking("25Gi"), use=holding("d", parts={"memory": "20Gi"}))) is None
    assert names(search(slices, asking("20Gi"), use=holding("d", parts={"memory": "20Gi"}))) == [["d"]]
    assert names(search(slices, asking("41Gi"))) is None


def test_administrators_may_have_what_others_use_and_take_it_from_nobody() -> None:
    admin = claim_spec(device_request("r", adminAccess=True, count=3))
    assert names(search([PLAIN], admin, use=holding("a", "b"))) == [["a", "b", "c"]]
    assert names(search([PLAIN], admin, claim_spec(device_request(count=3)))) == [["a", "b", "c"], ["a", "b", "c"]]


def test_tainted_devices_are_for_those_that_tolerate_it() -> None:
    taint = DeviceTaint(key="broken", effect="NoSchedule", value="yes")
    slices = [device_slice("n", device("a", fields={"taints": (taint,)}), device("b"))]
    assert names(search(slices, claim_spec())) == [["b"]]
    tolerating = device_request("r", tolerations=(DeviceToleration(key="broken", operator="Exists"),))
    assert names(search(slices, claim_spec(tolerating))) == [["a"]]
    wrong = device_request("r", tolerations=(DeviceToleration(key="broken", operator="Equal", value="no"),))
    assert names(search(slices, claim_spec(wrong))) == [["b"]]


def test_a_pool_counts_when_all_slices_of_its_newest_generation_are_there() -> None:
    old = device_slice("n", device("old"), generation=1)
    new = device_slice("n", device("new"), generation=2, slices=2, part=0)
    more = device_slice("n", device("more"), generation=2, slices=2, part=1)
    assert names(search([old], claim_spec())) == [["old"]]
    found = search([old, new], claim_spec())
    assert isinstance(found, Refusal)
    assert "pool gpu.example.com/n: it has 1 of 2 slices" in found.text
    assert names(search([old, new, more], claim_spec(device_request(count=2)))) == [["new", "more"]]
    twice = [device_slice("n", device("a"), device("a"))]
    assert pool_of(*twice).problem == 'it has two devices of the name "a"'
    assert names(search(twice, claim_spec())) is None


def test_many_equal_devices_are_no_maze() -> None:
    slices = [device_slice("n", *[device(f"d{number:02}") for number in range(30)])]
    first, second = device_request("p", count=16), device_request("q", count=15)
    assert names(search(slices, claim_spec(first), claim_spec(second))) is None


def test_so_many_claims_that_a_search_would_not_end_are_refused() -> None:
    slices = [device_slice("n", *[device(f"d{number:04}") for number in range(600)])]
    assert names(search(slices, *[claim_spec(device_request(count=3))] * 50)) is not None
    refused = search(slices, *[claim_spec(device_request(count=5))] * 100)
    assert isinstance(refused, Refusal)
    assert "so many resource claims" in refused.text


# Against brute force

MODELS, RACKS = ("A", "B"), ("x", "y")
EXPRESSIONS = ("true", *(f'device.attributes["{DRIVER}"].model == "{model}"' for model in MODELS))


@st.composite
def situations(draw: st.DrawFn) -> Any:
    devices = []
    for number in range(draw(st.integers(0, 5))):
        draws = draw(st.sampled_from([None, 1, 2]))
        fields: dict[str, Any] = {}
        if draws:
            used = DeviceCounterConsumption(counterSet="s", counters={"m": Counter(value=draws)})
            fields["consumesCounters"] = (used,)
        attributes: dict[str, Any] = {"model": draw(st.sampled_from(MODELS))}
        if draw(st.booleans()):
            attributes["rack"] = draw(st.sampled_from(RACKS))
        devices.append(device(f"d{number}", fields=fields, **attributes))
    counters = CounterSet(name="s", counters={"m": Counter(value=draw(st.integers(0, 4)))})
    slices = device_slice("n", *devices, sharedCounters=(counters,))
    specs = []
    for _ in range(draw(st.integers(1, 2))):
        requests = []
        for number in range(draw(st.integers(1, 2))):
            mode = draw(st.sampled_from(["ExactCount", "ExactCount", "All"]))
            count = draw(st.integers(1, 3)) if mode == "ExactCount" else 0
            requests.append(
                device_request(f"r{number}", draw(st.sampled_from(EXPRESSIONS)), allocationMode=mode, count=count)
            )
        kind = draw(st.sampled_from([None, "match", "distinct"]))
        constraint = {
            None: (),
            "match": (DeviceConstraint(matchAttribute=f"{DRIVER}/rack", requests=("r0",)),),
            "distinct": (DeviceConstraint(distinctAttribute=f"{DRIVER}/rack"),),
        }[kind]
        specs.append(claim_spec(*requests, constraints=constraint))
    return slices, specs, draw(st.sets(st.sampled_from([each.name for each in devices])) if devices else st.just(set()))


def matches(each: Any, request: Any) -> Any:
    expression = request.exactly.selectors[0].cel.expression
    return expression == "true" or f'"{each.attributes["model"].string}"' in expression.split("==")[1]


def is_right(slices: Any, specs: Any, used: Any, choice: Any) -> bool:
    """Whether devices, by claim and request, are what the claims ask for: rule by rule, without a search."""
    devices = {each.name: each for each in slices.spec.devices}
    chosen = list(chain.from_iterable(chain.from_iterable(choice)))
    if len(chosen) != len(set(chosen)) or used & set(chosen):
        return False
    taken = sum(
        (parse(each.consumesCounters[0].counters["m"].value) for name, each in devices.items()
         if (name in used or name in chosen) and each.consumesCounters),
        Fraction(0),
    )  # fmt: skip
    drawing = any(devices[name].consumesCounters for name in chosen)
    if drawing and taken > parse(slices.spec.sharedCounters[0].counters["m"].value):
        return False
    for spec, by_request in zip(specs, choice, strict=True):
        for request, got in zip(spec.devices.requests, by_request, strict=True):
            fitting = [name for name, each in devices.items() if matches(each, request)]
            if not set(got) <= set(fitting):
                return False
            if request.exactly.allocationMode == "All":
                if not fitting or set(got) != set(fitting):
                    return False
            elif len(got) != request.exactly.count:
                return False
        for constraint in spec.devices.constraints:
            meant = [
                name
                for request, got in zip(spec.devices.requests, by_request, strict=True)
                if not constraint.requests or request.name in constraint.requests
                for name in got
            ]
            racks = [devices[name].attributes.get("rack") for name in meant]
            if any(each is None for each in racks):
                return False
            values = {each.string for each in racks}
            if constraint.matchAttribute and len(values) > 1:
                return False
            if constraint.distinctAttribute and len(values) < len(racks):
                return False
    return True


def exists(slices: Any, specs: Any, used: Any) -> Any:
    def ways(request: Any) -> Any:
        fitting = [each.name for each in slices.spec.devices if matches(each, request)]
        every = request.exactly.allocationMode == "All"
        return list(combinations(fitting, len(fitting) if every else request.exactly.count))

    per_claim = [list(product(*map(ways, spec.devices.requests))) for spec in specs]
    return any(is_right(slices, specs, used, choice) for choice in product(*per_claim))


@given(situations())
@settings(max_examples=120, deadline=None)
def test_it_finds_something_right_whenever_there_is_something_to_find(situation: Any) -> None:
    slices, specs, used = situation
    found = search([slices], *specs, use=holding(*sorted(used)))
    if isinstance(found, Refusal):
        assert not exists(slices, specs, used)
        return
    choice = [
        [
            [each.offer.id.device for each in given if each.want.parent == request.name]
            for request in spec.devices.requests
        ]
        for spec, given in zip(specs, found, strict=True)
    ]
    assert is_right(slices, specs, used, choice)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=8), st.randoms(use_true_random=False))
def test_use_that_is_given_back_leaves_no_trace(parts: Sequence[tuple[str, int]], random: Random) -> None:
    use, allocations = DeviceUse(), []
    for name, amount in parts:
        result = DeviceRequestAllocationResult(
            request="r", driver=DRIVER, pool="n", device=name, consumedCapacity={"m": str(amount)}
        )
        allocations.append(AllocationResult(devices=DeviceAllocationResult(results=(result,))))
        use.add(allocations[-1])
    random.shuffle(allocations)
    for each in allocations:
        use.remove(each)
    assert use.size == 0
    for name in "abc":
        assert use.parts_of(DeviceId(DRIVER, "n", name)) == {}
