"""The programs: `bosket up` without the controllers that others bring, and those others.

    with Programs(binaries, folder, prepare) as programs:
        connect(programs.kubeconfig)

All of them are processes of their own, with a log each in `folder`; none gets a setting that it wouldn't have on
another cluster.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bosket.runtime.certificates import make_authority
from tests.controlplane.plane import HOST, free_ports
from tests.controlplane.process import Component, ComponentFailed, Health

#: What kube-controller-manager does in place of the embedded cluster.
CONTROLLERS: Final = ("namespace", "garbage-collector", "job", "replicaset")
CANDIDATES: Final = ("ann", "ben")
SERVER: Final = "bosket"
_NODES: Final = 4
_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 10.0
_HERE: Final = Path(__file__).parent


class Programs:
    """Starts on entry, stops on exit."""

    def __init__(self, binaries: Path, folder: Path, prepare: Callable[[Path], None]) -> None:
        """`prepare` is called with the kubeconfig when the server is there, before the others start."""
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        #: By name; those that were ended on purpose are not in it any more.
        self.running: dict[str, Component] = {}
        self._binaries = binaries
        self._prepare = prepare
        self._authority = make_authority("foreign controllers")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def kill(self, name: str) -> None:
        """End one at once."""
        component = self.running.pop(name)
        component.process.kill()
        component.process.wait()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pair = self._authority.issue("foreign", ips=(HOST,), server=True)
        for name, content in (("server.crt", pair.cert_pem), ("server.key", pair.key_pem)):
            (self.folder / name).touch(mode=0o600)
            (self.folder / name).write_bytes(content)
        self._start_server()
        self._prepare(self.kubeconfig)
        managers, scheduler, operator = free_ports(3)
        chosen = ",".join(f"{each}-controller" for each in CONTROLLERS)
        flags = [f"--controllers={chosen}", "--use-service-account-credentials=true"]
        self._start_kubernetes("kube-controller-manager", managers, flags)
        self._start_kubernetes("kube-scheduler", scheduler, [])
        liveness = f"http://{HOST}:{operator}/healthz"
        kopf = ["-m", "kopf", "run", "--standalone", "--all-namespaces", f"--liveness={liveness}"]
        self._launch("kopf", [sys.executable, *kopf, str(_HERE / "greeter.py")], Health(liveness))
        for name in CANDIDATES:
            # It serves nothing; that it leads or not is seen in the cluster.
            self._launch(name, [sys.executable, str(_HERE / "candidate.py"), name], Health(""))
        for component in self.running.values():
            if component.health.url:
                component.wait_healthy(_START_SECONDS)

    def _start_server(self) -> None:
        flags = ["up", f"--nodes={_NODES}", "--services=none", f"--without={','.join(CONTROLLERS)}"]
        command = Path(sys.executable).with_name("bosket")
        component = self._launch(SERVER, [command, *flags, f"--kubeconfig={self.kubeconfig}"], Health(""))
        deadline = time.monotonic() + _START_SECONDS
        while "\nready\n" not in component.log.read_text():
            if time.monotonic() > deadline:
                raise ComponentFailed(f"{SERVER} is not ready after {_START_SECONDS:.0f} s: see {component.log}")
            with suppress(subprocess.TimeoutExpired):
                code = component.process.wait(0.05)
                raise ComponentFailed(f"{SERVER} ended with code {code}: {component.log.read_text()}")

    def _start_kubernetes(self, name: str, port: int, flags: Sequence[str]) -> None:
        config = self._acting_as(f"system:{name}")
        tls = ssl.create_default_context(cadata=self._authority.cert_pem.decode())
        self._launch(
            name,
            [
                self._binaries / name,
                f"--kubeconfig={config}",
                f"--authentication-kubeconfig={config}",
                f"--authorization-kubeconfig={config}",
                f"--bind-address={HOST}",
                f"--secure-port={port}",
                f"--tls-cert-file={self.folder / 'server.crt'}",
                f"--tls-private-key-file={self.folder / 'server.key'}",
                *flags,
            ],
            Health(f"https://{HOST}:{port}/healthz", tls),
        )

    def _acting_as(self, user: str) -> Path:
        """A kubeconfig with the rights of that user only, as the program has on any cluster."""
        config = json.loads(self.kubeconfig.read_text())
        config["users"][0]["user"]["as"] = user
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def _launch(self, name: str, command: Sequence[str | Path], health: Health) -> Component:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PYTHONUNBUFFERED": "1"}
        component = Component.start(name, command, self.folder, health, environment)
        self.running[name] = component
        return component

    def _stop(self) -> None:
        """The server last: its clients should have nothing to complain about."""
        while self.running:
            _, component = self.running.popitem()
            component.stop(_STOP_SECONDS)
