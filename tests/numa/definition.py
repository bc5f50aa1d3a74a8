"""The definition of NodeResourceTopology, as its project installs it."""

from __future__ import annotations

import msgspec

from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.crd import crd_manifest
from bosket.api.node_topology import RESOURCES


def definition() -> CustomResourceDefinition:
    manifest = crd_manifest(RESOURCES[0])
    # Kubernetes asks this of groups that end in k8s.io.
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1870"}
    manifest["metadata"]["annotations"] = approved
    return msgspec.convert(manifest, CustomResourceDefinition)
