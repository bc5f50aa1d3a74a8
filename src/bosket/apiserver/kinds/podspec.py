"""Defaults of a pod's spec, on pods and in the templates of workloads."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.kinds.resourcerules import canonicalise_resources

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
#: Volume sources whose files get a mode
_MODED_VOLUMES = ("secret", "configMap", "downwardAPI", "projected")
_FILE_MODE = 0o644


def default_pod_spec(spec: dict[str, Any], scheduler_name: str = "default-scheduler") -> None:
    """What every pod spec has in the end, however little was written."""
    spec.setdefault("restartPolicy", "Always")
    if spec.setdefault("terminationGracePeriodSeconds", 30) < 0:
        spec["terminationGracePeriodSeconds"] = 1  # as in Kubernetes: a negative grace is the shortest
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", scheduler_name)
    host_network = spec.get("hostNetwork", False)
    for container in spec.get("containers", ()):
        _default_container(container, host_network=host_network)
    for container in spec.get("initContainers", ()):
        _default_container(container, host_network=host_network)
    for container in spec.get("ephemeralContainers", ()):
        _default_container(container, host_network=host_network)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if overhead := spec.get("overhead"):
        canonicalise_resources({"overhead": overhead})
    if resources := spec.get("resources"):
        canonicalise_resources(resources)
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")


def _default_container(container: dict[str, Any], *, host_network: bool) -> None:
    resources = container.setdefault("resources", {})
    if resources:
        canonicalise_resources(resources)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    if lifecycle := container.get("lifecycle"):
        for handler in lifecycle.values():
            if isinstance(handler, dict):
                _default_http_get(handler)


def _default_probe(probe: dict[str, Any]) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _default_http_get(probe)


def _default_http_get(handler: dict[str, Any]) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _pull_policy(image: str) -> str:
    """An image that names no version, or the latest, is pulled every time."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_volume(volume: dict[str, Any]) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in _MODED_VOLUMES:
        if source in volume:
            volume[source].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    _default_files(volume.get("downwardAPI", {}))
    for source in volume.get("projected", {}).get("sources", ()):
        _default_files(source.get("downwardAPI", {}))
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if claim := volume.get("ephemeral", {}).get("volumeClaimTemplate"):
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _default_files(downward: dict[str, Any]) -> None:
    for item in downward.get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def requests_from_limits(spec: dict[str, Any]) -> None:
    """A container that limits a resource and requests none of it requests its limit. Pods only, not templates."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, quantity in limits.items():
                requests.setdefault(name, quantity)
