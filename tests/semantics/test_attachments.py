"""Attachable volumes and their names.

After v1.36 ``pkg/volume/util/util_test.go`` (TestIsMultiAttachAllowed, the part about PersistentVolumes),
``pkg/volume/csi/csi_attacher_test.go`` (names of attachments) and
``pkg/controller/volume/attachdetach/util/util_test.go`` (Test_CreateVolumeSpec).
"""

import hashlib
from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.api.storage import Driver, PersistentVolume
from pilothouse.semantics.attachments import (
    attachment_name,
    disk_for,
    disk_of,
    driver_and_handle,
    is_attached_by,
    unique_name,
)

Doc = dict[str, Any]
CSI: Doc = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
NAME = "kubernetes.io/csi/d.example.com^h"


def volume(uid: str | None = "u", *modes: str, **source: Any) -> PersistentVolume:
    spec: Doc = {"accessModes": list(modes), **(source or CSI)}
    if uid is not None:
        spec["claimRef"] = {"namespace": "ns", "name": "c", "uid": uid}
    return msgspec.convert({"metadata": {"name": "pv"}, "spec": spec}, PersistentVolume)


def claim(name: str = "c", phase: str = "Bound", volume_name: str = "pv", owner: str = "") -> PersistentVolumeClaim:
    meta: Doc = {"name": name, "namespace": "ns", "uid": "u"}
    if owner:
        meta["ownerReferences"] = [{"kind": "Pod", "uid": owner, "controller": True}]
    doc = {"metadata": meta, "spec": {"volumeName": volume_name}, "status": {"phase": phase}}
    return msgspec.convert(doc, PersistentVolumeClaim)


def driver(required: bool | None) -> Driver:
    spec = {} if required is None else {"attachRequired": required}
    return msgspec.convert({"metadata": {"name": "d.example.com"}, "spec": spec}, Driver)


def test_attachment_names() -> None:
    assert unique_name("d.example.com", "h") == NAME
    assert driver_and_handle(NAME) == ("d.example.com", "h")
    assert driver_and_handle("kubernetes.io/iscsi/10.0.0.1:iqn:0") is None
    assert driver_and_handle("kubernetes.io/csi/nonsense") is None
    text = b"hd.example.comnode-1"  # handle, driver and node, with nothing in between
    assert attachment_name("d.example.com", "h", "node-1") == f"csi-{hashlib.sha256(text).hexdigest()}"


@cases(
    "modes, exclusive",
    {
        "no access modes": ((), False),
        "ReadWriteOnce": (("ReadWriteOnce",), True),
        "ReadWriteOncePod": (("ReadWriteOncePod",), True),
        "ReadWriteMany": (("ReadWriteMany",), False),
        "ReadOnlyMany": (("ReadOnlyMany",), False),
        "ReadWriteOnce and ReadOnlyMany": (("ReadWriteOnce", "ReadOnlyMany"), False),
    },
)
def test_multi_attach_allowed(modes: tuple[str, ...], exclusive: bool) -> None:
    disk = disk_of(volume("u", *modes))
    assert disk is not None
    assert disk.exclusive is exclusive


def test_only_csi_volumes_are_attachable() -> None:
    assert disk_of(volume(nfs={})) is None
    assert is_attached_by(None)
    assert is_attached_by(driver(None))
    assert is_attached_by(driver(True))
    assert not is_attached_by(driver(False))


BY_CLAIM: Doc = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
EPHEMERAL: Doc = {"name": "c", "ephemeral": {}}


@cases(
    "claim_object, claims, expected, of, attached",
    {
        "a claim and its volume": (BY_CLAIM, [claim()], volume(), None, True),
        "driver with attachRequired": (BY_CLAIM, [claim()], volume(), driver(True), True),
        "driver without attachRequired": (BY_CLAIM, [claim()], volume(), driver(False), False),
        "missing claim": (BY_CLAIM, [], volume(), None, False),
        "the claim is not bound": (BY_CLAIM, [claim(phase="Pending")], volume(), None, False),
        "the claim names no volume": (BY_CLAIM, [claim(volume_name="")], volume(), None, False),
        "missing volume": (BY_CLAIM, [claim(volume_name="x")], volume(), None, False),
        "volume without claimRef": (BY_CLAIM, [claim()], volume(None), None, False),
        "the volume is another claim's": (BY_CLAIM, [claim()], volume("other"), None, False),
        "volume that is not attachable": (BY_CLAIM, [claim()], volume(nfs={}), None, False),
        "volume without claim": ({"name": "v", "emptyDir": {}}, [claim()], volume(), None, False),
        "an ephemeral volume": (EPHEMERAL, [claim("p-c", owner="pod")], volume(), None, True),
        "ephemeral claim of another owner": (EPHEMERAL, [claim("p-c")], volume(), None, False),
    },
)
def test_create_volume_spec(
    claim_object: Doc,
    claims: list[PersistentVolumeClaim],
    expected: PersistentVolume,
    of: Driver | None,
    attached: bool,
) -> None:
    meta = {"name": "p", "namespace": "ns", "uid": "pod"}
    pod = msgspec.convert({"metadata": meta, "spec": {"volumes": [claim_object]}}, Pod)
    by_key = {f"{candidate.metadata.namespace}/{candidate.metadata.name}": candidate for candidate in claims}
    drivers = {} if of is None else {"d.example.com": of}
    disk = disk_for(pod, pod.spec.volumes[0], by_key.get, {"pv": expected}.get, drivers.get)
    assert (disk.name if disk is not None else "") == (NAME if attached else "")
