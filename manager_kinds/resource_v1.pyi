# Made by scripts/generate-kinds; do not edit.
from datetime import datetime
from typing import Any, Required, TypedDict

from manager.api import Condition, ObjectMeta, Quantity, Resource
from manager_kinds.core_v1 import NodeSelector, NodeSelectorDict
from manager_kinds.factory import Part
from manager_kinds.meta_v1 import ConditionDict, ObjectMetaDict

__all__ = [
    "AllocatedDeviceStatus",
    "AllocatedDeviceStatusDict",
    "AllocationResult",
    "AllocationResultDict",
    "CELDeviceSelector",
    "CELDeviceSelectorDict",
    "CapacityRequestPolicy",
    "CapacityRequestPolicyDict",
    "CapacityRequestPolicyRange",
    "CapacityRequestPolicyRangeDict",
    "CapacityRequirements",
    "CapacityRequirementsDict",
    "Counter",
    "CounterDict",
    "CounterSet",
    "CounterSetDict",
    "Device",
    "DeviceAllocationConfiguration",
    "DeviceAllocationConfigurationDict",
    "DeviceAllocationResult",
    "DeviceAllocationResultDict",
    "DeviceAttribute",
    "DeviceAttributeDict",
    "DeviceCapacity",
    "DeviceCapacityDict",
    "DeviceClaim",
    "DeviceClaimConfiguration",
    "DeviceClaimConfigurationDict",
    "DeviceClaimDict",
    "DeviceClass",
    "DeviceClassConfiguration",
    "DeviceClassConfigurationDict",
    "DeviceClassSpec",
    "DeviceClassSpecDict",
    "DeviceConstraint",
    "DeviceConstraintDict",
    "DeviceCounterConsumption",
    "DeviceCounterConsumptionDict",
    "DeviceDict",
    "DeviceRequest",
    "DeviceRequestAllocationResult",
    "DeviceRequestAllocationResultDict",
    "DeviceRequestDict",
    "DeviceSelector",
    "DeviceSelectorDict",
    "DeviceSubRequest",
    "DeviceSubRequestDict",
    "DeviceTaint",
    "DeviceTaintDict",
    "DeviceToleration",
    "DeviceTolerationDict",
    "ExactDeviceRequest",
    "ExactDeviceRequestDict",
    "NetworkDeviceData",
    "NetworkDeviceDataDict",
    "NodeAllocatableResourceMapping",
    "NodeAllocatableResourceMappingDict",
    "OpaqueDeviceConfiguration",
    "OpaqueDeviceConfigurationDict",
    "ResourceClaim",
    "ResourceClaimConsumerReference",
    "ResourceClaimConsumerReferenceDict",
    "ResourceClaimSpec",
    "ResourceClaimSpecDict",
    "ResourceClaimStatus",
    "ResourceClaimStatusDict",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourceClaimTemplateSpecDict",
    "ResourcePool",
    "ResourcePoolDict",
    "ResourceSlice",
    "ResourceSliceSpec",
    "ResourceSliceSpecDict",
]

class AllocatedDeviceStatus(Part[AllocatedDeviceStatusDict]):
    driver: str
    pool: str
    device: str
    share_id: str | None = None
    conditions: list[Condition] | None = None
    data: dict[str, Any] | None = None
    network_data: NetworkDeviceData | None = None

class AllocatedDeviceStatusDict(TypedDict, total=False):
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    shareID: str
    conditions: list[ConditionDict]
    data: dict[str, Any]
    networkData: NetworkDeviceDataDict

class AllocationResult(Part[AllocationResultDict]):
    devices: DeviceAllocationResult | None = None
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None

class AllocationResultDict(TypedDict, total=False):
    devices: DeviceAllocationResultDict
    nodeSelector: NodeSelectorDict
    allocationTimestamp: str

class CELDeviceSelector(Part[CELDeviceSelectorDict]):
    expression: str

class CELDeviceSelectorDict(TypedDict, total=False):
    expression: Required[str]

class CapacityRequestPolicy(Part[CapacityRequestPolicyDict]):
    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRequestPolicyRange | None = None

class CapacityRequestPolicyDict(TypedDict, total=False):
    default: Quantity
    validValues: list[Quantity]
    validRange: CapacityRequestPolicyRangeDict

class CapacityRequestPolicyRange(Part[CapacityRequestPolicyRangeDict]):
    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None

class CapacityRequestPolicyRangeDict(TypedDict, total=False):
    min: Required[Quantity]
    max: Quantity
    step: Quantity

class CapacityRequirements(Part[CapacityRequirementsDict]):
    requests: dict[str, Quantity] | None = None

class CapacityRequirementsDict(TypedDict, total=False):
    requests: dict[str, Quantity]

class Counter(Part[CounterDict]):
    value: Quantity

class CounterDict(TypedDict, total=False):
    value: Required[Quantity]

class CounterSet(Part[CounterSetDict]):
    name: str
    counters: dict[str, Counter]

class CounterSetDict(TypedDict, total=False):
    name: Required[str]
    counters: Required[dict[str, CounterDict]]

class Device(Part[DeviceDict]):
    name: str
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] | None = None

class DeviceDict(TypedDict, total=False):
    name: Required[str]
    attributes: dict[str, DeviceAttributeDict]
    capacity: dict[str, DeviceCapacityDict]
    consumesCounters: list[DeviceCounterConsumptionDict]
    nodeName: str
    nodeSelector: NodeSelectorDict
    allNodes: bool
    taints: list[DeviceTaintDict]
    bindsToNode: bool
    bindingConditions: list[str]
    bindingFailureConditions: list[str]
    allowMultipleAllocations: bool
    nodeAllocatableResourceMappings: dict[str, NodeAllocatableResourceMappingDict]

class DeviceAllocationConfiguration(Part[DeviceAllocationConfigurationDict]):
    source: str
    requests: list[str] | None = None
    opaque: OpaqueDeviceConfiguration | None = None

class DeviceAllocationConfigurationDict(TypedDict, total=False):
    source: Required[str]
    requests: list[str]
    opaque: OpaqueDeviceConfigurationDict

class DeviceAllocationResult(Part[DeviceAllocationResultDict]):
    results: list[DeviceRequestAllocationResult] | None = None
    config: list[DeviceAllocationConfiguration] | None = None

class DeviceAllocationResultDict(TypedDict, total=False):
    results: list[DeviceRequestAllocationResultDict]
    config: list[DeviceAllocationConfigurationDict]

class DeviceAttribute(Part[DeviceAttributeDict]):
    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None

DeviceAttributeDict = TypedDict(
    "DeviceAttributeDict",
    {
        "int": int,
        "bool": bool,
        "string": str,
        "version": str,
        "ints": list[int],
        "bools": list[bool],
        "strings": list[str],
        "versions": list[str],
    },
    total=False,
)

class DeviceCapacity(Part[DeviceCapacityDict]):
    value: Quantity
    request_policy: CapacityRequestPolicy | None = None

class DeviceCapacityDict(TypedDict, total=False):
    value: Required[Quantity]
    requestPolicy: CapacityRequestPolicyDict

class DeviceClaim(Part[DeviceClaimDict]):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None

class DeviceClaimDict(TypedDict, total=False):
    requests: list[DeviceRequestDict]
    constraints: list[DeviceConstraintDict]
    config: list[DeviceClaimConfigurationDict]

class DeviceClaimConfiguration(Part[DeviceClaimConfigurationDict]):
    requests: list[str] | None = None
    opaque: OpaqueDeviceConfiguration | None = None

class DeviceClaimConfigurationDict(TypedDict, total=False):
    requests: list[str]
    opaque: OpaqueDeviceConfigurationDict

class DeviceClass(Resource, group="resource.k8s.io", version="v1", plural="deviceclasses", namespaced=False):
    """DeviceClass of resource.k8s.io/v1, cluster-scoped."""

    spec: DeviceClassSpecDict = {}

class DeviceClassConfiguration(Part[DeviceClassConfigurationDict]):
    opaque: OpaqueDeviceConfiguration | None = None

class DeviceClassConfigurationDict(TypedDict, total=False):
    opaque: OpaqueDeviceConfigurationDict

class DeviceClassSpec(Part[DeviceClassSpecDict]):
    selectors: list[DeviceSelector] | None = None
    config: list[DeviceClassConfiguration] | None = None
    extended_resource_name: str | None = None

class DeviceClassSpecDict(TypedDict, total=False):
    selectors: list[DeviceSelectorDict]
    config: list[DeviceClassConfigurationDict]
    extendedResourceName: str

class DeviceConstraint(Part[DeviceConstraintDict]):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None

class DeviceConstraintDict(TypedDict, total=False):
    requests: list[str]
    matchAttribute: str
    distinctAttribute: str

class DeviceCounterConsumption(Part[DeviceCounterConsumptionDict]):
    counter_set: str
    counters: dict[str, Counter]

class DeviceCounterConsumptionDict(TypedDict, total=False):
    counterSet: Required[str]
    counters: Required[dict[str, CounterDict]]

class DeviceRequest(Part[DeviceRequestDict]):
    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None

class DeviceRequestDict(TypedDict, total=False):
    name: Required[str]
    exactly: ExactDeviceRequestDict
    firstAvailable: list[DeviceSubRequestDict]

class DeviceRequestAllocationResult(Part[DeviceRequestAllocationResultDict]):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] | None = None

class DeviceRequestAllocationResultDict(TypedDict, total=False):
    request: Required[str]
    driver: Required[str]
    pool: Required[str]
    device: Required[str]
    adminAccess: bool
    tolerations: list[DeviceTolerationDict]
    bindingConditions: list[str]
    bindingFailureConditions: list[str]
    shareID: str
    consumedCapacity: dict[str, Quantity]

class DeviceSelector(Part[DeviceSelectorDict]):
    cel_: CELDeviceSelector | None = None

class DeviceSelectorDict(TypedDict, total=False):
    cel: CELDeviceSelectorDict

class DeviceSubRequest(Part[DeviceSubRequestDict]):
    name: str
    device_class_name: str
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None

class DeviceSubRequestDict(TypedDict, total=False):
    name: Required[str]
    deviceClassName: Required[str]
    selectors: list[DeviceSelectorDict]
    allocationMode: str
    count: int
    tolerations: list[DeviceTolerationDict]
    capacity: CapacityRequirementsDict

class DeviceTaint(Part[DeviceTaintDict]):
    key: str
    value: str | None = None
    effect: str
    time_added: datetime | None = None

class DeviceTaintDict(TypedDict, total=False):
    key: Required[str]
    value: str
    effect: Required[str]
    timeAdded: str

class DeviceToleration(Part[DeviceTolerationDict]):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None

class DeviceTolerationDict(TypedDict, total=False):
    key: str
    operator: str
    value: str
    effect: str
    tolerationSeconds: int

class ExactDeviceRequest(Part[ExactDeviceRequestDict]):
    device_class_name: str
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None

class ExactDeviceRequestDict(TypedDict, total=False):
    deviceClassName: Required[str]
    selectors: list[DeviceSelectorDict]
    allocationMode: str
    count: int
    adminAccess: bool
    tolerations: list[DeviceTolerationDict]
    capacity: CapacityRequirementsDict

class NetworkDeviceData(Part[NetworkDeviceDataDict]):
    interface_name: str | None = None
    ips: list[str] | None = None
    hardware_address: str | None = None

class NetworkDeviceDataDict(TypedDict, total=False):
    interfaceName: str
    ips: list[str]
    hardwareAddress: str

class NodeAllocatableResourceMapping(Part[NodeAllocatableResourceMappingDict]):
    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None

class NodeAllocatableResourceMappingDict(TypedDict, total=False):
    capacityKey: str
    allocationMultiplier: Quantity

class OpaqueDeviceConfiguration(Part[OpaqueDeviceConfigurationDict]):
    driver: str
    parameters: dict[str, Any]

class OpaqueDeviceConfigurationDict(TypedDict, total=False):
    driver: Required[str]
    parameters: Required[dict[str, Any]]

class ResourceClaim(Resource, group="resource.k8s.io", version="v1", plural="resourceclaims"):
    """ResourceClaim of resource.k8s.io/v1."""

    spec: ResourceClaimSpecDict = {}
    status: ResourceClaimStatusDict = {}

class ResourceClaimConsumerReference(Part[ResourceClaimConsumerReferenceDict]):
    api_group: str | None = None
    resource: str
    name: str
    uid: str

class ResourceClaimConsumerReferenceDict(TypedDict, total=False):
    apiGroup: str
    resource: Required[str]
    name: Required[str]
    uid: Required[str]

class ResourceClaimSpec(Part[ResourceClaimSpecDict]):
    devices: DeviceClaim | None = None

class ResourceClaimSpecDict(TypedDict, total=False):
    devices: DeviceClaimDict

class ResourceClaimStatus(Part[ResourceClaimStatusDict]):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None

class ResourceClaimStatusDict(TypedDict, total=False):
    allocation: AllocationResultDict
    reservedFor: list[ResourceClaimConsumerReferenceDict]
    devices: list[AllocatedDeviceStatusDict]

class ResourceClaimTemplate(Resource, group="resource.k8s.io", version="v1", plural="resourceclaimtemplates"):
    """ResourceClaimTemplate of resource.k8s.io/v1."""

    spec: ResourceClaimTemplateSpecDict = {}

class ResourceClaimTemplateSpec(Part[ResourceClaimTemplateSpecDict]):
    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec

class ResourceClaimTemplateSpecDict(TypedDict, total=False):
    metadata: ObjectMetaDict
    spec: ResourceClaimSpecDict

class ResourcePool(Part[ResourcePoolDict]):
    name: str
    generation: int
    resource_slice_count: int

class ResourcePoolDict(TypedDict, total=False):
    name: Required[str]
    generation: Required[int]
    resourceSliceCount: Required[int]

class ResourceSlice(
    Resource, group="resource.k8s.io", version="v1", plural="resourceslices", namespaced=False
):
    """ResourceSlice of resource.k8s.io/v1, cluster-scoped."""

    spec: ResourceSliceSpecDict = {}

class ResourceSliceSpec(Part[ResourceSliceSpecDict]):
    driver: str
    pool: ResourcePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None

class ResourceSliceSpecDict(TypedDict, total=False):
    driver: str
    pool: ResourcePoolDict
    nodeName: str
    nodeSelector: NodeSelectorDict
    allNodes: bool
    devices: list[DeviceDict]
    perDeviceNodeSelection: bool
    sharedCounters: list[CounterSetDict]
