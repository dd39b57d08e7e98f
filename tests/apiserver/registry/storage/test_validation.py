"""Validation of the kinds of storage.k8s.io (kubernetes ``pkg/apis/storage/validation``, v1.36)."""

from typing import Any

from tests.apiserver.api import Api, Object, errors_of
from tests.tables import cases

STORAGE = "/apis/storage.k8s.io/v1/"
ATTACHMENT: Object = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
CSI = {"driver": "d.example.com", "volumeHandle": "h"}
SPEC = "spec.source.inlineVolumeSpec"
INLINE = "may not be specified in the context of inline volumes"


def _node(**driver: Any) -> Object:
    return {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", **driver}]}}


def _inline(**spec: Any) -> Object:
    fields = {"accessModes": ["ReadWriteOnce"], "csi": CSI, **spec}
    source = {"inlineVolumeSpec": {name: value for name, value in fields.items() if value is not None}}
    return {"spec": {**ATTACHMENT, "source": source}}


@cases(
    "resource, obj, expected",
    {
        "driver name too long": (
            "csinodes",
            _node(name="a" * 64),
            ["spec.drivers[0].name: Too long: may not be more than 63 bytes"],
        ),
        "node ID too long": (
            "csinodes",
            _node(nodeID="n" * 257),
            [f'spec.drivers[0].nodeID: Invalid value: "{"n" * 257}": must be 256 characters or less'],
        ),
        "negative allocatable count": (
            "csinodes",
            _node(allocatable={"count": -1}),
            ["spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0"],
        ),
        "too many parameters": (
            "storageclasses",
            {"provisioner": "p", "parameters": {str(number): "" for number in range(513)}},
            ["parameters: Too long: may not be more than 512 bytes"],
        ),
        "empty parameter name, and parameters too large": (
            "storageclasses",
            {"provisioner": "p", "parameters": {"": "x" * 262145}},
            [
                'parameters: Invalid value: "": field can not be empty.',
                "parameters: Too long: may not be more than 262144 bytes",
            ],
        ),
        "VolumeAttributesClass without parameters": (
            "volumeattributesclasses",
            {"driverName": "d", "parameters": {}},
            ["parameters: Required value: must contain at least one key/value pair"],
        ),
        "invalid CSIDriver": (
            "csidrivers",
            {
                "spec": {
                    "fsGroupPolicy": "Odd",
                    "tokenRequests": [{"audience": "a", "expirationSeconds": 599}, {"audience": "a"}],
                    "volumeLifecycleModes": ["Odd"],
                    "nodeAllocatableUpdatePeriodSeconds": 9,
                    "preventPodSchedulingIfMissing": False,
                }
            },
            [
                'spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", '
                '"ReadWriteOnceWithFSType"',
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 "
                "minutes",
                'spec.tokenRequests[1].audience: Duplicate value: "a"',
                'spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral"',
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 "
                "seconds",
            ],
        ),
        "serviceAccountTokenInSecrets without token requests": (
            "csidrivers",
            {"spec": {"serviceAccountTokenInSecrets": True}},
            [
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no "
                "tokenRequests are specified"
            ],
        ),
        "negative capacity and invalid topology": (
            "namespaces/default/csistoragecapacities",
            {
                "storageClassName": "c",
                "capacity": "-1",
                "nodeTopology": {"matchExpressions": [{"key": "a", "operator": "In"}]},
            },
            [
                "nodeTopology.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
                "'NotIn'",
                'capacity: Invalid value: "-1": must be greater than or equal to 0',
            ],
        ),
        "inline volume without csi": (
            "volumeattachments",
            _inline(csi=None, nfs={"server": "s", "path": "/"}, capacity={"storage": "1"}, storageClassName="c"),
            [
                f"{SPEC}.capacity: Forbidden: {INLINE}",
                f"{SPEC}.csi: Required value: has to be specified in the context of inline volumes",
                f"{SPEC}.storageClassName: Forbidden: {INLINE}",
            ],
        ),
        "reclaim policy and volume mode of an inline volume": (
            "volumeattachments",
            _inline(persistentVolumeReclaimPolicy="Delete", volumeMode="Block", accessModes=None),
            [
                f"{SPEC}.accessModes: Required value",
                f"{SPEC}.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
                f"{SPEC}.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in "
                "the context of inline volumes",
            ],
        ),
    },
)
async def test_rejected_values(api: Api, resource: str, obj: Object, expected: list[str]) -> None:
    assert errors_of(await api.post(STORAGE + resource, {"metadata": {"name": "x"}, **obj})) == expected


@cases(
    "status, expected",
    {
        "attachment metadata too large": (
            {"attachmentMetadata": {"k": "x" * 262145}},
            ["status.attachmentMetadata: Too long: may not be more than 262144 bytes"],
        ),
        "message too long and negative error code": (
            {"attachError": {"message": "x" * 1025}, "detachError": {"errorCode": -1}},
            [
                "status.attachError.message: Too long: may not be more than 262144 bytes",
                "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
    },
)
async def test_rejected_volume_attachment_statuses(api: Api, status: Object, expected: list[str]) -> None:
    await api.create(STORAGE + "volumeattachments", {"metadata": {"name": "x"}, "spec": ATTACHMENT})
    assert (
        errors_of(await api.patch(STORAGE + "volumeattachments/x/status", {"status": {"attached": False, **status}}))
        == expected
    )


async def test_volume_attributes_class_is_immutable(api: Api) -> None:
    body = {"metadata": {"name": "x"}, "driverName": "d", "parameters": {"a": "b"}}
    await api.create(STORAGE + "volumeattributesclasses", body)
    assert errors_of(
        await api.patch(STORAGE + "volumeattributesclasses/x", {"driverName": "e", "parameters": {"a": "c"}})
    ) == [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden.",
    ]
