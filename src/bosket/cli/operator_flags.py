"""The operator's part of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cyclopts import Group, Parameter

from bosket import __version__
from bosket.cli.service_flags import are_given


@Parameter(name="*", group=Group("Operator", sort_key=15))
@dataclass(frozen=True)
class OperatorFlags:
    """What can be said about the operator.

    Parameters
    ----------
    image
        The image of the services that it deploys, where the Config names no other: repository/name:tag.
    image_pull_secret
        A Secret with which images are pulled, beside those that the Config names.
    """

    image: str = f"bosket:{__version__}"
    image_pull_secret: str = ""


def operator_options(flags: OperatorFlags, services: Iterable[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not are_given(flags, "operator", services):
        return {}

    from bosket.services.operator import Options

    return {"operator": Options(image=flags.image, image_pull_secret=flags.image_pull_secret)}
