"""`bosket doctor`: what is wrong with a cluster, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bosket.cli.advice import Advice, print_block, print_table
from bosket.cli.bundle import ClusterFlags, read_bundle
from bosket.cli.output import CommandError, Flag, flush_line, stdout
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from bosket.tools.doctor import Diagnosis

_COLUMNS = ("severity", "object", "field", "what is wrong", "how to mend it")
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


class NothingChecked(CommandError):
    """There was nothing to check, or nothing that may be read."""

    exit_code = 3


def doctor(*files: FilePath, cluster: ClusterFlags | None = None, json: Flag = False) -> None:
    """Check the installation, queues, shards, rights, capacity and workloads of a cluster; says what to change.

    Only reads. Ends with 0 when nothing keeps the cluster from working, with 1 when there are errors, and with 3 when
    nothing could be checked: that tells nothing about the cluster.

    Parameters
    ----------
    files
        Instead of a cluster: what kubectl get -o yaml printed, manifests, folders of them, or snapshots (bosket
        snapshot). Checks that need what isn't in them are left out, and named.
    json
        Print everything as one JSON object.
    """
    from bosket.tools.doctor import Severity, diagnose

    diagnosis = diagnose(read_bundle(files, cluster))
    if json:
        import msgspec

        flush_line(msgspec.json.encode(diagnosis.document()).decode())
    else:
        _print(diagnosis)
    if not diagnosis.checked:
        missing = ", ".join(sorted({kind for kinds in diagnosis.not_checked.values() for kind in kinds}))
        raise NothingChecked(f"nothing could be checked, because none of these could be read: {missing}")
    errors = diagnosis.count(Severity.ERROR)
    if errors:
        raise CommandError(f"{errors} of {len(diagnosis.findings)} findings are errors")


def _print(diagnosis: Diagnosis) -> None:
    console = stdout()
    advice = [
        Advice(each.severity, each.object, each.field, each.problem, each.remedy, each.command)
        for each in diagnosis.findings
    ]
    if not advice:
        console.print("nothing is wrong" if diagnosis.checked else "nothing was checked")
    elif console.is_terminal:
        for each in advice:
            print_block(console, each, _STYLES, "mend")
            console.print()
    else:
        print_table(console, _COLUMNS, advice)
    for name, kinds in diagnosis.not_checked.items():
        console.print(f"not checked: {name} (there is no {', '.join(kinds)} to read)", style="dim", markup=False)
