"""Names of Go types, for error texts that name them.

The schema knows structs but not Go's own string types; the ones that people run into are listed here (k8s.io/api
v0.36). Any other string is named ``string``.
"""

from pilothouse.api.schema import Definition, Field, Type

_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "number": "float64",
    "bytes": "[]uint8",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "time": "v1.Time",
    "micro-time": "v1.MicroTime",
    "any": "interface {}",
}

# By struct and field. For lists the name is that of the elements.
_STRINGS = {
    ("Container", "imagePullPolicy"): "v1.PullPolicy",
    ("Container", "restartPolicy"): "v1.ContainerRestartPolicy",
    ("Container", "terminationMessagePolicy"): "v1.TerminationMessagePolicy",
    ("ContainerPort", "protocol"): "v1.Protocol",
    ("CronJobSpec", "concurrencyPolicy"): "v1.ConcurrencyPolicy",
    ("DaemonSetUpdateStrategy", "type"): "v1.DaemonSetUpdateStrategyType",
    ("DeploymentCondition", "status"): "v1.ConditionStatus",
    ("DeploymentCondition", "type"): "v1.DeploymentConditionType",
    ("DeploymentStrategy", "type"): "v1.DeploymentStrategyType",
    ("EmptyDirVolumeSource", "medium"): "v1.StorageMedium",
    ("EphemeralContainer", "imagePullPolicy"): "v1.PullPolicy",
    ("HTTPGetAction", "scheme"): "v1.URIScheme",
    ("JobSpec", "completionMode"): "v1.CompletionMode",
    ("LabelSelectorRequirement", "operator"): "v1.LabelSelectorOperator",
    ("ManagedFieldsEntry", "operation"): "v1.ManagedFieldsOperationType",
    ("NamespaceSpec", "finalizers"): "v1.FinalizerName",
    ("NamespaceStatus", "phase"): "v1.NamespacePhase",
    ("NetworkPolicyPort", "protocol"): "v1.Protocol",
    ("NetworkPolicySpec", "policyTypes"): "v1.PolicyType",
    ("NodeCondition", "status"): "v1.ConditionStatus",
    ("NodeCondition", "type"): "v1.NodeConditionType",
    ("NodeSelectorRequirement", "operator"): "v1.NodeSelectorOperator",
    ("ObjectMeta", "uid"): "types.UID",
    ("OwnerReference", "uid"): "types.UID",
    ("PersistentVolumeClaimSpec", "accessModes"): "v1.PersistentVolumeAccessMode",
    ("PersistentVolumeClaimSpec", "volumeMode"): "v1.PersistentVolumeMode",
    ("PersistentVolumeSpec", "accessModes"): "v1.PersistentVolumeAccessMode",
    ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy"): "v1.PersistentVolumeReclaimPolicy",
    ("PersistentVolumeSpec", "volumeMode"): "v1.PersistentVolumeMode",
    ("PodCondition", "status"): "v1.ConditionStatus",
    ("PodCondition", "type"): "v1.PodConditionType",
    ("PodSpec", "dnsPolicy"): "v1.DNSPolicy",
    ("PodSpec", "preemptionPolicy"): "v1.PreemptionPolicy",
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("PodStatus", "phase"): "v1.PodPhase",
    ("PodStatus", "qosClass"): "v1.PodQOSClass",
    ("Preconditions", "uid"): "types.UID",
    ("Secret", "type"): "v1.SecretType",
    ("ServicePort", "protocol"): "v1.Protocol",
    ("ServiceSpec", "externalTrafficPolicy"): "v1.ServiceExternalTrafficPolicy",
    ("ServiceSpec", "ipFamilies"): "v1.IPFamily",
    ("ServiceSpec", "ipFamilyPolicy"): "v1.IPFamilyPolicy",
    ("ServiceSpec", "sessionAffinity"): "v1.ServiceAffinity",
    ("ServiceSpec", "type"): "v1.ServiceType",
    ("StatefulSetSpec", "podManagementPolicy"): "v1.PodManagementPolicyType",
    ("StatefulSetUpdateStrategy", "type"): "v1.StatefulSetUpdateStrategyType",
    ("Taint", "effect"): "v1.TaintEffect",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("Toleration", "operator"): "v1.TolerationOperator",
    ("TopologySpreadConstraint", "whenUnsatisfiable"): "v1.UnsatisfiableConstraintAction",
}


def string_type(definition: Definition, field: Field) -> str:
    """What a string in this field, or in the list in it, is in Go: ``v1.DNSPolicy``, mostly ``string``."""
    return _STRINGS.get((definition.go_name, field.name), "string")


def name_of(type_: Type, string: str = "string") -> str:
    """The name of a type whose strings are ``string``: ``int32``, ``[]v1.Container``, ``map[string]string``."""
    match type_.name:
        case "list":
            assert type_.element is not None, "a list has elements"
            return "[]" + name_of(type_.element, string)
        case "map":
            assert type_.element is not None, "a map has values"
            # Maps of quantities are the one map type that has a name.
            if type_.element.name == "quantity":
                return "v1.ResourceList"
            return "map[string]" + name_of(type_.element, string)
        case "object":
            return type_.definition.go_type
        case "string":
            return string
        case scalar:
            return _SCALARS[scalar]
