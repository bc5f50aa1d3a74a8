"""Grove's part of the command line: one configuration file for the operator, its webhooks and its backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cyclopts import Group, Parameter

from bosket.cli.admission_flags import is_https
from bosket.cli.grove_process import ProcessSettings, process_settings
from bosket.cli.output import UsageError, complain
from bosket.cli.path import OptionalFilePath

if TYPE_CHECKING:
    from bosket.api.grove.operator_configuration import OperatorConfiguration

_OPERATOR: Final = "grove-operator"
_ADMISSION: Final = "grove-admission"
_BACKENDS: Final = "grove-backends"
_BACKEND_PREFIX: Final = "backend-"


@Parameter(name="*", group=Group("Grove", sort_key=16))
@dataclass(frozen=True)
class GroveFlags:
    """What can be said about Grove's services.

    Parameters
    ----------
    config
        Grove's OperatorConfiguration, a YAML file; what it doesn't say is as by default.
    grove_init_container_image
        The image of init containers that wait for those that start first, whose program is: bosket run grove-initc.
    grove_init_container_command
        What they run, in words that spaces part, if that isn't the entry point of their image.
    grove_webhook_url
        https://HOST:PORT where the API server reaches Grove's webhooks, if not as the service "grove-operator".
    grove_create_webhook_configurations
        Make Grove's webhook configurations where they aren't there; otherwise fill in only those that somebody (the
        chart) made.
    """

    config: OptionalFilePath = None
    grove_init_container_image: str = ""
    grove_init_container_command: str = ""
    grove_webhook_url: str = ""
    grove_create_webhook_configurations: bool = True


@dataclass(frozen=True, slots=True)
class GroveConfiguration:
    """What the file says, to Grove's services and to the process."""

    configuration: OperatorConfiguration
    process: ProcessSettings


def read_configuration(flags: GroveFlags, services: Sequence[str], namespace: str) -> GroveConfiguration | None:
    """None where there is nothing to say to any of Grove's services; raises `UsageError`."""
    keeps_out = not flags.grove_create_webhook_configurations
    for given, flag, service in (
        (flags.grove_webhook_url, "--grove-webhook-url", _ADMISSION),
        (keeps_out, "--no-grove-create-webhook-configurations", _ADMISSION),
        (flags.grove_init_container_image, "--grove-init-container-image", _OPERATOR),
        (flags.grove_init_container_command, "--grove-init-container-command", _OPERATOR),
    ):
        if given and service not in services:
            raise UsageError(f"{flag}: {service} is not among the services that run")
    if flags.grove_webhook_url and not is_https(flags.grove_webhook_url):
        raise UsageError(f"--grove-webhook-url {flags.grove_webhook_url}: not a URL such as https://10.0.0.7:2750")
    if flags == GroveFlags():
        return None
    if not _groves(services):
        raise UsageError("--config: none of Grove's services is among those that run")
    return _read(flags.config, namespace)


def grove_options(
    flags: GroveFlags, services: Sequence[str], configuration: OperatorConfiguration
) -> dict[str, object]:
    """Options by the name of the service."""
    return {name: _options(name, configuration, flags) for name in _groves(services)}


def _groves(services: Sequence[str]) -> list[str]:
    return [name for name in services if name in (_OPERATOR, _ADMISSION, _BACKENDS) or _is_backend(name)]


def _is_backend(name: str) -> bool:
    return name.startswith(_BACKEND_PREFIX)


def _options(name: str, configuration: OperatorConfiguration, flags: GroveFlags) -> object:
    if name == _ADMISSION:
        from bosket.grove.admission import Options as AdmissionOptions

        return AdmissionOptions(
            configuration=configuration,
            url=flags.grove_webhook_url,
            creates_configurations=flags.grove_create_webhook_configurations,
        )
    if name == _OPERATOR:
        from bosket.grove.operator import Options as OperatorOptions

        command = tuple(flags.grove_init_container_command.split())
        options = OperatorOptions(configuration, init_container_command=command)
        image = flags.grove_init_container_image
        return replace(options, init_container_image=image) if image else options
    from bosket.grove.backends import Options as BackendOptions

    return BackendOptions(
        only=name.removeprefix(_BACKEND_PREFIX) if _is_backend(name) else "",
        default_scheduler_name=configuration.scheduler.defaultProfileName,
        max_concurrent_reconciles=configuration.controllers.podGang.concurrentSyncs,
    )


def _read(file: Path | None, namespace: str) -> GroveConfiguration:
    from bosket.api.grove.operator_configuration import SUPPORTED_SCHEDULERS, OperatorConfiguration
    from bosket.api.grove.operator_configuration_file import (
        InvalidOperatorConfiguration,
        operator_configuration_from,
        parse_document,
    )
    from bosket.grove.backends.catalogue import load_backends

    if file is None:
        return GroveConfiguration(OperatorConfiguration(), ProcessSettings())

    def report(problem: str) -> None:
        complain(f"--config {file}: {problem}")

    schedulers = dict.fromkeys((*SUPPORTED_SCHEDULERS, *(backend.scheduler_name for backend in load_backends())))
    try:
        document = parse_document(file.read_text(encoding="utf-8"))
        configuration = operator_configuration_from(document, schedulers=schedulers, report=report)
    except OSError as error:
        raise UsageError(f"--config {file}: can't read it: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--config {file}: not UTF-8") from error
    except InvalidOperatorConfiguration as error:
        raise UsageError(f"--config {file}: {error}") from error
    return GroveConfiguration(configuration, process_settings(configuration, document, namespace, report))
