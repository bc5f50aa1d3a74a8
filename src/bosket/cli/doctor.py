"""`bosket doctor`: what is wrong with a cluster, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

from bosket.cli.bundle import ClusterFlags, read_bundle
from bosket.cli.output import CommandError, Flag, flush_line, stdout, table
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from rich.console import Console

    from bosket.diagnosis import Diagnosis

_COLUMNS = ("severity", "object", "field", "what is wrong", "how to mend it")
#: Beside the severity stands what it is about.
_INDENT = 9
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def doctor(*files: FilePath, cluster: ClusterFlags | None = None, json: Flag = False) -> None:
    """Check the installation, queues, shards, rights, capacity and workloads of a cluster; says what to change.

    Only reads. Ends with 0 when nothing keeps the cluster from working, with 1 when there are errors.

    Parameters
    ----------
    files
        Instead of a cluster: what kubectl get -o yaml printed, manifests, folders of them, or snapshots (bosket
        snapshot). Checks that need what isn't in them are left out, and named.
    json
        Print everything as one JSON object.
    """
    from bosket.diagnosis import Severity, diagnose

    diagnosis = diagnose(read_bundle(files, cluster))
    if json:
        import msgspec

        flush_line(msgspec.json.encode(diagnosis.document()).decode())
    else:
        _print(diagnosis)
    errors = diagnosis.count(Severity.ERROR)
    if errors:
        raise CommandError(f"{errors} of {len(diagnosis.findings)} findings are errors")


def _print(diagnosis: Diagnosis) -> None:
    console = stdout()
    if not diagnosis.findings:
        console.print("nothing is wrong")
    elif console.is_terminal:
        _print_blocks(console, diagnosis)
    else:
        rows = [
            (each.severity, each.object, each.field, each.problem, f"{each.remedy}: {each.command}".removesuffix(": "))
            for each in diagnosis.findings
        ]
        console.print(table("", _COLUMNS, [tuple(map(escape, row)) for row in rows]))
    for name, kinds in diagnosis.not_checked.items():
        console.print(f"not checked: {name} (there is no {', '.join(kinds)} to read)", style="dim", markup=False)


def _print_blocks(console: Console, diagnosis: Diagnosis) -> None:
    """What, where, why and how in lines of their own: commands can be copied, because nothing stands beside them."""
    for finding in diagnosis.findings:
        style, indent = _STYLES[finding.severity], " " * _INDENT
        console.print(
            f"[{style}]{finding.severity:<{_INDENT}}[/{style}][bold]{escape(finding.object)}[/bold]  "
            f"[dim]{escape(finding.field)}[/dim]"
        )
        console.print(Padding(escape(finding.problem), (0, 0, 0, _INDENT), expand=False))
        console.print(Padding(f"[green]mend:[/green] {escape(finding.remedy)}", (0, 0, 0, _INDENT), expand=False))
        if finding.command:
            console.print(f"{indent}$ {finding.command}", style="dim", markup=False, soft_wrap=True)
        console.print()
