"""Rules of a PodCliqueSet's cliques, each by itself and all together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bosket.api.core import Container, PodSpec
from bosket.api.field_error import FieldError, invalid_value, required, too_long
from bosket.api.grove import AutoScalingConfig, PodCliqueSet, PodCliqueSpec, PodCliqueTemplateSpec
from bosket.api.name_rules import label_key_error, label_value_error, subdomain_error
from bosket.grove.admission.sharing_rules import sharing_errors
from bosket.grove.admission.startup_order import order_errors, own_order_errors
from bosket.grove.admission.wording import duplicate_error

EXPLICIT: Final = "CliqueStartupTypeExplicit"
#: What is left of a pod's name for the names that people give; the rest is indices, dashes and a random suffix.
MAX_NAME_CHARACTERS: Final = 45
RESTART_POLICY_WARNING: Final = "restartPolicy will be ignored, it will be set to Always"

_MAX_ANNOTATION_BYTES: Final = 256 * 1024
_ENV_NAME: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_ENV_NAME_RE: Final = re.compile(_ENV_NAME)


def clique_errors(owner: PodCliqueSet, path: str, *, is_new: bool) -> Iterator[FieldError]:
    """All that is wrong with the cliques, but for what is said of schedulers and topology."""
    template = owner.spec.template
    if not template.cliques:
        yield required(path, "at least one PodClique must be defined")
    in_groups = {name for group in template.podCliqueScalingGroups for name in group.cliqueNames}
    for index, clique in enumerate(template.cliques):
        at = f"{path}[{index}]"
        yield from _name_errors(owner, clique, at, is_in_group=clique.name in in_groups)
        yield from _label_errors(clique.labels, f"{at}.labels")
        yield from _annotation_errors(clique.annotations, f"{at}.annotations")
        yield from sharing_errors(clique.resourceSharing, template, f"{at}.resourceSharing")
        yield from _size_errors(clique.spec, f"{at}.spec")
        if template.cliqueStartupType == EXPLICIT:
            yield from own_order_errors(clique, f"{at}.spec")
        if clique.spec.autoScalingConfig is not None:
            yield from _scaling_errors(clique.spec, clique.spec.autoScalingConfig, f"{at}.spec.autoScalingConfig")
        yield from _pod_errors(clique.spec.podSpec, f"{at}.spec.podSpec.spec", is_new=is_new)
    yield from duplicate_error(f"{path}.name", (clique.name for clique in template.cliques))
    yield from duplicate_error(f"{path}.roleName", (clique.spec.roleName or clique.name for clique in template.cliques))


def order_of_cliques_errors(owner: PodCliqueSet, path: str) -> Iterator[FieldError]:
    """What is wrong with the order that cliques declare, where it counts."""
    if owner.spec.template.cliqueStartupType == EXPLICIT:
        yield from order_errors(owner.spec.template.cliques, path)


def warnings_of(owner: PodCliqueSet) -> list[str]:
    """Warnings about a clique that is admitted."""
    cliques = owner.spec.template.cliques
    return [RESTART_POLICY_WARNING for clique in cliques if clique.spec.podSpec.restartPolicy.strip()]


def length_error(set_name: str, clique: str, group: str = "") -> str | None:
    """Why the names are too long for a pod's name, if they are."""
    length = len(set_name) + len(group) + len(clique)
    if length <= MAX_NAME_CHARACTERS:
        return None
    whose = f"PodCliqueSet '{set_name}'" + (f", PodCliqueScalingGroup '{group}'," if group else "")
    return (
        f"combined resource name length {length} exceeds {MAX_NAME_CHARACTERS}-character limit required for pod "
        f"naming. Consider shortening: {whose} or PodClique '{clique}'"
    )


def _name_errors(
    owner: PodCliqueSet, clique: PodCliqueTemplateSpec, path: str, *, is_in_group: bool
) -> Iterator[FieldError]:
    if not clique.name.strip():
        yield required(f"{path}.name", "field cannot be empty")
        return
    if subdomain_error(clique.name):
        yield invalid_value(
            f"{path}.name", clique.name, "invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain"
        )
    too_much = None if is_in_group else length_error(owner.metadata.name, clique.name)
    if too_much:
        yield invalid_value(f"{path}.name", clique.name, too_much)
        yield invalid_value("metadata.name", owner.metadata.name, too_much)


def _label_errors(labels: dict[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        if problem := label_key_error(key):
            yield invalid_value(path, key, problem)
        if problem := label_value_error(value):
            yield invalid_value(path, value, problem)


def _annotation_errors(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    for key in annotations:
        if problem := label_key_error(key.lower()):
            yield invalid_value(path, key, problem)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield too_long(path, _MAX_ANNOTATION_BYTES)


def _size_errors(spec: PodCliqueSpec, path: str) -> Iterator[FieldError]:
    if spec.replicas <= 0:
        yield invalid_value(f"{path}.replicas", spec.replicas, "must be greater than 0")
    field = f"{path}.minAvailable"
    if spec.minAvailable is None:
        yield required(field, "field is required")
        return
    if spec.minAvailable <= 0:
        yield invalid_value(field, spec.minAvailable, "must be greater than 0")
    if spec.minAvailable > spec.replicas:
        yield invalid_value(field, spec.minAvailable, "minAvailable must not be greater than replicas")


def _scaling_errors(spec: PodCliqueSpec, scaling: AutoScalingConfig, path: str) -> Iterator[FieldError]:
    if scaling.minReplicas is None:
        yield required(f"{path}.minReplicas", "field is required")
    else:
        if scaling.minReplicas < (spec.minAvailable or 0):
            message = "must be greater than or equal to podCliqueSpec.minAvailable"
            yield invalid_value(f"{path}.minReplicas", scaling.minReplicas, message)
        if scaling.maxReplicas < scaling.minReplicas:
            message = "must be greater than or equal to podCliqueSpec.minReplicas"
            yield invalid_value(f"{path}.maxReplicas", scaling.maxReplicas, message)
    if scaling.maxReplicas < spec.replicas:
        yield invalid_value(f"{path}.maxReplicas", scaling.maxReplicas, "must be greater than or equal to replicas")


def _pod_errors(spec: PodSpec, path: str, *, is_new: bool) -> Iterator[FieldError]:
    """Pods go where the gang's scheduler puts them.

    Unlike in Grove a node's name is refused in updates too: pods that have one and a gate can't be created, so the
    update would take the old pods away and bring no new ones.
    """
    if is_new and spec.topologySpreadConstraints:
        yield invalid_value(f"{path}.topologySpreadConstraints", spec.topologySpreadConstraints, "must not be set")
    if spec.nodeName.strip():
        yield invalid_value(f"{path}.nodeName", spec.nodeName, "must not be set")
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.initContainers)):
        for index, container in enumerate(containers):
            yield from _variable_errors(container, f"{path}.{kind}[{index}].env")


def _variable_errors(container: Container, path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(container.env):
        if problems := list(_variable_name_problems(variable.name)):
            yield invalid_value(f"{path}[{index}].name", variable.name, "; ".join(problems))
    yield from duplicate_error(path, (variable.name for variable in container.env))


def _variable_name_problems(name: str) -> Iterator[str]:
    if not _ENV_NAME_RE.fullmatch(name):
        yield (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
            "must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for "
            f"validation is '{_ENV_NAME}')"
        )
    if name in (".", ".."):
        yield f"must not be '{name}'"
    elif name.startswith(".."):
        yield "must not start with '..'"
