"""A real Prometheus on loopback, with a history that is as long as a test wants it.

    with Prometheus(find_prometheus(), folder, history) as prometheus:
        ask(prometheus.url)

The binaries are those on PATH, or in the user's cache, where `python -m tests.controlplane build` unpacks Debian's
package, without installing it. All files are in `folder`. A Prometheus that was stopped starts again at the same
address, with all that it knew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.controlplane.assets import cache_folder
from tests.controlplane.build import BuildFailed
from tests.controlplane.plane import HOST, free_ports
from tests.controlplane.process import Component, ComponentFailed, Health

PROGRAMS: Final = ("prometheus", "promtool")
_BACKFILL: Final = ("tsdb", "create-blocks-from", "openmetrics")
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0


def find_prometheus(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder with the programs, or None if they have to be fetched."""
    on_path = shutil.which(PROGRAMS[0], path=environment.get("PATH"))
    for folder in (Path(on_path).parent if on_path else None, _cached(environment)):
        if folder is not None and all(os.access(folder / name, os.X_OK) for name in PROGRAMS):
            return folder
    return None


def obtain_prometheus(say: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the programs, fetched if need be; raises `BuildFailed`."""
    found = find_prometheus(environment)
    if found is not None:
        return found
    target = _cached(environment)
    say(f"fetching Prometheus into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="prometheus.", dir=target.parent) as text:
        folder = Path(text)
        try:
            _run(["apt-get", "download", "prometheus"], folder)
            (package,) = folder.glob("prometheus_*.deb")
            _run(["dpkg-deb", "-x", package, folder / "unpacked"], folder)
        except ComponentFailed as failure:
            hint = "it can't be had as Debian's package; put prometheus and promtool on PATH instead"
            raise BuildFailed(f"{failure}: {hint}") from failure
        shutil.rmtree(target, ignore_errors=True)
        (folder / "unpacked" / "usr" / "bin").rename(target)
    return target


def _cached(environment: Mapping[str, str]) -> Path:
    return cache_folder(environment).with_name("prometheus")


def _run(command: list[str | Path], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise ComponentFailed(f"{command[0]} failed: {said.strip()}") from error


class Prometheus:
    """Starts on entry, stops on exit. `history` is text in the OpenMetrics format, with times; `targets` are addresses
    (`host:port`) whose /metrics it asks for every second."""

    def __init__(self, programs: Path, folder: Path, history: str = "", targets: Sequence[str] = ()) -> None:
        self._programs, self._folder, self._history, self._targets = programs, folder, history, targets
        (self._port,) = free_ports(1)
        self.url = f"http://{HOST}:{self._port}"
        self._component: Component | None = None

    def __enter__(self) -> Self:
        self._write_history()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        flags = [
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={HOST}:{self._port}",
        ]
        health = Health(f"{self.url}/-/ready")
        command: list[str | Path] = [self._programs / "prometheus", *flags]
        self._component = Component.start("prometheus", command, self._folder, health)
        self._component.wait_healthy(_START_SECONDS)

    def stop(self) -> None:
        if self._component is not None:
            self._component.stop(_STOP_SECONDS)
            self._component = None

    def _write_history(self) -> None:
        scrape = f"scrape_configs: [{{job_name: bosket, static_configs: [{{targets: {json.dumps(self._targets)}}}]}}]"
        interval = "1s" if self._targets else "1h"
        limit = "scrape_timeout: 1s, " if self._targets else ""
        text = f"global: {{{limit}scrape_interval: {interval}}}\n{scrape if self._targets else ''}\n"
        (self._folder / "prometheus.yml").write_text(text)
        if not self._history:
            return
        source = self._folder / "history.txt"
        source.write_text(self._history)
        _run([self._programs / "promtool", *_BACKFILL, source, self._folder / "data"], self._folder)
