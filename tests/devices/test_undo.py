"""Placements and evictions of pods with claims: undone exactly, and never a device in two hands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bosket.api.core.pod import Pod
from bosket.api.core.pod_status import PodResourceClaimStatus
from bosket.api.object import KubeObject
from bosket.api.resource_k8s import ResourceClaim
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.task import TaskStatus
from bosket.scheduler.plugins.dynamicresources.keeper import DeviceKeeper
from bosket.scheduler.plugins.dynamicresources.ledger import DeviceLedger
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of
from bosket.testing.device import (
    device,
    device_class,
    device_request,
    device_slice,
    made_claims,
    named_claims,
    resource_claim,
)

LABELS = {"kai.scheduler/queue": "q"}


def with_uid(built: Pod, statuses: tuple[PodResourceClaimStatus, ...] = ()) -> Pod:
    status = replace(built.status, resourceClaimStatuses=statuses)
    return replace(built, metadata=replace(built.metadata, uid=built.metadata.name), status=status)


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    """Nodes with devices, pods that run with some of them, and pods that want some; a few share a claim."""
    offered = {f"n{number}": draw(st.integers(1, 3)) for number in range(draw(st.integers(1, 3)))}
    objects = [queue("q"), device_class()]
    for name, count in offered.items():
        objects += [node(name, gpus=0), device_slice(name, *[device(f"d{number}") for number in range(count)])]
    if draw(st.booleans()):
        objects.append(device_slice("", device("far"), pool="network", allNodes=True))
    running = 0
    for name, count in offered.items():
        for number in range(count):
            how = draw(st.sampled_from(["free", "free", "runs", "leaves", "shared"]))
            if how == "free":
                continue
            users = [f"r{running}-0", f"r{running}-1"] if how == "shared" else [f"r{running}-0"]
            objects.append(pod_group(f"r{running}", queue="q"))
            objects.append(
                resource_claim(f"held{running}", labels=LABELS, devices=(f"d{number}",), pool=name, users=tuple(users))
            )
            for user in users:
                made = pod(user).of_group(f"r{running}").with_spec(resourceClaims=named_claims(f"held{running}"))
                made = made.running_on(name)
                objects.append(with_uid((made.being_deleted_at(NOW) if how == "leaves" else made).build()))
            running += 1
    objects.append(resource_claim("common", labels=LABELS))
    for number in range(draw(st.integers(1, 4))):
        objects.append(pod_group(f"g{number}", min_member=1, queue="q"))
        for place in range(draw(st.integers(1, 3))):
            name = f"g{number}-{place}"
            if draw(st.booleans()):
                made = pod(name).of_group(f"g{number}").with_spec(resourceClaims=named_claims("common"))
                objects.append(with_uid(made.build()))
            else:
                spec, statuses = made_claims(device=f"c-{name}")
                request = device_request(count=draw(st.integers(1, 2)))
                objects.append(resource_claim(f"c-{name}", request, owner=name))
                made = pod(name).of_group(f"g{number}").with_spec(resourceClaims=spec)
                objects.append(with_uid(made.build(), statuses))
    return objects


def ledger_of(session: Session) -> DeviceLedger:
    return next(each for each in session.extensions.placement_listeners if isinstance(each, DeviceKeeper)).get()


def accounts(session: Session) -> Any:
    """Everything that a statement may change."""
    ledger = ledger_of(session)
    claims = {
        key: (state.allocation, state.users, state.stays, frozenset(state._joined), frozenset(state._left))
        for key, state in ledger._claims.items()
        if state.allocation is not None or state.users
    }
    uses = [(dict(use._held), dict(use._parts)) for use in (ledger._now, ledger._later)]
    counted = (
        {place: count for place, count in ledger.gpus._users.items() if count},
        {place: count for place, count in ledger.gpus._stayers.items() if count > 0},
    )
    nodes = (session.nodes.idle.tobytes(), session.nodes.releasing.tobytes())
    return claims, uses, counted, nodes, session.queues.allocated[:]


def nobody_shares(session: Session) -> None:
    """Each device belongs to one claim at most, of those that somebody has who stays."""
    held = Counter(
        (each.pool, each.device)
        for state in ledger_of(session)._claims.values()
        if state.allocation is not None and state.stays
        for each in state.allocation.devices.results
    )
    assert all(count == 1 for count in held.values()), held


@given(clusters(), st.integers(0, 8), st.integers(0, 8))
@settings(max_examples=120, deadline=None)
def test_undo_restores_everything_and_no_device_is_given_twice(
    objects: Sequence[KubeObject], keep: int, evict: int
) -> None:
    check_undo(objects, keep, evict, nobody_shares)


@given(clusters(), st.integers(0, 8), st.integers(0, 8), st.data())
@settings(max_examples=60, deadline=None)
def test_undo_is_exact_also_where_two_claims_pretend_to_have_one_device(
    objects: Sequence[KubeObject], keep: int, evict: int, data: st.DataObject
) -> None:
    """As it looks while events are late."""
    held = [each for each in objects if isinstance(each, ResourceClaim) and each.status.allocation is not None]
    if held:
        twin = data.draw(st.sampled_from(held))
        assert twin.status.allocation is not None
        (result,) = twin.status.allocation.devices.results
        objects = [
            *objects,
            pod_group("twin", queue="q"),
            resource_claim("twin", labels=LABELS, devices=(result.device,), pool=result.pool, users=("twin-0",)),
            with_uid(
                pod("twin-0")
                .of_group("twin")
                .with_spec(resourceClaims=named_claims("twin"))
                .running_on(result.pool)
                .build()
            ),
        ]
    check_undo(objects, keep, evict, lambda _: None)


def check_undo(objects: Sequence[KubeObject], keep: int, evict: int, look: Callable[..., Any]) -> None:
    """Evicts and places, undoes it all; `look` at the session after each step."""
    snapshot = snapshot_of(objects)
    session = open_session(snapshot, Configuration())
    jobs = session.jobs.candidates()
    running = [
        (session.jobs.state(job), task)
        for job in snapshot.jobs.values()
        for task in job.tasks
        if task.status == TaskStatus.RUNNING
    ]
    before = accounts(session)
    statement = Statement(session)
    for state, task in running[:evict]:
        statement.evict(state, task)
        look(session)
    for number, job in enumerate(jobs + [state for state, _ in running]):
        with statement.checkpoint() as trial:
            for task in job.next_tasks():
                if session.unfit(task) is not None:
                    continue
                row = session.views.of(task.pod_class).best()
                if row is not None:
                    free = job in jobs and session.is_free_now(task.pod_class, row)
                    (statement.allocate if free else statement.pipeline)(job, task, row)
                    look(session)
            if number < keep:
                trial.keep()
    for job in jobs:
        statement.convert_to_pipelined(job)
        look(session)
    statement.discard()
    assert accounts(session) == before


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_a_verdict_that_was_kept_equals_one_made_anew(objects: Sequence[KubeObject]) -> None:
    session = open_session(snapshot_of(objects), Configuration())
    statement = Statement(session)
    for job in session.jobs.candidates():
        for task in job.next_tasks():
            row = session.views.of(task.pod_class).best()
            session.views.clear()
            ledger_of(session)._fits.clear()
            assert session.views.of(task.pod_class).best() == row
            if row is not None:
                free = session.is_free_now(task.pod_class, row)
                (statement.allocate if free else statement.pipeline)(job, task, row)
                nobody_shares(session)
