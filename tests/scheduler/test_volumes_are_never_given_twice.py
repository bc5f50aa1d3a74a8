"""On random clusters: no volume goes to two claims, no node attaches more than it can, and undo is exact."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject, ObjectKey
from bosket.kube.volume import demand_of, reaches, suits
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Bind, Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins.volume_ledger import VolumeLedger
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, pod_group, queue
from bosket.testing.cluster import NOW, configured, snapshot_of, state_of
from tests.scheduler.storage import LOCAL, capacity, claim, csi_driver, csi_node, member, storage_class, volume

pytestmark = pytest.mark.slow

MADE = storage_class("made")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
SIZES = ("1Gi", "2Gi", "3Gi")


def cluster(seed: int) -> list[KubeObject]:
    """A few nodes, disks that are nearly enough, and pods that share some of their claims."""
    dice = Random(seed)
    nodes = [node(f"n{i}", gpus=0, cpu="4", zone="ab"[i % 2]) for i in range(dice.randint(1, 5))]
    objects = [queue("q"), *nodes, LOCAL, MADE, csi_driver()]
    objects += [capacity(f"room-{zone}", zone, dice.choice(SIZES), storage_class="made") for zone in "ab"]
    for number in range(dice.randint(1, 6)):
        zones = dice.choice([(), ("a",), ("b",), ("a", "b")])
        driver = dice.choice(["", "example.com/disk"])
        disk = volume(
            f"disk-{number}", *zones, phase="Available", size=dice.choice(SIZES), driver=driver, accessModes=MODES
        )
        objects.append(disk)
    objects += [csi_node(each.metadata.name, dice.randint(0, 3)) for each in nodes if dice.random() < 0.6]
    claims = []
    for number in range(dice.randint(3, 10)):
        name, modes = f"c{number}", (dice.choice(MODES),)
        if dice.random() < 0.8:
            of = dice.choice(["slow", "slow", "made"])
            claims.append(claim(name, storage_class=of, size=dice.choice(SIZES[:2]), modes=modes))
        else:
            objects.append(volume(f"mine-{number}", driver="example.com/disk"))
            claims.append(claim(name, f"mine-{number}", modes=modes))
    names = [each.metadata.name for each in claims]
    for number in range(dice.randint(2, 6)):
        size = dice.randint(1, 3)
        objects.append(pod_group(f"g{number}", min_member=dice.randint(1, size)))
        for index in range(size):
            wanted = dice.sample(names, dice.choice([0, 1, 1, 1, 2, 3]))
            objects.append(member(*wanted, name=f"g{number}-{index}", group=f"g{number}").build())
    return [*objects, *claims]


clusters = st.builds(cluster, st.integers(0, 2**32))


def check(objects: Sequence[KubeObject], decisions: Decisions | type[Any]) -> None:
    """Binds against the objects, by Kubernetes' own rules."""
    by_name: dict[tuple[str, str], Any] = {(type(each).__name__, each.metadata.name): each for each in objects}
    owners: dict[str, str] = {}
    where: dict[str, set[str]] = {}
    attached: dict[str, set[Any]] = {}
    for bind in decisions.binds:
        spot = by_name["Node", bind.node]
        for name, disk in bind.volumes:
            if not disk:
                continue
            assert owners.setdefault(disk, name) == name, f"{disk} was given to two claims"
            wanted, found = by_name["PersistentVolumeClaim", name], by_name["PersistentVolume", disk]
            assert suits(found, demand_of(wanted))
            assert reaches(spot, found)
            where.setdefault(name, set()).add(disk)
        attached.setdefault(bind.node, set()).update(bind.task.storage.attached)
    assert all(len(disks) == 1 for disks in where.values()), "a claim was given two volumes"
    for name, volumes in attached.items():
        limit = by_name.get(("CSINode", name))
        if limit is not None:
            (driver,) = limit.spec.drivers
            count = Counter(each.driver for each in volumes)[driver.name]
            assert count <= driver.allocatable.count


@given(clusters, st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_volume_is_given_twice_and_no_node_attaches_too_many(objects: Sequence[KubeObject], counted: bool) -> None:
    configuration = configured(*Configuration().actions, schedule_csi_storage=counted)
    decisions = decide(snapshot_of(objects), configuration)
    check(objects, decisions)
    again = decide(snapshot_of(objects[::-1]), configuration)
    assert {bind.task.key: (bind.node, bind.volumes) for bind in again.binds} == {
        bind.task.key: (bind.node, bind.volumes) for bind in decisions.binds
    }


@given(clusters)
@settings(max_examples=60, deadline=None)
def test_what_is_being_bound_and_what_is_decided_later_never_clash(objects: Sequence[KubeObject]) -> None:
    """Groups arrive one after the other; nothing of what was decided is carried out yet."""
    groups = [each for each in objects if type(each).__name__ == "PodGroup"]
    state = state_of([each for each in objects if each not in groups])
    binds: list[Bind] = []
    for group in groups:
        state.put(group)
        decisions = decide(state.snapshot(NOW), Configuration())
        binds += decisions.binds
        for bind in decisions.binds:
            state.own.assume_bind_request(bind_request_for(bind))
    check(objects, type("All", (), {"binds": binds}))


def ledger_of(session: Session) -> VolumeLedger | None:
    return next((each for each in session.extensions.placement_listeners if isinstance(each, VolumeLedger)), None)


def standing(ledger: VolumeLedger | None) -> tuple[Any, ...] | None:
    """All that placements change, counters of changes apart."""
    if ledger is None:
        return None
    slots = ledger.slots
    return (
        set(ledger._taken),
        +ledger._used,
        {name: (each.row, each.volume, each.users) for name, each in ledger._settled.items()},
        dict(ledger._given),
        set(ledger._going),
        {driver: used.tolist() for driver, used in slots._used.items() if used.any()},
        {each: dict(users) for each, users in slots._users.items() if users},
    )


@given(clusters, st.integers(0, 6), st.booleans())
@settings(max_examples=100, deadline=None)
def test_undo_gives_everything_back(objects: Sequence[KubeObject], keep: int, counted: bool) -> None:
    session = open_session(snapshot_of(objects), configured("allocate", schedule_csi_storage=counted))
    ledger = ledger_of(session)
    before = standing(ledger)
    jobs = session.jobs.candidates()
    statement = Statement(session)
    for number, job in enumerate(jobs):
        with statement.checkpoint() as trial:
            at_start = standing(ledger)
            for task in job.next_tasks():
                row = session.views.of(task.pod_class).best() if session.unfit(task) is None else None
                if row is not None:
                    (statement.pipeline if number % 2 else statement.allocate)(job, task, row)
            if number < keep:
                trial.keep()
        if number >= keep:
            assert standing(ledger) == at_start
    for job in jobs:
        statement.convert_to_pipelined(job)
    for job in jobs[:2]:
        for task in job.job.tasks:
            if job.placement(task).row >= 0:
                statement.evict(job, task)
    statement.discard()
    assert standing(ledger) == before


@given(clusters, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_view_kept_by_columns_equals_one_made_anew(objects: Sequence[KubeObject], counted: bool) -> None:
    session = open_session(snapshot_of(objects), configured("allocate", schedule_csi_storage=counted))
    statement = Statement(session)
    for job in session.jobs.candidates():
        for task in job.next_tasks():
            kept = session.views.of(task.pod_class).best()
            for each in list(session.views):
                anew = session.views.without_base(each._class)
                best = each.best()
                each.catch_up()  # put off while no other node can be the best
                assert (best, each._total.tolist()) == (anew.best(), anew._total.tolist())
            if kept is not None and session.unfit(task) is None:
                statement.allocate(job, task, kept)


def reported(
    snapshot: Snapshot, configuration: Configuration
) -> tuple[list[tuple[ObjectKey, str, tuple[Any, ...]]], list[str]]:
    decisions = decide(snapshot, configuration)
    return sorted((bind.task.key, bind.node, bind.volumes) for bind in decisions.binds), [
        each.text for each in decisions.waiting
    ]


@given(clusters, st.integers(0, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_same_is_decided_from_a_recording(objects: Sequence[KubeObject], assumed: int, counted: bool) -> None:
    configuration = configured(*Configuration().actions, schedule_csi_storage=counted)
    state = state_of(objects)
    for bind in decide(state.snapshot(NOW), configuration).binds[:assumed]:
        state.own.assume_bind_request(bind_request_for(bind))
    recorded = read(zipped(take(state, StateOptions(), configuration, NOW)))
    assert recorded.parameters.settings().schedule_csi_storage == counted
    assert reported(recorded.snapshot(NOW), configuration) == reported(state.snapshot(NOW), configuration)


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_a_state_that_has_seen_many_changes_equals_a_new_one(seed: int) -> None:
    """Objects come in any order, are replaced by others of their name, go and come back."""
    dice = Random(seed)
    objects = cluster(seed)
    others = {(type(each), each.key): each for each in cluster(seed + 1)}
    state = ClusterState()
    for each in dice.sample(objects, len(objects)):
        other = others.get((type(each), each.key))
        if other is not None and dice.random() < 0.5:
            state.put(other)
            if dice.random() < 0.3:
                state.snapshot(NOW)
        state.put(each)
        if dice.random() < 0.1:
            state.drop(each)
            if dice.random() < 0.3:
                state.snapshot(NOW)
            state.put(each)
        if dice.random() < 0.1:
            state.snapshot(NOW)
    assert reported(state.snapshot(NOW), Configuration()) == reported(snapshot_of(objects), Configuration())
