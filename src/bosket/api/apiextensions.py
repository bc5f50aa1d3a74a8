"""apiextensions.k8s.io/v1: CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from msgspec import field

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


class ExternalDocumentation(Wire):
    """Where more is written."""

    description: str = ""
    url: str = ""


class ValidationRule(Wire):
    """A rule in CEL about the place in the schema where it stands."""

    rule: str
    message: str = ""
    messageExpression: str = ""
    reason: str | None = None
    fieldPath: str = ""
    optionalOldSelf: bool | None = None


class JSONSchemaProps(Wire):
    """A schema in OpenAPI's dialect, with Kubernetes' additions; not everything that can be said is allowed."""

    id: str = ""
    schema: str = field(name="$schema", default="")
    ref: str | None = field(name="$ref", default=None)
    description: str = ""
    type: str = ""
    format: str = ""
    title: str = ""
    default: Any = None
    maximum: float | None = None
    exclusiveMaximum: bool = False
    minimum: float | None = None
    exclusiveMinimum: bool = False
    maxLength: int | None = None
    minLength: int | None = None
    pattern: str = ""
    maxItems: int | None = None
    minItems: int | None = None
    uniqueItems: bool = False
    multipleOf: float | None = None
    enum: tuple[Any, ...] = ()
    maxProperties: int | None = None
    minProperties: int | None = None
    required: tuple[str, ...] = ()
    items: JSONSchemaProps | tuple[JSONSchemaProps, ...] | None = None
    allOf: tuple[JSONSchemaProps, ...] = ()
    oneOf: tuple[JSONSchemaProps, ...] = ()
    anyOf: tuple[JSONSchemaProps, ...] = ()
    not_: JSONSchemaProps | None = field(name="not", default=None)
    properties: dict[str, JSONSchemaProps] = {}
    additionalProperties: JSONSchemaProps | bool | None = None
    patternProperties: dict[str, JSONSchemaProps] = {}
    dependencies: dict[str, JSONSchemaProps | tuple[str, ...]] = {}
    additionalItems: JSONSchemaProps | bool | None = None
    definitions: dict[str, JSONSchemaProps] = {}
    externalDocs: ExternalDocumentation | None = None
    example: Any = None
    nullable: bool = False
    x_kubernetes_preserve_unknown_fields: bool | None = field(name="x-kubernetes-preserve-unknown-fields", default=None)
    x_kubernetes_embedded_resource: bool = field(name="x-kubernetes-embedded-resource", default=False)
    x_kubernetes_int_or_string: bool = field(name="x-kubernetes-int-or-string", default=False)
    x_kubernetes_list_map_keys: tuple[str, ...] = field(name="x-kubernetes-list-map-keys", default=())
    x_kubernetes_list_type: str | None = field(name="x-kubernetes-list-type", default=None)
    x_kubernetes_map_type: str | None = field(name="x-kubernetes-map-type", default=None)
    x_kubernetes_validations: tuple[ValidationRule, ...] = field(name="x-kubernetes-validations", default=())


class CustomResourceValidation(Wire):
    """The schema of a version."""

    openAPIV3Schema: JSONSchemaProps | None = None


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
