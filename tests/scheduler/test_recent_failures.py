"""Jobs that had no room a moment ago are tried again when that may have changed, and not before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Pod
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recent_failures import ALL_SECONDS, RecentFailures
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, state_of

CONFIGURATION = Configuration()


class Cycles:
    """Cycles that only place, as the live scheduler has them."""

    def __init__(self, state: ClusterState) -> None:
        self.state, self.recent = state, RecentFailures()

    def tried(self, after: float = 0.0) -> tuple[Snapshot, Snapshot]:
        """All of the cluster, and the part of it that a cycle looks at."""
        whole = replace(self.state.snapshot(NOW + after), now=NOW + after)
        return whole, self.recent.without(whole)

    def cycle(self, after: float = 0.0) -> Decisions:
        whole, part = self.tried(after)
        decisions = decide(part, CONFIGURATION, proposals={})
        for bind in decisions.lasting_binds:
            self.state.own.assume_bind_request(bind_request_for(bind))
        self.state.remember(decisions, NOW + after)
        self.recent.note(whole, part, decisions)
        return decisions

    def jobs_tried(self, after: float = 0.0) -> set[str]:
        return {job.key.name for job in self.tried(after)[1].unsettled}


def running(name: str, gpus: int, on: str, of: str = "q") -> list[KubeObject]:
    return [pod_group(name, queue=of), pod(f"{name}-0").gpu(gpus).of_group(name).running_on(on).build()]


def full(*more: KubeObject) -> Cycles:
    """Two nodes, one full and one with a GPU left; a job that needs four waits."""
    return Cycles(
        state_of(
            [
                node("n1", gpus=4),
                node("n2", gpus=4),
                queue("q"),
                *running("a", 2, "n1"),
                *running("b", 2, "n1"),
                *running("c", 3, "n2"),
                pod_group("large"),
                *gang("large", 1, gpus=4),
                *more,
            ]
        )
    )


def put(cycles: Cycles, *objects: object) -> None:
    for each in objects:
        cycles.state.put(each)  # type: ignore[arg-type]


def test_a_job_that_found_no_room_is_left_out_while_a_new_one_is_placed() -> None:
    cycles = full()
    assert not cycles.cycle().binds
    put(cycles, pod_group("small"), *gang("small", 1))
    assert cycles.jobs_tried() == {"small"}
    assert [each.task.key.name for each in cycles.cycle().lasting_binds] == ["small-0"]


def test_more_room_on_a_node_where_it_fits_has_it_tried_again() -> None:
    cycles = full()
    cycles.cycle()
    drop_named(cycles.state, Pod, "a-0")
    assert cycles.jobs_tried() == set()  # two GPUs are free now, and it needs four
    drop_named(cycles.state, Pod, "b-0")
    assert cycles.jobs_tried() == {"large"}
    assert cycles.cycle().lasting_binds


def test_a_queue_that_holds_less_has_jobs_tried_again_that_were_over_its_limit() -> None:
    cycles = Cycles(
        state_of([node("n1", gpus=8), queue("q", limit=2), *running("a", 2, "n1"), pod_group("over"), *gang("over", 1)])
    )
    cycles.cycle()
    put(cycles, pod_group("elsewhere"))
    assert cycles.jobs_tried() == set()
    drop_named(cycles.state, Pod, "a-0")
    assert cycles.jobs_tried() == {"over"}


def test_a_job_that_changed_is_tried_again() -> None:
    cycles = full()
    cycles.cycle()
    put(cycles, pod_group("large", priority="other"))
    assert cycles.jobs_tried() == {"large"}


def test_other_nodes_and_other_queues_have_everything_tried_again() -> None:
    for change in (node("n3"), queue("other")):
        cycles = full()
        cycles.cycle()
        put(cycles, change)
        assert cycles.jobs_tried() == {"large"}


def test_all_jobs_are_tried_after_a_second() -> None:
    cycles = full()
    cycles.cycle()
    assert cycles.jobs_tried(after=ALL_SECONDS / 2) == set()
    assert cycles.jobs_tried(after=ALL_SECONDS) == {"large"}


def test_a_job_that_waits_for_what_is_being_released_keeps_its_place() -> None:
    leaving = pod("leaving").gpu(4).running_on("n3").being_deleted_at(NOW + 5).build()
    cycles = full(node("n3", gpus=4), leaving)
    assert [each.task.key.name for each in cycles.cycle().pipelined] == ["large-0"]
    put(cycles, pod_group("late"), *gang("late", 1, gpus=4))
    decisions = cycles.cycle()
    assert [each.task.key.name for each in decisions.pipelined] == ["large-0"]


@st.composite
def _stories(draw: st.DrawFn) -> tuple[list[KubeObject], list[tuple[str, int]]]:
    nodes = [node(f"n{number}", gpus=draw(st.integers(1, 4))) for number in range(draw(st.integers(1, 3)))]
    queues = [queue(f"q{number}", limit=draw(st.sampled_from((-1, 2, 4)))) for number in range(2)]
    jobs: list[KubeObject] = []
    for number in range(draw(st.integers(2, 8))):
        jobs += _job(f"j{number}", draw(st.integers(1, 4)), draw(st.integers(0, 1)))
    happens = st.tuples(st.sampled_from(("ends", "comes")), st.integers(0, 7))
    return [*nodes, *queues, *jobs], draw(st.lists(happens, max_size=6))


def _job(name: str, gpus: int, of: int) -> list[KubeObject]:
    return [pod_group(name, queue=f"q{of}"), *gang(name, 1, gpus=gpus)]


@given(_stories())
@settings(deadline=None)
def test_jobs_that_are_left_out_would_not_have_been_placed(
    story: tuple[list[KubeObject], list[tuple[str, int]]],
) -> None:
    objects, happens = story
    cycles = Cycles(state_of(objects))
    cycles.cycle()
    for number, (what, which) in enumerate(happens):
        if what == "comes":
            put(cycles, *_job(f"late{number}", which % 4 + 1, which % 2))
        else:
            drop_named(cycles.state, Pod, f"j{which}-0")
        whole, part = cycles.tried()
        left_out = {job.key for job in whole.unsettled} - {job.key for job in part.unsettled}
        placed = {each.job.key for each in decide(whole, CONFIGURATION, proposals={}).operations}
        assert not placed & left_out
        cycles.cycle()
