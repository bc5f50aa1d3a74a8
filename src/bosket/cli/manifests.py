"""`bosket manifests`: everything that installs Bosket on a cluster, as YAML."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from bosket.cli.output import CommandError, Flag, flush_line
from bosket.cli.path import FilePath


def manifests(
    *,
    values: Annotated[tuple[FilePath, ...], Parameter(name=("--values", "-f"), negative=())] = (),
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    namespace: Annotated[str, Parameter(name=("--namespace", "-n"))] = "kai-scheduler",
    create_namespace: Flag = False,
    skip_crds: Flag = False,
) -> None:
    """Print what the Helm chart renders, without Helm.

    Parameters
    ----------
    values
        A file of values, as for the chart; of several, the last has the last word.
    set_
        One value, over those in files: --set global.registry=registry.example.com
    namespace
        Where the services will live.
    create_namespace
        With that namespace.
    skip_crds
        Without the CustomResourceDefinitions, for clusters where somebody else installs them.
    """
    from bosket.install.chart import as_yaml, manifests, namespace_manifest
    from bosket.install.values import InvalidValues, Values, overlaid, parse_set, read_values

    given: Values = {}
    try:
        for path in values:
            given = overlaid(given, read_values(path.read_bytes(), str(path)))
        for each in set_:
            given = overlaid(given, parse_set(each))
        objects = manifests(given, namespace, definitions=not skip_crds)
    except InvalidValues as error:
        raise CommandError(str(error)) from error
    flush_line(as_yaml([*([namespace_manifest(namespace)] if create_namespace else ()), *objects]).rstrip())
