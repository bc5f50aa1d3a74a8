"""Where the control plane's binaries are.

In this order: the folder that KUBEBUILDER_ASSETS names, if it has all of them; the cache; a build into the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.build import build, missing_binaries
from tests.controlplane.release import RELEASE


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Outside the repository, as the XDG base directories say."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bosket" / "controlplane"


def find(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder with all binaries, or None if they have to be built."""
    given = environment.get("KUBEBUILDER_ASSETS")
    if given:
        missing = missing_binaries(Path(given))
        if not missing:
            return Path(given)
        say(f"KUBEBUILDER_ASSETS={given} has no {', '.join(missing)}: looking elsewhere")
    cached = cache_folder(environment) / RELEASE
    return cached if not missing_binaries(cached) else None


def obtain(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with all binaries, built if need be."""
    return find(say, environment) or build(cache_folder(environment), say)
