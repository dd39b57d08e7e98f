"""Volume syncs.

Mirrors set 4 of ``binder_test.go``, what of set 8 of ``delete_test.go`` is a decision, and TestModifyDeletionFinalizers
and TestAnnealMigrationAnnotations of ``pv_controller_test.go`` (v1.36 ``pkg/controller/volume/persistentvolume``); the
numbers are upstream's.
"""

import re
from typing import Any

import pytest
from tests.controllers.persistentvolume_binder.builders import (
    COMPLETED,
    CONTROLLER,
    MADE,
    Doc,
    FakeBinder,
    as_claim,
    as_volume,
    claim,
    volume,
)
from tests.tables import cases

from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_plugins import HOST_PATH
from pilothouse.controllers.volumes.persistentvolume_binder.plugins import (
    NoPluginError,
    deleter_of,
    not_deletable_reason,
    provisioner_of,
)
from pilothouse.controllers.volumes.persistentvolume_binder.volumes import (
    EnqueueClaim,
    Reclaim,
    RecordModeMismatch,
    SetPhase,
    Unbind,
    VolumeStep,
    decide_volume,
    is_released,
    updated_deletion_finalizers,
    updated_migration_annotations,
)
from pilothouse.semantics.volumes import EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO, PROVISIONED_BY


@cases(
    "doc, other, step, then",
    {
        "4-1 new": (volume("v", phase="Pending"), None, SetPhase("Available"), "Available"),
        "4-2 reserved": (volume("v", "1Gi", "", "c", "Pending"), None, SetPhase("Available"), "Available c#"),
        "4-3 no claim": (volume("v", "1Gi", "u", "c", "Bound"), None, Reclaim(release=True), "Released c#u"),
        "4-4 another claim of that name": (
            volume("v", "1Gi", "u", "c", "Bound"),
            claim("c", "x", "1Gi", "v", "Bound", COMPLETED),
            Reclaim(release=True),
            "Released c#u",
        ),
        "4-5 claim not bound yet": (
            volume("v", "1Gi", "u", "c", "Bound", CONTROLLER),
            claim("c"),
            EnqueueClaim(),
            "Bound c#u controller",
        ),
        "4-5 nor a user's link": (volume("v", "1Gi", "u", "c", "Bound"), claim("c"), EnqueueClaim(), "Bound c#u"),
        "4-6 volume and claim bound to each other": (
            volume("v", "1Gi", "u", "c"),
            claim("c", "u", "1Gi", "v", "Bound"),
            SetPhase("Bound"),
            "Bound c#u",
        ),
        "4-7 claim bound to another volume, bound by the controller: unbound": (
            volume("v", "1Gi", "u", "c", "Bound", CONTROLLER),
            claim("c", "u", "1Gi", "w", "Bound"),
            Unbind(),
            "Available",
        ),
        "4-8 claim bound to another volume, reserved by the user: uid is removed": (
            volume("v", "1Gi", "u", "c", "Bound"),
            claim("c", "u", "1Gi", "w", "Bound"),
            Unbind(),
            "Available c#",
        ),
        "4-9 one for files, one for blocks": (
            volume("v", "1Gi", "u", "c", "Bound", volumeMode="Block"),
            claim("c"),
            RecordModeMismatch(),
            "Bound c#u",
        ),
        "already Released": (
            volume("v", "1Gi", "u", "c", "Released"),
            None,
            Reclaim(release=False),
            "Released c#u",
        ),
        "already Failed": (
            volume("v", "1Gi", "u", "c", "Failed"),
            None,
            Reclaim(release=False),
            "Failed c#u",
        ),
        "8-11, 8-12 provisioned for a claim bound to another volume: reclaimed": (
            volume("v", "1Gi", "u", "c", "Bound", MADE, policy="Delete"),
            claim("c", "u", "1Gi", "w", "Bound"),
            Reclaim(release=True),
            "Released c#u made",
        ),
        "provisioned for a claim bound to another volume, Retain: unbound": (
            volume("v", "1Gi", "u", "c", "Bound", MADE),
            claim("c", "u", "1Gi", "w", "Bound"),
            Unbind(),
            "Available c# made",
        ),
    },
)
def test_sync_volume(doc: Doc, other: Doc | None, step: VolumeStep, then: str) -> None:
    desk = FakeBinder([doc], [other] if other is not None else [], [], [])
    assert desk.sync_volume("v") == step
    assert desk.volume_text("v") == then


@cases(
    "doc, other, released",
    {
        "no claimRef": (volume("v"), None, False),
        "only reserved": (volume("v", "1Gi", "", "c"), None, False),
        "the claim is deleted": (volume("v", "1Gi", "u", "c"), None, True),
        "8-9 the claim is another one": (volume("v", "1Gi", "u", "c"), claim("c", "x"), True),
        "the claim is not bound yet": (volume("v", "1Gi", "u", "c"), claim("c"), False),
        "8-7 claim exists": (volume("v", "1Gi", "u", "c"), claim("c", "u", "1Gi", "v"), False),
        "the claim has another one": (volume("v", "1Gi", "u", "c"), claim("c", "u", "1Gi", "w"), True),
    },
)
def test_reclaim_policy(doc: Doc, other: Doc | None, released: bool) -> None:
    assert is_released(as_volume(doc), as_claim(other) if other is not None else None) is released


def test_unbound_claim_keeps_its_volume() -> None:
    assert decide_volume(as_volume(volume("v", "1Gi", "u", "c")), as_claim(claim("c"))) == EnqueueClaim()


def provisioned(provisioner: str, policy: str = "Delete", *finalizers: str) -> Any:
    doc = volume("v", policy=policy)
    doc["metadata"] |= {"annotations": {PROVISIONED_BY: provisioner}, "finalizers": list(finalizers)}
    return as_volume(doc)


OTHER, MIGRATED = "kubernetes.io/pv-protection", "kubernetes.io/gce-pd"


@cases(
    "volume_object, wanted",
    {
        "13-1 ours to delete": (provisioned(HOST_PATH), (IN_TREE_FINALIZER,)),
        "other finalizers are kept": (provisioned(HOST_PATH, "Delete", OTHER), (OTHER, IN_TREE_FINALIZER)),
        "reclaim policy Retain": (provisioned(HOST_PATH, "Retain", IN_TREE_FINALIZER), ()),
        "reclaim policy Recycle": (provisioned(HOST_PATH, "Recycle", IN_TREE_FINALIZER, OTHER), (OTHER,)),
        "13-3 migration disabled": (provisioned(HOST_PATH, "Delete", EXTERNAL_FINALIZER), (IN_TREE_FINALIZER,)),
        "13-2 no longer ours": (
            provisioned(MIGRATED, "Delete", IN_TREE_FINALIZER, EXTERNAL_FINALIZER),
            (EXTERNAL_FINALIZER,),
        ),
        "other provisioner": (provisioned("vendor.com/x", "Delete", EXTERNAL_FINALIZER), (EXTERNAL_FINALIZER,)),
        "13-4 created manually": (as_volume(volume("v", policy="Delete")), ()),
    },
)
def test_modify_deletion_finalizers(volume_object: Any, wanted: tuple[str, ...]) -> None:
    assert updated_deletion_finalizers(volume_object) == wanted


def test_terminating_volume_gets_no_new_finalizer() -> None:
    """The API server would reject it. Upstream tries."""
    doc = volume("v", policy="Delete")
    doc["metadata"] |= {"annotations": {PROVISIONED_BY: HOST_PATH}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert updated_deletion_finalizers(as_volume(doc)) == ()


@cases(
    "annotations, provisioner, then",
    {
        "has moved": ({}, MIGRATED, {MIGRATED_TO: "pd.csi.storage.gke.io"}),
        "already migrated": ({MIGRATED_TO: "pd.csi.storage.gke.io"}, MIGRATED, None),
        "has not moved": ({MIGRATED_TO: "x", "a": "b"}, HOST_PATH, {"a": "b"}),
        "other provisioner with migrated-to annotation": ({MIGRATED_TO: "x"}, "vendor.com/x", {}),
        "no provisioner": ({MIGRATED_TO: "x"}, None, None),
        "migration disabled": ({}, HOST_PATH, None),
    },
)
def test_anneal_migration_annotations(
    annotations: dict[str, str], provisioner: str | None, then: dict[str, str] | None
) -> None:
    assert updated_migration_annotations(annotations, provisioner) == then


def test_provisioner_of_a_class() -> None:
    assert provisioner_of("vendor.com/x") == "vendor.com/x"
    assert provisioner_of(MIGRATED) == "pd.csi.storage.gke.io"
    assert provisioner_of(HOST_PATH) == HOST_PATH
    for name in ("kubernetes.io/no-provisioner", "kubernetes.io/glusterfs", "kubernetes.io/local-volume"):
        with pytest.raises(NoPluginError, match=f"^no volume plugin matched name: {name}$"):
            provisioner_of(name)
    with pytest.raises(NoPluginError, match="no provisionable volume plugin matched"):
        provisioner_of("kubernetes.io/nfs")


def test_deleter_of_a_volume() -> None:
    """8-3, 8-10."""
    assert deleter_of(provisioned("vendor.com/x")) == ""
    assert deleter_of(provisioned(MIGRATED)) == ""
    assert deleter_of(as_volume(volume("v", csi={"driver": "d", "volumeHandle": "h"}))) == ""
    assert deleter_of(provisioned(HOST_PATH)) == HOST_PATH
    assert deleter_of(as_volume(volume("v", hostPath={"path": "/tmp/x"}))) == HOST_PATH
    assert deleter_of(as_volume(volume("v", "1Gi", "", "", "Available", MIGRATED_TO, iscsi={}))) == ""


@pytest.mark.parametrize(
    ("volume_object", "why"),
    [
        pytest.param(
            provisioned("kubernetes.io/glusterfs"),
            "no volume plugin matched name: kubernetes.io/glusterfs",
            id="provisioned by a removed plugin",
        ),
        pytest.param(
            provisioned("kubernetes.io/nfs"),
            "no deletable volume plugin matched",
            id="provisioned by a plugin that cannot delete",
        ),
        pytest.param(
            as_volume(volume("v", nfs={"server": "s", "path": "/"})),
            'error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
            id="volume source of a plugin that cannot delete",
        ),
        *(
            pytest.param(
                as_volume(volume("v", **source)),
                'error getting deleter volume plugin for volume "v": no volume plugin matched',
                id=f"of none that is there: {next(iter(source))}",
            )
            for source in ({"local": {"path": "/data"}}, {"iscsi": {"iqn": "i"}}, {"fc": {"wwids": ["w"]}})
        ),
    ],
)
def test_volumes_without_a_deleter(volume_object: PersistentVolume, why: str) -> None:
    with pytest.raises(NoPluginError, match=f"^{re.escape(why)}$"):
        deleter_of(volume_object)


def test_host_paths_are_deleted_only_below_tmp() -> None:
    assert not_deletable_reason(as_volume(volume("v", hostPath={"path": "/tmp/x"}))) == ""
    why = "host_path deleter only supports /tmp/.+ but received provided /data"
    assert not_deletable_reason(as_volume(volume("v", hostPath={"path": "/data"}))) == why
