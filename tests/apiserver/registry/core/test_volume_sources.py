"""Validation of volume sources and of the downward API.

``golden/volume_sources.json`` has the messages. They were compared with those of a kube-apiserver v1.20.2; the few that
have changed since (ephemeral volumes, several sources in one volume, fields with addresses, secrets of CSI drivers)
follow v1.36.2 (``pkg/apis/core/validation/validation.go``).
"""

from typing import Any

import pytest
from tests.apiserver.api import PODS, Answer, Api, Object, pod
from tests.apiserver.test_validation import causes as causes_with_messages
from tests.golden import Golden
from tests.tables import cases

VOLUMES = "/api/v1/persistentvolumes"
REQUIRED, INVALID, UNSUPPORTED, FORBIDDEN, NOT_FOUND = (
    f"FieldValue{word}" for word in ("Required", "Invalid", "NotSupported", "Forbidden", "NotFound")
)
Causes = list[tuple[str, str]]
IQN = "iqn.2001-04.com.example:storage.x"
VOLUME = "spec.volumes[0]"


def causes(answer: Answer) -> Causes:
    if answer.status == 201:
        return []
    assert answer.status == 422, answer.text
    return [(cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]]


SOURCES: list[tuple[Object, Causes]] = [
    ({}, []),
    ({"emptyDir": {"sizeLimit": "-1"}}, [(f"{VOLUME}.emptyDir.sizeLimit", FORBIDDEN)]),
    ({"emptyDir": {}, "hostPath": {}}, [(f"{VOLUME}.hostPath", FORBIDDEN)]),
    ({"hostPath": {"path": "/a/../b"}}, [(f"{VOLUME}.hostPath.path", INVALID)]),
    ({"hostPath": {"path": "/a", "type": "X"}}, [(f"{VOLUME}.hostPath.type", UNSUPPORTED)]),
    ({"gitRepo": {"repository": "r", "directory": "/x"}}, [(f"{VOLUME}.gitRepo.directory", INVALID)]),
    ({"gcePersistentDisk": {"pdName": "d", "partition": 256}}, [(f"{VOLUME}.persistentDisk.partition", INVALID)]),
    ({"awsElasticBlockStore": {"volumeID": ""}}, [(f"{VOLUME}.awsElasticBlockStore.volumeID", REQUIRED)]),
    ({"secret": {"secretName": "s", "defaultMode": 512}}, [(f"{VOLUME}.secret.defaultMode", INVALID)]),
    (
        {"configMap": {"name": "c", "items": [{"key": "", "path": "../x"}, {"key": "k", "path": "..x", "mode": -1}]}},
        [
            (f"{VOLUME}.configMap.items[0].key", REQUIRED),
            (f"{VOLUME}.configMap.items[0].path", INVALID),
            (f"{VOLUME}.configMap.items[1].path", INVALID),
            (f"{VOLUME}.configMap.items[1].mode", INVALID),
        ],
    ),
    ({"nfs": {"server": "s", "path": "x"}}, [(f"{VOLUME}.nfs.path", INVALID)]),
    (
        {"nfs": {}},
        [(f"{VOLUME}.nfs.server", REQUIRED), (f"{VOLUME}.nfs.path", REQUIRED), (f"{VOLUME}.nfs.path", INVALID)],
    ),
    ({"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0}}, []),
    (
        {"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 256}},
        [(f"{VOLUME}.iscsi.iqn", INVALID), (f"{VOLUME}.iscsi.lun", INVALID)],
    ),
    (
        {"iscsi": {"targetPortal": "p", "iqn": IQN, "lun": 0, "chapAuthSession": True, "initiatorName": "naa.1"}},
        [(f"{VOLUME}.iscsi.secretRef", REQUIRED), (f"{VOLUME}.iscsi.initiatorname", INVALID)],
    ),
    (
        {"iscsi": {"targetPortal": "p" * 64, "iqn": IQN, "lun": 0, "initiatorName": IQN}},
        [(f"{VOLUME}.name", INVALID)],
    ),
    ({"glusterfs": {}}, [(f"{VOLUME}.glusterfs.endpoints", REQUIRED), (f"{VOLUME}.glusterfs.path", REQUIRED)]),
    ({"flocker": {}}, [(f"{VOLUME}.flocker", REQUIRED)]),
    (
        {"flocker": {"datasetName": "a/b", "datasetUUID": "u"}},
        [(f"{VOLUME}.flocker", INVALID), (f"{VOLUME}.flocker.datasetName", INVALID)],
    ),
    ({"rbd": {"monitors": []}}, [(f"{VOLUME}.rbd.monitors", REQUIRED), (f"{VOLUME}.rbd.image", REQUIRED)]),
    ({"cinder": {"volumeID": "v", "secretRef": {}}}, [(f"{VOLUME}.cinder.secretRef.name", REQUIRED)]),
    ({"cephfs": {}}, [(f"{VOLUME}.cephfs.monitors", REQUIRED)]),
    ({"quobyte": {"registry": "h:1,[::1]:2", "volume": "v"}}, []),
    (
        {"quobyte": {"registry": "h,[::1]", "volume": ""}},
        [(f"{VOLUME}.quobyte.registry", INVALID)] * 2 + [(f"{VOLUME}.quobyte.volume", REQUIRED)],
    ),
    ({"quobyte": {"registry": "h:1", "volume": "v", "tenant": "t" * 65}}, [(f"{VOLUME}.quobyte.tenant", REQUIRED)]),
    ({"fc": {}}, [(f"{VOLUME}.fc.targetWWNs", REQUIRED)]),
    ({"fc": {"targetWWNs": ["w"]}}, [(f"{VOLUME}.fc.lun", REQUIRED)]),
    (
        {"fc": {"targetWWNs": ["w"], "wwids": ["w"], "lun": 999}},
        [(f"{VOLUME}.fc.targetWWNs", INVALID), (f"{VOLUME}.fc.lun", INVALID)],
    ),
    (
        {"flexVolume": {"driver": "d", "options": {"x.kubernetes.io/a": "b"}}},
        [(f"{VOLUME}.flexVolume.options[x.kubernetes.io/a]", INVALID)],
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "x", "cachingMode": "Y"}},
        [(f"{VOLUME}.azureDisk.cachingMode", UNSUPPORTED), (f"{VOLUME}.azureDisk.diskURI", UNSUPPORTED)],
    ),
    (
        {"storageos": {"volumeName": "A", "secretRef": {}}},
        [(f"{VOLUME}.storageos.volumeName", INVALID), (f"{VOLUME}.storageos.secretRef.name", REQUIRED)],
    ),
    ({"csi": {"driver": "a_b"}}, [(f"{VOLUME}.csi.driver", INVALID)]),
    ({"ephemeral": {}}, [(f"{VOLUME}.ephemeral.volumeClaimTemplate", REQUIRED)]),
    (
        {"downwardAPI": {"items": [{"path": "/x"}, {"path": "y", "fieldRef": {"fieldPath": "spec.nodeName"}}]}},
        [
            (f"{VOLUME}.downwardAPI.path", INVALID),
            (f"{VOLUME}.downwardAPI", REQUIRED),
            (f"{VOLUME}.downwardAPI.fieldRef.fieldPath", UNSUPPORTED),
        ],
    ),
    (
        {
            "projected": {
                "sources": [
                    {"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                    {"configMap": {"items": [{"key": "k", "path": "p"}]}, "secret": {"name": "b"}},
                    {"serviceAccountToken": {"path": "", "expirationSeconds": 599}},
                ]
            }
        },
        [
            (f"{VOLUME}.projected.sources[1].configMap.name", REQUIRED),
            (f"{VOLUME}.projected", INVALID),
            (f"{VOLUME}.projected.sources[1]", FORBIDDEN),
            (f"{VOLUME}.projected.sources[2].serviceAccountToken.expirationSeconds", INVALID),
            (f"{VOLUME}.projected.path", REQUIRED),
            (f"{VOLUME}.projected.sources[2].serviceAccountToken", FORBIDDEN),
        ],
    ),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES, ids=[str(source)[:60] for source, _ in SOURCES])
async def test_pod_volumes(api: Api, source: Object, expected: Causes) -> None:
    assert causes(await api.post(PODS, pod(volumes=[{"name": "v", **source}]))) == expected


async def test_invalid_volume_cannot_be_mounted(api: Api) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    assert causes(
        await api.post(PODS, pod(volumes=[{"name": "v", "nfs": {"server": "s", "path": "x"}}], containers=[container]))
    ) == [
        (f"{VOLUME}.nfs.path", INVALID),
        ("spec.containers[0].volumeMounts[0].name", "FieldValueNotFound"),
    ]


PERSISTENT: list[tuple[Object, Causes]] = [
    (
        {"hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"},
        [("spec.persistentVolumeReclaimPolicy", FORBIDDEN)],
    ),
    ({"csi": {"driver": "d"}}, [("spec.csi.volumeHandle", REQUIRED)]),
    (
        {"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "_"}}},
        [("spec.csi.nodePublishSecretRef.namespace", REQUIRED), ("spec.csi.nodePublishSecretRef.name", INVALID)],
    ),
    ({"local": {"path": "/a/.."}}, [("spec.local.path", INVALID), ("spec.nodeAffinity", REQUIRED)]),
    (
        {"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
        [("spec.glusterfs.endpointsNamespace", INVALID)],
    ),
    (
        {"azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}},
        [("spec.azureFile.secretNamespace", REQUIRED)],
    ),
    (
        {"iscsi": {"targetPortal": "p" * 64, "iqn": IQN, "lun": 0, "initiatorName": IQN}},
        [("spec.iscsi.targetportal", INVALID)],
    ),
    (
        {"nfs": {"server": "s", "path": "/"}, "flexVolume": {"driver": ""}, "csi": {}},
        [("spec.flexVolume.driver", REQUIRED), ("spec.csi", FORBIDDEN)],
    ),
    ({"nfs": {"server": "s", "path": "/"}, "storageClassName": "A"}, [("spec.storageClassName", INVALID)]),
]


@pytest.mark.parametrize(("source", "expected"), PERSISTENT, ids=[str(source)[:60] for source, _ in PERSISTENT])
async def test_persistent_volumes(api: Api, source: Object, expected: Causes) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    assert causes(await api.post(VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})) == expected


ENV = "spec.containers[0].env[0].valueFrom"


REFERENCES: list[tuple[Object, Causes]] = [
    ({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, []),
    ({"fieldRef": {"fieldPath": "metadata.labels['a b']"}}, [(f"{ENV}.fieldRef", INVALID)]),
    ({"fieldRef": {"fieldPath": "metadata.labels"}}, [(f"{ENV}.fieldRef.fieldPath", UNSUPPORTED)]),
    ({"fieldRef": {"fieldPath": "metadata.name['x']"}}, [(f"{ENV}.fieldRef.fieldPath", INVALID)]),
    ({"fieldRef": {"fieldPath": "spec.x"}}, [(f"{ENV}.fieldRef.fieldPath", INVALID)]),
    ({"fieldRef": {"fieldPath": "spec.host"}}, []),
    ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, []),
    ({"resourceFieldRef": {"resource": "cpu"}}, [(f"{ENV}.resourceFieldRef.resource", UNSUPPORTED)]),
    (
        {"resourceFieldRef": {"resource": "limits.memory", "divisor": "2"}},
        [(f"{ENV}.resourceFieldRef.divisor", INVALID)],
    ),
]


@pytest.mark.parametrize(("source", "expected"), REFERENCES, ids=[str(source)[:60] for source, _ in REFERENCES])
async def test_downward_api(api: Api, source: Any, expected: Causes) -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": source}]}
    assert causes(await api.post(PODS, pod(containers=[container]))) == expected


MOUNT = "spec.containers[0].volumeMounts"


@cases(
    "mount, expected",
    {
        "empty mount": (
            {},
            [(f"{MOUNT}[0].name", REQUIRED), (f"{MOUNT}[0].name", NOT_FOUND), (f"{MOUNT}[0].mountPath", REQUIRED)],
        ),
        "absolute subPath": ({"subPath": "/x"}, [(f"{MOUNT}.subPath", INVALID)]),
        "subPath and subPathExpr": (
            {"subPath": "x", "subPathExpr": "y/.."},
            [(f"{MOUNT}[0].subPathExpr", INVALID), (f"{MOUNT}.subPathExpr", INVALID)],
        ),
        "unsupported propagation": ({"mountPropagation": "Up"}, [(f"{MOUNT}.mountPropagation", UNSUPPORTED)]),
        "Bidirectional in an unprivileged container": (
            {"mountPropagation": "Bidirectional"},
            [(f"{MOUNT}.mountPropagation", FORBIDDEN)],
        ),
    },
)
async def test_mounts(api: Api, mount: Object, expected: Causes) -> None:
    volume_mount = {"name": "v", "mountPath": "/v", **mount} if mount else {}
    container = {"name": "c", "image": "i", "volumeMounts": [volume_mount]}
    assert causes(await api.post(PODS, pod(volumes=[{"name": "v"}], containers=[container]))) == expected


async def test_error_messages(api: Api, golden: Golden) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    bodies = {
        **{f"volume {source}": (PODS, pod(volumes=[{"name": "v", **source}])) for source, errors in SOURCES if errors},
        **{
            f"reference {reference}": (
                PODS,
                pod(containers=[{**container, "env": [{"name": "A", "valueFrom": reference}]}]),
            )
            for reference, errors in REFERENCES
            if errors
        },
        **{
            f"persistent volume {source}": (VOLUMES, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
            for source, errors in PERSISTENT
            if errors
        },
    }
    golden.check(
        "volume_sources",
        {case: causes_with_messages(await api.post(path, body)) for case, (path, body) in bodies.items()},
    )
