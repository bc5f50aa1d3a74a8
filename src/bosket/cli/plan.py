"""`bosket plan`: what would happen if workloads were submitted, quotas changed, nodes drained or added."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster
from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, stdout, table
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from bosket.scheduler.answers.draft import Draft
    from bosket.scheduler.answers.edits import Drained
    from bosket.scheduler.answers.plan import Plan
    from bosket.tools.expansion.submission import Submission


def plan(
    *,
    file: Annotated[tuple[FilePath, ...], Parameter(name=("--file", "-f"), allow_leading_hyphen=True)] = (),
    set_: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    drain: tuple[str, ...] = (),
    add_nodes: tuple[str, ...] = (),
    delete: tuple[str, ...] = (),
    patch: tuple[FilePath, ...] = (),
    cycles: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 1,
    expect: str | None = None,
    json: Flag = False,
    source: SourceFlags | None = None,
) -> int:
    """Show what would happen, without writing anything.

    Exit codes: 0 what is asked about starts at once, 4 it starts only by evicting others, 2 it waits, 3 it never
    starts, 1 an error.

    Parameters
    ----------
    file
        Workloads that aren't submitted yet: a file of YAML or JSON documents, a directory of such, or - for standard
        input. May be given several times.
    set_
        A queue's quota, limit, weight or priority: team-a.gpu.quota=8.
    drain
        A node that is drained, or all with a label: node-7, rack=r2.
    add_nodes
        So many more nodes, like the one with the most GPUs, or like a given one: 4, 4:like=node-7.
    delete
        An object that is deleted: Queue/team-a, Job/train.
    patch
        Changes as a JSON document, as bosket explain --json offers them.
    cycles
        How many scheduling cycles are followed at most, in virtual time.
    expect
        The digest of an earlier plan: refuse if the cluster is no longer what that was made on.
    json
        Print one JSON object.
    """
    import msgspec

    from bosket.scheduler.answers.change import ChangeError, read_patches
    from bosket.scheduler.answers.draft import Draft
    from bosket.scheduler.answers.edits import EditError, set_queue
    from bosket.scheduler.answers.edits import add_nodes as add
    from bosket.scheduler.answers.edits import delete as remove
    from bosket.scheduler.answers.edits import drain as empty
    from bosket.scheduler.answers.plan import document, make_plan

    if not (file or set_ or drain or add_nodes or delete or patch):
        raise UsageError("what is planned? name a file with -f, or --set, --drain, --add-nodes, --delete or --patch")
    opened = open_cluster(source)
    cluster = opened.cluster
    if expect is not None and (digest := cluster.digest()) != expect:
        raise CommandError(f"the cluster is no longer what was planned on: its digest is {digest}, not {expect}")
    draft = Draft(cluster)
    drained: list[Drained] = []
    try:
        for each in patch:
            draft.apply(read_patches(each.read_bytes(), str(each)))
        for text in set_:
            set_queue(draft, text)
        for text in delete:
            remove(draft, text, opened.namespace)
        for text in add_nodes:
            add(draft, text)
        for text in drain:
            drained.append(empty(draft, text))
    except (ChangeError, EditError) as error:
        raise CommandError(str(error)) from error
    submission = _submit(draft, file, opened.namespace)
    made = make_plan(
        cluster, draft, subjects=submission.jobs, workloads=submission.workloads, drained=drained, cycles=cycles
    )
    if json:
        flush_line(msgspec.json.encode(document(made)).decode())
    else:
        _print(made)
    return made.exit_code


def _submit(draft: Draft, files: tuple[Path, ...], namespace: str) -> Submission:
    from bosket.tools.expansion.item import ExpansionError
    from bosket.tools.expansion.manifests import read_manifests
    from bosket.tools.expansion.submission import Submission, submit

    if not files:
        return Submission()
    try:
        made: Submission = asyncio.run(submit(draft, read_manifests(files), namespace))
    except ExpansionError as error:
        raise CommandError(str(error)) from error
    for note in made.notes:
        complain(note)
    if not made.jobs and not draft.changed:
        raise CommandError("nothing is planned: the files hold no pods for this scheduler")
    return made


def _print(made: Plan) -> None:
    out = stdout()
    rows = [("starts", str(each.job), ", ".join(sorted(set(each.nodes.values())))) for each in made.starts]
    rows += [("waits", str(each.job), each.sentence) for each in made.waits]
    rows += [("evicted", str(each.job), f"for {each.for_whom}") for each in made.evicts]
    out.print(table("Plan", ("what", "job", "how"), rows, texts=("how",)))
