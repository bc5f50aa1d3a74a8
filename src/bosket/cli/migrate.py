"""`bosket migrate`: what would change if Bosket took a cluster over from KAI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

from bosket.cli.bundle import ClusterFlags, read_bundle
from bosket.cli.output import Flag, flush_line, stdout, table
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from rich.console import Console

    from bosket.diagnosis.migration import Plan

_COLUMNS = ("outlook", "object", "field", "what becomes of it", "what to do")
_STYLES = {"needs action": "bold red", "changes": "yellow", "keep": "green"}
#: Beside the outlook stands what it is about.
_INDENT = 14


def migrate(*files: FilePath, cluster: ClusterFlags | None = None, json: Flag = False) -> None:
    """Check a cluster that runs KAI: what stays, what changes, what needs to be done when Bosket takes it over.

    Only reads. Lists every object that matters, and the steps in order.

    Parameters
    ----------
    files
        Instead of a cluster: what kubectl get -o yaml printed, manifests, folders of them, or snapshots (bosket
        snapshot).
    json
        Print everything as one JSON object.
    """
    from bosket.diagnosis.migration import plan_migration

    plan = plan_migration(read_bundle(files, cluster, foreign=True))
    if json:
        import msgspec

        flush_line(msgspec.json.encode(plan.document()).decode())
    else:
        _print(plan)


def _print(plan: Plan) -> None:
    console = stdout()
    version = f"KAI {plan.kai_version} runs" if plan.kai_version else "no service of KAI was found"
    console.print(f"{version} in namespace {plan.namespace}", markup=False)
    if console.is_terminal:
        _print_blocks(console, plan)
    else:
        rows = [
            (each.outlook, each.object, each.field, each.sentence, f"{each.action}: {each.command}".strip(": "))
            for each in plan.items
        ]
        console.print(table("", _COLUMNS, [tuple(map(escape, row)) for row in rows]))
    console.print("\nsteps, in order")
    for number, step in enumerate(plan.steps, start=1):
        console.print(f"{number}. {step.title}: {step.why}", markup=False, soft_wrap=True)
        for command in step.commands:
            console.print(f"   $ {command}", style="dim", markup=False, soft_wrap=True)


def _print_blocks(console: Console, plan: Plan) -> None:
    """What, where and why in lines of their own: commands can be copied, because nothing stands beside them."""
    for item in plan.items:
        style = _STYLES[item.outlook]
        console.print(
            f"[{style}]{item.outlook:<{_INDENT}}[/{style}][bold]{escape(item.object)}[/bold]  "
            f"[dim]{escape(item.field)}[/dim]"
        )
        console.print(Padding(escape(item.sentence), (0, 0, 0, _INDENT), expand=False))
        if item.action:
            console.print(Padding(f"[green]do:[/green] {escape(item.action)}", (0, 0, 0, _INDENT), expand=False))
        if item.command:
            console.print(f"{' ' * _INDENT}$ {item.command}", style="dim", markup=False, soft_wrap=True)
