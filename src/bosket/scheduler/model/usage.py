"""What queues used in the past, as parts of the whole cluster: what the time-based fair share rests on.

Made by `bosket.scheduler.usage`, carried by the snapshot, read by the plugin `proportion`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bosket.api.document import UnreadableDocument, read_json
from bosket.scheduler.model.resource import NOTHING, QueueAmounts


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a window of time, as of one moment."""

    #: by queue name, inner queues with all below them: (GPU, CPU, memory); 1.0 is the whole cluster all the time
    parts: Mapping[str, QueueAmounts] = field(default_factory=dict)
    as_of: float | None = None  #: epoch seconds; None where nobody looked
    source: str = ""  #: where it was found, for people

    def of(self, queue: str) -> QueueAmounts:
        """Of a queue that isn't known nothing was ever used."""
        return self.parts.get(queue, NOTHING)


NO_USAGE: Final = Usage()


class InvalidUsage(ValueError):
    """A document that doesn't say what queues used; the message names the field."""


class _QueueParts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gpu: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0


def usage_from_json(data: bytes, source: str = "") -> Usage:
    """Reads `{"team-a": {"gpu": 0.5, "cpu": 0.1, "memory": 0}}`; what is left out is 0."""
    try:
        document = read_json(data, dict[str, _QueueParts])
    except UnreadableDocument as error:
        raise InvalidUsage(str(error)) from error
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise InvalidUsage(f"{path.rstrip('`').lstrip('.')}: {text}" if path else text) from error
    parts = {}
    for queue, used in document.items():
        for name, value in msgspec.structs.asdict(used).items():
            if not (math.isfinite(value) and value >= 0):
                raise InvalidUsage(f"{queue}.{name} is {value:g}, it must be a part of the cluster, 0 or more")
        parts[queue] = (used.gpu, used.cpu, used.memory)
    return Usage(parts, source=source)
