"""Which fields of which kind can be selected by, and the answer to any other (facts from kube-apiserver v1.36.2)."""

import pytest
from tests.apiserver.api import Answer, Api, on
from tests.apiserver.test_every_kind import _KINDS, _id

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


def _collection(info: ResourceInfo) -> str:
    return f"/apis/{info.api_version}/{info.resource}" if info.group else f"/api/{info.version}/{info.resource}"


@pytest.mark.parametrize("info", _KINDS, ids=_id)
def test_fields(info: ResourceInfo) -> None:
    name = _id(info)
    known = {"metadata.name", "metadata.namespace", *_FIELDS.get(name, ())}
    if name in _NO_NAMESPACE:
        known.discard("metadata.namespace")

    async def main(api: Api) -> dict[str, Answer]:
        asked = sorted({*known, "metadata.namespace", "spec.foo"})
        return {field: await api.get(f"{_collection(info)}?fieldSelector={field}%3Dx") for field in asked}

    refusal = _REFUSALS.get(name, _OWN if name in _FIELDS else _OTHERS)
    for field, answer in on(main).items():
        if field in known:
            assert answer.status == 200, answer.text
        else:
            assert (answer.status, answer.message) == (400, refusal.format(field))
