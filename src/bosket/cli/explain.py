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
    from bosket.scheduler.answers.explanation import Explanation


def explain(
    job: str | None = None,
    /,
    *,
    source: SourceFlags | None = None,
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
    seconds
        Seconds of CPU that the search for changes may take; 0 for none. By default 0.4, or 1.6 from 1,000 nodes on.
    json
        Print everything as one JSON object.
    """
    if job is None:
        raise UsageError("which job? bosket explain [NAMESPACE/]NAME")
    found = open_cluster(source)
    answer = _ask(found, job, seconds)
    if json:
        import msgspec

        flush_line(msgspec.json.encode(answer).decode())
        return
    from bosket.cli.explanation_text import print_explanation

    print_explanation(answer)


def _ask(source: Source, job: str, seconds: float | None) -> Explanation:
    from bosket.scheduler.answers.explain import UnknownJob, explain, find_job

    try:
        return explain(source.cluster, find_job(source.cluster, key_of(job, source.namespace)), seconds=seconds)
    except UnknownJob as error:
        raise CommandError(str(error)) from error


def key_of(text: str, namespace: str) -> ObjectKey:
    """The key that `[NAMESPACE/]NAME` means."""
    from bosket.api.object import ObjectKey

    given, slash, name = text.rpartition("/")
    if not name or "/" in given or (slash and not given):
        raise UsageError(f"{text!r} isn't a name; give NAME or NAMESPACE/NAME")
    return ObjectKey(given or namespace, name)
