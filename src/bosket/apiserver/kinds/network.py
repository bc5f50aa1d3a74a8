"""Services and what belongs to them."""

from __future__ import annotations

from itertools import count
from typing import Any

from bosket.api.field_error import FieldError, invalid_value, not_supported, required
from bosket.api.name_rules import label_error
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.store.entry import Doc

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FIRST_NODE_PORT = 30000


def _default(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")


def _validate(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    errors: list[FieldError] = []
    if spec["type"] not in _TYPES:
        errors.append(not_supported("spec.type", spec["type"], _TYPES))
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        errors.append(required("spec.ports"))
    for index, port in enumerate(spec.get("ports", ())):
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            errors.append(invalid_value(f"spec.ports[{index}].port", number, "must be between 1 and 65535, inclusive"))
        if len(spec["ports"]) > 1 and not port.get("name"):
            errors.append(required(f"spec.ports[{index}].name"))
    if old is not None and old["spec"].get("clusterIP") and spec["type"] != "ExternalName":
        before, after = old["spec"]["clusterIP"], spec.get("clusterIP")
        if after != before and old["spec"]["type"] != "ExternalName":
            errors.append(invalid_value("spec.clusterIP", after, "field is immutable"))
    return errors


def behaviours() -> dict[tuple[str, str], Behaviour]:
    """Services; each server gives out addresses of its own."""
    addresses, ports = count(2), count(_FIRST_NODE_PORT)  # the first address is the server's

    def give_address(spec: dict[str, Any]) -> None:
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            number = next(addresses)
            spec["clusterIP"] = f"10.96.{number >> 8 & 255}.{number & 255}"
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for port in spec.get("ports", ()):
                if not port.get("nodePort"):
                    port["nodePort"] = next(ports)

    def prepare_create(doc: Doc) -> None:
        give_address(doc["spec"])
        doc["status"] = {"loadBalancer": {}}

    def prepare_update(new: Doc, old: Doc) -> None:
        for key in ("clusterIP", "clusterIPs"):
            if not new["spec"].get(key) and key in old["spec"]:
                new["spec"][key] = old["spec"][key]
        give_address(new["spec"])

    return {
        ("", "Service"): Behaviour(
            default=_default,
            prepare_create=prepare_create,
            prepare_update=prepare_update,
            validate=_validate,
            validate_name=label_error,
            selectable={
                "spec.clusterIP": lambda doc: doc["spec"].get("clusterIP", ""),
                "spec.type": lambda doc: doc["spec"].get("type", ""),
            },
            returns_deleted=True,
        ),
        ("", "Endpoints"): Behaviour(create_on_update=True),
    }
