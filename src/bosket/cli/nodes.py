"""`bosket nodes`: every GPU by who holds it, rack by rack, and how many of the free ones pods can't use."""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import Source, SourceFlags
from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import Flag, UsageError
from bosket.cli.path import OptionalFilePath
from bosket.cli.quantity_text import UNKNOWN, amount
from bosket.cli.view import ViewFlags, line_width, show

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.node_view import NodesReport, NodeView, RackView

_LETTERS: Final = string.ascii_uppercase + string.digits
_COLOURS: Final = ("green", "blue", "magenta", "cyan", "yellow", "bright_green", "bright_blue", "bright_magenta")
_FREE, _SHARED, _FOREIGN, _CLOSED = "·", "½", "#", "-"
_RACK_COLUMNS: Final = (
    Column("RACK", folds=True),
    Column("NODES", is_number=True),
    Column("GPUS", is_number=True),
    Column("FREE", is_number=True),
    Column("FRAGMENTED", is_number=True),
    Column("EMPTY NODES", is_number=True),
    Column("CLOSED", is_number=True, leaves=1),
)
#: What people call it.
_CORDONED: Final = {"node(s) were unschedulable": "it is cordoned"}
#: Of nodes that look alike so many are named.
_NAMED: Final = 2


def nodes(
    file: OptionalFilePath = None,
    /,
    *,
    source: SourceFlags | None = None,
    view: ViewFlags | None = None,
    by: str | None = None,
    racks: Flag = False,
    most: Annotated[int, Parameter(validator=Number(gte=0))] = 10,
) -> None:
    """Show the GPUs of each node by the queue that holds them, and how many of the free ones are fragmented.

    A free part of a GPU is fragmented for pods of a shape if not one more of them could use it: too little of the GPU
    is left, or of the node's CPU or memory, or the node isn't for them. In all, shapes count by how frequent they are.

    Parameters
    ----------
    file
        A snapshot, as with --snapshot.
    by
        Arrange nodes by this label, or level of a Topology; by default by the narrowest level above the nodes.
    racks
        Only a line for each rack, or whatever nodes are arranged by, and not one for each node.
    most
        So many shapes of pods are shown.
    """
    flags, given = view or ViewFlags(), source or SourceFlags()
    if file is not None:
        if given.is_recorded or given.kubeconfig is not None or given.context is not None:
            raise UsageError("a snapshot file and --snapshot, --kubeconfig or --context were given: which of them?")
        given = replace(given, snapshot=file)
    show(given, flags, lambda at: _report(at, by), lambda report: _lines(report, flags, most, racks=racks), _document)


def _report(source: Source, by: str | None) -> NodesReport:
    from bosket.scheduler.answers.node_view import NodeError, nodes_report

    try:
        return nodes_report(source.cluster.snapshot(), by, source.unread)
    except NodeError as error:
        raise UsageError(f"--by {by}: {error}") from error


def _document(report: NodesReport) -> dict[str, Any]:
    found = report.fragmentation
    told = {"by": report.by, "racks": msgspec.to_builtins(report.racks), "unknown": report.unknown}
    return asdict(found) | {"fragmented_share": found.share(found.fragmented)} | told


def _lines(report: NodesReport, flags: ViewFlags, most: int, *, racks: bool) -> Iterator[Text | str]:
    found, width = report.fragmentation, line_width(flags)
    if "Node" not in report.unknown:
        yield (
            f"{found.gpus:.10g} GPUs, {found.free:.10g} free, {found.fragmented:.4g} of these fragmented: "
            f"{found.share(found.fragmented):.1%} of all"
        )
        yield ""
    if not any(rack.nodes for rack in report.racks):
        yield "No node has GPUs." if "Node" not in report.unknown else "None of the jobs that you see is on a node."
        return
    if racks:
        yield from lines(_RACK_COLUMNS, [_summary_row(rack) for rack in report.racks], width)
        return
    letters = _letters_of(report)
    columns = [
        Column("NODE", folds=True),
        Column("GPUS"),
        Column("FREE", is_number=True),
        Column("FRAGMENTED", is_number=True, leaves=1),
    ]
    if flags.is_wide:
        columns.append(Column("JOBS"))
    rows = [row for rack in report.racks for row in _rack_rows(rack, letters, flags, is_named=bool(report.by))]
    yield from lines(columns, rows, width, "NOTE")
    yield ""
    yield from _legend(letters, report)
    if found.shapes and most and "Node" not in report.unknown:
        yield ""
        yield f"Shapes of pods ({min(most, len(found.shapes))} of {len(found.shapes)}), and what none of them could use"
        yield from lines(
            [
                Column("SHAPE"),
                Column("OF PODS", is_number=True),
                Column("FRAGMENTED", is_number=True),
                Column("OF ALL GPUS", is_number=True),
            ],
            [
                Row(
                    [
                        each.shape,
                        f"{each.part:.1%}",
                        f"{each.fragmented:.4g}",
                        f"{found.share(each.fragmented):.1%}",
                    ]
                )
                for each in found.shapes[:most]
            ],
            width,
        )


def _summary_row(rack: RackView) -> Row:
    """A rack in one line."""
    taking = [node for node in rack.nodes if not node.refuses]
    empty = sum(node.free == node.gpus for node in taking)
    return Row(
        [
            rack.name or "(nowhere)",
            str(len(rack.nodes)),
            amount(sum(node.gpus or 0.0 for node in rack.nodes)),
            amount(sum(node.free or 0.0 for node in taking)),
            amount(sum(node.fragmented or 0.0 for node in rack.nodes)),
            str(empty),
            str(len(rack.nodes) - len(taking)),
        ]
    )


def _letters_of(report: NodesReport) -> dict[str, str]:
    """A letter for each queue that holds GPUs."""
    held = {each.queue for rack in report.racks for node in rack.nodes for each in node.holdings}
    held |= {queue for rack in report.racks for node in rack.nodes for each in node.shared for queue in each.queues}
    queues = sorted(held - {""})
    return {queue: _LETTERS[at] if at < len(_LETTERS) else "+" for at, queue in enumerate(queues)}


def _rack_rows(rack: RackView, letters: Mapping[str, str], flags: ViewFlags, *, is_named: bool) -> Iterator[Row]:
    """The rack's own row, and its nodes, those that look alike together."""
    from rich.text import Text

    if is_named:
        free = sum(each.free or 0.0 for each in rack.nodes if not each.refuses)
        fragmented = sum(each.fragmented or 0.0 for each in rack.nodes)
        total = sum(each.gpus or 0.0 for each in rack.nodes)
        title = Text(rack.name or "(nowhere)", "bold")
        cells: list[Text | str] = [
            title,
            f"{amount(total)} GPUs, {len(rack.nodes)} nodes",
            amount(free),
            amount(fragmented),
        ]
        yield Row([*cells, ""] if flags.is_wide else cells)
    alike: dict[tuple[object, ...], list[NodeView]] = {}
    for node in rack.nodes:
        looks = (node.name,) if flags.is_wide else (_cells(node, letters).plain, node.free, node.refuses)
        alike.setdefault(looks, []).append(node)
    for same in alike.values():
        node = same[0]
        names = [each.name for each in same]
        name = ", ".join(names[:_NAMED]) if len(names) <= _NAMED else f"{names[0]} and {len(names) - 1} like it"
        cells = [
            Text(("  " if is_named else "") + name),
            _cells(node, letters),
            UNKNOWN if node.free is None else amount(node.free if not node.refuses else 0.0),
            UNKNOWN if node.fragmented is None else amount(node.fragmented),
        ]
        if flags.is_wide:
            cells.append(", ".join(f"{each.job} {amount(each.gpus)}" for each in node.holdings))
        yield Row(cells, f"takes no pods: {_CORDONED.get(node.refuses, node.refuses)}" if node.refuses else "")


def _cells(node: NodeView, letters: Mapping[str, str]) -> Text:
    """One character for each GPU: the letter of its queue, small where the pod is ending."""
    from rich.text import Text

    cells = Text()
    for each in node.holdings:
        letter = letters.get(each.queue, _FOREIGN)
        text = letter.lower() if each.is_ending else letter
        cells.append(text * math.ceil(each.gpus), _style(letter))
    for shared in node.shared:
        letter = letters.get(shared.queues[0], _FOREIGN) if len(shared.queues) == 1 else ""
        cells.append(_SHARED, _style(letter))
    if node.gpus is not None:
        left = max(0, int(node.gpus) - cells.cell_len)
        cells.append((_CLOSED if node.refuses else _FREE) * left, "red" if node.refuses else "dim")
    return cells


def _style(letter: str) -> str:
    at = _LETTERS.find(letter) if letter else -1
    return _COLOURS[at % len(_COLOURS)] if at >= 0 else "dim"


def _legend(letters: Mapping[str, str], report: NodesReport) -> Iterator[Text]:
    """What the characters mean that stand there."""
    from rich.text import Text

    used = {character for rack in report.racks for node in rack.nodes for character in _cells(node, letters).plain}
    parts: list[tuple[str, str, str]] = [(letter, queue, _style(letter)) for queue, letter in letters.items()]
    parts += [
        (character, meaning, "")
        for character, meaning in (
            (
                _FREE,
                "free",
            ),
            (_SHARED, "shared"),
            (_FOREIGN, "another scheduler's"),
            (_CLOSED, "free, but the node takes no pods"),
        )
        if character in used
    ]
    if any(character.islower() for character in used):
        parts.append(("a", "small: the pod is ending", ""))
    line = Text()
    for character, meaning, style in parts:
        if line and line.cell_len + len(meaning) + 6 > 80:
            yield line
            line = Text()
        line.append("   " if line else "")
        line.append(character, style or "bold")
        line.append(f" {meaning}")
    yield line
