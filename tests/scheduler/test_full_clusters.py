"""Where nothing can be placed no job is tried: all get the same reasons as if they had been."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided, placements, reasons

#: Deep enough for everybody to have a turn, which then has to be found.
TURN_BY_TURN = Configuration(queue_depth={"allocate": 100})


def waiting(name: str, *, cpu: str, size: int = 2, **group: Any) -> Iterator[KubeObject]:
    yield pod_group(name, min_member=size, **group)
    for number in range(size):
        yield pod(f"{name}-{number}").gpu(1).cpu(cpu).of_group(name).build()


def full(*, room_on: tuple[str, ...] = ()) -> Iterator[KubeObject]:
    """Two nodes with one GPU each, in use but where there is room, and queues of which `small` may hold one GPU."""
    yield from (queue("q"), queue("small", limit=1))
    for name in ("n1", "n2"):
        yield node(name, gpus=1)
        if name not in room_on:
            yield pod(f"on-{name}").gpu(1).cpu("1").running_on(name).build()


BACKLOG = (
    *waiting("a", cpu="1"),
    *waiting("b", cpu="2"),
    *waiting("c", cpu="2", queue="small"),
    *waiting("d", cpu="2000", size=1),
)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The turns that jobs had, with the end of them as one more."""
    found = []
    real = JobsByQueue.pop

    def pop(self: JobsByQueue) -> Any:
        found.append(real(self))
        return found[-1]

    monkeypatch.setattr(JobsByQueue, "pop", pop)
    return found


def test_all_who_wait_are_told_why_without_turns(turns: Sequence[Any]) -> None:
    reported = reasons(decided(*full(), *BACKLOG[:9]))
    assert set(reported) == {"a", "b", "c"}
    assert "GPUs" in reported["a"]
    assert "small quota has reached the allowable limit" in reported["c"]
    assert not turns


def test_what_they_are_told_is_the_same_as_turn_by_turn(turns: Sequence[Any]) -> None:
    assert reasons(decided(*full(), *BACKLOG)) == reasons(decided(*full(), *BACKLOG, configuration=TURN_BY_TURN))
    assert reasons(decided(*full(), *BACKLOG[:9])) == reasons(
        decided(*full(), *BACKLOG[:9], configuration=TURN_BY_TURN)
    )
    assert len(turns) == 5 + 5 + 4  # d asks for more than any node has: that is said where it has its turn


def test_one_who_can_be_placed_is_placed_among_those_who_cannot(turns: Sequence[Any]) -> None:
    decisions = decided(*full(room_on=("n2",)), *BACKLOG, *waiting("e", cpu="1", size=1))
    assert placements(decisions) == {"e-0": "n2"}
    assert set(reasons(decisions)) == {"a", "b", "c", "d"}
    assert turns
