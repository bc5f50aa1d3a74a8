"""The pod group controller's part of the command line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.cli.service_flags import are_given

NAME: Final = "podgroup-controller"


@Parameter(name="*", group=Group("Pod group controller", sort_key=13))
@dataclass(frozen=True)
class PodGroupControllerFlags:
    """What can be said about the pod group controller.

    Parameters
    ----------
    podgroup_concurrency
        How many pod groups are looked at at the same time.
    """

    podgroup_concurrency: Annotated[int, Parameter(validator=Number(gte=1))] = 10


def podgroup_controller_options(flags: PodGroupControllerFlags, services: Collection[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not are_given(flags, NAME, services):
        return {}

    from bosket.services.podgroup import Options

    return {NAME: Options(max_concurrent_reconciles=flags.podgroup_concurrency)}
