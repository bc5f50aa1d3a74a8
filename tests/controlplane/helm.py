"""Helm, for tests that compare its rendering of the chart with ours: built once through the Go module proxy.

The one on PATH is not taken: what is compared should depend on the release that is pinned here alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.controlplane.assets import cache_folder
from tests.controlplane.build import build_one, lock
from tests.controlplane.release import HELM, HELM_BINARY
from tests.controlplane.toolchain import find_go

_MODULE: Final = Path(__file__).parent / "gomod_helm"


def find_helm(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The program, or None if it has to be built."""
    cached = _cached(environment)
    return cached if os.access(cached, os.X_OK) else None


def obtain_helm(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The program, built if need be; raises `BuildFailed`."""
    target = _cached(environment)
    target.parent.mkdir(parents=True, exist_ok=True)
    with lock(target.parent / "build.lock", say):
        if find_helm(environment) is None:
            go = find_go(cache_folder(environment), say)
            say(f"building Helm with {go}: a few minutes the first time")
            with tempfile.TemporaryDirectory(prefix="helm.", dir=target.parent) as folder:
                unfinished = Path(folder) / HELM_BINARY.name
                build_one(go, _MODULE, HELM_BINARY, unfinished, say)
                unfinished.rename(target)
    return target


def _cached(environment: Mapping[str, str]) -> Path:
    return cache_folder(environment).with_name("helm") / f"helm-{HELM}"
