"""The table of workloads for `cycle`: which sizes, what must be decided, and what is promised.

Promises are those of CPU time: at most so many milliseconds, or so many times less than the Go scheduler. A workload's
sizes are one curve; sizes that Go was measured at with another number of jobs are a curve of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Times less CPU than the Go scheduler that a workload of `gen.py` takes on 100 nodes.
LEAST_RATIO_SMALL = 15
#: Of costs in the number of nodes.
MOST_EXPONENT = 1.1
SEED = 7  #: of the workloads as they come in practice; those of `gen.py` have their own


class Counts(NamedTuple):
    """What was decided: pods bound, pods evicted, pods that wait for what is being released."""

    binds: int
    evictions: int
    pipelined: int


@dataclass(frozen=True)
class Case:
    """One workload at one size."""

    workload: str  #: as people read it
    kind: str  #: what the generator calls it
    nodes: int
    generator: str = "gen.py"
    parameters: Mapping[str, int] = field(default_factory=dict)  #: beside the number of nodes
    go_row: str = ""  #: the row of Go's figures by numbers of nodes
    go_call: str = ""  #: the row of Go's figures in practice
    least_ratio: float | None = None  #: times less CPU than Go
    most_ms: float | None = None

    @property
    def title(self) -> str:
        return f"{self.workload}, {self.nodes:,} nodes"


@dataclass(frozen=True)
class Outcome:
    """What must have been decided."""

    holds: Callable[[Counts, int], bool]  #: by number of nodes
    text: str


OUTCOMES: Mapping[str, Outcome] = {
    **dict.fromkeys(
        ("fill", "small", "biggang", "dra"), Outcome(lambda c, n: c == (8 * n, 0, 0), "every pod should be bound")
    ),
    "frac": Outcome(lambda c, n: c == (32 * n, 0, 0), "every pod should be bound"),
    "topology": Outcome(lambda c, _: c == (20 * 64, 0, 0), "every pod should be bound"),
    "reclaim": Outcome(lambda c, n: c == (0, 4 * n, 4 * n), "half the cluster should move"),
    "consolidate": Outcome(
        lambda c, _: c.binds == 0 and c.evictions == c.pipelined - 4 > 0, "all that is moved should have a place"
    ),
    "backlog": Outcome(lambda c, _: c == (0, 0, 0), "nothing can start here"),
}


def _curve(
    workload: str, *sizes: int, ratios: Mapping[int, float] | None = None, go_row: str = "", **parameters: int
) -> Iterator[Case]:
    """A workload of `gen.py`."""
    kind = workload.partition(",")[0]
    promised = {100: LEAST_RATIO_SMALL, **(ratios or {})}
    for nodes in sizes:
        yield Case(
            workload,
            kind,
            nodes,
            parameters=parameters,
            go_row=go_row or workload,
            least_ratio=promised.get(nodes),
        )


def _practice(
    workload: str, *sizes: int, most_ms: Mapping[int, float] | None = None, **per_node: float
) -> Iterator[Case]:
    """A workload of `nasty.py`. `per_node`: parameters that grow with the number of nodes."""
    kind = workload.partition(",")[0]
    for nodes in sizes:
        parameters = {name: round(factor * nodes) for name, factor in per_node.items()}
        yield _nasty(workload, kind, nodes, (most_ms or {}).get(nodes), parameters)


def _nasty(workload: str, kind: str, nodes: int, most_ms: float | None, parameters: Mapping[str, int]) -> Case:
    # The generator makes 1,000 jobs unless told otherwise, and Go's figures name a parameter only where it was given.
    told = {name: value for name, value in parameters.items() if (name, value) != ("jobs", 1000)}
    call = " ".join([f"{kind} n={nodes}", *(f"{name}={value}" for name, value in told.items())])
    return Case(
        workload, kind, nodes, "nasty.py", {**parameters, "seed": SEED}, go_row=kind, go_call=call, most_ms=most_ms
    )


#: Jobs of 4 pods for each node in the workloads with constraints between pods: half of the cluster.
_JOBS = 2.0
_SCALE = (100, 500, 1000, 2000, 5000)

CASES: tuple[Case, ...] = (
    *_curve("fill", *_SCALE, ratios={1000: 80}),
    *_curve("small", *_SCALE, ratios={1000: 60}),
    *_curve("biggang", *_SCALE, ratios={1000: 400}),
    *_curve("frac", *_SCALE, ratios={500: 40}),
    *_curve("topology", 256, 512, 1024, 2048, 4096, ratios={1024: 12}),
    *_curve("reclaim", *_SCALE, ratios={1000: 50}),
    *_curve("consolidate", *_SCALE, ratios={500: 50}, go_row="consolidate, preemptees=-1", preemptees=-1),
    *_curve("backlog, all alike", *_SCALE, ratios={1000: 60}, go_row="backlog, 1000 pending", pending=1000, distinct=0),
    *_curve(
        "backlog, all different", *_SCALE, ratios={1000: 60}, go_row="backlog, 1000 pending", pending=1000, distinct=1
    ),
    *_curve("backlog, 5,000 gangs", 500, go_row="backlog, 5000 pending", pending=5000, distinct=1),
    Case(
        "fairshare, 1,050 queues",
        "fairshare",
        100,
        parameters={"leaves": 1000},
        go_call="fairshare leaves=1000",
        least_ratio=20,
    ),
    Case("fairshare, 10,500 queues", "fairshare", 100, parameters={"leaves": 10_000}),
    *_practice("mixed, 4 jobs a node", 100, 500, 1000, most_ms={100: 1000, 500: 3000}, pending=4),
    *(
        _nasty("mixed, 2,000 jobs", "mixed", nodes, most_ms, {"pending": 2000})
        for nodes, most_ms in ((2000, 5000.0), (5000, None))
    ),
    *_practice("dra", *_SCALE, most_ms={100: 80, 500: 450}),
    *_practice("spread", *_SCALE, most_ms={500: 1000}, jobs=_JOBS),
    *_practice("affinity", *_SCALE, most_ms={500: 500}, jobs=_JOBS),
    *_practice("antiaff", *_SCALE, most_ms={500: 500}, jobs=_JOBS),
    # More jobs than fit, as Go was measured.
    *(_nasty(f"{kind}, 1,000 jobs", kind, 100, None, {"jobs": 1000}) for kind in ("spread", "affinity", "antiaff")),
    Case("openb", "openb", 1213, "openb", go_call="openb"),
)
