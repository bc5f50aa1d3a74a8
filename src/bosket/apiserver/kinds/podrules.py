"""Rules for pods and pod templates, on creation and on change."""

from __future__ import annotations

from typing import Any

from bosket.api.field_error import FieldError, duplicate, forbidden_field, invalid_value, not_supported, required
from bosket.api.name_rules import label_error, label_key_error, label_value_error, subdomain_error
from bosket.apiserver.kinds.resourcerules import validate_resources
from bosket.apiserver.store.entry import Doc
from bosket.kube.patch import hash_key

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(new: Doc, old: Doc | None) -> list[FieldError]:
    """All rules for pods."""
    if old is not None:
        return _validate_update(new["spec"], old["spec"])
    spec = new["spec"]
    errors = validate_pod_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        errors.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def validate_pod_spec(spec: dict[str, Any], path: str) -> list[FieldError]:
    """What holds for the spec of a pod and of a template."""
    errors: list[FieldError] = []
    volumes = _validate_volumes(spec.get("volumes", ()), f"{path}.volumes", errors)
    containers = spec.get("containers")
    if not containers:
        errors.append(required(f"{path}.containers"))
    names: set[str] = set()
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key, ())):
            _validate_container(container, f"{path}.{key}[{index}]", names, volumes, errors)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES))
    if spec["dnsPolicy"] not in _DNS_POLICIES:
        errors.append(not_supported(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        errors.append(
            invalid_value(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
        )
    for key in ("nodeName", "schedulerName", "serviceAccountName", "priorityClassName"):
        if (name := spec.get(key)) and (problem := subdomain_error(name)):
            errors.append(invalid_value(f"{path}.{key}", name, problem))
    for key in ("hostname", "subdomain"):
        if (name := spec.get(key)) and (problem := label_error(name)):
            errors.append(invalid_value(f"{path}.{key}", name, problem))
    for key, value in spec.get("nodeSelector", {}).items():
        if problem := label_key_error(key):
            errors.append(invalid_value(f"{path}.nodeSelector", key, problem))
        if problem := label_value_error(value):
            errors.append(invalid_value(f"{path}.nodeSelector", value, problem))
    if tolerations := spec.get("tolerations"):
        _validate_tolerations(tolerations, f"{path}.tolerations", errors)
    _validate_gates(spec.get("schedulingGates", ()), f"{path}.schedulingGates", errors)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        if constraint.get("maxSkew", 0) <= 0:
            where = f"{path}.topologySpreadConstraints[{index}].maxSkew"
            errors.append(invalid_value(where, constraint.get("maxSkew", 0), "must be greater than zero"))
    return errors


def _validate_volumes(volumes: Any, path: str, errors: list[FieldError]) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif problem := label_error(name):
            errors.append(invalid_value(f"{path}[{index}].name", name, problem))
        elif name in names:
            errors.append(duplicate(f"{path}[{index}].name", name))
        if len(volume) > 2:
            extra = sorted(volume.keys() - {"name"})[1]
            errors.append(forbidden_field(f"{path}[{index}].{extra}", "may not specify more than 1 volume type"))
        names.add(name)
    return names


def _validate_container(
    container: dict[str, Any], path: str, names: set[str], volumes: set[str], errors: list[FieldError]
) -> None:
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    elif problem := label_error(name):
        errors.append(invalid_value(f"{path}.name", name, problem))
    elif name in names:
        errors.append(duplicate(f"{path}.name", name))
    names.add(name)
    image = container.get("image", "")
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        errors.append(invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    if container["resources"]:
        errors += validate_resources(container["resources"], f"{path}.resources")
    for index, port in enumerate(container.get("ports", ())):
        _validate_port(port, f"{path}.ports[{index}]", errors)
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            errors.append(required(f"{path}.env[{index}].name"))
    mounted: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            errors.append(required(f"{where}.name"))
        elif mount["name"] not in volumes:
            errors.append(FieldError(f"{where}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"'))
        if not mount.get("mountPath"):
            errors.append(required(f"{where}.mountPath"))
        elif mount["mountPath"] in mounted:
            errors.append(invalid_value(f"{where}.mountPath", mount["mountPath"], "must be unique"))
        mounted.add(mount.get("mountPath", ""))


def _validate_port(port: dict[str, Any], path: str, errors: list[FieldError]) -> None:
    number = port.get("containerPort", 0)
    if not number:
        errors.append(required(f"{path}.containerPort"))
    for key in ("containerPort", "hostPort"):
        if (number := port.get(key)) and not 1 <= number <= 65535:
            errors.append(invalid_value(f"{path}.{key}", number, "must be between 1 and 65535, inclusive"))
    if port["protocol"] not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))


def _validate_tolerations(tolerations: list[dict[str, Any]], path: str, errors: list[FieldError]) -> None:
    for index, toleration in enumerate(tolerations):
        where, operator = f"{path}[{index}]", toleration.get("operator", "")
        if not toleration.get("key") and operator != "Exists":
            errors.append(
                invalid_value(
                    f"{where}.operator",
                    operator,
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            errors.append(not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        if operator == "Exists" and toleration.get("value"):
            errors.append(
                invalid_value(
                    f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
                )
            )
        effect = toleration.get("effect", "")
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            errors.append(
                invalid_value(f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            )


def _validate_gates(gates: Any, path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        if problem := label_key_error(name):
            errors.append(invalid_value(f"{path}[{index}].name", name, problem))
        if name in seen:
            errors.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)


def _validate_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    if new == old:
        return []
    errors: list[FieldError] = []
    gated = bool(old.get("schedulingGates"))
    known_gates = {gate["name"] for gate in old.get("schedulingGates", ())}
    for gate in new.get("schedulingGates", ()):
        if gate.get("name") not in known_gates:
            errors.append(
                forbidden_field(
                    "spec.schedulingGates", f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
                )
            )
    for index, container in enumerate(new.get("containers", ())):
        if not container.get("image"):
            errors.append(required(f"spec.containers[{index}].image"))
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is not None and (after is None or after > before):
        errors.append(
            invalid_value("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
        )
    tolerations = set(map(hash_key, new.get("tolerations", ())))
    if any(hash_key(each) not in tolerations for each in old.get("tolerations", ())):
        errors.append(
            forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    if _fixed_part(new, gated=gated) != _fixed_part(old, gated=gated):
        changed = sorted(
            key for key in new.keys() | old.keys() if new.get(key) != old.get(key) and key not in _CHANGEABLE
        )
        detail = f" (changed: {', '.join(f'spec.{key}' for key in changed)})" if changed else ""
        errors.append(forbidden_field("spec", _IMMUTABLE + detail))
    if gated:
        selector = new.get("nodeSelector", {})
        if any(selector.get(key) != value for key, value in old.get("nodeSelector", {}).items()):
            errors.append(invalid_value("spec.nodeSelector", selector, "only additions are allowed"))
    return errors


_CHANGEABLE = frozenset({"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"})
_CHANGEABLE_WHILE_GATED = _CHANGEABLE | {"nodeSelector", "affinity"}


def _fixed_part(spec: dict[str, Any], *, gated: bool) -> dict[str, Any]:
    changeable = _CHANGEABLE_WHILE_GATED if gated else _CHANGEABLE
    fixed = {key: value for key, value in spec.items() if key not in changeable}
    for key in ("containers", "initContainers"):
        if key in fixed:
            fixed[key] = [{**container, "image": None} for container in fixed[key]]
    return fixed
