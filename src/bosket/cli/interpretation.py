"""Arguments of `bosket run` as options of a service, without running it.

`bosket up` follows a Config and SchedulingShards as the operator would deploy them: by the arguments of Deployments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bosket.cli.output import UsageError


def interpret(service: str, arguments: Sequence[str], configuration: str = "") -> object | None:
    """The options of a service that is started with these arguments; None for its default ones.

    `configuration`: the text of the scheduler's file. Raises `ValueError` with a sentence for what can't be followed.
    """
    from cyclopts import CycloptsError

    from bosket.cli.main import app
    from bosket.cli.run import service_options

    try:
        _, bound, _ = app.parse_args(["run", service, *arguments], print_error=False, exit_on_error=False)
        options = service_options([service], bound.arguments).get(service)
    except CycloptsError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except UsageError as error:
        raise ValueError(str(error)) from error
    if not configuration:
        return options

    from bosket.scheduler.configuration_watch import checked_configuration
    from bosket.scheduler.options import Options

    scheduler = options if isinstance(options, Options) else Options()
    settings = scheduler.configuration.settings
    return replace(scheduler, configuration=replace(checked_configuration(configuration), settings=settings))
