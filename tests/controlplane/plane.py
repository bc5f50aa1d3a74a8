"""A control plane: etcd, kube-apiserver, kube-controller-manager, kwok and, if wanted, kube-scheduler, on loopback.

    with ControlPlane(binaries, folder) as plane:
        connect(plane.kubeconfig())

The end-to-end tests hold one for a whole session; `python -m tests.controlplane up` leaves one running. All files
(keys, logs, pids, etcd's data) are in `folder`. What it promises when it is up: the API server is ready, controllers
run, kwok serves every Node with the annotation `bosket.dev/simulated: "true"`, and `default` accepts pods.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bosket.runtime.certificates import Authority, make_authority
from tests.controlplane.process import Component, ComponentFailed, Health

HOST: Final = "127.0.0.1"
_STAGES: Final = Path(__file__).parent / "stages.yaml"
#: Of writes who, what and with which answer, once they are answered; of reads nothing.
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata", "omitManagedFields": True}],
}
_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 5.0
#: Between choosing a free port and listening on it, another process may take it.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Options:
    """What of Kubernetes is switched on."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: APIs that are off by default: {"scheduling.k8s.io/v1beta1": True}.
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    #: Kubernetes' own scheduler, for pods whose schedulerName is `default-scheduler`.
    kube_scheduler: bool = False
    #: Whether the API server notes every write, and by whom, in `ControlPlane.audit_log`.
    audit_writes: bool = False

    def feature_gate_flags(self) -> list[str]:
        return [f"--feature-gates={_switches(self.feature_gates)}"] if self.feature_gates else []

    def runtime_config_flags(self) -> list[str]:
        return [f"--runtime-config={_switches(self.runtime_config)}"] if self.runtime_config else []


def _switches(switches: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in switches.items())


class ControlPlane:
    """Starts on entry, stops on exit."""

    def __init__(self, binaries: Path, folder: Path, options: Options | None = None) -> None:
        self.binaries = binaries
        self.folder = folder
        self.url = ""
        self._options = options or Options()
        self._authority: Authority = make_authority("bosket-controlplane")
        self._components: list[Component] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start()
            except ComponentFailed as failure:
                self.stop()
                if attempt == _ATTEMPTS or "address already in use" not in str(failure):
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """The API server's clients first, etcd last."""
        while self._components:
            self._components.pop().stop(_STOP_SECONDS)

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = ("system:masters",)) -> Path:
        """A file with which a client is that user."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            pair = self._authority.issue(user, organizations=groups, client=True)
            path.touch(mode=0o600)
            path.write_text(json.dumps(self._kubeconfig_of(pair.cert_pem, pair.key_pem), indent=1))
        return path

    def _kubeconfig_of(self, certificate: bytes, key: bytes) -> dict[str, object]:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self._authority.cert_pem)}
        user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        context = {"cluster": "real", "user": "user", "namespace": "default"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "real", "context": context}],
            "current-context": "real",
        }

    @property
    def audit_log(self) -> Path:
        """One line of JSON for each write, if that is switched on."""
        return self._file("audit.log")

    def pids(self) -> dict[str, int]:
        """The running processes, by name."""
        return {each.name: each.process.pid for each in self._components}

    # ── starting ──

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob("*.kubeconfig"):  # of another port
            stale.unlink()
        etcd, peer, api, controllers, scheduler, kwok = free_ports(6)
        self.url = f"https://{HOST}:{api}"
        self._write_keys()
        self._start_etcd(etcd, peer)
        self._start_api_server(api, etcd)
        self._start_controller_manager(controllers)
        if self._options.kube_scheduler:
            self._start_scheduler(scheduler)
        self._start_kwok(kwok)
        for component in self._components:
            component.wait_healthy(_START_SECONDS)
        self._wait_until_pods_are_accepted()

    def _launch(self, name: str, flags: Sequence[str], health: Health) -> Component:
        component = Component.start(name, [self.binaries / name, *flags], self.folder, health)
        self._components.append(component)
        return component

    def _start_etcd(self, port: int, peer_port: int) -> None:
        clients, peers = f"http://{HOST}:{port}", f"http://{HOST}:{peer_port}"
        self._launch(
            "etcd",
            [
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",  # nothing here outlives the machine
                f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--log-level=warn",
            ],
            Health(f"{clients}/health"),
        ).wait_healthy(_START_SECONDS)

    def _start_api_server(self, port: int, etcd_port: int) -> None:
        self._launch(
            "kube-apiserver",
            [
                f"--etcd-servers=http://{HOST}:{etcd_port}",
                f"--bind-address={HOST}",
                f"--advertise-address={HOST}",
                f"--secure-port={port}",
                "--endpoint-reconciler-type=none",  # loopback is no address for the service `kubernetes`
                f"--tls-cert-file={self._file('server.crt')}",
                f"--tls-private-key-file={self._file('server.key')}",
                f"--client-ca-file={self._file('ca.crt')}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self._file('service-account.crt')}",
                f"--service-account-signing-key-file={self._file('service-account.key')}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC",
                "--allow-privileged=true",
                *self._audit_flags(),
                *self._options.feature_gate_flags(),
                *self._options.runtime_config_flags(),
            ],
            Health(f"{self.url}/readyz", self._admin_tls()),
        ).wait_healthy(_START_SECONDS)

    def _audit_flags(self) -> list[str]:
        if not self._options.audit_writes:
            return []
        policy = self._file("audit-policy.json")
        policy.write_text(json.dumps(_AUDIT_POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=1000"]

    def _start_controller_manager(self, port: int) -> None:
        kubeconfig = self.kubeconfig("system:kube-controller-manager", ())
        self._launch(
            "kube-controller-manager",
            [
                *self._secure_serving(port, kubeconfig),
                "--leader-elect=false",
                f"--root-ca-file={self._file('ca.crt')}",
                f"--service-account-private-key-file={self._file('service-account.key')}",
                "--use-service-account-credentials=true",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                # A machine that is busy with tests must not look like nodes that fell silent.
                "--node-monitor-grace-period=5m",
                *self._options.feature_gate_flags(),
            ],
            Health(f"https://{HOST}:{port}/healthz", self._admin_tls()),
        )

    def _start_scheduler(self, port: int) -> None:
        kubeconfig = self.kubeconfig("system:kube-scheduler", ())
        self._launch(
            "kube-scheduler",
            [
                *self._secure_serving(port, kubeconfig),
                "--leader-elect=false",
                *self._options.feature_gate_flags(),
            ],
            Health(f"https://{HOST}:{port}/healthz", self._admin_tls()),
        )

    def _start_kwok(self, port: int) -> None:
        self._launch(
            "kwok",
            [
                f"--kubeconfig={self.kubeconfig('kwok')}",
                "--manage-nodes-with-annotation-selector=bosket.dev/simulated=true",
                f"--config={_STAGES}",
                "--node-lease-duration-seconds=40",
                "--node-ip=172.16.0.1",  # never reached: only to be shown
                "--cidr=10.64.0.0/12",
                f"--server-address={HOST}:{port}",
            ],
            Health(f"http://{HOST}:{port}/healthz"),
        )

    def _secure_serving(self, port: int, kubeconfig: Path) -> list[str]:
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={HOST}",
            f"--secure-port={port}",
            f"--tls-cert-file={self._file('server.crt')}",
            f"--tls-private-key-file={self._file('server.key')}",
        ]

    def _wait_until_pods_are_accepted(self) -> None:
        """The controllers make the service account that a pod in `default` runs as."""
        account = Health(f"{self.url}/api/v1/namespaces/default/serviceaccounts/default", self._admin_tls())
        controllers = next(each for each in self._components if each.name == "kube-controller-manager")
        Component(controllers.name, controllers.process, controllers.log, account).wait_healthy(_START_SECONDS)

    # ── keys ──

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _write_keys(self) -> None:
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        server = self._authority.issue("kube-apiserver", dns=names, ips=(HOST, "10.96.0.1"), server=True)
        admin = self._authority.issue("admin", organizations=("system:masters",), client=True)
        # Any key pair may sign the tokens of service accounts.
        tokens = self._authority.issue("service-accounts", client=True)
        contents = {
            "ca.crt": self._authority.cert_pem,
            "server.crt": server.cert_pem,
            "server.key": server.key_pem,
            "admin.crt": admin.cert_pem,
            "admin.key": admin.key_pem,
            "service-account.crt": tokens.cert_pem,
            "service-account.key": tokens.key_pem,
        }
        for name, content in contents.items():
            self._file(name).touch(mode=0o600)
            self._file(name).write_bytes(content)

    def _admin_tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._authority.cert_pem.decode())
        context.load_cert_chain(self._file("admin.crt"), self._file("admin.key"))
        return context


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
