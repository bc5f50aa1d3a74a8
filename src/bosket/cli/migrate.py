"""`bosket migrate`: what would change if Bosket took a cluster over from KAI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.cli.advice import Advice, print_block, print_table
from bosket.cli.bundle import ClusterFlags, read_bundle
from bosket.cli.output import Flag, flush_line, stdout
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from bosket.tools.migrate import Plan

_COLUMNS = ("outlook", "object", "field", "what becomes of it", "what to do")
_STYLES = {"needs action": "bold red", "changes": "yellow", "keep": "green"}


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
    from bosket.tools.migrate import plan_migration

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
    advice = [
        Advice(each.outlook, each.object, each.field, each.sentence, each.action, each.command) for each in plan.items
    ]
    if console.is_terminal:
        for each in advice:
            print_block(console, each, _STYLES, "do")
    else:
        print_table(console, _COLUMNS, advice)
    console.print("\nsteps, in order")
    for number, step in enumerate(plan.steps, start=1):
        console.print(f"{number}. {step.title}: {step.why}", markup=False, soft_wrap=True)
        for command in step.commands:
            console.print(f"   $ {command}", style="dim", markup=False, soft_wrap=True)
