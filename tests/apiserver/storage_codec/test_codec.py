"""Values in etcd: those written by kube-apiserver v1.36.2 and by older releases.

``data/storage-v1.36.2.json.xz`` has the stored values of at least one object of every kind, and its responses for the
same objects.
"""

import base64
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pilothouse.apiserver.resources import BEHIND_GATES, built_in
from pilothouse.apiserver.serializers.protobuf import envelope
from pilothouse.apiserver.serializers.protobuf_encoding import marshal
from pilothouse.apiserver.serializers.protobuf_table import older_table
from pilothouse.apiserver.storage_codec import CodecError, KeyLayout, ObjectCodec
from pilothouse.apiserver.storage_codec.definitions import from_v1beta1, to_v1beta1

_DATA = Path(__file__).parent / "data" / "storage-v1.36.2.json.xz"
LAYOUT, CODEC = KeyLayout(), ObjectCodec()
_DEFAULTED = ("/registry/jobs/", "/registry/persistentvolumeclaims/")
"""Upstream fills in defaults as it reads these, and would write them with the next change."""
_RAW = "/registry/controllerrevisions/"
"""Raw JSON of the client, spaces included."""


@cache
def _recorded() -> Any:
    return json.loads(lzma.decompress(_DATA.read_bytes()))


def _stored() -> dict[str, bytes]:
    return {item["key"]: base64.b64decode(item["value"]) for item in _recorded()["etcd"]}


def _responses() -> dict[tuple[str, str], Any]:
    return {(value["metadata"].get("uid"), value["apiVersion"]): value for value in _recorded()["shown"].values()}


def test_every_recorded_key_is_known() -> None:
    none = []
    for etcd_key in _stored():
        key = LAYOUT.key(etcd_key)
        if key is None:
            none.append(etcd_key.split("/")[2])
        else:
            assert LAYOUT.etcd_key(key) == etcd_key
    assert none == ["peerserverleases"]


def test_objects_stored_by_v1_36_are_decoded() -> None:
    objects = _responses()
    for etcd_key, data in _stored().items():
        key = LAYOUT.key(etcd_key)
        if key is None or key.startswith("/rangeallocations/"):
            continue
        value = CODEC.decode(key, data, 77)
        read = json.loads(value)
        assert read["metadata"].pop("resourceVersion") == "77"
        expected = json.loads(json.dumps(objects[read["metadata"]["uid"], read["apiVersion"]]))
        del expected["metadata"]["resourceVersion"]
        assert read == expected, etcd_key
        assert list(read["metadata"]) == list(expected["metadata"])
        assert (
            list(read)[3:]
            == [name for name in expected if name not in ("metadata", "kind", "apiVersion")][: len(read) - 3]
        )


def test_stored_objects_round_trip_byte_for_byte() -> None:
    compared = 0
    for etcd_key, data in _stored().items():
        key = LAYOUT.key(etcd_key)
        if key is None or etcd_key.startswith((*_DEFAULTED, _RAW)):
            continue
        assert CODEC.encode(key, CODEC.decode(key, data, 5)) == data, etcd_key
        compared += 1
    assert compared == 264


def test_storage_keys_are_unique() -> None:
    result: dict[str, str] = {}
    for info in (*built_in(), *(info for infos in BEHIND_GATES.values() for info in infos)):
        if "create" not in info.verbs or "list" not in info.verbs or info.group == "metrics.k8s.io":
            continue
        key = info.key("ns", "name")
        etcd_key = LAYOUT.etcd_key(key)
        assert LAYOUT.key(etcd_key) == key
        assert result.setdefault(etcd_key, key) == key
    assert len(result) > 60


@pytest.mark.parametrize(
    ("etcd_key", "key"),
    [
        pytest.param("/registry/services/specs/ns/web", "/services/ns/web", id="services"),
        pytest.param("/registry/services/endpoints/ns/web", "/endpoints/ns/web", id="endpoints"),
        pytest.param("/registry/minions/n1", "/nodes/n1", id="nodes"),
        pytest.param("/registry/ingress/ns/a", "networking.k8s.io/ingresses/ns/a", id="ingresses"),
        pytest.param("/registry/stable.example.com/crontabs/ns/a", "stable.example.com/crontabs/ns/a", id="custom"),
        pytest.param(
            "/registry/stable.example.com/things/a", "stable.example.com/things/a", id="custom of the cluster"
        ),
        pytest.param("/registry/ranges/serviceips", "/rangeallocations/serviceips", id="a range"),
        pytest.param("/registry/masterleases/10.0.0.1", "/masterleases/10.0.0.1", id="a lease of a server"),
        pytest.param("/registry/podsecuritypolicy/restricted", None, id="podsecuritypolicies of v1.24"),
        pytest.param("/other/pods/ns/a", None, id="key outside the prefix"),
        pytest.param("/registry/health", None, id="the health key of older releases"),
        pytest.param("/registry/pods/", None, id="a prefix and nothing below"),
    ],
)
def test_keys(etcd_key: str, key: str | None) -> None:
    assert LAYOUT.key(etcd_key) == key
    if key is not None:
        assert LAYOUT.etcd_key(key) == etcd_key


@pytest.mark.parametrize(
    ("prefix", "root"),
    [
        pytest.param("/registry", "/registry/", id="default prefix"),
        pytest.param("kubernetes.io", "/kubernetes.io/", id="prefix without slashes"),
        pytest.param("/a/b/", "/a/b/", id="prefix of two segments"),
    ],
)
def test_root_of_the_keys(prefix: str, root: str) -> None:
    assert KeyLayout(prefix).etcd_key("/pods/ns/a") == f"{root}pods/ns/a"


def _older(api_version: str, kind: str, obj: Any) -> bytes:
    document = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, **obj}
    return envelope(api_version, kind, marshal(older_table().kinds[f"{api_version} {kind}"], document))


_POD = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize(
    ("key", "api_version", "kind", "obj", "expected"),
    [
        pytest.param(
            "batch/cronjobs/ns/x",
            "batch/v1beta1",
            "CronJob",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _POD}}}},
            ("batch/v1", ("spec", "schedule"), "* * * * *"),
            id="CronJob",
        ),
        pytest.param(
            "policy/poddisruptionbudgets/ns/x",
            "policy/v1beta1",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 1, "selector": {}}},
            ("policy/v1", ("spec",), {"minAvailable": 1}),
            id="PodDisruptionBudget that selects nothing",
        ),
        pytest.param(
            "discovery.k8s.io/endpointslices/ns/x",
            "discovery.k8s.io/v1beta1",
            "EndpointSlice",
            {
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"], "topology": {"kubernetes.io/hostname": "n1"}}],
            },
            ("discovery.k8s.io/v1", ("endpoints", 0, "nodeName"), "n1"),
            id="EndpointSlice with topology",
        ),
        pytest.param(
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations/x",
            "flowcontrol.apiserver.k8s.io/v1beta1",
            "PriorityLevelConfiguration",
            {
                "spec": {
                    "type": "Limited",
                    "limited": {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}},
                }
            },
            ("flowcontrol.apiserver.k8s.io/v1", ("spec", "limited", "nominalConcurrencyShares"), 7),
            id="PriorityLevelConfiguration with assured shares",
        ),
        pytest.param(
            "storage.k8s.io/csistoragecapacities/ns/x",
            "storage.k8s.io/v1beta1",
            "CSIStorageCapacity",
            {"storageClassName": "fast"},
            ("storage.k8s.io/v1", ("storageClassName",), "fast"),
            id="CSIStorageCapacity",
        ),
    ],
)
def test_older_storage_versions(key: str, api_version: str, kind: str, obj: Any, expected: Any) -> None:
    read = json.loads(CODEC.decode(key, _older(api_version, kind, obj), 3))
    version, path, value = expected
    assert (read["apiVersion"], read["kind"]) == (version, kind)
    at: Any = read
    for part in path:
        at = at[part]
    assert at == value
    assert json.loads(CODEC.decode(key, CODEC.encode(key, json.dumps(read).encode()), 3)) == read


def test_v1_autoscaler_is_decoded_as_v2() -> None:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    }
    obj = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": spec, "status": {"desiredReplicas": 1}}
    message = "autoscaling.v1.HorizontalPodAutoscaler"
    data = envelope("autoscaling/v1", "HorizontalPodAutoscaler", marshal(message, obj))
    read = json.loads(CODEC.decode("autoscaling/horizontalpodautoscalers/ns/x", data, 3))
    assert read["apiVersion"] == "autoscaling/v2"
    assert read["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}


def test_custom_resources_are_sorted_json_without_their_revision() -> None:
    value = (
        b'{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"ns","uid":"u",'
        b'"resourceVersion":"9","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"b":1,"a":"<&>"}}'
    )
    data = CODEC.encode("example.com/foos/ns/a", value)
    assert data == (
        b'{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",'
        b'"name":"a","namespace":"ns","uid":"u"},"spec":{"a":"\\u003c\\u0026\\u003e","b":1}}\n'
    )
    read = CODEC.decode("example.com/foos/ns/a", data, 12)
    assert read.startswith(
        b'{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"ns","uid":"u",'
    )
    assert json.loads(read) == {
        **json.loads(value),
        "metadata": {**json.loads(value)["metadata"], "resourceVersion": "12"},
    }


_VERSIONS = [
    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
    {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
]
_COLUMN = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        pytest.param(
            {"group": "g.io", "versions": _VERSIONS, "conversion": {"strategy": "None"}},
            ("validation", {"openAPIV3Schema": {"type": "object"}}),
            id="fields common to all versions move to the spec",
        ),
        pytest.param(
            {
                "group": "g.io",
                "versions": [{**_VERSIONS[0], "additionalPrinterColumns": [_COLUMN]}, {**_VERSIONS[1], "schema": {}}],
                "conversion": {"strategy": "None"},
            },
            ("validation", None),
            id="fields that differ stay in the versions",
        ),
        pytest.param(
            {
                "group": "g.io",
                "versions": [{**_VERSIONS[0], "additionalPrinterColumns": [_COLUMN]}],
                "conversion": {"strategy": "None"},
            },
            (
                "additionalPrinterColumns",
                [{"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}],
            ),
            id="columns have another name for their path",
        ),
        pytest.param(
            {
                "group": "g.io",
                "versions": _VERSIONS,
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]},
                },
            },
            (
                "conversion",
                {
                    "strategy": "Webhook",
                    "webhookClientConfig": {"url": "https://a"},
                    "conversionReviewVersions": ["v1"],
                },
            ),
            id="a webhook",
        ),
        pytest.param(
            {"group": "g.io", "versions": _VERSIONS, "conversion": {"strategy": "None"}, "preserveUnknownFields": True},
            ("preserveUnknownFields", True),
            id="unknown fields are kept",
        ),
    ],
)
def test_definitions_are_stored_in_v1beta1(spec: Any, stored: tuple[str, Any]) -> None:
    definition = {"metadata": {"name": "a"}, "spec": spec, "status": {"storedVersions": ["v1"]}}
    converted = to_v1beta1(definition)
    assert converted["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert converted["spec"]["version"] == "v1"
    assert converted["spec"].get(stored[0]) == stored[1]
    assert from_v1beta1(converted) == definition


def test_single_version_definition_is_converted() -> None:
    """As releases before v1.11 stored them."""
    read = from_v1beta1({"metadata": {}, "spec": {"group": "g.io", "version": "v1", "validation": {"x": 1}}})
    assert read["spec"]["versions"] == [{"name": "v1", "served": True, "storage": True, "schema": {"x": 1}}]
    assert read["spec"]["preserveUnknownFields"] is True


@pytest.mark.parametrize(
    ("key", "data", "message"),
    [
        pytest.param("/pods/ns/x", b"k8s\x00\xff\xff", "can't be decoded", id="a broken envelope"),
        pytest.param("/pods/ns/x", b"k8s\x00", 'no kind "" is known', id="an empty envelope"),
        pytest.param("/pods/ns/x", b"", "can't be decoded", id="empty value"),
        pytest.param("/pods/ns/x", envelope("v1", "Node", b""), "is a Node and not a Pod", id="another kind"),
        pytest.param("/pods/ns/x", envelope("v1", "Pod", b""), "has no uid", id="an empty object"),
        pytest.param("/pods/ns/x", envelope("v9", "Pod", b""), 'in version "v9"', id="unknown version"),
        pytest.param("/pods/ns/x", b'{"kind":"Pod","apiVersion":"v1","metadata":[]}', "can't be decoded", id="a list"),
        pytest.param("a.io/b/x", b'{"kind":"B","metadata":{"uid":"u"}}', "can't be decoded", id="missing apiVersion"),
        pytest.param(
            "a.io/b/x",
            b'{"kind":"B","apiVersion":"a.io/v1","metadata":{"uid":"u\\""}}',
            "invalid metadata.uid",
            id="a quote before the revision",
        ),
    ],
)
def test_undecodable_value_is_an_error(key: str, data: bytes, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        CODEC.decode(key, data, 3)


@pytest.mark.parametrize(
    ("key", "api_version", "kind", "fields"),
    [
        ("/namespaces/a", "v1", "Namespace", {"spec": 7}),
        ("/services/default/a", "v1", "Service", {"spec": {"ports": [{"nodePort": "x"}]}}),
        ("rbac.authorization.k8s.io/clusterroles/a", "rbac.authorization.k8s.io/v1", "ClusterRole", {"rules": 7}),
        (
            "apiextensions.k8s.io/customresourcedefinitions/a", "apiextensions.k8s.io/v1", "CustomResourceDefinition",
            {"spec": {"versions": [{"name": "v1", "served": "yes"}]}},
        ),
        ("apiregistration.k8s.io/apiservices/a", "apiregistration.k8s.io/v1", "APIService", {"spec": {"group": []}}),
    ],
)  # fmt: skip
def test_json_with_wrong_types_is_an_error(key: str, api_version: str, kind: str, fields: Any) -> None:
    whole = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "uid": "u"}}
    assert json.loads(CODEC.decode(key, json.dumps(whole).encode(), 3))["metadata"]["resourceVersion"] == "3"
    with pytest.raises(CodecError, match="cannot unmarshal"):
        CODEC.decode(key, json.dumps({**whole, **fields}).encode(), 3)
