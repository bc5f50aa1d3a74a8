"""Builds the control plane's binaries into the cache, once.

`assets.py` calls `build` when they are missing. Two builds never run at once (a file lock). Binaries are built beside
the folder that has the release's name, which appears when all of them are there: nobody ever sees half a release.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.controlplane.release import BINARIES, RELEASE, Binary
from tests.controlplane.toolchain import find_go

_MODULE: Final = Path(__file__).parent / "gomod"
#: A compiler that is busy says nothing for minutes: say how long it has been, that often.
_REPORT_SECONDS: Final = 20.0


class BuildFailed(Exception):
    """A binary could not be built; Go has said why."""


def build(cache: Path, say: Callable[[str], None]) -> Path:
    """The folder with all binaries, which is made if it isn't there."""
    target = cache / RELEASE
    cache.mkdir(parents=True, exist_ok=True)
    with lock(cache / "build.lock", say):
        if not missing_binaries(target):  # another process has built them while this one waited
            return target
        go = find_go(cache, say)
        say(f"building the control plane with {go}: about ten minutes the first time, on two cores")
        unfinished = Path(tempfile.mkdtemp(prefix=f"{RELEASE}.", dir=cache))
        try:
            for number, binary in enumerate(BINARIES, start=1):
                say(f"[{number}/{len(BINARIES)}] {binary.name}")
                build_one(go, _MODULE, binary, unfinished / binary.name, say)
            shutil.rmtree(target, ignore_errors=True)  # one that somebody took a part of
            unfinished.chmod(0o755)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    say(f"control plane built in {target}")
    return target


def missing_binaries(folder: Path) -> list[str]:
    return [binary.name for binary in BINARIES if not os.access(folder / binary.name, os.X_OK)]


def build_one(go: Path, module: Path, binary: Binary, output: Path, say: Callable[[str], None]) -> None:
    """Builds a program from the versions that the module pins; raises `BuildFailed`."""
    # Proxy, checksum database and caches are as the user has set them; a read-only module is held to its go.sum.
    environment = {"GOTOOLCHAIN": "auto"} | os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", binary.link_flags()]
    started = time.monotonic()
    with subprocess.Popen(
        [go, "build", *flags, "-o", output, binary.package], cwd=module, env=environment, stdin=subprocess.DEVNULL
    ) as process:
        while True:
            try:
                code = process.wait(timeout=_REPORT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"  … {binary.name}: {time.monotonic() - started:.0f} s")
            except BaseException:
                process.terminate()
                raise
    if code != 0:
        raise BuildFailed(f"go build {binary.package} ended with code {code}; its output is above")


@contextmanager
def lock(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Held while the block runs, by one process at a time."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build to finish ({path} is locked)")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
