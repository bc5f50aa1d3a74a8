"""What a search found on an earlier snapshot is carried out on a newer one only where all rules still allow it."""

from __future__ import annotations

from bosket.api.core import Pod
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposal, by_action, current_part, split
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, state_of

CONFIGURATION = Configuration()


def running(name: str, on: str, gpus: int = 2) -> list[KubeObject]:
    return [pod_group(name, queue="a"), pod(f"{name}-0").gpu(gpus).of_group(name).running_on(on).build()]


def contended(*more: KubeObject) -> ClusterState:
    """Queue `a` holds both nodes and deserves none of them; `b`, which deserves one, waits."""
    return state_of(
        [
            node("n1", gpus=2),
            node("n2", gpus=2),
            queue("a", quota=0),
            queue("b", quota=2),
            *running("old", "n1"),
            *running("new", "n2"),
            pod_group("wanted", queue="b"),
            pod("wanted-0").gpu(2).of_group("wanted").build(),
            *more,
        ]
    )


def searched(state: ClusterState) -> tuple[Snapshot, Decisions]:
    snapshot = state.snapshot(NOW)
    return snapshot, decide(snapshot, CONFIGURATION)


def evicted(decisions: Decisions) -> list[str]:
    return sorted(each.task.key.name for each in decisions.lasting_evictions)


def proposed(state: ClusterState) -> tuple[Proposal, ...]:
    """What the search found, as if everything had changed since."""
    snapshot, decisions = searched(state)
    other = state_of([queue("other")]).snapshot(NOW)
    return split(decisions, snapshot, other).outdated


def checked(state: ClusterState, proposals: tuple[Proposal, ...]) -> Decisions:
    return decide(state.snapshot(NOW), CONFIGURATION, proposals=by_action(proposals))


def test_a_cycle_that_only_places_evicts_nobody() -> None:
    assert evicted(searched(contended())[1]) == ["new-0"]
    assert evicted(decide(contended().snapshot(NOW), CONFIGURATION, proposals={})) == []


def test_a_finding_is_current_while_nothing_that_it_rests_on_changes() -> None:
    state = contended()
    snapshot, decisions = searched(state)
    state.put(pod_group("late", queue="b"))
    for each in gang("late", 1, gpus=2):
        state.put(each)
    parts = split(decisions, snapshot, state.snapshot(NOW))
    assert (evicted(parts.current), parts.outdated) == (["new-0"], ())
    assert {each.node for each in parts.current.pipelined} == {"n2"}


def test_a_finding_is_outdated_when_its_node_has_another_pod() -> None:
    state = contended()
    snapshot, decisions = searched(state)
    state.put(pod("foreign").running_on("n2").build())
    parts = split(decisions, snapshot, state.snapshot(NOW))
    assert evicted(parts.current) == []
    (proposal,) = parts.outdated
    assert (proposal.job.name, proposal.evicted) == ("wanted", 1)
    assert evicted(checked(state, parts.outdated)) == ["new-0"]


def test_a_job_that_is_told_why_it_waits_must_still_wait() -> None:
    state = contended(pod_group("large", min_member=4, queue="b"), *gang("large", 4, gpus=2))
    snapshot, decisions = searched(state)
    told = {each.job.key.name for each in split(decisions, snapshot, snapshot).current.waiting}
    assert told == {"large"}
    drop_named(state, Pod, "large-0")
    assert not split(decisions, snapshot, state.snapshot(NOW)).current.waiting


def test_the_same_victims_are_checked_and_nobody_else_is_looked_for() -> None:
    state = contended()
    proposals = proposed(state)
    assert evicted(checked(state, proposals)) == ["new-0"]
    drop_named(state, Pod, "new-0")  # the victim has gone by itself; there is another one, and room
    assert evicted(checked(state, proposals)) == []


def test_a_job_that_has_gone_has_nobody_evicted_for_it() -> None:
    state = contended()
    proposals = proposed(state)
    drop_named(state, Pod, "wanted-0")
    assert evicted(checked(state, proposals)) == []


def test_a_right_that_was_lost_is_not_used() -> None:
    """The queue that it is taken from deserves by now what it holds."""
    state = contended()
    proposals = proposed(state)
    state.put(queue("a", quota=4))
    state.put(queue("b", quota=0))
    assert evicted(checked(state, proposals)) == []


def test_a_gang_one_of_whose_tasks_changed_is_left_to_the_next_cycle() -> None:
    state = state_of(
        [node("n1"), queue("q"), pod_group("g", min_member=2), *gang("g", 2), pod_group("h"), *gang("h", 1)]
    )
    decisions = decide(state.snapshot(NOW), CONFIGURATION)
    assert len(decisions.lasting_binds) == 3
    drop_named(state, Pod, "g-1")
    kept, jobs = current_part(decisions, state.task)
    assert ([each.task.key.name for each in kept.lasting_binds], jobs) == (["h-0"], 1)


def test_nobody_is_evicted_for_a_job_one_of_whose_other_victims_has_changed() -> None:
    state = contended(pod_group("both", min_member=2, queue="b"), *gang("both", 2, gpus=2))
    state.put(queue("b", quota=4))
    drop_named(state, Pod, "wanted-0")
    decisions = decide(state.snapshot(NOW), CONFIGURATION)
    assert evicted(decisions) == ["new-0", "old-0"]
    drop_named(state, Pod, "old-0")
    kept, _ = current_part(decisions, state.task)
    assert evicted(kept) == []
    assert not kept.pipelined


def test_a_pod_that_only_starts_to_run_changes_nothing() -> None:
    bound = pod("started").gpu(0).running_on("n2").build()
    state = contended(bound)
    decisions = decide(state.snapshot(NOW), CONFIGURATION)
    key = ObjectKey("default", "new-0")
    before = state.task(key)
    assert before is not None
    state.put(before.pod)  # told again
    kept, jobs = current_part(decisions, state.task)
    assert (kept.operations, jobs) == (decisions.operations, 0)
