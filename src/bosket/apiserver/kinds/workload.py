"""Workloads of the apps group: deployments, replica sets, stateful sets, daemon sets, and replication controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bosket.api.field_error import FieldError, forbidden_field, invalid_value, not_supported, required
from bosket.api.object import LabelSelector
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.podrules import validate_pod_spec
from bosket.apiserver.kinds.podspec import default_pod_spec
from bosket.apiserver.store.entry import Doc
from bosket.kube.selector import InvalidSelector, label_selector

_STATEFUL_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def default_template(spec: dict[str, Any], scheduler_name: str) -> None:
    """Defaults of the pods that a workload makes."""
    template = spec.get("template")
    if template is not None:
        template.setdefault("metadata", {})
        default_pod_spec(template.setdefault("spec", {}), scheduler_name)


def validate_template(
    spec: dict[str, Any], path: str = "spec", *, restart: tuple[str, ...] = ("Always",)
) -> list[FieldError]:
    """Rules for the pods that a workload makes, and for how it knows them again."""
    errors: list[FieldError] = []
    template = spec.get("template")
    if template is None:
        return [required(f"{path}.template")]
    errors += validate_pod_spec(template["spec"], f"{path}.template.spec")
    policy = template["spec"]["restartPolicy"]
    if policy not in restart and policy in ("Always", "OnFailure", "Never"):
        errors.append(not_supported(f"{path}.template.spec.restartPolicy", policy, restart))
    return errors


def validate_selector(spec: dict[str, Any], old: dict[str, Any] | None, path: str = "spec") -> list[FieldError]:
    """The selector is there, matches the template, and stays what it is."""
    selector = spec.get("selector")
    if not selector:
        return [required(f"{path}.selector")]
    errors: list[FieldError] = []
    if old is not None and selector != old.get("selector"):
        errors.append(invalid_value(f"{path}.selector", selector, "field is immutable"))
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels") or {}
    try:
        matches = label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except InvalidSelector as error:
        return [*errors, invalid_value(f"{path}.selector", selector, str(error))]
    if not matches:
        errors.append(
            invalid_value(f"{path}.template.metadata.labels", labels, "`selector` does not match template `labels`")
        )
    return errors


def validate_label_selector(selector: dict[str, Any], path: str) -> list[FieldError]:
    """A label selector can be understood."""
    try:
        label_selector(msgspec.convert(selector, LabelSelector))
    except InvalidSelector as error:
        return [invalid_value(path, selector, str(error))]
    return []


def validate_replicas(spec: dict[str, Any], path: str = "spec") -> list[FieldError]:
    """A number of replicas isn't negative."""
    replicas = spec.get("replicas", 1)
    if replicas < 0:
        return [invalid_value(f"{path}.replicas", replicas, "must be greater than or equal to 0")]
    return []


def _validate_scalable(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    return [
        *validate_replicas(spec),
        *validate_selector(spec, None if old is None else old["spec"]),
        *validate_template(spec),
    ]


def _validate_stateful_set(new: Doc, old: Doc | None) -> list[FieldError]:
    errors = _validate_scalable(new, None)
    if old is not None:
        fixed_new = {key: value for key, value in new["spec"].items() if key not in _STATEFUL_CHANGEABLE}
        fixed_old = {key: value for key, value in old["spec"].items() if key not in _STATEFUL_CHANGEABLE}
        if fixed_new != fixed_old:
            listed = ", ".join(f"'{key}'" for key in _STATEFUL_CHANGEABLE[:-1])
            errors.append(
                forbidden_field(
                    "spec",
                    f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden",
                )
            )
    return errors


def _validate_daemon_set(new: Doc, old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    return [*validate_selector(spec, None if old is None else old["spec"]), *validate_template(spec)]


def _default_deployment(spec: dict[str, Any]) -> None:
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _default_replica_set(spec: dict[str, Any]) -> None:
    spec.setdefault("replicas", 1)


def _default_replication_controller(spec: dict[str, Any]) -> None:
    spec.setdefault("replicas", 1)
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if labels:
        spec.setdefault("selector", labels)


def _default_stateful_set(spec: dict[str, Any]) -> None:
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {"phase": "Pending"})


def _default_daemon_set(spec: dict[str, Any]) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def behaviours(scheduler_name: str) -> dict[tuple[str, str], Behaviour]:
    """The workloads, with the scheduler of templates that name none."""

    def defaults(own: Callable[[dict[str, Any]], None]) -> Callable[[Doc], None]:
        def default(doc: Doc) -> None:
            spec = doc.setdefault("spec", {})
            own(spec)
            default_template(spec, scheduler_name)

        return default

    def workload(own: Callable[[dict[str, Any]], None], validate: Any, **more: Any) -> Behaviour:
        return Behaviour(default=defaults(own), validate=validate, generation=True, **more)

    return {
        ("apps", "Deployment"): workload(_default_deployment, _validate_scalable),
        ("apps", "ReplicaSet"): workload(
            _default_replica_set,
            _validate_scalable,
            selectable={"status.replicas": lambda doc: doc.get("status", {}).get("replicas", 0)},
        ),
        ("apps", "StatefulSet"): workload(_default_stateful_set, _validate_stateful_set),
        ("apps", "DaemonSet"): workload(_default_daemon_set, _validate_daemon_set),
        ("", "ReplicationController"): workload(
            _default_replication_controller,
            _validate_replication_controller,
            default_propagation="Orphan",
        ),
    }


def _validate_replication_controller(new: Doc, _old: Doc | None) -> list[FieldError]:
    spec = new["spec"]
    return [*validate_replicas(spec), *validate_template(spec)]
