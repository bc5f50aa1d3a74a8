"""resource.k8s.io/v1: dynamic resource allocation: devices that nodes offer, claims on them, what was allocated."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.api.core.affinity import NodeSelector
from bosket.api.object import Condition, KubeObject, ObjectMeta, Wire
from bosket.api.quantity import Quantity


class Counter(Wire):
    """An amount of something that devices of a pool share."""

    value: Quantity


class CounterSet(Wire):
    """Counters that devices of a slice draw from together."""

    name: str
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Wire):
    """How much a device takes of the counters of one set."""

    counterSet: str
    counters: dict[str, Counter] = {}
    compatibilityGroups: tuple[str, ...] = ()


class DeviceAttribute(Wire):
    """A typed property of a device: exactly one of its fields is set."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class CapacityRequestPolicyRange(Wire):
    """The amounts of a capacity that may be asked for."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire):
    """Which amounts of a capacity may be asked for, and which is meant where none is."""

    default: Quantity | None = None
    validValues: tuple[Quantity, ...] = ()
    validRange: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire):
    """How much a device has of something, and how it may be shared out."""

    value: Quantity
    requestPolicy: CapacityRequestPolicy | None = None


class DeviceTaint(Wire):
    """Keeps claims off a device that don't tolerate it."""

    key: str
    effect: str
    value: str = ""
    timeAdded: str | None = None


class NodeAllocatableMapping(Wire):
    """How a device's capacity counts as a resource of its node."""

    capacityKey: str | None = None
    capacityMultiplier: Quantity | None = None
    deviceMultiplier: Quantity | None = None


class NodeAllocatableOverhead(Wire):
    """What using a device costs its node."""

    perPod: Quantity | None = None
    perContainer: Quantity | None = None


class NodeAllocatableResource(Wire):
    """A node resource that using a device takes from."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Wire):
    """One device, or a part of one, that can be allocated."""

    name: str
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumesCounters: tuple[DeviceCounterConsumption, ...] = ()
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    bindsToNode: bool | None = None
    bindingConditions: tuple[str, ...] = ()
    bindingFailureConditions: tuple[str, ...] = ()
    allowMultipleAllocations: bool | None = None
    nodeAllocatableResources: dict[str, NodeAllocatableResource] = {}


class ResourcePool(Wire):
    """The pool that a slice belongs to; only slices of its highest generation count."""

    name: str
    generation: int
    resourceSliceCount: int


class ResourceSliceSpec(Wire):
    """Devices of one pool, and the nodes that reach them."""

    driver: str = ""
    pool: ResourcePool | None = None
    nodeName: str | None = None
    nodeSelector: NodeSelector | None = None
    allNodes: bool | None = None
    devices: tuple[Device, ...] = ()
    perDeviceNodeSelection: bool | None = None
    sharedCounters: tuple[CounterSet, ...] = ()
    partitionTypeAttribute: str | None = None
    skipNodeOperations: tuple[str, ...] = ()


class ResourceSlice(KubeObject):
    """Some of the devices that a driver offers."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class CELDeviceSelector(Wire):
    """An expression that is true of the devices wanted."""

    expression: str


class DeviceSelector(Wire):
    """Which devices are wanted."""

    cel: CELDeviceSelector | None = None


class DeviceToleration(Wire):
    """Taints of devices that don't matter."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class CapacityRequirements(Wire):
    """How much of a device's capacities is wanted."""

    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Wire):
    """A number of devices of one class."""

    deviceClassName: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocationMode: str = ""
    count: int = 0
    adminAccess: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derivedAttributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceSubRequest(Wire):
    """One of several ways to serve a request."""

    name: str
    deviceClassName: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocationMode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derivedAttributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Wire):
    """A request, by one description or by the first of several that can be served."""

    name: str
    exactly: ExactDeviceRequest | None = None
    firstAvailable: tuple[DeviceSubRequest, ...] = ()


class DeviceDerivedAttribute(Wire):
    """A property that is computed from those of a device."""

    name: str
    expression: str


class DeviceConstraint(Wire):
    """What the devices of several requests must have in common, or must not."""

    requests: tuple[str, ...] = ()
    matchAttribute: str | None = None
    distinctAttribute: str | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters that only the driver understands."""

    driver: str
    parameters: Any = None


class DeviceClaimConfiguration(Wire):
    """Parameters for the devices of some requests."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    """All requests of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Wire):
    """What is claimed."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Wire):
    """A device that a request got."""

    request: str
    driver: str
    pool: str
    device: str
    adminAccess: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    bindingConditions: tuple[str, ...] = ()
    bindingFailureConditions: tuple[str, ...] = ()
    shareID: str | None = None
    consumedCapacity: dict[str, Quantity] = {}
    skipNodeOperations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Wire):
    """Parameters that an allocation was made with, and where they came from."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    """The devices that a claim got."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Wire):
    """What a claim got, and the nodes where it can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    nodeSelector: NodeSelector | None = None
    allocationTimestamp: str | None = None


class ResourceClaimConsumerReference(Wire):
    """Who may use a claim."""

    resource: str
    name: str
    uid: str
    apiGroup: str = ""


class NetworkDeviceData(Wire):
    """The network identity of a device."""

    interfaceName: str = ""
    ips: tuple[str, ...] = ()
    hardwareAddress: str = ""


class AllocatedDeviceStatus(Wire):
    """What a driver reports about a device that was allocated."""

    driver: str
    pool: str
    device: str
    shareID: str | None = None
    conditions: tuple[Condition, ...] | None = ()
    data: Any = None
    networkData: NetworkDeviceData | None = None


class ResourceClaimStatus(Wire):
    """The allocation of a claim, and its users."""

    allocation: AllocationResult | None = None
    reservedFor: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(KubeObject):
    """A claim on devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Wire):
    """What claims made from a template look like."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject):
    """Makes a claim for each pod that names it."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassConfiguration(Wire):
    """Parameters that come with a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire):
    """Which devices are in a class, and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extendedResourceName: str | None = None


class DeviceClass(KubeObject):
    """A name for a sort of devices."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(Wire):
    """The devices that a rule taints."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire):
    """Which taint for which devices."""

    deviceSelector: DeviceTaintSelector | None = None
    taint: DeviceTaint | None = None


class DeviceTaintRuleStatus(Wire):
    """How far a rule has come."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(KubeObject):
    """Taints devices from outside their driver."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()
