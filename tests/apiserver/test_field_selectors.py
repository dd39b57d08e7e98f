"""Selectable fields of every kind, and errors for other fields (facts from kube-apiserver v1.36.2)."""

from tests.apiserver.api import Api
from tests.apiserver.samples import collection, every_kind, kind_id
from tests.tables import cases

from pilothouse.apiserver.resources import ResourceInfo

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS = {
    "v1 Pod": (
        "spec.nodeName",
        "spec.host",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "v1 Node": ("spec.unschedulable",),
    "v1 Namespace": ("status.phase",),
    "v1 Event": (
        *(f"involvedObject.{field}" for field in _REFERENCE),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.k8s.io/v1 Event": (
        *(f"regarding.{field}" for field in _REFERENCE),
        "reason",
        "reportingController",
        "type",
    ),
    "v1 Secret": ("type",),
    "v1 Service": ("spec.clusterIP", "spec.type"),
    "v1 ReplicationController": ("status.replicas",),
    "batch/v1 Job": ("status.successful",),
    "certificates.k8s.io/v1 CertificateSigningRequest": ("spec.signerName",),
    "resource.k8s.io/v1 ResourceSlice": ("spec.nodeName", "spec.driver"),
}
_NO_NAMESPACE = {
    "v1 Node",
    "v1 Namespace",
    "certificates.k8s.io/v1 CertificateSigningRequest",
    "resource.k8s.io/v1 ResourceSlice",
}
_REFUSALS = {
    "batch/v1 Job": 'field label "{}" not supported for Job',
    "resource.k8s.io/v1 ResourceSlice": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}
_OWN = "field label not supported: {}"
_OTHERS = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@every_kind
async def test_selectable_fields(api: Api, info: ResourceInfo) -> None:
    name = kind_id(info)
    known = {"metadata.name", "metadata.namespace", *_FIELDS.get(name, ())}
    if name in _NO_NAMESPACE:
        known.discard("metadata.namespace")

    refusal = _REFUSALS.get(name, _OWN if name in _FIELDS else _OTHERS)
    expected_fields = sorted({*known, "metadata.namespace", "spec.foo"})
    for field, answer in {
        field: await api.get(f"{collection(info, '')}?fieldSelector={field}%3Dx") for field in expected_fields
    }.items():
        if field in known:
            assert answer.status == 200, answer.text
        else:
            assert (answer.status, answer.message) == (400, refusal.format(field))


def _event(name: str, **fields: str | dict[str, str]) -> dict[str, object]:
    regarding = {"kind": "Pod", "name": "p", "namespace": "default"}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "involvedObject": regarding, **fields}


@cases(
    "selector, expected",
    {
        "the component of the source": ("source=old", ["a", "b"]),
        "source falls back to reportingController": ("source=new", ["c"]),
        "source != falls back to reportingController": ("source!=new", ["a", "b", "d"]),
        "neither source nor reportingController": ("source=", ["d"]),
        "reportingComponent ignores the source": ("reportingComponent=new", ["b", "c"]),
    },
)
async def test_event_source(api: Api, selector: str, expected: list[str]) -> None:
    """``ToSelectableFields`` of kubernetes' ``pkg/registry/core/event`` (v1.36)."""
    for event in (
        _event("a", source={"component": "old"}),
        _event("b", source={"component": "old"}, reportingComponent="new"),
        _event("c", source={"host": "node-0"}, reportingComponent="new"),
        _event("d"),
    ):
        await api.create("/api/v1/namespaces/default/events", event)
    assert [
        event["metadata"]["name"]
        for event in (
            await api.request("GET", f"/api/v1/namespaces/default/events?fieldSelector={selector.replace('=', '%3D')}")
        ).body["items"]
    ] == expected
