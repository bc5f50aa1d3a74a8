"""A snapshot that was given out stays what it was, whatever happens to the live state: it may be decided on in another
thread while events go on."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from itertools import chain
from random import Random
from threading import Barrier, Thread
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import ConfigMap, ContainerPort, Namespace, Volume
from bosket.api.core.volume import PersistentVolumeClaimVolumeSource
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta, Wire
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.kube.codec import gc_paused
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.model.verdict import MOST, VERSIONS, VerdictMemory
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import node, numa_zones, pod, pod_group
from bosket.testing.cluster import NOW
from bosket.testing.device import device, device_class, device_slice, named_claims, resource_claim
from tests.scheduler import storage
from tests.scheduler.affinity import away, near, spread, term
from tests.scheduler.random_cluster import RandomCluster
from tests.scheduler.transcript import transcript

pytestmark = pytest.mark.slow

CONFIGURATION = Configuration(actions=tuple(ACTIONS))


def contents(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """Everything that hangs on a value, as tuples and texts, which nobody can change.

    API objects stand for themselves: nobody changes them in place. Verdicts are left out: they are added as they are
    asked for.
    """
    seen = {} if seen is None else seen
    if value is None or isinstance(value, str | bytes | int | float | Wire | VerdictMemory) or callable(value):
        return id(value) if isinstance(value, Wire) else "" if isinstance(value, VerdictMemory) else repr(value)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = "…"
    found: Any
    if isinstance(value, np.ndarray):
        found = (value.shape, value.tobytes())
    elif isinstance(value, Mapping):
        found = sorted((repr(contents(key, seen)), contents(each, seen)) for key, each in value.items())
    elif isinstance(value, Set):
        found = sorted(repr(contents(each, seen)) for each in value)
    elif isinstance(value, tuple | list):
        found = tuple(contents(each, seen) for each in value)
    elif dataclasses.is_dataclass(value):
        # `matches` remembers what selectors say of a pool's devices, which never change.
        names = [each.name for each in dataclasses.fields(value) if each.name != "matches"]
        found = tuple(contents(getattr(value, name), seen) for name in names)
    elif isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name != "_request"]
        found = tuple(contents(getattr(value, name), seen) for name in names)
    else:
        found = repr(value)
    seen[id(value)] = found = repr(found)
    return found


def fields(snapshot: Snapshot) -> dict[str, Any]:
    return {each.name: contents(getattr(snapshot, each.name)) for each in dataclasses.fields(Snapshot)}


def decided(snapshot: Snapshot) -> bytes:
    return transcript(snapshot, decide(snapshot, CONFIGURATION))


def budget(allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="default", generation=1),
        spec=PodDisruptionBudgetSpec(minAvailable=1, selector=LabelSelector(matchLabels={"app": "x"})),
        status=PodDisruptionBudgetStatus(disruptionsAllowed=allowed, observedGeneration=1),
    )


def rarities(dice: Random) -> list[KubeObject]:
    """Objects of the kinds that few clusters have; the names are always the same."""
    where = f"n{dice.randrange(3)}"
    app: dict[str, Any] = {"app": dice.choice("xy")}
    choosy = pod("choosy").cpu("1").label("app", "x").of_group("rare")
    choosy = choosy.with_spec(affinity=dice.choice((away, near))(term(**app)))
    even = pod("even").cpu("1").label("app", "y").of_group("rare")
    even = even.with_spec(topologySpreadConstraints=(spread("zone", **app),))
    claiming = pod("claiming").of_group("rare").with_spec(resourceClaims=named_claims("claim"))
    ports = (ContainerPort(containerPort=80, hostPort=dice.choice((80, 81))),)
    listening = pod("listening").cpu("1").of_group("rare").with_container(ports=ports)
    claim = PersistentVolumeClaimVolumeSource(claimName="data")
    storing = (
        pod("storing").cpu("1").of_group("rare").with_spec(volumes=(Volume(name="data", persistentVolumeClaim=claim),))
    )
    builders = [choosy, even, claiming, listening, storing]
    pods = [each.running_on(where).build() if dice.random() < 0.5 else each.build() for each in builders]
    allocated: dict[str, Any] = (
        {"devices": ("d0",), "pool": where, "users": ("claiming",)} if dice.random() < 0.5 else {}
    )
    return [
        *pods,
        pod_group("rare", min_member=0),
        budget(dice.randrange(3)),
        Namespace(metadata=ObjectMeta(name="default", labels=app)),
        ConfigMap(metadata=ObjectMeta(name=dice.choice("ab"), namespace="default")),
        device_class(),
        device_slice(where, *(device(f"d{number}") for number in range(dice.randrange(1, 4)))),
        resource_claim("claim", **allocated),
        numa_zones(where, {"cpu": dice.choice(("2", "8"))}, {"cpu": "4"}),
        storage.storage_class(),
        storage.claim(volume=dice.choice(("", "disk"))),
        storage.volume("disk", dice.choice("ab"), driver=storage.DRIVER),
        storage.csi_node(where, dice.randrange(1, 3)),
        storage.csi_driver(),
        storage.capacity("room", dice.choice("ab"), "5Gi"),
        node(where, zone=dice.choice("ab"), rack=dice.choice(("r1", "r2")), gpus=dice.choice((2, 4))),
    ]


def events(seed: int, count: int) -> Iterator[Callable[[ClusterState], object]]:
    """Objects of two clusters of the same names come, change and go in any order."""
    dice = Random(f"events {seed}")
    clusters = [RandomCluster(seed + more, nodes=4, queues=4, jobs=5).objects() for more in range(2)]
    objects = list(chain(*clusters, rarities(dice), rarities(dice)))
    for each in clusters[0]:
        yield partial(ClusterState.put, obj=each)
    for number in range(count):
        each, roll = dice.choice(objects), dice.random()
        now = NOW + number
        if roll < 0.6:
            yield partial(ClusterState.put, obj=each)
        elif roll < 0.75:
            yield partial(ClusterState.drop, obj=each)
        elif roll < 0.95:
            yield partial(carry_out, now=now)
        else:
            parts = {f"q{number}": (0.5, 0.1, 0.1) for number in range(dice.randrange(3))}
            yield partial(ClusterState.put_usage, usage=Usage(parts))


def carry_out(state: ClusterState, now: float) -> None:
    """What the scheduler itself does with its decisions."""
    decisions = decide(state.snapshot(now), CONFIGURATION)
    for bind in decisions.lasting_binds:
        state.own.assume_bind_request(bind_request_for(bind, {}))
    for eviction in decisions.lasting_evictions:
        state.own.assume_eviction(eviction.task.key, eviction.task.pod.metadata.uid, now)
    state.remember(decisions, now)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 60))
def test_older_snapshots_keep_their_contents_and_give_the_same_decisions(seed: int, count: int) -> None:
    state = ClusterState()
    taken: list[tuple[Snapshot, dict[str, Any], bytes]] = []
    for number, event in enumerate(events(seed, count)):
        event(state)
        if number % 7 == 0:
            snapshot = state.snapshot(NOW + number)
            taken.append((snapshot, fields(snapshot), decided(snapshot)))
    for snapshot, before, decisions in taken:
        assert fields(snapshot) == before
        assert decided(snapshot) == decisions


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_snapshots_are_decided_on_in_a_thread_while_the_state_changes(seed: int) -> None:
    """The same decisions as on a snapshot that nobody disturbed, from a memory of verdicts that both threads use."""
    state = ClusterState()
    happening = list(events(seed, 40))
    for event in happening:
        event(state)
    snapshot = state.snapshot(NOW + 1000)
    alone = decided(dataclasses.replace(snapshot, memory=VerdictMemory()))
    found: list[bytes] = []
    begin = Barrier(2)

    def decide_again() -> None:
        begin.wait()
        found.extend(decided(snapshot) for _ in range(5))

    thread = Thread(target=decide_again)
    thread.start()
    begin.wait()
    for number, event in enumerate(events(seed + 1, 60)):
        event(state)
        decide(state.snapshot(NOW + 2000 + number), CONFIGURATION)
    thread.join()
    assert found == [alone] * 5


def test_a_verdict_is_only_found_under_the_version_it_was_made_for() -> None:
    """While one thread finds out about version 1, another one asks about version 2."""
    memory = VerdictMemory()

    def meanwhile() -> str:
        assert memory.recall(2, "labels", "class", lambda: "of 2") == "of 2"
        return "of 1"

    assert memory.recall(1, "labels", "class", meanwhile) == "of 1"
    assert memory.recall(2, "labels", "class", lambda: "anew") == "of 2"
    assert memory.recall(1, "labels", "class", lambda: "anew") == "of 1"


def test_few_versions_are_remembered() -> None:
    memory = VerdictMemory()
    for version in range(10 * VERSIONS):
        for number in range(MOST):
            memory.recall(version, "double", number, lambda: 0)
    assert len(memory) <= VERSIONS * (MOST + 1)
    assert memory.recall(10 * VERSIONS - 1, "double", 0, lambda: 1) == 0
    assert memory.recall(0, "double", 0, lambda: 1) == 1


def test_the_garbage_collector_is_on_again_when_the_last_pause_of_several_threads_ends() -> None:
    assert gc.isenabled()
    inside, leave = Barrier(2), Barrier(2)

    def pause() -> None:
        with gc_paused():
            inside.wait()
            leave.wait()

    thread = Thread(target=pause)
    thread.start()
    inside.wait()
    with gc_paused():
        leave.wait()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def amounts(snapshot: Snapshot) -> dict[str, Any]:
    """What nodes and queues have, by the names of resources: these are learned in another order by another state."""
    table = snapshot.nodes
    names = snapshot.resource_names
    return {
        "nodes": table.names,
        **{
            f"{what} {name}": getattr(table, what)[place].tolist()
            for what in ("allocatable", "idle", "releasing", "foreign")
            for place, name in enumerate(names)
            if getattr(table, what)[place].any()
        },
        "devices": contents(table.devices),
        "residents": {name: [task.key for task in tasks] for name, tasks in snapshot.residents.items()},
        "use": contents(snapshot.use),
        "jobs": sorted(snapshot.jobs),
        "unsettled": [job.key for job in snapshot.unsettled],
        "tallies": sorted(sum(counts.values()) for counts in snapshot.match_counts.values()),
        "claimants": sorted(snapshot.inventory.claimants),
        "attached": contents(snapshot.volumes.attached),
    }


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 80), st.integers(1, 9))
def test_a_state_that_followed_events_equals_one_made_anew(seed: int, count: int, apart: int) -> None:
    """However many events there are between two snapshots, nodes, queues and jobs are as if they had been counted from
    nothing."""
    state = ClusterState()
    dice = Random(f"anew {seed}")
    clusters = [RandomCluster(seed + more, nodes=4, queues=4, jobs=5).objects() for more in range(2)]
    objects = list(chain(*clusters, rarities(dice), rarities(dice)))
    for number in range(count):
        each = dice.choice(objects)
        (state.put if dice.random() < 0.7 else state.drop)(each)
        if number % apart == 0:
            state.snapshot(NOW)
        elif number % apart == 1:
            for _ in state.warm_up():
                pass
    fresh = ClusterState()
    for kind in state._handlers:
        for each in state.objects(kind):
            fresh.put(each)
    assert amounts(state.snapshot(NOW)) == amounts(fresh.snapshot(NOW))


def test_the_rare_objects_of_these_tests_can_all_be_read() -> None:
    """One that is left out would test nothing."""
    for seed in range(20):
        state = ClusterState()
        for each in rarities(Random(seed)):
            state.put(each)
        state.snapshot(NOW)
        assert not list(state.unread())
