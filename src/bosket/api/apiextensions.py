"""apiextensions.k8s.io/v1: kinds that the cluster is taught.

Schemas stay plain JSON: whoever checks objects by them compiles them into something else anyway.
"""

from __future__ import annotations

from typing import Any

from bosket.api.object import KubeObject, Wire


class ConversionServiceReference(Wire):
    """The service of a conversion webhook."""

    namespace: str
    name: str
    path: str | None = None
    port: int | None = None


class ConversionClientConfig(Wire):
    """How to reach a conversion webhook."""

    url: str | None = None
    service: ConversionServiceReference | None = None
    caBundle: str = ""


class WebhookConversion(Wire):
    """A webhook that converts between versions."""

    clientConfig: ConversionClientConfig | None = None
    conversionReviewVersions: tuple[str, ...] = ()


class CustomResourceConversion(Wire):
    """How objects are converted between versions."""

    strategy: str
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionNames(Wire):
    """The names of a kind."""

    plural: str
    kind: str
    singular: str = ""
    shortNames: tuple[str, ...] = ()
    listKind: str = ""
    categories: tuple[str, ...] = ()


class SelectableField(Wire):
    """A field that field selectors may use."""

    jsonPath: str


class CustomResourceColumnDefinition(Wire):
    """A column of kubectl's tables."""

    name: str
    type: str
    jsonPath: str
    format: str = ""
    description: str = ""
    priority: int = 0


class CustomResourceSubresourceStatus(Wire):
    """The status subresource; it has no settings."""


class CustomResourceSubresourceScale(Wire):
    """Where the scale subresource finds its numbers."""

    specReplicasPath: str
    statusReplicasPath: str
    labelSelectorPath: str | None = None


class CustomResourceSubresources(Wire):
    """The subresources of a kind."""

    status: CustomResourceSubresourceStatus | None = None
    scale: CustomResourceSubresourceScale | None = None


class CustomResourceValidation(Wire):
    """The schema of a version."""

    openAPIV3Schema: dict[str, Any] | None = None


class CustomResourceDefinitionVersion(Wire):
    """A version of a kind."""

    name: str
    served: bool
    storage: bool
    deprecated: bool = False
    deprecationWarning: str | None = None
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additionalPrinterColumns: tuple[CustomResourceColumnDefinition, ...] = ()
    selectableFields: tuple[SelectableField, ...] = ()


class CustomResourceDefinitionSpec(Wire):
    """What a kind is called and looks like."""

    group: str = ""
    names: CustomResourceDefinitionNames | None = None
    scope: str = ""
    versions: tuple[CustomResourceDefinitionVersion, ...] = ()
    conversion: CustomResourceConversion | None = None
    preserveUnknownFields: bool = False


class CustomResourceDefinitionCondition(Wire):
    """One observed aspect of a definition."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""
    observedGeneration: int = 0


class CustomResourceDefinitionStatus(Wire):
    """Whether a kind is served."""

    conditions: tuple[CustomResourceDefinitionCondition, ...] | None = ()
    acceptedNames: CustomResourceDefinitionNames | None = None
    storedVersions: tuple[str, ...] | None = ()
    observedGeneration: int = 0


class CustomResourceDefinition(KubeObject):
    """A kind that the cluster is taught."""

    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()
