"""Versions that don't go together: of Kubernetes, and of the services among themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bosket.api.apps import Deployment
from bosket.tools.doctor.finding import Finding, Severity, some
from bosket.tools.doctor.installation import Installation

#: From here on webhooks may have match conditions, by which they leave others' pods alone.
_OLDEST: Final = (1, 30)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def check(installation: Installation) -> Iterator[Finding]:
    """A Kubernetes that is too old, and services of several versions."""
    text = installation.bundle.server_version
    found = _VERSION.match(text)
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        yield Finding(
            "kubernetes-old",
            Severity.WARNING,
            f"Kubernetes {text}",
            "",
            f"Kubernetes {text} doesn't know match conditions of webhooks and rules of definitions as Bosket uses them",
            f"use Kubernetes {'.'.join(map(str, _OLDEST))} or newer",
            "kubectl version",
        )
    tags: dict[str, list[str]] = {}
    for deployment in installation.bundle.of(Deployment):
        if deployment.metadata.namespace != installation.namespace:
            continue
        for container in deployment.spec.template.spec.containers:
            tags.setdefault(tag_of(container.image), []).append(deployment.metadata.name)
    if len(tags) > 1:
        versions = "; ".join(f"{tag or 'no tag'}: {some(names)}" for tag, names in sorted(tags.items()))
        yield Finding(
            "versions-mixed",
            Severity.WARNING,
            f"Namespace {installation.namespace}",
            "",
            f"services of different versions run beside each other ({versions})",
            "bring all of them to one version, by the chart or the Config's image tags",
            f"kubectl get deployments -n {installation.namespace} -o wide",
        )


def tag_of(image: str) -> str:
    """The tag of an image; empty where it has none."""
    name = image.rpartition("/")[2].partition("@")[0]
    return name.partition(":")[2]
