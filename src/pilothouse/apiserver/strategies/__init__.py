"""What is special about each built-in resource. ``strategy_for`` finds it; most differ only in a few flags.

A kind grows by getting a class of its own in a module here; until then it is stored with generic metadata handling.
"""

import importlib
from functools import cache

from pilothouse.apiserver.resources import built_in
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.custom import CustomStrategy
from pilothouse.apiserver.strategies.judgements import OF_KIND, ONCE

__all__ = ["CustomStrategy", "Strategy", "strategy_for"]

_NO_UNCONDITIONAL_UPDATE = {
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "leases.coordination.k8s.io",
    "runtimeclasses.node.k8s.io",
    "poddisruptionbudgets.policy",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "resourcepoolstatusrequests.resource.k8s.io",
    "storageversionmigrations.storagemigration.k8s.io",
}
_CREATE_ON_UPDATE = {
    "leases.coordination.k8s.io",
    "endpoints",
    "events",
    "events.events.k8s.io",
    "limitranges",
    "services",
    "runtimeclasses.node.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
}
_RETURN_DELETED = {
    "pods",
    "services",
    "serviceaccounts",
    "persistentvolumeclaims",
    "persistentvolumes",
    "namespaces",
    "resourcequotas",
    "podtemplates",
    "customresourcedefinitions.apiextensions.k8s.io",
    "storageclasses.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "resourcepoolstatusrequests.resource.k8s.io",
}
_ORPHAN_BY_DEFAULT = {"jobs.batch", "replicationcontrollers"}
_TRACK_SPEC = {
    "deployments.apps",
    "replicasets.apps",
    "daemonsets.apps",
    "statefulsets.apps",
    "replicationcontrollers",
    "jobs.batch",
    "cronjobs.batch",
    "ingresses.networking.k8s.io",
    "ingressclasses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "csidrivers.storage.k8s.io",
}
_STATUS_KEEPS_USER_METADATA = {
    "volumeattachments.storage.k8s.io",
    "servicecidrs.networking.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourcepoolstatusrequests.resource.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
}
_EMPTY_STATUS = {
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}
_TRACKED = {
    "podtemplates": ("template",),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks",),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("webhooks",),
    "endpointslices.discovery.k8s.io": ("endpoints", "ports", "addressType"),
}

_SPECIAL: dict[str, str] = {
    "pods": "pods:PodStrategy",
    "podtemplates": "workloads:PodTemplateStrategy",
    "replicasets.apps": "workloads:ReplicaSetStrategy",
    "replicationcontrollers": "workloads:ReplicationControllerStrategy",
    "deployments.apps": "workloads:DeploymentStrategy",
    "daemonsets.apps": "workloads:DaemonSetStrategy",
    "statefulsets.apps": "workloads:StatefulSetStrategy",
    "namespaces": "namespaces:NamespaceStrategy",
    "nodes": "nodes:NodeStrategy",
    "events": "events:CoreEventStrategy",
    "events.events.k8s.io": "events:EventStrategy",
    "leases.coordination.k8s.io": "leases:LeaseStrategy",
    "customresourcedefinitions.apiextensions.k8s.io": "definitions:DefinitionStrategy",
    "horizontalpodautoscalers.autoscaling": "autoscalers:AutoscalerStrategy",
    "configmaps": "configuration:ConfigMapStrategy",
    "serviceaccounts": "configuration:AccountStrategy",
    "secrets": "configuration:SecretStrategy",
    "services": "services:ServiceStrategy",
    "certificatesigningrequests.certificates.k8s.io": "certificates:CertificateRequestStrategy",
    "jobs.batch": "jobs:JobStrategy",
    "cronjobs.batch": "jobs:CronJobStrategy",
    "controllerrevisions.apps": "limits:RevisionStrategy",
    "limitranges": "limits:LimitRangeStrategy",
    "resourcequotas": "limits:QuotaStrategy",
    "poddisruptionbudgets.policy": "limits:BudgetStrategy",
    "priorityclasses.scheduling.k8s.io": "limits:PriorityClassStrategy",
    "runtimeclasses.node.k8s.io": "limits:RuntimeClassStrategy",
    "persistentvolumes": "volumes:VolumeStrategy",
    "persistentvolumeclaims": "claims:ClaimStrategy",
    "storageclasses.storage.k8s.io": "storage_kinds:StorageClassStrategy",
    "csidrivers.storage.k8s.io": "storage_kinds:DriverStrategy",
    "csinodes.storage.k8s.io": "storage_kinds:DriverNodeStrategy",
    "csistoragecapacities.storage.k8s.io": "storage_kinds:CapacityStrategy",
    "volumeattachments.storage.k8s.io": "storage_kinds:AttachmentStrategy",
    "volumeattributesclasses.storage.k8s.io": "storage_kinds:AttributesClassStrategy",
    "endpoints": "endpoints:EndpointsStrategy",
    "endpointslices.discovery.k8s.io": "endpoints:SliceStrategy",
    "ingresses.networking.k8s.io": "ingresses:IngressStrategy",
    "ingressclasses.networking.k8s.io": "ingresses:IngressClassStrategy",
    "servicecidrs.networking.k8s.io": "ranges:RangeStrategy",
    "ipaddresses.networking.k8s.io": "ranges:AddressStrategy",
    "networkpolicies.networking.k8s.io": "network_policies:NetworkPolicyStrategy",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": "registrations:MutatingWebhooksStrategy",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "registrations:WebhooksStrategy",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "policies:PolicyStrategy",
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "policies:MutatingPolicyStrategy",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "policies:PolicyBindingStrategy",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": "policies:MutatingPolicyBindingStrategy",
    "apiservices.apiregistration.k8s.io": "api_services:ApiServiceStrategy",
    "roles.rbac.authorization.k8s.io": "rights:RoleStrategy",
    "clusterroles.rbac.authorization.k8s.io": "rights:ClusterRoleStrategy",
    "rolebindings.rbac.authorization.k8s.io": "rights:BindingStrategy",
    "clusterrolebindings.rbac.authorization.k8s.io": "rights:ClusterBindingStrategy",
    "flowschemas.flowcontrol.apiserver.k8s.io": "flow_control:FlowSchemaStrategy",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "flow_control:PriorityLevelStrategy",
    "componentstatuses": "others:ComponentStrategy",
    "deviceclasses.resource.k8s.io": "devices:DeviceClassStrategy",
    "resourceclaims.resource.k8s.io": "devices:ClaimOfDevicesStrategy",
    "resourceclaimtemplates.resource.k8s.io": "devices:ClaimTemplateStrategy",
    "resourceslices.resource.k8s.io": "devices:DeviceSliceStrategy",
    "resourcepoolstatusrequests.resource.k8s.io": "pool_requests:PoolRequestStrategy",
    "storageversionmigrations.storagemigration.k8s.io": "migrations:MigrationStrategy",
}
"""The module and the class; loaded when the first object of the kind is asked for."""


def _class_of(name: str) -> type[Strategy]:
    if name not in _SPECIAL:
        return Strategy
    module, _colon, found = _SPECIAL[name].partition(":")
    made: type[Strategy] = getattr(importlib.import_module(f"{__name__}.{module}"), found)
    return made


@cache
def strategy_for(group: str, resource: str) -> Strategy:
    """The strategy of a built-in resource; one for all servers, it keeps nothing."""
    name = f"{resource}.{group}" if group else resource
    strategy = _class_of(name)()
    strategy.judgements = OF_KIND.get(name, ONCE)
    strategy.unconditional_update = name not in _NO_UNCONDITIONAL_UPDATE
    strategy.create_on_update = name in _CREATE_ON_UPDATE
    strategy.returns_deleted = name in _RETURN_DELETED
    strategy.orphans_by_default = name in _ORPHAN_BY_DEFAULT
    if name in _TRACK_SPEC:
        strategy.tracked = ("spec",)
    elif name in _TRACKED:
        strategy.tracked = _TRACKED[name]
    if name in _STATUS_KEEPS_USER_METADATA:
        strategy.status_keeps = "user metadata"
    if name in _EMPTY_STATUS:
        strategy.empty_status = _EMPTY_STATUS[name]
    strategy.has_status = strategy.has_status or any(
        info.resource == resource and info.group == group and "status" in info.subresources for info in built_in()
    )
    if name == "csidrivers.storage.k8s.io":
        strategy.generation_on_create = False
    return strategy
