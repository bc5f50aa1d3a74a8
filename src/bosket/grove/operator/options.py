"""Settings of the Grove operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from bosket.api.grove.operator_configuration import OperatorConfiguration


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the Grove operator."""

    configuration: OperatorConfiguration = field(default_factory=OperatorConfiguration)
    #: The image of the init container that waits for those that start before.
    init_container_image: str = "grove-initc:latest"
    #: What it runs there; the image's own entry point, if empty.
    init_container_command: tuple[str, ...] = ()
