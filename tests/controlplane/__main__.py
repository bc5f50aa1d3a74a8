"""The control plane by hand.

python -m tests.controlplane build               obtain the binaries, Helm, those of Prometheus, others' definitions
python -m tests.controlplane path                the folder they are in
python -m tests.controlplane up [--scheduler]    start it, leave it running, say where its kubeconfig is
python -m tests.controlplane down                stop it
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.assets import cache_folder, find, obtain
from tests.controlplane.build import BuildFailed
from tests.controlplane.helm import obtain_helm
from tests.controlplane.other_schedulers import obtain_files
from tests.controlplane.plane import ControlPlane, Options
from tests.controlplane.process import ComponentFailed, stop_recorded
from tests.controlplane.prometheus import obtain_prometheus


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description="A real control plane, by hand.")
    parser.add_argument("command", choices=("build", "path", "up", "down"))
    parser.add_argument("--folder", type=Path, default=cache_folder() / "run", help="where its state is kept")
    parser.add_argument("--scheduler", action="store_true", help="up: with kube-scheduler")
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "build":
                print(obtain(_say))
                print(obtain_helm(_say))
                _try(obtain_prometheus)
                _try(obtain_files)
            case "path":
                return _path()
            case "up":
                _up(arguments.folder.absolute(), Options(kube_scheduler=arguments.scheduler))
            case "down":
                _down(arguments.folder.absolute())
    except (BuildFailed, ComponentFailed) as failure:
        _say(str(failure))
        return 1
    return 0


def _try(obtain_more: Callable[[Callable[[str], None]], Path]) -> None:
    """Only some tests need it, and they say so: the others are no worse off without."""
    try:
        print(obtain_more(_say))
    except BuildFailed as failure:
        _say(str(failure))


def _path() -> int:
    folder = find(_say)
    if folder is None:
        _say("not built yet: python -m tests.controlplane build")
        return 1
    print(folder)
    return 0


def _up(folder: Path, options: Options) -> None:
    binaries = obtain(_say)
    _down(folder)
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    plane = ControlPlane(binaries, folder, options)
    plane.start()
    _say(f"up in {time.monotonic() - started:.1f} s; logs and keys are in {folder}")
    print(f"export KUBECONFIG={plane.kubeconfig()} PATH={binaries}:$PATH")


def _down(folder: Path) -> None:
    for pid_file in sorted(folder.glob("*.pid"), reverse=True):  # etcd last
        if stop_recorded(pid_file, grace_seconds=5):
            _say(f"stopped {pid_file.stem}")
        pid_file.unlink()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
