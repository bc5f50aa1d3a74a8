"""Names of the ConfigMaps that tell a container about its shared GPU, and of the volume made from one.

<owner or pod>-<7 random characters>-shared-gpu     the prefix, kept in an annotation
<prefix>-0, <prefix>-i0                             the map of the first container, of the first init container
<prefix>-0-evar                                     its second map
<prefix>-0-vol                                      the volume: a label of at most 63 characters
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

from bosket.api.core import Pod
from bosket.api.name_rules import LONGEST_LABEL, subdomain_error
from bosket.services.admission.change import ContainerPlace

#: Makes the part of a name that no other pod has.
Suffix = Callable[[], str]

_ENDING: Final = "shared-gpu"
#: Kubernetes' own for generated names: no vowels, no digits that look like letters.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 7
_NOT_IN_LABEL: Final = re.compile("[^a-z0-9-]+")
_random = random.SystemRandom()


def random_suffix() -> str:
    """Seven characters by chance."""
    return "".join(_random.choices(_ALPHABET, k=_SUFFIX_LENGTH))


def config_map_prefix(pod: Pod, place: ContainerPlace, suffix: str) -> str:
    """What the names of a pod's maps begin with: its owner's name or its own, as far as there is room."""
    owners = pod.metadata.ownerReferences
    name = owners[0].name if owners else pod.metadata.name or pod.metadata.generateName
    if subdomain_error(name) is not None:  # an owner of a kind with other rules, or the beginning of a name
        name = _NOT_IN_LABEL.sub("-", name.lower())
    # As much as KAI leaves, so that a name is cut in the same place.
    room = LONGEST_LABEL - len(_ENDING) - len("-vol") - len("-evar") - _SUFFIX_LENGTH - 2 - len(str(place.index)) - 1
    base = name[:room].strip(".-") or "pod"
    return f"{base}-{suffix}-{_ENDING}"


def volume_name(config_map: str) -> str:
    """Of the volume made from a map: a map's name may have dots, a volume's may not."""
    return _NOT_IN_LABEL.sub("-", f"{config_map}-vol".lower()).strip("-")


def prefix_problem(prefix: str, place: ContainerPlace) -> str | None:
    """Why nothing can be called after a prefix that a user gave."""
    config_map = f"{prefix}-{'i' if place.is_init else ''}{place.index}"
    longest = f"{config_map}-evar"
    if subdomain_error(longest) is not None:
        return "no ConfigMap can be called after"
    if len(volume_name(config_map)) > LONGEST_LABEL:
        return f"is too long for the volume that is called after it ({LONGEST_LABEL} characters)"
    return None
