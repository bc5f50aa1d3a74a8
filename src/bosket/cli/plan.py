"""`bosket plan`: what would happen if workloads were submitted, quotas changed, nodes drained or added."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster, require_whole_cluster
from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line
from bosket.cli.path import FilePath
from bosket.cli.view import ViewFlags, line_width, print_lines

if TYPE_CHECKING:
    from pathlib import Path

    from bosket.cli.cluster_source import Source
    from bosket.scheduler.answers.change import ObjectPatch
    from bosket.scheduler.answers.plan import Plan
    from bosket.tools.planning import Changes


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
    from bosket.tools.planning import Changes

    if not (file or set_ or drain or add_nodes or delete or patch):
        raise UsageError("what is planned? name a file with -f, or --set, --drain, --add-nodes, --delete or --patch")
    opened = open_cluster(source)
    require_whole_cluster(opened, "a plan")
    if expect is not None and (digest := opened.cluster.digest()) != expect:
        raise CommandError(f"the cluster is no longer what was planned on: its digest is {digest}, not {expect}")
    changes = Changes(
        files=file, settings=set_, drained=drain, added=add_nodes, deleted=delete, patches=_patches(patch)
    )
    made = _made(opened, changes, cycles)
    if json:
        import msgspec

        from bosket.scheduler.answers.plan_document import plan_document

        flush_line(msgspec.json.encode(plan_document(made)).decode())
    else:
        from bosket.cli.plan_text import plan_lines

        print_lines(plan_lines(made, line_width(ViewFlags())))
    return made.exit_code


def _patches(paths: tuple[Path, ...]) -> tuple[ObjectPatch, ...]:
    from bosket.scheduler.answers.change import ChangeError, read_patches

    try:
        return tuple(patch for path in paths for patch in read_patches(path.read_bytes(), str(path)))
    except ChangeError as error:
        raise CommandError(str(error)) from error


def _made(opened: Source, changes: Changes, cycles: int) -> Plan:
    from bosket.scheduler.answers.change import ChangeError
    from bosket.scheduler.answers.edits import EditError
    from bosket.tools.expansion.item import ExpansionError
    from bosket.tools.planning import plan_changes

    try:
        made, notes = asyncio.run(plan_changes(opened.cluster, changes, namespace=opened.namespace, cycles=cycles))
    except (ChangeError, EditError, ExpansionError) as error:
        raise CommandError(str(error)) from error
    for note in notes:
        complain(note)
    return made
