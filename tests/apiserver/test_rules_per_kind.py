"""What may not change, and what is wrong with an object, kind by kind (facts from kube-apiserver v1.36.2)."""

from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object
from tests.apiserver.test_every_kind import _KINDS, _made, _root, _sent, _start

from pilothouse.apiserver.resources import ResourceInfo


def _info(kind: str, version: str = "") -> ResourceInfo:
    return next(info for info in _KINDS if info.kind == kind and (not version or info.version == version))


async def _patched(api: Api, kind: str, change: Object, made: Object | None = None) -> Answer:
    await _start(api)
    info = _info(kind)
    obj = _merged(_sent(info), made or {})
    name = (await _made(api, info, obj))["metadata"]["name"]
    return await api.patch(f"{_root(info)}/{name}", change)


async def _posted(api: Api, kind: str, change: Object) -> Answer:
    await _start(api)
    info = _info(kind)
    return await api.post(_root(info), _merged(_sent(info), change))


def _merged(obj: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(obj, dict):
        return change
    result = dict(obj)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(obj.get(name), value)
    return result


FIXED = "field is immutable"


_FIXED: list[tuple[str, Object, str, str]] = [
    ("Deployment", {"spec": {"selector": {"matchLabels": {"z": "y"}}}}, "spec.selector", FIXED),
    ("ReplicaSet", {"spec": {"selector": {"matchLabels": {"z": "y"}}}}, "spec.selector", FIXED),
    ("DaemonSet", {"spec": {"selector": {"matchLabels": {"z": "y"}}}}, "spec.selector", FIXED),
    (
        "StatefulSet",
        {"spec": {"serviceName": "other"}},
        "spec",
        "updates to statefulset spec for fields other than",
    ),
    ("ControllerRevision", {"data": {"z": "y"}}, "data", FIXED),
    ("Job", {"spec": {"completionMode": "Indexed", "completions": 1}}, "spec.completionMode", FIXED),
    ("Job", {"spec": {"completions": 5}}, "spec.completions", FIXED),
    ("Job", {"spec": {"template": {"spec": {"hostNetwork": True}}}}, "spec.template", FIXED),
    ("Secret", {"type": "other"}, "type", FIXED),
    ("EndpointSlice", {"addressType": "IPv6"}, "addressType", FIXED),
    (
        "Node",
        {"spec": {"providerID": "b"}},
        "spec.providerID",
        'node updates may not change providerID except from ""',
    ),
    (
        "PersistentVolume",
        {"spec": {"hostPath": {"path": "/other"}}},
        "spec.persistentvolumesource",
        "spec.persistentvolumesource is immutable after creation",
    ),
    ("PersistentVolume", {"spec": {"volumeMode": "Block"}}, "volumeMode", FIXED),
    ("Job", {"metadata": {"uid": "another"}}, "spec.selector", "`selector` not auto-generated"),
    (
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteMany"]}},
        "spec",
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
    ),
    ("IngressClass", {"spec": {"controller": "example.com/other"}}, "spec.controller", FIXED),
    ("PriorityClass", {"value": 7}, "value", "may not be changed in an update."),
    ("PriorityClass", {"preemptionPolicy": "Never"}, "preemptionPolicy", FIXED),
    ("RuntimeClass", {"handler": "other"}, "handler", FIXED),
    ("StorageClass", {"provisioner": "other"}, "provisioner", FIXED),
    ("StorageClass", {"parameters": {"z": "y"}}, "parameters", FIXED),
    ("StorageClass", {"reclaimPolicy": "Retain"}, "reclaimPolicy", FIXED),
    ("StorageClass", {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode", FIXED),
    ("CSIDriver", {"spec": {"attachRequired": False}}, "spec.attachedRequired", FIXED),
    ("VolumeAttachment", {"spec": {"nodeName": "other"}}, "spec", FIXED),
    (
        "VolumeAttributesClass",
        {"driverName": "other"},
        "driverName",
        "updates to driverName are forbidden.",
    ),
    ("CSIStorageCapacity", {"storageClassName": "other"}, "storageClassName", FIXED),
    ("RoleBinding", {"roleRef": {"name": "other"}}, "roleRef", "cannot change roleRef"),
    ("ClusterRoleBinding", {"roleRef": {"name": "other"}}, "roleRef", "cannot change roleRef"),
    ("ResourceClaim", {"spec": {"devices": {"requests": []}}}, "spec", FIXED),
    ("ServiceCIDR", {"spec": {"cidrs": ["10.77.0.0/24"]}}, "spec.cidrs[0]", FIXED),
]


@pytest.mark.parametrize(
    ("kind", "change", "field", "message"), _FIXED, ids=[f"{kind}: {field} stays" for kind, _, field, _ in _FIXED]
)
async def test_what_may_not_change(api: Api, kind: str, change: Object, field: str, message: str) -> None:
    made = {"spec": {"providerID": "a"}} if kind == "Node" else None
    answer = await _patched(api, kind, change, made)
    assert answer.status == 422, answer.text
    causes = answer.body["details"]["causes"]
    assert any(cause["field"] == field and message in cause["message"] for cause in causes), causes


_WRONG: list[tuple[str, Object, str, str]] = [
    ("Deployment", {"spec": {"selector": None}}, "spec.selector", "FieldValueRequired"),
    ("Deployment", {"spec": {"selector": {"matchLabels": None}}}, "spec.selector", "FieldValueInvalid"),
    ("Deployment", {"spec": {"replicas": -1}}, "spec.replicas", "FieldValueInvalid"),
    ("Deployment", {"spec": {"strategy": {"type": "Other"}}}, "spec.strategy", "FieldValueNotSupported"),
    (
        "Deployment",
        {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "200%"}}}},
        "spec.strategy.rollingUpdate.maxUnavailable",
        "FieldValueInvalid",
    ),
    (
        "DaemonSet",
        {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "FieldValueRequired",
    ),
    (
        "DaemonSet",
        {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}},
        "spec.updateStrategy.rollingUpdate.maxSurge",
        "FieldValueInvalid",
    ),
    ("StatefulSet", {"metadata": {"name": "a.b"}}, "metadata.name", "FieldValueInvalid"),
    ("StatefulSet", {"spec": {"podManagementPolicy": "Other"}}, "spec.podManagementPolicy", "FieldValueInvalid"),
    (
        "ReplicaSet",
        {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
        "spec.template.spec.restartPolicy",
        "FieldValueNotSupported",
    ),
    ("Job", {"spec": {"parallelism": -1}}, "spec.parallelism", "FieldValueInvalid"),
    ("Job", {"spec": {"completionMode": "Indexed", "parallelism": 1}}, "spec.completions", "FieldValueRequired"),
    (
        "Job",
        {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}},
        "spec.template.spec.restartPolicy",
        "FieldValueRequired",
    ),
    ("CronJob", {"spec": {"schedule": "x"}}, "spec.schedule", "FieldValueInvalid"),
    ("CronJob", {"spec": {"timeZone": "Nowhere"}}, "spec.timeZone", "FieldValueInvalid"),
    ("CronJob", {"metadata": {"name": "a" * 53}}, "metadata.name", "FieldValueInvalid"),
    ("CronJob", {"spec": {"concurrencyPolicy": "Other"}}, "spec.concurrencyPolicy", "FieldValueNotSupported"),
    ("ControllerRevision", {"data": None}, "data", "FieldValueRequired"),
    ("ControllerRevision", {"revision": -1}, "revision", "FieldValueInvalid"),
    ("PersistentVolume", {"spec": {"capacity": None}}, "spec.capacity", "FieldValueRequired"),
    ("PersistentVolume", {"spec": {"accessModes": None}}, "spec.accessModes", "FieldValueRequired"),
    ("PersistentVolumeClaim", {"spec": {"accessModes": None}}, "spec.accessModes", "FieldValueRequired"),
    (
        "PersistentVolumeClaim",
        {"spec": {"resources": None}},
        "spec.resources[storage]",
        "FieldValueRequired",
    ),
    ("PersistentVolumeClaim", {"spec": {"volumeMode": "Other"}}, "spec.volumeMode", "FieldValueNotSupported"),
    ("HorizontalPodAutoscaler", {"spec": {"maxReplicas": None}}, "spec.maxReplicas", "FieldValueRequired"),
    (
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"name": None}}},
        "spec.scaleTargetRef.name",
        "FieldValueRequired",
    ),
    (
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
        "spec",
        "FieldValueInvalid",
    ),
    (
        "Ingress",
        {"spec": {"rules": [{"host": "*.a", "http": {"paths": [{"path": "/", "backend": {}}]}}]}},
        "spec.rules[0].http.paths[0].pathType",
        "FieldValueRequired",
    ),
    ("IngressClass", {"spec": {"controller": "nonsense"}}, "spec.controller", "FieldValueInvalid"),
    (
        "NetworkPolicy",
        {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "x"}}]}]}},
        "spec.ingress[0].from[0].ipBlock.cidr",
        "FieldValueInvalid",
    ),
    ("PriorityClass", {"value": 2000000000}, "value", "FieldValueForbidden"),
    ("RuntimeClass", {"handler": None}, "handler", "FieldValueRequired"),
    ("StorageClass", {"provisioner": None}, "provisioner", "FieldValueRequired"),
    ("StorageClass", {"volumeBindingMode": "Other"}, "volumeBindingMode", "FieldValueNotSupported"),
    ("StorageClass", {"reclaimPolicy": "Other"}, "reclaimPolicy", "FieldValueNotSupported"),
    ("Role", {"rules": [{"verbs": ["get"], "resources": ["pods"]}]}, "rules[0].apiGroups", "FieldValueRequired"),
    ("Role", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, "rules[0].verbs", "FieldValueRequired"),
    (
        "Role",
        {"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        "rules[0].nonResourceURLs",
        "FieldValueInvalid",
    ),
    (
        "RoleBinding",
        {"subjects": [{"kind": "Other", "name": "x"}]},
        "subjects[0].kind",
        "FieldValueNotSupported",
    ),
    (
        "ClusterRoleBinding",
        {"subjects": [{"kind": "ServiceAccount", "name": "x"}]},
        "subjects[0].namespace",
        "FieldValueRequired",
    ),
    ("Lease", {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds", "FieldValueInvalid"),
    ("Lease", {"spec": {"leaseTransitions": -1}}, "spec.leaseTransitions", "FieldValueInvalid"),
    ("StatefulSet", {"spec": {"ordinals": {"start": -1}}}, "spec.ordinals.start", "FieldValueInvalid"),
    ("Job", {"spec": {"backoffLimit": -1}}, "spec.backoffLimit", "FieldValueInvalid"),
    ("CronJob", {"spec": {"startingDeadlineSeconds": -1}}, "spec.startingDeadlineSeconds", "FieldValueInvalid"),
    ("CronJob", {"spec": {"failedJobsHistoryLimit": -1}}, "spec.failedJobsHistoryLimit", "FieldValueInvalid"),
    ("ConfigMap", {"data": {"a b": "c"}}, "data[a b]", "FieldValueInvalid"),
    ("Secret", {"type": "kubernetes.io/tls"}, "data[tls.crt]", "FieldValueRequired"),
    (
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}},
        "spec.limits[0].min[cpu]",
        "FieldValueInvalid",
    ),
    ("ResourceQuota", {"spec": {"hard": {"pods": "-1"}}}, "spec.hard[pods]", "FieldValueInvalid"),
    ("ResourceQuota", {"spec": {"hard": {"count/pods": "-1"}}}, "spec.hard[count/pods]", "FieldValueInvalid"),
    ("ResourceQuota", {"spec": {"hard": {"count/pods": "500m"}}}, "spec.hard[count/pods]", "FieldValueInvalid"),
    ("ResourceQuota", {"spec": {"hard": {"a.com/gpu": "500m"}}}, "spec.hard[a.com/gpu]", "FieldValueInvalid"),
    ("ResourceQuota", {"spec": {"hard": {"nonsense": "1"}}}, "spec.hard[nonsense]", "FieldValueInvalid"),
    (
        "EndpointSlice",
        {"addressType": "Other"},
        "addressType",
        "FieldValueNotSupported",
    ),
    (
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "x"}], "ports": [{"port": 1}]}]},
        "subsets[0].addresses[0].ip",
        "FieldValueInvalid",
    ),
    ("Event", {"involvedObject": {"namespace": "other"}}, "involvedObject.namespace", "FieldValueInvalid"),
    ("VolumeAttachment", {"spec": {"attacher": None}}, "spec.attacher", "FieldValueRequired"),
    ("VolumeAttachment", {"spec": {"nodeName": None}}, "spec.nodeName", "FieldValueInvalid"),
    ("ValidatingWebhookConfiguration", {"webhooks": [{"name": "x"}]}, "webhooks[0].name", "FieldValueInvalid"),
    ("CertificateSigningRequest", {"spec": {"usages": None}}, "spec.usages", "FieldValueRequired"),
    ("ServiceCIDR", {"spec": {"cidrs": ["x"]}}, "spec.cidrs[0]", "FieldValueInvalid"),
    ("IPAddress", {"metadata": {"name": "x"}}, "metadata.name", "FieldValueInvalid"),
    (
        "Node",
        {"spec": {"taints": [{"key": "a", "effect": "x"}]}},
        "metadata.taints[0].effect",
        "FieldValueNotSupported",
    ),
    ("Namespace", {"metadata": {"name": "a.b"}}, "metadata.name", "FieldValueInvalid"),
    ("Pod", {"spec": {"containers": []}}, "spec.containers", "FieldValueRequired"),
    ("Pod", {"spec": {"restartPolicy": "Other"}}, "spec.restartPolicy", "FieldValueNotSupported"),
    (
        "ReplicationController",
        {"spec": {"selector": {"z": "y"}}},
        "spec.template.metadata.labels",
        "FieldValueInvalid",
    ),
    ("PodTemplate", {"template": {"spec": {"containers": []}}}, "template.spec.containers", "FieldValueRequired"),
    ("CSIStorageCapacity", {"storageClassName": None}, "storageClassName", "FieldValueInvalid"),
    (
        "CSINode",
        {"spec": {"drivers": [{"name": "a", "nodeID": ""}]}},
        "spec.drivers[0].nodeID",
        "FieldValueRequired",
    ),
    ("VolumeAttributesClass", {"driverName": None}, "driverName", "FieldValueRequired"),
    ("APIService", {"spec": {"groupPriorityMinimum": 0}}, "spec.groupPriorityMinimum", "FieldValueInvalid"),
    (
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"name": "a/b"}}},
        "spec.scaleTargetRef.name",
        "FieldValueInvalid",
    ),
    (
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}},
                    }
                ]
            }
        },
        "spec.metrics[0].resource.target.averageUtilization",
        "FieldValueInvalid",
    ),
    (
        "HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"kind": "a%b"}}},
        "spec.scaleTargetRef.kind",
        "FieldValueInvalid",
    ),
    (
        "ClusterRole",
        {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "a"}]}]}},
        "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator",
        "FieldValueInvalid",
    ),
    (
        "ClusterRole",
        {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "a"}]}]}},
        "aggregationRule.clusterRoleSelectors[0]",
        "FieldValueInvalid",
    ),
    ("Node", {"spec": {"podCIDRs": [""]}}, "spec.podCIDRs[0]", "FieldValueInvalid"),
    (
        "Node",
        {"spec": {"taints": [{"key": "a", "value": "a b", "effect": "NoSchedule"}]}},
        "metadata.taints[0].value",
        "FieldValueInvalid",
    ),
    (
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1, "appProtocol": "a b"}]}]},
        "subsets[0].ports[0].appProtocol",
        "FieldValueInvalid",
    ),
    (
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1, "name": "A"}]}]},
        "subsets[0].ports[0].name",
        "FieldValueInvalid",
    ),
    (
        "Ingress",
        {"spec": {"rules": None, "defaultBackend": {"service": None, "resource": {"kind": "K"}}}},
        "spec.defaultBackend.resource.name",
        "FieldValueRequired",
    ),
    (
        "PersistentVolume",
        {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [{"key": "a"}]}]}}}},
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchFields[0].key",
        "FieldValueInvalid",
    ),
    ("PersistentVolume", {"spec": {"nodeAffinity": {}}}, "spec.nodeAffinity.required", "FieldValueRequired"),
    (
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "default": {"a.b/c": "1"}, "defaultRequest": {"a.b/c": "0"}}]}},
        "spec.limits[0].defaultRequest[a.b/c]",
        "FieldValueInvalid",
    ),
    ("VolumeAttachment", {"spec": {"attacher": "a" * 64}}, "spec.attacher", "FieldValueTooLong"),
    (
        "ValidatingWebhookConfiguration",
        {"webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1", "1"], "sideEffects": "None"}]},
        "webhooks[0].admissionReviewVersions[1]",
        "FieldValueInvalid",
    ),
    (
        "Deployment",
        {"spec": {"template": {"metadata": {"annotations": {"": "x"}}}}},
        "spec.template.annotations",
        "FieldValueInvalid",
    ),
    ("StorageClass", {"provisioner": "-x"}, "provisioner", "FieldValueInvalid"),
    (
        "DaemonSet",
        {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "x"}}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "FieldValueRequired",
    ),
    ("Node", {"spec": {"podCIDR": "x"}}, "spec.podCIDRs[0]", "FieldValueInvalid"),
    (
        "Node",
        {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
        "spec.podCIDRs",
        "FieldValueInvalid",
    ),
    (
        "Job",
        {
            "spec": {
                "template": {
                    "spec": {
                        "initContainers": [{"name": "i", "image": "i", "readinessProbe": {"exec": {"command": ["a"]}}}]
                    }
                }
            }
        },
        "spec.template.spec.initContainers[0].readinessProbe",
        "FieldValueForbidden",
    ),
]


@pytest.mark.parametrize(
    ("kind", "change", "field", "reason"),
    _WRONG,
    ids=[f"{kind}: {field} is judged ({number})" for number, (kind, _, field, _) in enumerate(_WRONG)],
)
async def test_what_is_wrong(api: Api, kind: str, change: Object, field: str, reason: str) -> None:
    answer = await _posted(api, kind, change)
    assert answer.status == 422, answer.text
    causes = [(cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]]
    assert (field, reason) in causes


@pytest.mark.parametrize("field", ["currentReplicas", "desiredReplicas"])
async def test_an_autoscaler_does_not_count_below_zero(api: Api, field: str) -> None:
    await _start(api)
    info = _info("HorizontalPodAutoscaler", "v1")
    name = (await _made(api, info, _sent(info)))["metadata"]["name"]
    answer = await api.patch(f"{_root(info)}/{name}/status", {"status": {field: -1}})
    assert answer.status == 422, answer.text
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [f"status.{field}"]


async def test_the_phase_of_a_namespace_is_filled_in_where_it_is_not_sent(api: Api) -> None:
    made = await api.made("/api/v1/namespaces", {"metadata": {"name": "n"}})
    answer = await api.put("/api/v1/namespaces/n/status", {**made, "status": {}})
    assert answer.status == 200, answer.text
    assert answer.body["status"] == {"phase": "Active"}


async def test_divisors_of_resource_fields_are_filled_in(api: Api) -> None:
    cpu = {"containerName": "c", "resource": "limits.cpu"}
    spec = {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "E", "valueFrom": {"resourceFieldRef": cpu}}]}],
        "volumes": [
            {"name": "v", "downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {**cpu, "divisor": "1000m"}}]}},
            {
                "name": "w",
                "projected": {"sources": [{"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": cpu}]}}]},
            },
        ],
    }
    await _start(api)
    made = (await api.made("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec}))["spec"]
    assert made["containers"][0]["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"
    assert made["volumes"][0]["downwardAPI"]["items"][0]["resourceFieldRef"]["divisor"] == "1"
    item = made["volumes"][1]["projected"]["sources"][0]["downwardAPI"]["items"][0]
    assert item["resourceFieldRef"]["divisor"] == "0"


async def test_init_containers_that_go_on_have_probes(api: Api) -> None:
    probe = {"exec": {"command": ["a"]}}
    side = {"name": "s", "image": "i", "restartPolicy": "Always", "readinessProbe": probe, "startupProbe": probe}
    spec = {"initContainers": [side], "containers": [{"name": "c", "image": "i"}]}
    await _start(api)
    answer = await api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert answer.status == 201, answer.text


async def test_an_applied_object_outside_of_namespaces_has_none(api: Api) -> None:
    meta = {"name": "r", "namespace": "other"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta}
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/r?fieldManager=m"
    apply = "application/apply-patch+yaml"
    for body in [(await api.patch(path, role, apply)).body for _ in range(2)]:
        assert body["metadata"]["name"] == "r", body
        assert "namespace" not in body["metadata"]


async def test_a_patch_is_first_judged_by_its_types_then_by_whose_object_it_is(api: Api) -> None:
    made = {"metadata": {"name": "c"}, "data": {}}
    await api.made("/api/v1/namespaces/default/configmaps", made)
    path = "/api/v1/namespaces/default/configmaps/c"
    both, nameless = [await api.patch(path, {"metadata": None, **more}) for more in ({"data": 1}, {})]
    assert (both.status, both.body["reason"]) == (422, "Invalid"), both.text
    assert nameless.status == 400, nameless.text
    assert "undeterminable: name must be provided" in nameless.message


async def test_a_revision_that_is_not_sent_is_zero(api: Api) -> None:
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    assert (await api.made(path, {"metadata": {"name": "r"}, "data": {"a": 1}}))["revision"] == 0


async def test_a_policy_for_all_pods_is_the_same_with_and_without_its_selector(api: Api) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    await api.made(path, {"metadata": {"name": "p"}, "spec": {"podSelector": {}}})
    answer = await api.put(f"{path}/p", {"metadata": {"name": "p"}, "spec": {}})
    assert answer.status == 200, answer.text
    assert answer.body["spec"]["podSelector"] == {}
    assert answer.body["metadata"]["generation"] == 1


async def test_where_a_volume_can_be_reached_stays_as_it_is(api: Api) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    there = {"spec": {"nodeAffinity": {"required": terms}}}
    answer = await _patched(api, "PersistentVolume", {"spec": {"nodeAffinity": None}}, there)
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["nodeAffinity"]


async def test_names_of_resources_are_judged_for_pods_as_for_containers(api: Api) -> None:
    causes = (await _posted(api, "LimitRange", {"spec": {"limits": [{"type": "Pod", "min": {"fresh": "1"}}]}})).body[
        "details"
    ]["causes"]
    assert [cause["message"].partition(": must be ")[2] for cause in causes] == [
        "a standard resource type or fully qualified",
        "a standard resource for containers",
    ]


@pytest.mark.parametrize("endpoints", [None, {}, {"kubeletEndpoint": None}, {"kubeletEndpoint": {"Port": None}}])
async def test_the_port_of_a_node_is_there_even_when_it_is_taken_away(api: Api, endpoints: Object | None) -> None:
    assert (await _patched(api, "Node", {"status": {"daemonEndpoints": endpoints}})).body["status"][
        "daemonEndpoints"
    ] == {"kubeletEndpoint": {"Port": 0}}


async def test_templates_may_have_images_with_spaces(api: Api) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": " i"}]}}}}
    assert (await _posted(api, "Deployment", change)).status == 201


async def test_the_group_of_a_backend_is_printed_even_when_it_is_not_set(api: Api) -> None:
    backend = {"service": None, "resource": {"kind": "K", "name": "n"}}
    resource = (await _posted(api, "Ingress", {"spec": {"rules": None, "defaultBackend": backend}})).body["spec"][
        "defaultBackend"
    ]["resource"]
    assert resource == {"apiGroup": None, "kind": "K", "name": "n"}


async def test_a_write_to_the_status_of_an_attachment_does_not_say_when_it_is_to_go(api: Api) -> None:
    await _start(api)
    info = _info("VolumeAttachment")
    name = (await _made(api, info, _sent(info)))["metadata"]["name"]
    answer = await api.patch(
        f"{_root(info)}/{name}/status", {"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}}
    )
    assert answer.status == 200, answer.text
    assert "deletionTimestamp" not in answer.meta


async def test_the_path_of_a_webhook_loses_its_first_byte_not_its_first_letter(api: Api) -> None:
    service = {"namespace": "default", "name": "s", "path": "\u00fc"}
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    messages = [
        cause["message"]
        for cause in (await _posted(api, "ValidatingWebhookConfiguration", {"webhooks": [webhook]})).body["details"][
            "causes"
        ]
    ]
    assert ["segment[0]: a lowercase RFC 1123 subdomain" in message for message in messages] == [False, True]
