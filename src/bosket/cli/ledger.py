"""`bosket ledger`: where the GPU hours went, by queue, namespace or user."""

from __future__ import annotations

import csv as csv_file
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import CommandError, Flag, UsageError, flush_line
from bosket.cli.path import OptionalFilePath
from bosket.cli.quantity_text import amount
from bosket.cli.recorded_moment import open_recording, parse_moment
from bosket.cli.view import ViewFlags, line_width, print_lines

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.ledger import Account, Ledger

#: Columns, by the fields of an account.
_FIELDS: Final = (
    "capacity", "allocated", "held", "idle_waited", "idle", "down", "deserved", "borrowed", "lent", "lost",
)  # fmt: skip
_TITLES: Final = {"idle_waited": "IDLE, WAITED"}
_NOBODY: Final = "(nobody)"


def ledger(
    folder: OptionalFilePath = None,
    /,
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    by: Literal["queue", "namespace", "user"] = "queue",
    hours: Flag = False,
    csv: Flag = False,
    json: Flag = False,
    kubeconfig: OptionalFilePath = None,
    shard: str = "",
) -> None:
    """Show where the GPU hours of a flight recording went: used, held, idle, down; deserved, borrowed, lent, lost.

    For each queue, capacity = allocated + held + idle while it waited + idle + down, exactly. What no queue uses is
    divided among queues by what they deserve and don't use.

    Parameters
    ----------
    folder
        The folder of the recording; by default the one that bosket up keeps beside the kubeconfig.
    from_
        Since then: a time of day such as 03:00, how long ago, such as 7d, or a time such as 2026-01-02T03:04:05Z.
    to
        Until then.
    by
        Whose accounts. Namespaces and users have what their pods used, borrowed or lost, and nothing idle.
    hours
        Each hour by itself, not only the sum.
    csv
        Comma-separated values for a spreadsheet: each hour by itself, in GPU hours.
    json
        One JSON object: each hour by itself, in GPU hours, with who borrowed from whom.
    kubeconfig
        Whose recording, without a folder.
    shard
        Whose cycles, where several schedulers were recorded.
    """
    if csv and json:
        raise UsageError("--csv and --json were given: which of them?")
    recording = open_recording(folder, kubeconfig, shard)
    now = time.time()
    since = parse_moment(from_, now, "--from") if from_ is not None else 0.0
    until = parse_moment(to, now, "--to") if to is not None else now
    if until <= since:
        raise UsageError("--to must be later than --from")

    from bosket.scheduler.answers.ledger import Ledger, grouped

    found = Ledger(since, until)
    found.follow(recording.cycles(0.0, until))
    if not found.capacity:
        raise CommandError(f"{recording.folder}: nothing is recorded in that time, or only one moment of it")
    listed = list(grouped(found, by))
    if json:
        import msgspec

        flush_line(msgspec.json.encode(_document(found, listed, by)).decode())
    elif csv:
        _write_csv(listed, by)
    else:
        print_lines(_lines(found, listed, by, hours=hours))


def _document(found: Ledger, listed: list[tuple[int, str, Account]], by: str) -> dict[str, Any]:
    from bosket.api.time import format_time

    return {
        "by": by,
        "hours": [
            {
                "hour": format_time(hour),
                by: name,
                **{field: _gpu_hours(getattr(account, field)) for field in _FIELDS},
                "borrowed_from": {lender: _gpu_hours(part) for lender, part in sorted(account.borrowed_from.items())},
            }
            for hour, name, account in listed
        ],
        "capacity": {format_time(hour): _gpu_hours(units) for hour, units in sorted(found.capacity.items())},
    }


def _write_csv(listed: list[tuple[int, str, Account]], by: str) -> None:
    from bosket.api.time import format_time

    writer = csv_file.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("hour", by, *_FIELDS))
    for hour, name, account in listed:
        # What begins like a formula isn't one: spreadsheets would run what a tenant called a queue.
        shown = f"'{name}" if name[:1] in ("=", "+", "-", "@") else name
        writer.writerow((format_time(hour), shown, *(_gpu_hours(getattr(account, field)) for field in _FIELDS)))


def _lines(found: Ledger, listed: list[tuple[int, str, Account]], by: str, *, hours: bool) -> Iterator[Text | str]:
    from bosket.scheduler.answers.ledger import Account

    total, by_name = Account(), dict[str, Account]()
    for _, name, account in listed:
        total.add(account)
        by_name.setdefault(name, Account()).add(account)
    capacity = sum(found.capacity.values())
    first, last = min(found.capacity), max(found.capacity)
    used = f"{amount(_gpu_hours(total.allocated))} of {amount(_gpu_hours(capacity))} GPU hours were used"
    share = f" ({total.allocated / capacity:.0%})" if capacity else ""
    waited = f", {amount(_gpu_hours(total.idle_waited))} were idle while somebody waited" if by == "queue" else ""
    yield f"{used}{share}{waited}, from {_clock(first)} to {_clock(last + 3600)}"
    yield ""
    columns = [Column(by.upper())] if not hours else [Column("HOUR"), Column(by.upper())]
    shown = _FIELDS if by == "queue" else ("allocated", "lost")
    leaves = {"down": 1, "held": 2, "lost": 3, "idle": 4}
    columns += [
        Column(_TITLES.get(field, field.upper()), is_number=True, leaves=leaves.get(field, 0)) for field in shown
    ]
    rows = listed if hours else [(0, name, account) for name, account in sorted(by_name.items())]
    made = [
        Row([*([_clock(hour)] if hours else []), name or _NOBODY, *(_cell(account, field) for field in shown)])
        for hour, name, account in rows
    ]
    yield from lines(columns, made, line_width(ViewFlags()))


def _cell(account: Account, field: str) -> str:
    value = getattr(account, field)
    return amount(_gpu_hours(value)) if value else ""


def _gpu_hours(units: int) -> float:
    from bosket.scheduler.answers.ledger import UNITS_PER_HOUR

    return units / UNITS_PER_HOUR


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
