"""Written claims and volumes: references, annotations, unknown fields, status."""

import msgspec
import pytest
from tests.controllers.persistentvolume_binder.builders import Doc, as_claim, as_volume, claim, volume
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_links import Decoded, bound_volume, decode_object
from pilothouse.controllers.volumes.persistentvolume_binder import links
from pilothouse.semantics.volumes import PRE_RESIZE_CAPACITY


def a_claim(doc: Doc) -> Decoded[PersistentVolumeClaim]:
    return decode_object(msgspec.json.encode(doc), PersistentVolumeClaim)


def a_volume(doc: Doc) -> Decoded[PersistentVolume]:
    return decode_object(msgspec.json.encode(doc), PersistentVolume)


def decoded(raw: bytes | None) -> Doc:
    assert raw is not None
    document: Doc = msgspec.json.decode(raw)
    return document


def test_claim_ref_has_the_uid() -> None:
    doc = decoded(bound_volume(a_volume(volume("v")), as_claim(claim("c"))))
    assert doc["spec"]["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c", "uid": "u",
        "resourceVersion": "1",
    }  # fmt: skip


def test_unknown_fields_are_kept() -> None:
    doc = volume("v", newer={"field": 1.50}, nfs={"server": "s"})
    doc["metadata"] |= {"managedFields": [{"manager": "x"}], "labels": {"a": "b"}}
    after = decoded(bound_volume(a_volume(doc), as_claim(claim("c"))))
    assert (after["spec"]["newer"], after["spec"]["nfs"]) == ({"field": 1.5}, {"server": "s"})
    assert after["metadata"]["labels"] == {"a": "b"}
    assert "managedFields" not in after["metadata"], "sent back they would be wrong"


def test_unbinding_leaves_no_empty_annotations() -> None:
    bound = bound_volume(a_volume(volume("v")), as_claim(claim("c")))
    assert bound is not None
    assert "annotations" not in decoded(links.unbound_volume(decode_object(bound, PersistentVolume)))["metadata"]


def test_phase_message() -> None:
    failed = links.volume_phase(a_volume(volume("v")), "Failed", "why")
    assert failed is not None
    assert decoded(failed)["status"] == {"phase": "Failed", "message": "why"}
    again = decode_object(failed, PersistentVolume)
    assert links.volume_phase(again, "Failed", "other") is None
    assert decoded(links.volume_phase(again, "Available"))["status"] == {"phase": "Available"}


@cases(
    "there, had, capacity",
    {
        "capacity of the volume": (volume("v", "5Gi"), claim("c"), {"storage": "5Gi"}),
        "capacity is unchanged": (volume("v", "5Gi"), claim("c", size="5Gi", phase="Bound"), {"storage": "5Gi"}),
        "capacity of a bound claim is kept": (
            volume("v", "5Gi"),
            claim("c", size="1Gi", phase="Bound"),
            {"storage": "1Gi"},
        ),
        "equal capacity in another notation": (
            volume("v", "1024Mi"),
            {**claim("c"), "status": {"phase": "Lost", "capacity": {"storage": "1Gi"}}},
            {"storage": "1Gi"},
        ),
    },
)
def test_capacity(there: Doc, had: Doc, capacity: Doc) -> None:
    result = a_claim(had)
    after = links.bound_status(result, as_volume(there))
    assert decoded(after if after is not None else result.raw)["status"]["capacity"] == capacity


@pytest.mark.parametrize(("before", "then"), [("3Gi", "3Gi"), ("much", "5Gi")])
def test_capacity_before_file_system_resize(before: str, then: str) -> None:
    """11.6: the annotation on the volume has the size of the file system."""
    doc = volume("v", "5Gi")
    doc["metadata"]["annotations"] = {PRE_RESIZE_CAPACITY: before}
    assert decoded(links.bound_status(a_claim(claim("c")), as_volume(doc)))["status"]["capacity"] == {"storage": then}


def test_volume_without_capacity_is_an_error() -> None:
    with pytest.raises(links.NoCapacityError, match='PersistentVolume "v" is without a storage capacity'):
        links.bound_status(a_claim(claim("c")), as_volume(volume("v", capacity={})))


@cases(
    "phase, current, then",
    {
        "bound for the first time: that of the volume": ("Pending", None, "gold"),
        "Lost: attributes class is kept": ("Lost", None, None),
        "Bound: attributes class is kept": ("Bound", "silver", "silver"),
    },
)
def test_volume_attributes_class(phase: str, current: str | None, then: str | None) -> None:
    doc = claim("c", phase=phase, modes=("ReadWriteMany",), volumeAttributesClassName="gold")
    if current is not None:
        doc["status"]["currentVolumeAttributesClassName"] = current
    after = links.bound_status(a_claim(doc), as_volume(volume("v", volumeAttributesClassName="gold")))
    assert decoded(after)["status"].get("currentVolumeAttributesClassName") == then


def test_phase_without_a_volume_clears_the_status() -> None:
    doc = claim("c", phase="Bound")
    doc["status"] |= {"currentVolumeAttributesClassName": "gold", "conditions": [{"type": "Resizing"}]}
    after = decoded(links.claim_phase(a_claim(doc), "Lost"))
    assert after["status"] == {"phase": "Lost", "conditions": [{"type": "Resizing"}]}
    assert links.claim_phase(a_claim(claim("c")), "Pending") is None


def test_storage_provisioner_annotations() -> None:
    """The older annotation is for older provisioners."""
    reported = links.claim_with_provisioner(a_claim(claim("c")), "vendor.com/x")
    assert reported is not None
    assert decoded(reported)["metadata"]["annotations"] == {
        "volume.beta.kubernetes.io/storage-provisioner": "vendor.com/x",
        "volume.kubernetes.io/storage-provisioner": "vendor.com/x",
    }
    assert links.claim_with_provisioner(decode_object(reported, PersistentVolumeClaim), "vendor.com/x") is None
