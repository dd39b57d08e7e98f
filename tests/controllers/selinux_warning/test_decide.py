"""Volumes and SELinux labels of a pod, and messages about conflicts.

After v1.36 ``pkg/controller/volume/selinuxwarning/selinux_warning_controller_test.go``
(TestSELinuxWarningController_Sync), whose case names are used as ids, and the SELinux part of
``pkg/volume/util/util_test.go`` (TestGetPodVolumeNames).
"""

from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import Driver, PersistentVolume
from pilothouse.controllers.shared.volume_plugins import VolumeIdentity
from pilothouse.controllers.volumes.selinux_warning.decide import (
    MOUNT_OPTION,
    RECURSIVE,
    Conflict,
    VolumeUse,
    VolumeUses,
    decide,
    message_of,
    mixed_labels_message,
    mounted,
    mounts_with_label,
    reason_of,
)
from pilothouse.controllers.volumes.selinux_warning.views import MountingPod

Doc = dict[str, Any]
EBS = "ebs.csi.aws.com"
BY_CLAIM: Doc = {"name": "vol1", "persistentVolumeClaim": {"claimName": "pvc1"}}
INLINE: Doc = {"name": "inline", "awsElasticBlockStore": {"volumeID": "inlinevol1"}}
SCRATCH: Doc = {"name": "scratch", "emptyDir": {}}
PV1, OF_POD = (
    VolumeIdentity(f"kubernetes.io/csi/{EBS}^pv1", EBS),
    VolumeIdentity(f"kubernetes.io/csi/{EBS}^inlinevol1", EBS),
)
MOUNTED, EACH_FILE = VolumeUse(":::s0:c1,c2", MOUNT_OPTION), VolumeUse("", RECURSIVE)


def container(*mounts: str, **options: str) -> Doc:
    """A container that mounts these volumes, optionally with options of its own."""
    result: Doc = {"volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in mounts]}
    return {**result, "securityContext": {"seLinuxOptions": options}} if options else result


def pod(*volumes: Doc, level: str = "s0:c1,c2", policy: str | None = None, **spec: Any) -> MountingPod:
    """A pod whose only container mounts all volumes, unless containers are given."""
    context: Doc = {"seLinuxOptions": {"level": level}} if level else {}
    if policy is not None:
        context["seLinuxChangePolicy"] = policy
    spec.setdefault("containers", [container(*(volume["name"] for volume in volumes))])
    meta = {"namespace": "ns1", "name": "pod1", "uid": "pod"}
    whole = {"volumes": list(volumes), "securityContext": context, **spec}
    return msgspec.convert({"metadata": meta, "spec": whole}, MountingPod)


def claim(name: str = "pvc1", **meta: Any) -> PersistentVolumeClaim:
    doc = {
        "metadata": {"namespace": "ns1", "name": name, "uid": "uid1", **meta},
        "spec": {"volumeName": "pv1"},
        "status": {"phase": "Bound"},
    }
    return msgspec.convert(doc, PersistentVolumeClaim)


def bound(**source: Any) -> PersistentVolume:
    spec = {"claimRef": {"namespace": "ns1", "name": "pvc1", "uid": "uid1"}, **source}
    return msgspec.convert({"metadata": {"name": "pv1"}, "spec": spec}, PersistentVolume)


OF_EBS = bound(awsElasticBlockStore={"volumeID": "pv1"})


def evaluate(
    pod_object: MountingPod,
    volume: PersistentVolume | None = OF_EBS,
    claims: tuple[PersistentVolumeClaim, ...] = (claim(),),
) -> VolumeUses:
    """Evaluate a pod with this volume."""
    by_key = {f"ns1/{item.metadata.name}": item for item in claims}
    return decide(pod_object, by_key.get, ({} if volume is None else {"pv1": volume}).get)


def used(**uses: VolumeUse) -> VolumeUses:
    return VolumeUses({{"pv1": PV1, "inline": OF_POD}[name]: use for name, use in uses.items()}, (), ())


@cases(
    "pod_object, answer",
    {
        "existing pod with no volumes": (pod(), used()),
        "emptyDir": (pod(SCRATCH), used()),
        "existing pod with fully bound PVC": (pod(BY_CLAIM), used(pv1=MOUNTED)),
        "existing pod with fully bound PVC, Recursive change policy": (
            pod(BY_CLAIM, policy=RECURSIVE),
            used(pv1=EACH_FILE),
        ),
        "the policy that is the default": (pod(BY_CLAIM, policy=MOUNT_OPTION), used(pv1=MOUNTED)),
        "existing pod with inline volume": (pod(INLINE), used(inline=MOUNTED)),
        "existing pod with inline volume and PVC": (pod(BY_CLAIM, INLINE), used(pv1=MOUNTED, inline=MOUNTED)),
        "empty label implies Recursive policy": (pod(BY_CLAIM, level="", policy=MOUNT_OPTION), used(pv1=EACH_FILE)),
        "a volume that no container mounts": (pod(BY_CLAIM, containers=[container()]), used()),
        "a raw device has no files to label": (
            pod(BY_CLAIM, containers=[{"volumeDevices": [{"name": "vol1", "devicePath": "/d"}]}]),
            used(),
        ),
        "pod without securityContext": (pod(BY_CLAIM, securityContext=None), used(pv1=EACH_FILE)),
    },
)
def test_volumes_of_a_pod(pod_object: MountingPod, answer: VolumeUses) -> None:
    assert evaluate(pod_object) == answer


@pytest.mark.parametrize(("says", "mounts"), [(True, True), (False, False), (None, False)])
def test_csi_driver_selinux_mount(says: bool | None, mounts: bool) -> None:
    assert mounts_with_label(msgspec.convert({"spec": {"seLinuxMount": says}}, Driver)) is mounts
    assert not mounts_with_label(None), "nobody knows it"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.x", "lun": 2}}, "iscsi/10.0.0.1:3260:iqn.x:2"),
        ({"fc": {"targetWWNs": ["5a", "5b"], "lun": 0}}, "fc/[5a 5b]:0"),
        ({"fc": {"wwids": ["36"]}}, "fc/[36]"),
    ],
    ids=["iSCSI", "Fibre Channel by port", "Fibre Channel by disk"],
)
def test_iscsi_and_fc_support_selinux_mount(source: Doc, name: str) -> None:
    place = VolumeIdentity(f"kubernetes.io/{name}", "")
    assert evaluate(pod(BY_CLAIM), bound(**source)).uses == {place: MOUNTED}
    assert evaluate(pod({"name": "mine", **source})).uses == {place: MOUNTED}


@pytest.mark.parametrize("source", [{"nfs": {"server": "s"}}, {"hostPath": {"path": "/x"}}, {"local": {"path": "/x"}}])
def test_volumes_without_selinux_mount_support_are_ignored(source: Doc) -> None:
    assert evaluate(pod(BY_CLAIM), bound(**source)) == used()


@pytest.mark.parametrize(
    ("claims", "volume"),
    [((), OF_EBS), ((claim(),), None), ((claim(uid="another"),), OF_EBS)],
    ids=["existing pod with unbound PVC", "missing volume", "the volume is another claim's"],
)
def test_unbound_volume_is_awaited(claims: tuple[PersistentVolumeClaim, ...], volume: PersistentVolume | None) -> None:
    assert evaluate(pod(BY_CLAIM, INLINE), volume, claims=claims) == VolumeUses({OF_POD: MOUNTED}, ("vol1",), ())


def test_ephemeral_volume_claim_must_be_owned_by_the_pod() -> None:
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    owner = {"kind": "Pod", "name": "pod1", "uid": "pod", "controller": True}
    assert evaluate(pod(scratch), claims=(claim("pod1-scratch", ownerReferences=[owner]),)) == used(pv1=MOUNTED)
    assert evaluate(pod(scratch), claims=(claim("pod1-scratch"),)) == VolumeUses({}, ("scratch",), ())


@cases(
    "containers, labels",
    {
        "pod-level options": ([container("v")], [":::s0:c1,c2"]),
        "container-level options": ([container("v", level="s9")], [":::s9"]),
        "container-level options replace pod-level ones": ([container("v", type="t_t")], ["::t_t:"]),
        "pod-level and container-level options": (
            [container("v"), container("v", level="s9")],
            [":::s0:c1,c2", ":::s9"],
        ),
        "equal container-level options": ([container("v", level="s9"), container("v", level="s9")], [":::s9"]),
        "container without the volume": ([container("v"), container("w", level="s9")], [":::s0:c1,c2"]),
    },
)
@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_selinux_labels_of_a_volume(kind: str, containers: list[Doc], labels: list[str]) -> None:
    spec: Doc = {"containers": [], kind: containers}
    assert mounted(pod({"name": "v", "emptyDir": {}}, **spec))["v"] == labels


def test_pod_without_a_label_conflicts_with_none() -> None:
    several = [container("v", level="s9"), container("v")]
    assert mounted(pod({"name": "v", "emptyDir": {}}, level="", containers=several)) == {"v": [":::s9"]}


def test_containers_with_different_labels_emit_an_event() -> None:
    several = [container("vol1", "scratch"), container("vol1", "scratch", level="s9")]
    assert evaluate(pod(BY_CLAIM, SCRATCH, containers=several)) == VolumeUses({}, (), ("vol1", "scratch"))
    text = 'Volume "vol1" is mounted twice with different SELinux labels inside this pod'
    assert mixed_labels_message("vol1") == text


SAME = "uses the same volume as this pod with"
END = "If both pods land on the same node, only one of them may access the volume."


@cases(
    "conflict, reason, text",
    {
        "existing pod with PVC generates conflict, the other pod exists": (
            Conflict("SELinuxLabel", "ns1/pod1", ":::s0:c1,c2", "ns1/pod2", ":::s0:c98,c99"),
            "SELinuxLabelConflict",
            f'SELinuxLabel ":::s0:c1,c2" conflicts with pod pod2 that {SAME} SELinuxLabel ":::s0:c98,c99". {END}',
        ),
        "only with the policy": (
            Conflict("SELinuxChangePolicy", "ns1/pod1", "Recursive", "ns1/pod2", "MountOption"),
            "SELinuxChangePolicyConflict",
            f'SELinuxChangePolicy "Recursive" conflicts with pod pod2 that {SAME} SELinuxChangePolicy "MountOption". '
            + END,
        ),
        "names of other namespaces are hidden": (
            Conflict("SELinuxLabel", "ns1/pod1", ":::s0:c1,c2", "secret/pod2", ":::s0:c98,c99"),
            "SELinuxLabelConflict",
            f'SELinuxLabel":::s0:c1,c2" conflicts with another pod that {SAME} a different SELinuxLabel. {END}',
        ),
    },
)
def test_conflict_event_messages(conflict: Conflict, reason: str, text: str) -> None:
    assert (reason_of(conflict), message_of(conflict)) == (reason, text)
