"""An explanation as text for a terminal or a pipe: the sentence first, then what it rests on, then what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bosket.cli.output import is_terminal, printable, stdout

if TYPE_CHECKING:
    from bosket.scheduler.answers.explain_all import Example, Group, Waiters
    from bosket.scheduler.answers.explanation import Blocker, Change, Explanation, JobAhead, JobSummary

_VERDICTS = {
    "never": "could not start even on an empty cluster",
    "not-now": "waits",
    "waiting-for-termination": "starts soon",
    "next-cycle": "starts in the next cycle",
    "running": "runs",
}
_ACTORS = {
    "user": "you",
    "queue-admin": "the queue's administrator",
    "cluster-admin": "the cluster's administrator",
    "time": "time",
}
#: So many pods of a change's outcome are named.
_MOST_NAMED = 3


def print_explanation(answer: Explanation) -> None:
    """Prints it; lines wrap at the terminal's width, and are as long as they are in a pipe."""
    job = answer.job
    if answer.verdict is None:
        _line(f"{_name(job)}, {job.state}: {answer.sentence}", style="bold")
        _line("The scheduler has written that; your rights don't show enough of the cluster to find out more.")
        return
    _line(f"{_name(job)} {_VERDICTS[answer.verdict]}: {answer.sentence}", style="bold")
    group = "" if job.workload.endswith(f"/{job.name}") else f", pod group {job.name}"
    _line(f"queue {job.queue or '(none)'}, priority {job.priority}, {job.state}{group}", indent=2)
    for title, lines in (
        ("Ahead of it", _ahead(answer)),
        ("Nodes", _nodes(answer)),
        ("Tried", _tried(answer)),
        ("In the way", _blockers(answer)),
    ):
        _section(title, list(lines))
    _changes(answer)


def _name(job: JobSummary | JobAhead | Blocker | Example) -> str:
    """What people call the job: by the workload that they made."""
    return f"{job.namespace}/{job.workload.partition('/')[2] or job.name}"


def print_waiters(answer: Waiters) -> None:
    """Prints all jobs that wait, by reason."""
    if not answer.groups:
        _line("no job waits that the next cycle wouldn't start")
        return
    _line(f"{_count(answer.jobs, 'job')} wait{'s' if answer.jobs == 1 else ''}", style="bold")
    for group in answer.groups:
        _line("")
        _line(_headline(group), style="bold")
        for job in group.examples:
            never = " (never, as things are)" if job.verdict == "never" else ""
            _line(f"{_name(job)}{never}: {job.sentence}", indent=2)
        if group.count > len(group.examples):
            _line(f"and {group.count - len(group.examples)} more", indent=2)
    best = answer.unblocks_most
    if best is not None:
        _line("")
        _line(
            f"Of the changes that were tried, this one starts the most, {_count(len(best.starts), 'job')}:",
            style="bold",
        )
        _line(f"{best.change.sentence} ({_ACTORS[best.change.actor]}; found for {best.job})", indent=2)
        for each in best.change.commands:
            _unwrapped(each, indent=5)


def _headline(group: Group) -> str:
    scope = f" of {group.scope}" if group.scope else ""
    gpus = f", {group.gpus:g} GPUs" if group.gpus else ""
    return f"{_count(group.count, 'job')}: {group.code}{scope} ({group.tier}; {_count(group.pods, 'pod')}{gpus})"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _ahead(answer: Explanation) -> Iterator[str]:
    position = answer.position
    if position is None or not position.ahead:
        return
    yield f"it is number {position.in_queue} of {position.of} in queue {answer.job.queue}"
    for each in position.ahead:
        yield f"{_name(each)}: {each.why}"
    more = position.in_queue - 1 - len(position.ahead)
    if more > 0:
        yield f"and {more} more"


def _nodes(answer: Explanation) -> Iterator[str]:
    from bosket.scheduler.answers.node_groups import FREE

    for each in answer.nodes:
        names = ", ".join(each.examples) + (", …" if each.count > len(each.examples) else "")
        nodes = _count(each.count, "node")
        if each.reason == FREE:
            yield f"{nodes} could take a pod now ({names})"
        elif each.candidate:
            yield f"{nodes} could take a pod if something left: {each.reason} ({names})"
        else:
            yield f"{nodes} never could: {each.reason} ({names})"


def _tried(answer: Explanation) -> Iterator[str]:
    for each in answer.tried:
        searched = f", {_count(each.searched, 'set')} of victims simulated" if each.searched else ""
        yield f"{each.action}: {each.outcome}{searched}"


def _blockers(answer: Explanation) -> Iterator[str]:
    for each in answer.blockers:
        held = ", ".join(f"{amount:g} {_WORDS.get(name, name)}" for name, amount in each.resources.items())
        queue = f" (queue {each.queue})" if each.queue else ""
        yield f"{_name(each)}{queue} holds {held or 'nothing'}; not evicted: {each.why_not_evicted}"


_WORDS = {"gpu": "GPUs", "cpu": "CPU cores", "memory": "GiB"}


def _changes(answer: Explanation) -> None:
    if answer.verdict not in ("never", "not-now"):
        return
    if answer.changes:
        _line("")
        _line("Each of these would start it (tried, on a copy):", style="bold")
    for number, change in enumerate(answer.changes, start=1):
        _line(f"{number}. {change.sentence} ({_ACTORS[change.actor]})", indent=2)
        _line(_then(change), indent=5, style="dim")
        for each in change.commands:
            _unwrapped(each, indent=5)
        if change.made_in:
            _line(f"to be changed in the template of {change.made_in}", indent=5)
    if not answer.complete:
        _line("")
        _line("The search for changes stopped before it had tried everything; --seconds 10 searches longer.")
    elif not answer.changes:
        _line("")
        _line("No single change of those that were tried would start it.")


def _then(change: Change) -> str:
    then = change.then
    when = "starts at once" if then.starts == "now" else "starts once others are gone"
    places = [f"{pod} on {node}" for pod, node in then.nodes.items()]
    text = f"then it {when}: {_some(places)}"
    return f"{text}; evicts {_some(then.evicts)}" if then.evicts else text


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _section(title: str, lines: Sequence[str]) -> None:
    if lines:
        _line("")
        _line(title, style="bold")
        for each in lines:
            _line(each, indent=2)


def _line(text: str, *, indent: int = 0, style: str = "") -> None:
    """A line; on a terminal it wraps with what follows indented as far as its beginning."""
    from rich.padding import Padding
    from rich.text import Text

    if not is_terminal():
        _unwrapped(text, indent=indent)
        return
    stdout().print(Padding(Text(printable(text), style=style), (0, 0, 0, indent)))


def _unwrapped(text: str, *, indent: int = 0) -> None:
    """A line as long as it is, such as a command, which is pasted into a shell."""
    from rich.text import Text

    stdout().print(Text(" " * indent + printable(text)), soft_wrap=True)
