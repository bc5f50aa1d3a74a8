"""`bosket replay`: one cycle on a recorded snapshot, with what it decided, why things wait, and what it cost."""

from __future__ import annotations

import math
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, stdout, table
from bosket.cli.path import FilePath, OptionalFilePath
from bosket.cli.quantity_text import amount
from bosket.cli.recorded_moment import open_moment

if TYPE_CHECKING:
    from bosket.scheduler.configuration.configuration import Configuration
    from bosket.scheduler.model.decisions import Decisions, Waiting
    from bosket.scheduler.model.snapshot import Snapshot
    from bosket.scheduler.model.usage import Usage
    from bosket.scheduler.recording.recorded import Recorded


def replay(
    file: FilePath,
    /,
    *,
    json: Flag = False,
    repeat: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    now: str | None = None,
    usage: OptionalFilePath = None,
    at: str | None = None,
    shard: str = "",
) -> int:
    """Run one scheduling cycle on a snapshot that KAI's or Bosket's scheduler wrote, or all cycles of a recording.

    Of a recording's folder every cycle is decided again, and compared with what was decided then; the first one that
    comes out differently ends the replay, with exit code 1.

    Parameters
    ----------
    file
        snapshot.zip, the snapshot.json that is in it, or the folder of a flight recording.
    json
        Print everything as one JSON object.
    repeat
        Run the cycle so many times, and report what the cheapest one cost.
    now
        Pretend that it is this time, such as 2026-01-02T03:04:05Z; by default it is the time of the snapshot or,
        where that doesn't say (KAI's don't), the clock's.
    usage
        A JSON file that says what parts of the cluster queues used in the past, instead of what the snapshot says
        (KAI's don't): {"team-a": {"gpu": 0.5, "cpu": 0.1, "memory": 0}}.
    at
        Of a recording, only the cycle at that time, as if it were a snapshot: 03:00, 30m (ago), 2026-01-02T03:04:05Z.
    shard
        Whose cycles, where a recording has those of several schedulers.
    """
    if file.is_dir() and at is None:
        from bosket.cli.replay_recording import replay_recording

        if now is not None or usage is not None or repeat != 1:
            raise UsageError("--now, --usage and --repeat are for one cycle: give --at, too")
        return replay_recording(file, shard, json=json)
    if at is not None and not file.is_dir():
        raise UsageError(f"--at {at}: {file} is no folder of a recording")
    from bosket.scheduler.configuration.configuration import ConfigurationError
    from bosket.scheduler.decide import about_idle_actions, known_part
    from bosket.scheduler.recording.recorded import RecordedError, load

    watch = _Stopwatch()
    try:
        with watch("load", ""):
            recorded = load(file) if at is None else open_moment(file, at, shard=shard).recorded
    except RecordedError as error:
        raise CommandError(str(error)) from error
    if usage is not None:
        recorded = replace(recorded, usage=_usage(usage))
    moment = _time(now) if now is not None else recorded.now if recorded.now is not None else time.time()
    configuration, missing = known_part(recorded.configuration)
    if missing:
        complain(f"{file}: its configuration names what isn't there and is left out: {', '.join(missing)}")
    for problem in recorded.unreadable:
        complain(problem)
    try:
        best = _cheapest(recorded, configuration, moment, repeat)
    except ConfigurationError as error:
        raise CommandError(f"{file}: {error}") from error
    for problem in best.left_out:
        complain(f"{file}: {problem}")
    if best.decisions.idle_actions:
        complain(f"{file}: {about_idle_actions(best.decisions.idle_actions)}")
    costs = {"load": watch.spent["load"], **best.spent, "total": best.total}
    if json:
        import msgspec

        cpu_ms = {step: cost.cpu_ms for step, cost in costs.items()}
        report = {**best.answer, "cpu_ms": cpu_ms, "peak_rss_mb": _peak_rss_mb()}
        flush_line(msgspec.json.encode(report).decode())
    else:
        _print(best, costs)
    return 0


class _Cost(NamedTuple):
    """What a step took: of the processor, and on the clock."""

    cpu_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def cpu_ms(self) -> float:
        return round(self.cpu_seconds * 1000, 3)

    def plus(self, other: _Cost) -> _Cost:
        return _Cost(self.cpu_seconds + other.cpu_seconds, self.seconds + other.seconds)


class _Stopwatch:
    """Measures the steps of a cycle; a `StepTimer` for `decide`."""

    def __init__(self) -> None:
        self.spent: dict[str, _Cost] = {}  #: `open` and each action, in order

    @contextmanager
    def __call__(self, step: str, name: str) -> Iterator[None]:
        cpu, clock = time.process_time(), time.perf_counter()
        yield
        cost = _Cost(time.process_time() - cpu, time.perf_counter() - clock)
        if step in ("load", "open", "action", "action again"):
            self.spent[name or step] = self.spent.get(name or step, _Cost()).plus(cost)


@dataclass(frozen=True, slots=True)
class _Cycle:
    snapshot: Snapshot
    decisions: Decisions
    answer: dict[str, Any]
    spent: dict[str, _Cost]  #: `open` and each action
    left_out: list[str]  #: what couldn't be counted

    @property
    def total(self) -> _Cost:
        return reduce(_Cost.plus, self.spent.values())


def _cheapest(recorded: Recorded, configuration: Configuration, now: float, repeat: int) -> _Cycle:
    """Runs the cycle so many times. Only the best is kept, so that memory is what one cycle needs."""
    import msgspec

    best = _cycle(recorded, configuration, now)
    for _ in range(repeat - 1):
        other = _cycle(recorded, configuration, now)
        if msgspec.json.encode(other.answer) != msgspec.json.encode(best.answer):
            raise CommandError(
                "the same snapshot was decided on differently the second time; please report it, with the snapshot"
            )
        if other.total < best.total:
            best = other
    return best


def _cycle(recorded: Recorded, configuration: Configuration, now: float) -> _Cycle:
    from bosket.kube.codec import gc_paused
    from bosket.scheduler.answers.outcome import answer
    from bosket.scheduler.configuration.configuration import ConfigurationError
    from bosket.scheduler.decide import decide

    watch = _Stopwatch()
    left_out: list[str] = []
    with gc_paused():  # as in `decide`
        with watch("open", ""):
            snapshot = recorded.snapshot(now, left_out.append)
        try:
            decisions = decide(snapshot, configuration, watch)
        except ConfigurationError:
            raise
        except Exception as error:
            snapshot, decisions = _without_culprits(snapshot, configuration, error, left_out.append)
        answered = answer(snapshot, decisions)
    shares = answered["fairShare"].items()  # without a plugin that divides there are none
    answered["fairShare"] = {queue: share for queue, share in shares if all(map(math.isfinite, share.values()))}
    return _Cycle(snapshot, decisions, answered, watch.spent, left_out)


def _without_culprits(
    snapshot: Snapshot, configuration: Configuration, error: Exception, report: Callable[[str], None]
) -> tuple[Snapshot, Decisions]:
    """What the running scheduler does when `decide` raises: it decides without what it raises with."""
    from bosket.scheduler.decide import decide
    from bosket.scheduler.faults.culprits import failure_text, find_culprits, run_through, without_suspects

    found = run_through(find_culprits(snapshot, configuration))
    if found is None:
        raise CommandError(f"the scheduler fails on this snapshot: {failure_text(error)}") from error
    for each in found:
        report(f"{each} is left out, because the scheduler fails with it: {failure_text(error)}")
    part, known = without_suspects(snapshot, configuration, dict.fromkeys(found, failure_text(error)))
    return part, decide(part, known)


def _time(text: str) -> float:
    from bosket.api.time import InvalidTime, parse_time

    try:
        return parse_time(text)
    except InvalidTime as error:
        raise UsageError(f"--now {text}: {error}") from error


def _usage(file: Path) -> Usage:
    from bosket.scheduler.model.usage import InvalidUsage, usage_from_json

    try:
        return usage_from_json(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"--usage {file}: can't read it: {error.strerror or error}") from error
    except InvalidUsage as error:
        raise UsageError(f"--usage {file}: {error}") from error


def _peak_rss_mb() -> float:
    """The most memory that this process had. On Linux `ru_maxrss` would be the parent's, where that one had more."""
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
        if found:
            return round(int(found[1]) * 1024 / 1e6, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kibibytes = peak / 1024 if sys.platform == "darwin" else peak  # Apple's system counts bytes
    return round(kibibytes * 1024 / 1e6, 1)


def _print(cycle: _Cycle, costs: dict[str, _Cost]) -> None:
    answer = cycle.answer
    _print_table("Bound", ("pod", "node", "GPUs"), ((e["pod"], e["node"], _gpus(e)) for e in answer["binds"]))
    _print_table(
        "Pipelined", ("pod", "node", "action"), ((e["pod"], e["node"], e["action"]) for e in answer["pipelined"])
    )
    _print_table(
        "Evicted",
        ("pod", "action", "for"),
        ((e["pod"], e["action"], e.get("preemptor", "")) for e in answer["evictions"]),
    )
    _print_waiting(cycle)
    _print_table(
        "Fair share",
        ("queue", "GPUs", "CPU cores", "GiB memory"),
        (
            (queue, f"{share['gpu']:g}", f"{share['cpu'] / 1e3:g}", amount(share["memory"] / 2**30))
            for queue, share in sorted(answer["fairShare"].items())
        ),
    )
    _print_table(
        "Cost",
        ("step", "CPU ms", "ms"),
        ((step, f"{cost.cpu_ms:.1f}", f"{cost.seconds * 1000:.1f}") for step, cost in costs.items()),
    )


def _print_waiting(cycle: _Cycle) -> None:
    """Which jobs have places that others leave; how many others wait for what, and then each of them."""
    from bosket.scheduler.answers.outcome import states
    from bosket.scheduler.model.task import WAITING, TaskStatus

    ends = states(cycle.snapshot, cycle.decisions)
    rows: list[tuple[str, str, str, str]] = []
    served: Counter[tuple[str, str]] = Counter()
    for task, operation in cycle.decisions.outcome.items():
        if ends[task.key].status is TaskStatus.PIPELINED and task.status in WAITING:
            served[str(operation.job.key), operation.job.queue] += 1
    causes: dict[str, Counter[str]] = {}
    for each in cycle.decisions.waiting:
        job = each.job
        if cycle.decisions.has_a_place(each):
            continue
        pods = sum(ends[task.key].status in WAITING for task in (*job.tasks, *job.orphan_tasks))
        cause, sentence = _why(cycle.snapshot, each)
        causes.setdefault(cause, Counter()).update(jobs=1, pods=pods)
        rows.append((str(job.key), job.queue, str(pods), sentence))
    rows_served = ((job, queue, str(pods)) for (job, queue), pods in sorted(served.items()))
    _print_table("Served", ("pod group", "queue", "pods pipelined"), rows_served)
    if not rows:
        return
    total = sum(counts["pods"] for counts in causes.values())
    stdout().print(f"{len(rows)} of {len(cycle.snapshot.jobs)} jobs wait, with {total} pods.\n", style="bold")
    _print_table(
        "Causes",
        ("jobs", "pods", "cause"),
        (
            (str(counts["jobs"]), str(counts["pods"]), cause)
            for cause, counts in sorted(causes.items(), key=lambda entry: (-entry[1]["jobs"], entry[0]))
        ),
    )
    _print_table("Waiting", ("pod group", "queue", "pods", "why"), rows)


def _why(snapshot: Snapshot, waiting: Waiting) -> tuple[str, str]:
    """The cause in a word, as KAI's conditions have it, and in a sentence."""
    if waiting.reasons:
        words = sorted({reason.code or type(reason).__name__ for reason in waiting.reasons})
        return ", ".join(words), " ".join(waiting.text.split())
    if waiting.job.key in snapshot.backing_off:
        return "HeldBack", "The binding of one of its pods failed a short while ago"
    if waiting.job.orphan_tasks:
        return "UnknownSubGroup", "Pods name a sub-group that the pod group doesn't have"
    return "GatesClosed", "What isn't placed waits for its scheduling gates to be lifted"


def _gpus(bind: dict[str, Any]) -> str:
    count, portion = bind.get("gpuCount", 0), bind.get("gpuPortion", "1.00")
    return str(count or "") if float(portion) == 1 else f"{count} × {portion}"


def _print_table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    listed = list(rows)
    if listed:
        numbers = ("GPUs", "jobs", "pods", "CPU ms", "ms", "CPU cores", "GiB memory")
        stdout().print(table(f"{title} ({len(listed)})", columns, listed, numbers=numbers, texts=("why",)))
        stdout().print()
