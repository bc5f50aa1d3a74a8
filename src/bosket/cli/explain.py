"""`bosket explain` (or `why`): why a job waits, and which changes would start it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster
from bosket.cli.output import CommandError, Flag, UsageError, flush_line

if TYPE_CHECKING:
    from bosket.api.object import ObjectKey
    from bosket.cli.cluster_source import Source
    from bosket.scheduler.answers.explain_all import Waiters
    from bosket.scheduler.answers.explanation import Explanation


def explain(
    job: str | None = None,
    /,
    *,
    source: SourceFlags | None = None,
    all: Flag = False,
    queue: str | None = None,
    seconds: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    json: Flag = False,
) -> None:
    """Show why a job waits, who is in the way, and which changes would start it.

    Every change that is shown was tried: the scheduler's own decision on the changed cluster starts the job. Nothing is
    written to the cluster.

    Parameters
    ----------
    job
        [NAMESPACE/]NAME of a pod group, or of a workload or pod that has one.
    all
        All jobs that wait, grouped by why: of the cluster, or with -n of a namespace, or with --queue of a queue.
    queue
        With --all: only jobs of this queue and of those below it.
    seconds
        Seconds of CPU after which no more changes are tried; 0 for none. By default 0.5, or 2 beyond 1,000 nodes.
    json
        Print everything as one JSON object.
    """
    if queue is not None and not all:
        raise UsageError("--queue is for --all: bosket explain --all --queue QUEUE")
    if (job is None) != all:
        raise UsageError("give the name of a job, or --all: bosket explain [NAMESPACE/]NAME")
    from bosket.scheduler.answers.job_table import NEEDED, can_decide

    found = open_cluster(source)
    is_known = can_decide(found.unread)
    if not is_known and all:
        needed = ", ".join(NEEDED)
        raise CommandError(f"why all jobs wait can't be found out without all of: {needed}; see bosket jobs")
    answer: Explanation | Waiters
    if job is not None:
        answer = _ask(found, job, seconds, is_known=is_known)
    else:
        answer = _ask_all(found, source.namespace if source is not None else None, queue, seconds)
    if json:
        import msgspec

        flush_line(msgspec.json.encode(answer).decode())
        return
    from bosket.cli.explanation_text import print_explanation, print_waiters
    from bosket.scheduler.answers.explanation import Explanation

    if isinstance(answer, Explanation):
        print_explanation(answer)
    else:
        print_waiters(answer)


def _ask_all(source: Source, namespace: str | None, queue: str | None, seconds: float | None) -> Waiters:
    from bosket.api.kai import Queue
    from bosket.api.object import ObjectKey
    from bosket.scheduler.answers.explain_all import explain_all

    if queue is not None and source.cluster.get(Queue, ObjectKey("", queue)) is None:
        raise CommandError(f"there is no queue {queue}")
    return explain_all(source.cluster, namespace=namespace, queue=queue, seconds=seconds)


def _ask(source: Source, job: str, seconds: float | None, *, is_known: bool) -> Explanation:
    from bosket.scheduler.answers.explain import UnknownJob, explain, explain_as_written, find_job

    try:
        key = find_job(source.cluster, key_of(job, source.namespace))
        if not is_known:
            return explain_as_written(source.cluster, key)
        return explain(source.cluster, key, seconds=seconds)
    except UnknownJob as error:
        raise CommandError(str(error)) from error


def key_of(text: str, namespace: str) -> ObjectKey:
    """The key that `[NAMESPACE/]NAME` means."""
    from bosket.api.object import ObjectKey

    given, slash, name = text.rpartition("/")
    if not name or "/" in given or (slash and not given):
        raise UsageError(f"{text!r} isn't a name; give NAME or NAMESPACE/NAME")
    return ObjectKey(given or namespace, name)
