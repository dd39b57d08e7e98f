"""Which fields of a refused object are named, in which order, and how often (kubernetes ``pkg/apis/*/validation``,
v1.36)."""

import re
from typing import Any

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, PODS, Answer, Api, Object, pod

APPS = "/apis/apps/v1/namespaces/default/"
STORAGE = "/apis/storage.k8s.io/v1/"
NETWORKING = "/apis/networking.k8s.io/v1/"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT: Object = {
    "regarding": {"kind": "Pod", "name": "p", "apiVersion": "v1", "namespace": "default"},
    "reason": "R",
    "type": "Normal",
    "action": "A",
    "reportingController": "c.example.com/x",
    "reportingInstance": "i",
    "eventTime": "2026-01-01T00:00:00.000000Z",
}
CONTAINER: Object = {"name": "c", "image": "x"}
VOLUME: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
ATTACHMENT: Object = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
DEVICES = [{"name": "v", "devicePath": "/x"}, {"name": "v", "devicePath": "/x"}]
TEMPLATE = {"metadata": {"labels": {"app": "a/b"}}, "spec": {"containers": []}}
WEBHOOK: Object = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["g"], "apiVersions": ["v1"], "resources": ["bars"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONE_A = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}
BAD_SELECTOR = {"selector": {"matchLabels": {"app": "a/b"}}, "template": TEMPLATE}


def causes(answer: Answer) -> list[tuple[str, str]]:
    """Fields and reasons, as they are listed."""
    assert answer.status == 422, answer.text
    return [(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("path", "obj", "expected"),
    [
        pytest.param(
            PODS,
            pod("x", initContainers=[CONTAINER]),
            [("spec.initContainers[0].name", "Duplicate")],
            id="of two containers with one name the init container is the one too many",
        ),
        pytest.param(
            PODS,
            pod(
                "x",
                containers=[CONTAINER],
                initContainers=[
                    {
                        **CONTAINER,
                        "ports": [{"containerPort": 80, "hostPort": 80}] * 2,
                        "restartPolicyRules": [{"action": "Odd"}],
                        "lifecycle": {"preStop": {}},
                        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                    }
                ],
            ),
            [
                ("spec.initContainers[0].restartPolicy", "Required"),
                ("spec.initContainers[0].name", "Duplicate"),
                ("spec.initContainers[0].ports[1].hostPort", "Duplicate"),
                ("spec.initContainers[0].lifecycle", "Forbidden"),
                ("spec.initContainers[0].resizePolicy[0].restartPolicy", "Invalid"),
            ],
            id="init containers: what they are, what they are called, what they may not have",
        ),
        pytest.param(
            PODS,
            pod("x", containers=[{"name": "c"}], initContainers=[{"name": "i"}]),
            [("spec.containers[0].image", "Required"), ("spec.initContainers[0].image", "Required")],
            id="regular containers come first",
        ),
        pytest.param(
            PODS,
            pod(
                "x", volumes=[{"name": "v", "configMap": {"name": "c"}, "secret": {"secretName": "s"}, "emptyDir": {}}]
            ),
            [("spec.volumes[0].secret", "Forbidden"), ("spec.volumes[0].configMap", "Forbidden")],
            id="of several sources the first in upstream's order is the right one",
        ),
        pytest.param(
            PODS,
            pod(
                "x",
                containers=[{**CONTAINER, "volumeDevices": DEVICES}],
                volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            ),
            [
                ("spec.containers[0].volumeDevices[1].name", "Invalid"),
                ("spec.containers[0].volumeDevices[1].devicePath", "Invalid"),
            ],
            id="devices are told apart by name and path",
        ),
        pytest.param(
            VOLUMES,
            {"spec": {**VOLUME, "cephfs": {"monitors": ["a"]}, "nfs": {"server": "s", "path": "/"}}},
            [("spec.cephFS", "Forbidden")],
            id="sources of volumes by their own names",
        ),
        pytest.param(
            APPS + "deployments",
            {"spec": BAD_SELECTOR},
            [("spec.selector.matchLabels", "Invalid"), ("spec.selector", "Invalid")],
            id="without a selector the template is not looked at",
        ),
        pytest.param(
            STORAGE + "csinodes",
            {"spec": {"drivers": [{"name": "d.example.com", "nodeID": ""}]}},
            [("spec.drivers[0].nodeID", "Required")],
            id="drivers of nodes",
        ),
        pytest.param(
            STORAGE + "csinodes",
            {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a", "a"]}]}},
            [("spec.drivers[0]", "Duplicate")],
            id="keys of a driver are told apart",
        ),
        pytest.param(
            CLAIMS,
            {"spec": {**CLAIM, "storageClassName": "A", "dataSourceRef": {"kind": "Pod", "name": ""}}},
            [
                ("spec.storageClassName", "Invalid"),
                ("spec.dataSource.name", "Required"),
                ("spec.dataSource", "Invalid"),
                ("spec.dataSourceRef.name", "Required"),
                ("spec.dataSourceRef", "Invalid"),
            ],
            id="where the data of a claim comes from",
        ),
        pytest.param(
            NEW_EVENTS,
            {**EVENT, "deprecatedCount": 2, "series": {"count": 1}},
            [("series.count", "Invalid"), ("series.lastObservedTime", "Required"), ("count", "Invalid")],
            id="fields of a new event by the names under which it is stored",
        ),
        pytest.param(
            NEW_EVENTS,
            {**EVENT, "metadata": {"name": "x", "generateName": "Bad_"}},
            [("metadata.generateName", "Invalid")],
            id="new events have names like others",
        ),
        pytest.param(
            "/api/v1/namespaces/default/endpoints",
            {"subsets": [{"addresses": [{"ip": "10.1.2.3", "hostname": "a b"}]}]},
            [("subsets[0].addresses[0].hostname", "Invalid")],
            id="names of endpoints",
        ),
        pytest.param(
            VOLUMES,
            {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "-1"},
                    "nfs": {"server": "s", "path": "/"},
                }
            },
            [("spec.capacity[storage]", "Invalid"), ("spec.capacity[storage]", "Invalid")],
            id="a volume of less than nothing",
        ),
        pytest.param(
            STORAGE + "volumeattachments",
            {"spec": {"attacher": "", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
            [("spec.attacher", "Required")],
            id="attachers",
        ),
        pytest.param(
            "/apis/networking.k8s.io/v1/ingressclasses",
            {"spec": {"controller": "example.com/" + "x" * 250}},
            [("spec.controller", "TooLong")],
            id="names of controllers have an end",
        ),
        pytest.param(
            NETWORKING + "ingressclasses",
            {"spec": {"controller": "a.b/c", "parameters": {}}},
            [("spec.parameters.kind", "Required"), ("spec.parameters.name", "Required")],
            id="parameters of a class of ingresses",
        ),
        pytest.param(
            PODS,
            pod("x", resources={"limits": {"example.com/gpu": "2"}}),
            [("spec.resources.limits[example.com/gpu]", "NotSupported")],
            id="pods as a whole ask for nothing that only containers can have",
        ),
        pytest.param(
            CLAIMS,
            {"spec": {**CLAIM, "accessModes": [], "dataSource": {"kind": "Odd", "name": "x"}}},
            [("spec.accessModes", "Required")],
            id="a data source of old that is none is dropped",
        ),
        pytest.param(
            "/api/v1/nodes",
            {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}},
            [("metadata.taints[1]", "Duplicate")],
            id="taints are metadata to upstream",
        ),
        pytest.param(
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"handler": "h", "scheduling": {"tolerations": [{"operator": "Exists", "effect": "Odd"}]}},
            [("scheduling.tolerations[0].effect", "NotSupported")],
            id="tolerations of runtime classes",
        ),
        pytest.param(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "webhooks": [
                    {**WEBHOOK, "rules": [{**WEBHOOK["rules"][0], "apiGroups": [""], "apiVersions": ["v1", ""]}]}
                ]
            },
            [("webhooks[0].rules[0].apiVersions[1]", "Required")],
            id="a rule of a webhook may name the group without a name, but no version without one",
        ),
        pytest.param(
            STORAGE_CLASSES,
            {"provisioner": "p", "allowedTopologies": [ZONE_A, ZONE_A]},
            [("allowedTopologies[1].matchLabelExpressions", "Duplicate")],
            id="a topology that is there twice",
        ),
        pytest.param(
            STORAGE_CLASSES,
            {"provisioner": "p", "allowedTopologies": [{}, ZONE_A]},
            [("allowedTopologies[0].matchLabelExpressions", "Duplicate")] * 2,
            id="a topology of nothing is as many duplicates as there are topologies",
        ),
        pytest.param(
            STORAGE_CLASSES,
            {
                "provisioner": "p",
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a"}, {"values": ["y"]}]}
                ],
            },
            [
                ("allowedTopologies[0].matchLabelExpressions[0].values[1]", "Duplicate"),
                ("allowedTopologies[0].matchLabelExpressions[1].values", "Required"),
                ("allowedTopologies[0].matchLabelExpressions[1].key", "Duplicate"),
                ("allowedTopologies[0].matchLabelExpressions[2].key", "Invalid"),
                ("allowedTopologies[0].matchLabelExpressions[2].key", "Invalid"),
            ],
            id="what is wrong in a topology",
        ),
    ],
)
async def test_causes(api: Api, path: str, obj: Object, expected: list[tuple[str, str]]) -> None:
    body = {**obj, "metadata": {"name": "x", **obj.get("metadata", {})}}
    assert causes(await api.post(path, body)) == expected


async def test_a_changed_template_is_validated_once(api: Api) -> None:
    template: Any = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    made = await api.made(
        APPS + "daemonsets",
        {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
    )
    made["spec"]["template"]["spec"]["containers"] = []
    assert causes(await api.put(APPS + "daemonsets/x", made)) == [("spec.template.spec.containers", "Required")]


LABELS = ("metadata.labels", "Invalid")
SPEC: Object = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}},
}
SERVICES = "/api/v1/namespaces/default/services"


@pytest.mark.parametrize(
    ("path", "obj", "change", "expected"),
    [
        pytest.param(
            APPS + "deployments",
            {"spec": SPEC},
            {"spec": {"replicas": -1, "selector": {"matchLabels": {"a": "c"}}}},
            [
                *[LABELS] * 3,
                ("spec.replicas", "Invalid"),
                ("spec.template.metadata.labels", "Invalid"),
                ("spec.selector", "Invalid"),
            ],
            id="a deployment: the object, then what changes",
        ),
        pytest.param(
            APPS + "daemonsets",
            {"spec": SPEC},
            {"spec": {"minReadySeconds": -1, "selector": {"matchLabels": {"a": "c"}}}},
            [
                *[LABELS] * 3,
                ("spec.selector", "Invalid"),
                ("spec.template.metadata.labels", "Invalid"),
                ("spec.minReadySeconds", "Invalid"),
            ],
            id="a daemon set: what changes, then the object",
        ),
        pytest.param(
            APPS + "statefulsets",
            {"spec": {**SPEC, "serviceName": "s"}},
            {"spec": {"serviceName": "t", "replicas": -1, "template": {"spec": {"containers": None}}}},
            [
                *[LABELS] * 3,
                ("spec.replicas", "Invalid"),
                ("spec.template.spec.containers", "Required"),
                ("spec", "Forbidden"),
            ],
            id="a stateful set: the object, then what changes",
        ),
        pytest.param(
            SERVICES,
            {"spec": {"type": "LoadBalancer", "loadBalancerClass": "a.b/c", "ports": [{"port": 80}]}},
            {"spec": {"loadBalancerClass": "a b"}},
            [*[LABELS] * 3, *[("spec.loadBalancerClass", "Invalid")] * 3],
            id="a service: its class as changed, and twice as a name",
        ),
        pytest.param(
            SERVICES,
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"clusterIP": "10.0.0.77", "ports": []}},
            [*[LABELS] * 3, ("spec.clusterIPs[0]", "Invalid"), ("spec.ports", "Required")],
            id="a service: what changes, then the object",
        ),
        pytest.param(
            SERVICES,
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"type": "ExternalName", "clusterIP": "None"}},
            [*[LABELS] * 3, ("spec.clusterIPs", "Forbidden"), ("spec.externalName", "Required")],
            id="a service that becomes an alias and says an address",
        ),
        pytest.param(
            NETWORKING + "namespaces/default/networkpolicies",
            {"spec": {"podSelector": {}}},
            {"spec": {"policyTypes": ["x"]}},
            [*[LABELS] * 3, ("spec.policyTypes[0]", "NotSupported")],
            id="a network policy: no metadata of the object",
        ),
        pytest.param(
            NETWORKING + "namespaces/default/ingresses",
            {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
            {"spec": {"defaultBackend": None}},
            [*[LABELS] * 4, ("spec", "Invalid")],
            id="an ingress: the metadata as changed, then the object",
        ),
        pytest.param(
            NETWORKING + "ingressclasses",
            {"spec": {"controller": "a.b/c"}},
            {"spec": {"controller": None}},
            [*[LABELS] * 3, ("spec.controller", "Invalid"), LABELS, ("spec.controller", "Required")],
            id="a class of ingresses: what changes, then the object with its metadata",
        ),
        pytest.param(
            NETWORKING + "servicecidrs",
            {"spec": {"cidrs": ["10.9.0.0/24"]}},
            {"spec": {"cidrs": ["10.8.0.0/24", "10.7.0.0/24"]}},
            [*[LABELS] * 3, ("spec.cidrs[0]", "Invalid"), ("spec.cidrs", "Invalid")],
            id="a range that changes and grows",
        ),
        pytest.param(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            {"roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}},
            {"roleRef": {"name": "a/b"}, "subjects": [{"kind": "x"}]},
            [
                *[LABELS] * 3,
                ("roleRef.name", "Invalid"),
                ("subjects[0].name", "Required"),
                ("subjects[0].kind", "NotSupported"),
                LABELS,
                ("roleRef", "Invalid"),
            ],
            id="a binding: the object, then its change",
        ),
        pytest.param(
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"handler": "h"},
            {"handler": None},
            [*[LABELS] * 3, ("handler", "Required"), LABELS, ("handler", "Invalid")],
            id="a runtime class: the object, then its change",
        ),
        pytest.param(
            STORAGE_CLASSES,
            {"provisioner": "p"},
            {"provisioner": None, "reclaimPolicy": "x"},
            [
                *[LABELS] * 3,
                ("provisioner", "Required"),
                ("reclaimPolicy", "NotSupported"),
                LABELS,
                ("provisioner", "Invalid"),
                ("reclaimPolicy", "Invalid"),
            ],
            id="a storage class: the object, then its change",
        ),
        pytest.param(
            "/api/v1/namespaces/default/configmaps",
            {"immutable": True, "data": {"a": "b"}},
            {"data": {"a/": "c"}},
            [*[LABELS] * 3, ("data", "Forbidden"), LABELS, ("data[a/]", "Invalid")],
            id="data: what changes, then the object with its metadata",
        ),
        pytest.param(
            "/api/v1/nodes",
            {"spec": {}},
            {"spec": {"taints": [{"key": "k", "effect": "x"}]}},
            [
                *[LABELS] * 3,
                ("metadata.taints[0].effect", "NotSupported"),
                LABELS,
                ("metadata.taints[0].effect", "NotSupported"),
            ],
            id="a node: as changed and as an object",
        ),
    ],
)
async def test_causes_of_changes(
    api: Api, path: str, obj: Object, change: Object, expected: list[tuple[str, str]]
) -> None:
    """All of them with labels that are none: once for any kind's object and change, then as the kind looks at them."""
    await api.made(path, {"metadata": {"name": "x"}, **obj})
    assert causes(await api.patch(path + "/x", {"metadata": {"labels": {"a b": "c"}}, **change}, MERGE)) == expected


@pytest.mark.parametrize(
    ("path", "obj", "expected"),
    [
        pytest.param(
            SERVICES,
            {"spec": {"ports": [{"port": 80}], "type": "LoadBalancer", "loadBalancerClass": "a b"}},
            [("spec.clusterIPs", "Invalid")],
            id="a service gets an address first",
        ),
        pytest.param(
            SERVICES,
            {"spec": {"type": "ExternalName", "clusterIPs": ["None"], "ipFamilies": ["IPv4"]}},
            [
                ("metadata.name", "Required"),
                ("spec.clusterIPs", "Forbidden"),
                ("spec.ipFamilies", "Forbidden"),
                ("spec.externalName", "Required"),
            ],
            id="an alias gets none",
        ),
        pytest.param(
            "/apis/apiregistration.k8s.io/v1/apiservices",
            {"metadata": {"name": "a", "labels": {"a b": "c"}}, "spec": {"group": "b.c", "version": "v1"}},
            [
                ("metadata.name", "Invalid"),
                LABELS,
                ("spec.groupPriorityMinimum", "Invalid"),
                ("spec.versionPriority", "Invalid"),
            ],
            id="the name of a served group version is part of its metadata",
        ),
        pytest.param(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {"metadata": {"name": "A", "labels": {"a b": "c"}}, "spec": {"group": "b.c", "scope": "Cluster"}},
            [("metadata.name", "Invalid"), ("metadata.name", "Invalid"), LABELS],
            id="so is that of a definition",
        ),
    ],
)
async def test_what_comes_first(api: Api, path: str, obj: Object, expected: list[tuple[str, str]]) -> None:
    found = causes(await api.post(path, obj))
    assert found[: len(expected)] == expected


async def test_a_service_that_cannot_be_the_parent_of_its_address_is_refused(api: Api) -> None:
    """The IPAddress is made before anybody validates the service."""
    bodies: list[Object] = [
        {"metadata": {"name": "a/b"}, "spec": {"ports": [{"port": 80}]}},
        {"metadata": {"name": ".."}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.9"}},
    ]
    given, asked = [(await api.post(SERVICES, body)).message for body in bodies]
    assert re.fullmatch(
        r'Service "a/b" is invalid: spec.clusterIPs: Invalid value: \[""\]: failed to allocate IP: '
        r'IPAddress.networking.k8s.io "10.0.0.\d+" is invalid: spec.parentRef.name: Invalid value: "a/b": '
        r"may not contain '/'",
        given,
    )
    assert asked == (
        'Service ".." is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: '
        'IPAddress.networking.k8s.io "10.0.0.9" is invalid: spec.parentRef.name: Invalid value: "..": may not be \'..\''
    )


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        pytest.param("%01", ['Invalid value: "\\x01": invalid character U+0001 (at position 0)'], id="one"),
        pytest.param(
            "%C3%BCa%7F%E2%80%8B",
            [
                'Invalid value: "üa\\x7f\\u200b": invalid character U+007F (at position 3)',
                'Invalid value: "üa\\x7f\\u200b": invalid character U+200B (at position 4)',
            ],
            id="each, after as many bytes",
        ),
        pytest.param("%C3%BC" * 65, ["Too long: may not be more than 128 bytes"], id="bytes are counted"),
    ],
)
async def test_letters_of_a_field_manager(api: Api, manager: str, expected: list[str]) -> None:
    answer = await api.post(PODS + f"?fieldManager={manager}", pod())
    assert [cause["message"] for cause in answer.body["details"]["causes"]] == expected


async def test_another_namespace_is_told_of_before_a_missing_name(api: Api) -> None:

    wrong = "the namespace of the provided object does not match the namespace sent on the request"
    await api.made(PODS, pod())
    body = {"metadata": {"namespace": "kube-system"}}
    replaced = [{"op": "replace", "path": "/metadata", "value": {"namespace": "kube-system"}}]
    answers = [await api.put(PODS + "/p", body), await api.patch(PODS + "/p", replaced, JSON_PATCH)]
    assert [answer.message for answer in answers] == [wrong, wrong]


async def test_options_of_a_delete_are_judged_one_by_one(api: Api) -> None:
    answer = await api.delete(PODS + "/x?propagationPolicy=Bad&orphanDependents=true")
    assert causes(answer) == [("propagationPolicy", "Invalid"), ("propagationPolicy", "NotSupported")]


async def test_how_much_a_driver_can_attach_may_change(api: Api) -> None:
    driver = {"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 3}}
    await api.made(STORAGE + "csinodes", {"metadata": {"name": "x"}, "spec": {"drivers": [driver]}})
    changes: list[Object] = [{"allocatable": {"count": 4}}, {"nodeID": "m"}]
    more, other = [
        await api.patch(STORAGE + "csinodes/x", {"spec": {"drivers": [{**driver, **change}]}}) for change in changes
    ]
    assert more.status == 200
    assert causes(other) == [("spec.drivers", "Invalid")]


async def test_a_claim_is_told_all_that_may_not_change(api: Api) -> None:
    await api.made(CLAIMS, {"metadata": {"name": "c"}, "spec": CLAIM})
    less = {"volumeMode": "Block", "resources": {"requests": {"storage": "1Mi"}}}
    found = causes(await api.patch(CLAIMS + "/c", {"spec": less}))
    assert [one for one in dict.fromkeys(found) if one[1] != "Required"] == [
        ("spec", "Forbidden"),
        ("volumeMode", "Invalid"),
    ]


async def test_a_patch_is_told_of_its_uid_with_all_the_rest(api: Api) -> None:
    await api.made(PODS, pod())
    owner = {"apiVersion": "v1", "name": "o", "uid": "u"}
    assert set(causes(await api.patch(PODS + "/p", {"metadata": {"uid": "another", "ownerReferences": [owner]}}))) == {
        ("metadata.uid", "Invalid"),
        ("metadata.ownerReferences.kind", "Invalid"),
    }


@pytest.mark.parametrize(
    ("path", "obj", "times"),
    [
        pytest.param(STORAGE + "volumeattachments", {"spec": ATTACHMENT}, 1, id="an attachment: as an object is"),
        pytest.param(VOLUMES, {"spec": {**VOLUME, "hostPath": {"path": "/"}}}, 2, id="a volume: also as a status"),
    ],
)
async def test_how_often_the_metadata_of_a_status_write_is_judged(api: Api, path: str, obj: Object, times: int) -> None:
    """As often as a kube-apiserver v1.20 does."""

    expected = [("metadata.uid", "Invalid"), ("metadata.deletionGracePeriodSeconds", "Invalid")] * times
    await api.made(path, {"metadata": {"name": "x"}, **obj})
    assert sorted(
        causes(await api.patch(path + "/x/status", {"metadata": {"uid": "u", "deletionGracePeriodSeconds": 2}}))
    ) == sorted(expected)


async def test_a_conflict_about_a_new_event_names_the_core_one(api: Api) -> None:
    await api.made(NEW_EVENTS, {"metadata": {"name": "e"}, **EVENT})
    assert (await api.delete(NEW_EVENTS + "/e", {"preconditions": {"resourceVersion": "12345"}})).message.startswith(
        'Operation cannot be fulfilled on Event "e": '
    )


async def test_what_a_quota_counts_has_a_name(api: Api) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    await api.made(path, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    assert set(causes(await api.patch(path + "/q/status", {"status": {"used": {"fresh": "1"}}}))) == {
        ("status.used[fresh]", "Invalid")
    }
