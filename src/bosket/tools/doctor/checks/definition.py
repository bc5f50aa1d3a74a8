"""Definitions of our kinds: there, served in the version that we speak, with the fields that we read and write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from bosket.api.apiextensions import CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps
from bosket.api.crd import crd_manifest
from bosket.api.kai import RESOURCES
from bosket.api.resource import AnyResource
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

_INSTALL = "bosket crds --install"


def check(installation: Installation) -> Iterator[Finding]:
    """Definitions that are missing, not served, or older than what services need."""
    definitions = {each.metadata.name: each for each in installation.bundle.of(CustomResourceDefinition)}
    for resource in RESOURCES:
        definition = definitions.get(resource.group_resource)
        if definition is None:
            yield Finding(
                "crd-missing",
                Severity.ERROR,
                f"CustomResourceDefinition {resource.group_resource}",
                "",
                f"the definition of {resource.kind} isn't installed, without which no service works",
                "install the definitions",
                _INSTALL,
            )
        else:
            yield from _check_definition(definition, resource)


def _check_definition(definition: CustomResourceDefinition, resource: AnyResource) -> Iterator[Finding]:
    name = named(definition)
    conditions = {each.type: each for each in definition.status.conditions or ()}
    established = conditions.get("Established")
    if established is not None and established.status != "True":
        refused = conditions.get("NamesAccepted")
        reason = refused.message if refused is not None and refused.status != "True" else established.message
        yield Finding(
            "crd-not-established",
            Severity.ERROR,
            name,
            "status.conditions[Established]",
            f"the cluster doesn't serve {resource.kind}: {reason or established.reason}",
            "look at what stands against it, such as another definition with the same names",
            f"kubectl describe crd {definition.metadata.name}",
        )
    version = next((each for each in definition.spec.versions if each.name == resource.version), None)
    if version is None or not version.served:
        served = some(each.name for each in definition.spec.versions if each.served) or "none"
        yield Finding(
            "crd-version-missing",
            Severity.ERROR,
            name,
            "spec.versions",
            f"{resource.kind} isn't served in version {resource.version}, which all services use (served: {served})",
            "install the definitions that go with this version of Bosket",
            _INSTALL,
        )
        return
    if "status" in resource.subresources and (version.subresources is None or version.subresources.status is None):
        yield Finding(
            "crd-status-missing",
            Severity.ERROR,
            name,
            f"spec.versions[{version.name}].subresources.status",
            f"{resource.kind} has no status subresource, so what services say of it is lost",
            "install the definitions that go with this version of Bosket",
            _INSTALL,
        )
    lacking = list(_lacking(version, resource))
    if lacking:
        yield Finding(
            "crd-fields-missing",
            Severity.WARNING,
            name,
            f"spec.versions[{version.name}].schema",
            f"the schema lacks {counted(len(lacking), 'field')} that services read or write, and the cluster drops "
            f"what is written there: {some(lacking)}",
            "install the definitions that go with this version of Bosket",
            _INSTALL,
        )


def _lacking(version: CustomResourceDefinitionVersion, resource: AnyResource) -> Iterator[str]:
    """Paths of fields that our own schema has and theirs doesn't."""
    if version.schema is None or version.schema.openAPIV3Schema is None:
        return
    yield from _compare(own_schema(resource), version.schema.openAPIV3Schema, "")


@cache
def own_schema(resource: AnyResource) -> Mapping[str, Any]:
    """The schema of the definition that Bosket installs."""
    schema: Mapping[str, Any] = crd_manifest(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _compare(wanted: Mapping[str, Any], found: JSONSchemaProps, path: str) -> Iterator[str]:
    if found.x_kubernetes_preserve_unknown_fields:
        return
    for name, schema in wanted.get("properties", {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        below = found.properties.get(name)
        if below is None:
            if not isinstance(found.additionalProperties, JSONSchemaProps):
                yield f"{path}.{name}".removeprefix(".")
            continue
        yield from _compare(schema, below, f"{path}.{name}")
    if isinstance(wanted.get("items"), dict) and isinstance(found.items, JSONSchemaProps):
        yield from _compare(wanted["items"], found.items, f"{path}[]")
    if isinstance(wanted.get("additionalProperties"), dict) and isinstance(found.additionalProperties, JSONSchemaProps):
        yield from _compare(wanted["additionalProperties"], found.additionalProperties, f"{path}.*")
