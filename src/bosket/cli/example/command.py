"""The command itself: files in, a line for each object and a table of groups out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import UsageError, flush_line, stdout, table
from bosket.cli.path import FilePath, OptionalFilePath

if TYPE_CHECKING:
    from bosket.cli.example.document import Manifest
    from bosket.cli.example.progress import Group

#: Beside the files of examples: definitions of kinds that a cluster may not have.
_DEFINITIONS: Final = "definitions.yaml"


def example(
    *files: FilePath,
    kubeconfig: OptionalFilePath = None,
    context: str | None = None,
    namespace: str = "default",
    timeout: Annotated[float, Parameter(validator=Number(gt=0, lte=3600))] = 60.0,
) -> None:
    """Create workloads with what their operators would make of them, wait until they run, and show their groups.

    For clusters without these operators, such as the embedded one. Kinds that the cluster doesn't know get the
    definitions in definitions.yaml beside the file. What is there already is left as it is.

    Parameters
    ----------
    files
        YAML files of objects. Owner references need no uid, and {0..2} in a document makes a copy for each number.
    kubeconfig
        Which cluster; by default as kubectl finds it.
    context
        A context of the kubeconfig other than the current one.
    namespace
        Where objects go that don't say.
    timeout
        Seconds until all pods must run.
    """
    from bosket.cli.example.document import InvalidExample, read_example

    if not files:
        raise UsageError("which example? they are in examples/kinds")
    try:
        manifests = [each for file in files for each in read_example(file)]
        beside = {file.parent / _DEFINITIONS for file in files}
        definitions = [each for file in sorted(beside) if file.exists() for each in read_example(file)]
    except InvalidExample as error:
        raise UsageError(str(error)) from error
    groups = asyncio.run(_run(manifests, definitions, _Target(kubeconfig, context, namespace), timeout))
    stdout().print(_table(groups))


class _Target(NamedTuple):
    kubeconfig: Path | None
    context: str | None
    namespace: str


async def _run(
    manifests: list[Manifest], definitions: list[Manifest], target: _Target, timeout_seconds: float
) -> list[Group]:
    from bosket.cli.example.progress import wait_until_running
    from bosket.cli.example.submission import Submission, definitions_by_kind
    from bosket.kube.kubeconfig import connect

    client = connect(target.kubeconfig, target.context)
    try:
        submission = Submission(client, target.namespace, definitions_by_kind(definitions))
        await submission.define(manifests)
        for manifest in manifests:
            outcome = "created" if await submission.create(manifest) else "was there"
            flush_line(f"{manifest['kind'].lower()}/{manifest['metadata']['name']} {outcome}")
        return await wait_until_running(client, submission, timeout_seconds, flush_line)
    finally:
        await client.aclose()


def _table(groups: list[Group]) -> object:
    rows = []
    for each in groups:
        spec = each.group.spec
        parts = ", ".join(f"{part.name} {part.minMember}" for part in spec.subGroups if part.minMember is not None)
        rows.append(
            (
                each.group.metadata.name,
                spec.queue,
                spec.priorityClassName,
                str(each.minimum),
                str(len(each.pods)),
                parts,
            )
        )
    columns = ("group", "queue", "priority", "minimum", "running", "parts")
    return table("Pod groups", columns, rows, numbers=("minimum", "running"), texts=("parts",))
