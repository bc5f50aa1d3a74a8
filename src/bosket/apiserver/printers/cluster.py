"""The columns of nodes, namespaces, events, services and other things of a cluster."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.objects.kind import Column
from bosket.apiserver.objects.status_condition import find_condition
from bosket.apiserver.printers.cell import NONE, UNKNOWN, WIDE, at, cell, field, joined, map_text
from bosket.apiserver.printers.table import AGE, NAME, age
from bosket.apiserver.store.entry import Doc

_ROLE_PREFIX = "node-role.kubernetes.io/"
_NOT_APPLICABLE = "N/A"


def _node_status(doc: Doc) -> str:
    ready = find_condition(at(doc, "status.conditions", []), "Ready")
    words = ["Unknown"] if ready is None else ["Ready" if ready.get("status") == "True" else "NotReady"]
    if at(doc, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(doc: Doc) -> str:
    labels = at(doc, "metadata.labels", {})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return joined(sorted(role for role in roles if role))


def _address(kind: str) -> Column:
    def read(doc: Doc) -> str:
        return next((each["address"] for each in at(doc, "status.addresses", ()) if each["type"] == kind), NONE)

    return cell("Internal-IP" if kind == "InternalIP" else "External-IP", read, priority=WIDE)


def _info(name: str, key: str) -> Column:
    return field(name, f"status.nodeInfo.{key}", UNKNOWN, priority=WIDE)


def _last_seen(doc: Doc, now: float) -> str:
    series = at(doc, "series.lastObservedTime")
    first = at(doc, "firstTimestamp") or at(doc, "eventTime")
    last = series or at(doc, "lastTimestamp") or first
    count = at(doc, "series.count") or at(doc, "count", 1)
    if count > 1 and first and last:
        return f"{age(last, now)} (x{count} over {age(first, now)})"
    return age(last, now)


def _first_seen(doc: Doc, now: float) -> str:
    return age(at(doc, "firstTimestamp") or at(doc, "eventTime"), now)


def _event_object(doc: Doc) -> str:
    involved = doc.get("involvedObject") or doc.get("regarding") or {}
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if kind else name


def _event_source(doc: Doc) -> str:
    source = doc.get("source") or {}
    component = source.get("component") or doc.get("reportingComponent", "")
    return ", ".join(each for each in (component, source.get("host", "")) if each)


def _external_ip(doc: Doc) -> str:
    if at(doc, "spec.type") == "ExternalName":
        return str(at(doc, "spec.externalName", NONE))
    addresses = [*at(doc, "spec.externalIPs", ())]
    addresses += [each.get("ip") or each.get("hostname") for each in at(doc, "status.loadBalancer.ingress", ())]
    if not addresses and at(doc, "spec.type") == "LoadBalancer":
        return "<pending>"
    return joined(addresses)


def _ports(doc: Doc) -> str:
    def text(port: dict[str, Any]) -> str:
        number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
        return f"{number}/{port.get('protocol', 'TCP')}"

    return joined([text(port) for port in at(doc, "spec.ports", ())])


def _endpoints(doc: Doc) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in doc.get("subsets", ())
        for address in subset.get("addresses", ())
        for port in subset.get("ports", ())
    ]
    return joined(found if len(found) <= 3 else [*found[:3], f"+ {len(found) - 3} more..."])


def _created(doc: Doc) -> object:
    return doc["metadata"]["creationTimestamp"]


def _data_count(*keys: str) -> Column:
    return cell("Data", lambda doc: sum(len(doc.get(key) or ()) for key in keys))


_EVENT_COLUMNS = (
    Column("Last Seen", _last_seen),
    field("Type", "type", ""),
    field("Reason", "reason", ""),
    cell("Object", _event_object),
    field("Subobject", "involvedObject.fieldPath", "", priority=WIDE),
    cell("Source", _event_source, priority=WIDE),
    cell("Message", lambda doc: (doc.get("message") or doc.get("note") or "").strip()),
    Column("First Seen", _first_seen, priority=WIDE),
    cell("Count", lambda doc: at(doc, "series.count") or at(doc, "count", 1), priority=WIDE),
    Column("Name", NAME.value, format="name", priority=WIDE),
)
_ROLE_REF = cell("Role", lambda doc: f"{at(doc, 'roleRef.kind')}/{at(doc, 'roleRef.name')}")
_RBAC = "rbac.authorization.k8s.io"

COLUMNS = {
    ("", "Node"): (
        NAME,
        cell("Status", _node_status),
        cell("Roles", _roles),
        AGE,
        field("Version", "status.nodeInfo.kubeletVersion", ""),
        _address("InternalIP"),
        _address("ExternalIP"),
        _info("OS-Image", "osImage"),
        _info("Kernel-Version", "kernelVersion"),
        _info("Container-Runtime", "containerRuntimeVersion"),
    ),
    ("", "Namespace"): (NAME, field("Status", "status.phase"), AGE),
    ("", "Event"): _EVENT_COLUMNS,
    ("events.k8s.io", "Event"): _EVENT_COLUMNS,
    ("", "Service"): (
        NAME,
        field("Type", "spec.type"),
        field("Cluster-IP", "spec.clusterIP"),
        cell("External-IP", _external_ip),
        cell("Port(s)", _ports),
        AGE,
        cell("Selector", lambda doc: map_text(at(doc, "spec.selector")), priority=WIDE),
    ),
    ("", "Endpoints"): (NAME, cell("Endpoints", _endpoints), AGE),
    ("", "ConfigMap"): (NAME, _data_count("data", "binaryData"), AGE),
    ("", "Secret"): (NAME, field("Type", "type"), _data_count("data"), AGE),
    ("", "ServiceAccount"): (NAME, cell("Secrets", lambda doc: len(doc.get("secrets", ())), type="integer"), AGE),
    ("coordination.k8s.io", "Lease"): (NAME, field("Holder", "spec.holderIdentity", ""), AGE),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        field("Value", "value", 0, type="integer"),
        field("Global-Default", "globalDefault", False, type="boolean"),
        AGE,
        field("PreemptionPolicy", "preemptionPolicy"),
    ),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        cell("Min Available", lambda doc: str(at(doc, "spec.minAvailable", _NOT_APPLICABLE))),
        cell("Max Unavailable", lambda doc: str(at(doc, "spec.maxUnavailable", _NOT_APPLICABLE))),
        field("Allowed Disruptions", "status.disruptionsAllowed", 0, type="integer"),
        AGE,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (NAME, cell("Created At", _created)),
    (_RBAC, "Role"): (NAME, cell("Created At", _created)),
    (_RBAC, "ClusterRole"): (NAME, cell("Created At", _created)),
    (_RBAC, "RoleBinding"): (NAME, _ROLE_REF, AGE),
    (_RBAC, "ClusterRoleBinding"): (NAME, _ROLE_REF, AGE),
    ("node.k8s.io", "RuntimeClass"): (NAME, field("Handler", "handler"), AGE),
}
