"""`bosket plan`: what would happen if workloads were submitted, quotas changed, nodes drained or added."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster
from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line
from bosket.cli.path import FilePath
from bosket.cli.view import ViewFlags, line_width, print_lines

if TYPE_CHECKING:
    from pathlib import Path

    from bosket.cli.cluster_source import Source
    from bosket.scheduler.answers.draft import Draft
    from bosket.scheduler.answers.edits import Drained
    from bosket.tools.expansion.submission import Submission


def plan(
    *,
    file: Annotated[
        tuple[FilePath, ...], Parameter(name=("--file", "-f"), allow_leading_hyphen=True, negative=())
    ] = (),
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    drain: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    add_nodes: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    delete: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    patch: Annotated[tuple[FilePath, ...], Parameter(negative=())] = (),
    cycles: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 10,
    expect: str | None = None,
    json: Flag = False,
    source: SourceFlags | None = None,
) -> int:
    """Show what would happen, without writing anything to the cluster.

    Options may be given several times. Exit codes: 0 what is asked about starts at once, 4 it starts only by evicting
    others, 2 it waits, 3 it never starts, 1 an error. Without -f they are about those who fare worse: 4 somebody is
    evicted, 2 somebody waits in the end, 0 neither.

    Parameters
    ----------
    file
        Workloads that aren't submitted yet: a file of YAML or JSON documents, a directory of such, or - for standard
        input.
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
        How many scheduling cycles are followed at most, in virtual time: victims leave, pods start, evicted ones come
        back. It ends when nothing happens any more.
    expect
        The digest of an earlier plan: refuse if the cluster is no longer what that was made on.
    json
        Print one JSON object.
    """
    from bosket.scheduler.answers.draft import Draft
    from bosket.scheduler.answers.plan import make_plan

    if not (file or set_ or drain or add_nodes or delete or patch):
        raise UsageError("what is planned? name a file with -f, or --set, --drain, --add-nodes, --delete or --patch")
    opened = open_cluster(source)
    _check_rights(opened)
    cluster = opened.cluster
    if expect is not None and (digest := cluster.digest()) != expect:
        raise CommandError(f"the cluster is no longer what was planned on: its digest is {digest}, not {expect}")
    draft = Draft(cluster)
    drained = _edit(
        draft, opened.namespace, patches=patch, settings=set_, deleted=delete, added=add_nodes, drained=drain
    )
    submission = _submit(draft, file, opened.namespace)
    made = make_plan(
        cluster,
        draft,
        subjects=submission.jobs,
        workloads=submission.workloads,
        drained=drained,
        cycles=cycles,
    )
    if json:
        import msgspec

        from bosket.scheduler.answers.plan_document import plan_document

        flush_line(msgspec.json.encode(plan_document(made)).decode())
    else:
        from bosket.cli.plan_text import plan_lines

        print_lines(plan_lines(made, line_width(ViewFlags())))
    return made.exit_code


def _check_rights(source: Source) -> None:
    """A plan on a part of the cluster would promise room that others hold."""
    unknown = [each for each in ("Node", "Queue", "PodGroup", "Pod") if each in source.unread]
    if unknown:
        raise CommandError(
            f"your rights don't show every {' and '.join(unknown)} of the cluster, and a plan on a part of it would be "
            "wrong; an administrator can grant get and list, or give you a snapshot (bosket snapshot) for --snapshot"
        )


def _edit(
    draft: Draft,
    namespace: str,
    *,
    patches: tuple[Path, ...],
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
    added: tuple[str, ...],
    drained: tuple[str, ...],
) -> list[Drained]:
    """Makes the changes, drains last: what is drained may be what was added or changed."""
    from bosket.scheduler.answers.change import ChangeError, read_patches
    from bosket.scheduler.answers.edits import EditError, add_nodes, delete, drain, set_queue

    try:
        for path in patches:
            draft.apply(read_patches(path.read_bytes(), str(path)))
        for text in settings:
            set_queue(draft, text)
        for text in deleted:
            delete(draft, text, namespace)
        for text in added:
            add_nodes(draft, text)
        return [drain(draft, text) for text in drained]
    except (ChangeError, EditError) as error:
        raise CommandError(str(error)) from error


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
