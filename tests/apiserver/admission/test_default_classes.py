"""Default storage, ingress and runtime classes, and small plugins for storage and nodes (kubernetes
``plugin/pkg/admission``, v1.36: the tests beside each)."""

import asyncio
from typing import Any

from tests.apiserver.api import PODS, Api, pod
from tests.tables import cases

from pilothouse.apiserver.admission.runtime_class import merge_tolerations

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def storage_class(name: str, annotations: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "provisioner": "x", **more}


def claim(name: str = "d", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": whole}


@cases(
    "classes, body, expected",
    {
        "no default class": ([storage_class("a")], claim(), None),
        "the default one": ([storage_class("a", DEFAULT)], claim(), "a"),
        "beta annotation": (
            [storage_class("a", {"storageclass.beta.kubernetes.io/is-default-class": "true"})],
            claim(),
            "a",
        ),
        "empty class": ([storage_class("a", DEFAULT)], claim(storageClassName=""), ""),
        "explicit class": ([storage_class("a", DEFAULT)], claim(storageClassName="b"), "b"),
        "explicit class by annotation": (
            [storage_class("a", DEFAULT)],
            claim(annotations={"volume.beta.kubernetes.io/storage-class": "b"}),
            None,
        ),
        "two default classes: the first by name": (
            [storage_class("b", DEFAULT), storage_class("a", DEFAULT)],
            claim(),
            "a",
        ),
    },
)
async def test_default_storage_class(api: Api, classes: list[Any], body: Any, expected: str | None) -> None:
    for item in classes:
        await api.create(STORAGE, item)
    assert (await api.create(CLAIMS, body))["spec"].get("storageClassName") == expected


async def test_newest_default_class_is_used(api: Api) -> None:
    await api.create(STORAGE, storage_class("a", DEFAULT))
    await asyncio.sleep(2)
    await api.create(STORAGE, storage_class("b", DEFAULT))
    assert (await api.create(CLAIMS, claim()))["spec"]["storageClassName"] == "b"


async def test_default_ingress_class(api: Api) -> None:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    marked = {"ingressclass.kubernetes.io/is-default-class": "true"}
    spec = {"controller": "example.com/x"}
    await api.create(INGRESS_CLASSES, {"metadata": {"name": "usual", "annotations": marked}, "spec": spec})
    await api.create(INGRESS_CLASSES, {"metadata": {"name": "other"}, "spec": spec})
    result = []
    for name, annotations, more in (
        ("a", {}, {}),
        ("b", {"kubernetes.io/ingress.class": "old"}, {}),
        ("c", {}, {"ingressClassName": "other"}),
    ):
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"defaultBackend": backend, **more}}
        result.append((await api.create(INGRESSES, body))["spec"].get("ingressClassName"))
    assert result == ["usual", None, "other"]


async def test_storage_object_in_use_protection(api: Api) -> None:
    source = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    attributes = {"metadata": {"name": "a"}, "driverName": "x", "parameters": {"a": "b"}}
    kept = {"metadata": {"name": "e", "finalizers": ["kubernetes.io/pvc-protection", "a/b"]}}
    result = [
        await api.create(CLAIMS, claim()),
        await api.create(VOLUMES, {"metadata": {"name": "v", "finalizers": ["a/b"]}, "spec": source}),
        await api.create("/apis/storage.k8s.io/v1/volumeattributesclasses", attributes),
        await api.create(CLAIMS, {**claim(), **kept}),
    ]
    assert [item["metadata"]["finalizers"] for item in result] == [
        ["kubernetes.io/pvc-protection"],
        ["a/b", "kubernetes.io/pv-protection"],
        ["kubernetes.io/vac-protection"],
        ["kubernetes.io/pvc-protection", "a/b"],
    ]


NOT_BOUND = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
    '@@ -6,7 +6,7 @@\n  "Resources": {\n   "Limits": null,\n   "Requests": {\n'
    '-   "storage": "1Gi"\n+   "storage": "2Gi"\n   }\n  },\n  "VolumeName": "v",\n'
)
NOT_GROWING = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


@cases(
    "phase, name, why",
    {
        "bound, and the class allows expansion": ("Bound", "grows", ""),
        "not bound": ("Pending", "grows", NOT_BOUND),
        "the class does not allow expansion": ("Bound", "stays", NOT_GROWING),
        "the class is deleted": ("Bound", "missing", NOT_GROWING),
        "claim without class": ("Bound", "", NOT_GROWING),
    },
)
async def test_persistent_volume_claim_resize(api: Api, phase: str, name: str, why: str) -> None:
    await api.create(STORAGE, storage_class("grows", allowVolumeExpansion=True))
    await api.create(STORAGE, storage_class("stays"))
    await api.create(CLAIMS, claim(storageClassName=name, volumeName="v"))
    status = {"phase": phase, "capacity": {"storage": "1Gi"}}
    await api.patch(f"{CLAIMS}/d/status", {"status": status})
    same = await api.patch(f"{CLAIMS}/d", {"metadata": {"labels": {"a": "b"}}})
    assert same.status == 200, same.text
    answer = await api.patch(f"{CLAIMS}/d", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    if why == NOT_BOUND:
        # Validation comes before validating admission, which would have rejected it, too.
        assert (answer.status, answer.message) == (422, f'PersistentVolumeClaim "d" is invalid: spec: Forbidden: {why}')
    elif why:
        assert (answer.status, answer.message) == (403, f'persistentvolumeclaims "d" is forbidden: {why}')
    else:
        assert answer.status == 200, answer.text


def runtime(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "handler": "h", **more}


OVERHEAD = {"overhead": {"podFixed": {"cpu": "100m"}}}
GPU = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}


@cases(
    "of_class, spec, expected",
    {
        "the overhead of the class": (OVERHEAD, {}, {"overhead": {"cpu": "100m"}}),
        "equal overhead": (OVERHEAD, {"overhead": {"cpu": "0.1"}}, {"overhead": {"cpu": "100m"}}),
        "different overhead": (
            OVERHEAD,
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        "an overhead without a class that has one": (
            {},
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        "the nodes of the class": (
            {"scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [GPU]}},
            {"nodeSelector": {"c": "d"}, "tolerations": [GPU]},
            {"nodeSelector": {"a": "b", "c": "d"}},
        ),
        "nodes that cannot be": (
            {"scheduling": {"nodeSelector": {"a": "b"}}},
            {"nodeSelector": {"a": "c"}},
            "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
        ),
        "missing RuntimeClass": ({}, {"runtimeClassName": "x"}, 'pod rejected: RuntimeClass "x" not found'),
    },
)
async def test_runtime_class(api: Api, of_class: dict[str, Any], spec: dict[str, Any], expected: Any) -> None:
    await api.create(RUNTIMES, runtime(**of_class))
    answer = await api.post(PODS, pod(**{"runtimeClassName": "r", **spec}))
    if isinstance(expected, str):
        assert (answer.status, answer.message) == (403, f'pods "p" is forbidden: {expected}')
    else:
        assert answer.status == 201, answer.text
        assert {key: answer.body["spec"][key] for key in expected} == expected
        assert [toleration for toleration in answer.body["spec"]["tolerations"] if toleration.get("key") == "gpu"] in (
            [],
            [GPU],
        )


@cases(
    "listed, expected",
    {
        "equal ones": (["a=x", "a=x"], ["a=x"]),
        "one covers the other": (["a=x", "a", "b=y"], ["a", "b=y"]),
        "one covers everything": (["", "a=x"], [""]),
        "the longer one": (["a:NoExecute5", "a:NoExecute9"], ["a:NoExecute9"]),
    },
)
def test_redundant_tolerations_are_removed(listed: list[str], expected: list[str]) -> None:
    def toleration(text: str) -> dict[str, Any]:
        key, _, effect = text.partition(":")
        key, equal, value = key.partition("=")
        result: dict[str, Any] = {"operator": "Equal", "value": value} if equal else {"operator": "Exists"}
        if key:
            result["key"] = key
        if effect:
            result.update(effect=effect[:-1], tolerationSeconds=int(effect[-1]))
        return result

    assert merge_tolerations([toleration(text) for text in listed]) == [toleration(text) for text in expected]


async def test_pod_gets_topology_labels_of_its_node(api: Api) -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    labels = {zone: "z", region: "r", "other": "o"}
    await api.create("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    await api.create("/api/v1/nodes", {"metadata": {"name": "plain"}})
    for name in ("a", "b"):
        await api.create(PODS, pod(name, labels={"mine": "m", zone: "other"}))
    for name, node in (("a", "n"), ("b", "plain")):
        target = {"kind": "Node", "name": node}
        await api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    await api.create(PODS, pod("c", nodeName="n"))
    await api.patch(f"{PODS}/c", {"metadata": {"labels": {zone: None}}})
    assert [(await api.get(f"{PODS}/{name}")).meta["labels"] for name in ("a", "b", "c")] == [
        {"mine": "m", zone: "z", region: "r"},
        {"mine": "m", zone: "other"},
        {region: "r"},
    ]
