"""Which fields of a refused object are named, in which order, and how often (kubernetes ``pkg/apis/*/validation``,
v1.36, where a kube-apiserver v1.20 says the same)."""

from typing import Any

import pytest
from tests.apiserver.api import PODS, Answer, Api, Object, on, pod

APPS = "/apis/apps/v1/namespaces/default/"
STORAGE = "/apis/storage.k8s.io/v1/"
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
            [("spec.drivers[0].nodeID", "Required"), ("spec.drivers[0].nodeID", "Required")],
            id="new CSINodes are judged twice",
        ),
        pytest.param(
            STORAGE + "csinodes",
            {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a", "a"]}]}},
            [("spec.drivers[0]", "Duplicate"), ("spec.drivers[0]", "Duplicate")],
            id="keys of a driver are told apart",
        ),
        pytest.param(
            CLAIMS,
            {"spec": {**CLAIM, "storageClassName": "A", "dataSource": {"kind": "Pod", "name": ""}}},
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
            [("spec.attacher", "Required"), ("spec.attacher", "Required"), ("spec.attacher", "Invalid")],
            id="attachers of v1",
        ),
        pytest.param(
            "/apis/networking.k8s.io/v1/ingressclasses",
            {"spec": {"controller": "example.com/" + "x" * 250}},
            [("spec.controller", "TooLong")],
            id="names of controllers have an end",
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
            [("scheduling.tolerations.tolerations[0].effect", "NotSupported")],
            id="tolerations of runtime classes, one step too deep",
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
def test_causes(path: str, obj: Object, expected: list[tuple[str, str]]) -> None:
    body = {**obj, "metadata": {"name": "x", **obj.get("metadata", {})}}
    assert causes(on(lambda api: api.post(path, body))) == expected


def test_a_changed_template_is_judged_twice() -> None:
    """By the rules of a DaemonSet, and again by those of a change of one."""

    async def main(api: Api) -> Answer:
        template: Any = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
        made = await api.made(
            APPS + "daemonsets",
            {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}},
        )
        made["spec"]["template"]["spec"]["containers"] = []
        return await api.put(APPS + "daemonsets/x", made)

    assert causes(on(main)) == [("spec.template.spec.containers", "Required")] * 2


def test_options_of_a_delete_are_judged_one_by_one() -> None:
    answer = on(lambda api: api.delete(PODS + "/x?propagationPolicy=Bad&orphanDependents=true"))
    assert causes(answer) == [("propagationPolicy", "Invalid"), ("propagationPolicy", "NotSupported")]


def test_how_much_a_driver_can_attach_may_change() -> None:
    driver = {"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 3}}

    async def main(api: Api) -> list[Answer]:
        await api.made(STORAGE + "csinodes", {"metadata": {"name": "x"}, "spec": {"drivers": [driver]}})
        changes: list[Object] = [{"allocatable": {"count": 4}}, {"nodeID": "m"}]
        return [
            await api.patch(STORAGE + "csinodes/x", {"spec": {"drivers": [{**driver, **change}]}}) for change in changes
        ]

    more, other = on(main)
    assert more.status == 200
    assert causes(other) == [("spec.drivers", "Invalid")]


def test_a_claim_is_told_all_that_may_not_change() -> None:
    async def main(api: Api) -> Answer:
        await api.made(CLAIMS, {"metadata": {"name": "c"}, "spec": CLAIM})
        less = {"volumeMode": "Block", "resources": {"requests": {"storage": "1Mi"}}}
        return await api.patch(CLAIMS + "/c", {"spec": less})

    found = causes(on(main))
    assert [one for one in dict.fromkeys(found) if one[1] != "Required"] == [
        ("spec", "Forbidden"),
        ("volumeMode", "Invalid"),
    ]


def test_a_patch_is_told_of_its_uid_with_all_the_rest() -> None:
    async def main(api: Api) -> Answer:
        await api.made(PODS, pod())
        owner = {"apiVersion": "v1", "name": "o", "uid": "u"}
        return await api.patch(PODS + "/p", {"metadata": {"uid": "another", "ownerReferences": [owner]}})

    assert set(causes(on(main))) == {("metadata.uid", "Invalid"), ("metadata.ownerReferences.kind", "Invalid")}


@pytest.mark.parametrize(
    ("path", "obj", "times"),
    [
        pytest.param(STORAGE + "volumeattachments", {"spec": ATTACHMENT}, 1, id="an attachment: as an object is"),
        pytest.param(VOLUMES, {"spec": {**VOLUME, "hostPath": {"path": "/"}}}, 2, id="a volume: also as a status"),
    ],
)
def test_how_often_the_metadata_of_a_status_write_is_judged(path: str, obj: Object, times: int) -> None:
    """As often as a kube-apiserver v1.20 does."""

    async def main(api: Api) -> Answer:
        await api.made(path, {"metadata": {"name": "x"}, **obj})
        return await api.patch(path + "/x/status", {"metadata": {"uid": "u", "deletionGracePeriodSeconds": 2}})

    expected = [("metadata.uid", "Invalid"), ("metadata.deletionGracePeriodSeconds", "Invalid")] * times
    assert sorted(causes(on(main))) == sorted(expected)


def test_a_conflict_about_a_new_event_names_the_core_one() -> None:
    async def main(api: Api) -> Answer:
        await api.made(NEW_EVENTS, {"metadata": {"name": "e"}, **EVENT})
        return await api.delete(NEW_EVENTS + "/e", {"preconditions": {"resourceVersion": "12345"}})

    assert on(main).message.startswith('Operation cannot be fulfilled on Event "e": ')


def test_what_a_quota_counts_has_a_name() -> None:
    path = "/api/v1/namespaces/default/resourcequotas"

    async def main(api: Api) -> Answer:
        await api.made(path, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
        return await api.patch(path + "/q/status", {"status": {"used": {"fresh": "1"}}})

    assert set(causes(on(main))) == {("status.used[fresh]", "Invalid")}
