"""Claim syncs.

Mirrors sets 1, 2, 3, 10 and 13 of ``binder_test.go`` and what of set 11 is a decision, of ``provision_test.go`` (v1.36
``pkg/controller/volume/persistentvolume``); the numbers are upstream's.
"""

from typing import Any

from tests.controllers.persistentvolume_binder.builders import (
    COMPLETED,
    CONTROLLER,
    Doc,
    FakeBinder,
    as_claim,
    claim,
    storage_class,
    volume,
)
from tests.tables import cases

from pilothouse.api.storage import StorageClass
from pilothouse.controllers.volumes.persistentvolume_binder.claims import (
    AssignDefaultStorageClass,
    Bind,
    ClaimEvent,
    ClaimStep,
    InvalidClaim,
    Provision,
    StayPending,
    decide_claim,
)
from pilothouse.semantics.volumes import SELECTED_NODE

LABELS = {"foo": "true", "bar": "false"}
BOTH = (CONTROLLER, COMPLETED)


@cases(
    "volumes, requested, claim_then, volumes_then, message",
    {
        # Set 1: any volume does.
        "1-1 a volume that does is bound": (
            [volume("v")],
            claim("c"),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "1-2 no matching volume": (
            [volume("v")],
            claim("c", size="10Gi"),
            "Pending",
            {"v": "Available"},
            ["Normal FailedBinding"],
        ),
        "1-3 wrong phase is corrected": (
            [volume("v")],
            claim("c", "u", "10Gi", "", "Bound"),
            "Pending",
            {"v": "Available"},
            ["Normal FailedBinding"],
        ),
        "1-4 the smallest": (
            [volume("a", "10Gi"), volume("b")],
            claim("c"),
            "Bound b 1Gi controller+completed",
            {"a": "Available", "b": "Bound c#u controller"},
            [],
        ),
        "1-5 the one reserved by name, though larger": (
            [volume("a", "10Gi", "", "c", "Pending"), volume("b")],
            claim("c"),
            "Bound a 10Gi controller+completed",
            {"a": "Bound c#u", "b": "Available"},
            [],
        ),
        "1-6 the one reserved by uid": (
            [volume("a", "10Gi", "u", "c", "Pending"), volume("b")],
            claim("c"),
            "Bound a 10Gi controller+completed",
            {"a": "Bound c#u", "b": "Available"},
            [],
        ),
        "1-7 volume reserved for a claim with another uid": (
            [volume("v", "10Gi", "other", "c", "Pending")],
            claim("c"),
            "Pending",
            {"v": "Pending c#other"},
            ["Normal FailedBinding"],
        ),
        "1-8 claimRef written, nothing else": (
            [volume("v", "1Gi", "u", "c", "Pending", CONTROLLER)],
            claim("c"),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "1-9 volume Bound, claim not updated": (
            [volume("v", "1Gi", "u", "c", "Bound", CONTROLLER)],
            claim("c"),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "1-10 volume Bound, volumeName set": (
            [volume("v", "1Gi", "u", "c", "Bound", CONTROLLER)],
            claim("c", "u", "1Gi", "v", "Pending", *BOTH),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "1-11 selector matches": (
            [volume("v", labels=LABELS)],
            claim("c", selects=LABELS),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "1-12 selector does not match": (
            [volume("v")],
            claim("c", selects=LABELS),
            "Pending",
            {"v": "Available"},
            ["Normal FailedBinding"],
        ),
        "14 blocks are not files": (
            [volume("v", volumeMode="Block")],
            claim("c"),
            "Pending",
            {"v": "Available"},
            ["Normal FailedBinding"],
        ),
        # Set 2: a certain volume.
        "2-1 missing volume": ([], claim("c", "u", "10Gi", "v"), "Pending v", {}, []),
        "2-2 missing volume, claim Bound": ([], claim("c", "u", "10Gi", "v", "Bound"), "Pending v", {}, []),
        "2-3 requested volume is available": (
            [volume("v")],
            claim("c", "u", "1Gi", "v"),
            "Bound v 1Gi completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "2-4 reserved by name: both were the user's choice": (
            [volume("v", "1Gi", "", "c", "Pending")],
            claim("c", "u", "1Gi", "v"),
            "Bound v 1Gi completed",
            {"v": "Bound c#u"},
            [],
        ),
        "2-5 reserved by uid": (
            [volume("v", "1Gi", "u", "c", "Pending")],
            claim("c", "u", "1Gi", "v"),
            "Bound v 1Gi completed",
            {"v": "Bound c#u"},
            [],
        ),
        "2-6 it is bound to another claim": (
            [volume("v", "1Gi", "x", "other", "Bound")],
            claim("c", "u", "1Gi", "v", "Bound"),
            "Pending v",
            {"v": "Bound other#x"},
            ["Warning FailedBinding"],
        ),
        "2-7 volume bound by the controller, used by another claim": (
            [volume("v", "1Gi", "x", "other", "Bound")],
            claim("c", "u", "1Gi", "v", "Bound", CONTROLLER),
            "Bound v 1Gi controller",
            {"v": "Bound other#x"},
            ["Warning FailedBinding"],
        ),
        "2-8 requested volume ignores the selector": (
            [volume("v")],
            claim("c", "u", "1Gi", "v", selects=LABELS),
            "Bound v 1Gi completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "2-9 it is too small": (
            [volume("v")],
            claim("c", "u", "2Gi", "v"),
            "Pending v",
            {"v": "Available"},
            ["Warning VolumeMismatch"],
        ),
        "2-10 it is of another class": (
            [volume("v", class_name="silver")],
            claim("c", "u", "1Gi", "v"),
            "Pending v",
            {"v": "Available"},
            ["Warning VolumeMismatch"],
        ),
        # Set 3: bound before.
        "3-1 no volumeName": (
            [],
            claim("c", "u", "10Gi", "", "Bound", *BOTH),
            "Lost   controller+completed",
            {},
            ["Warning ClaimLost"],
        ),
        "3-2 the volume is deleted": (
            [],
            claim("c", "u", "10Gi", "v", "Bound", *BOTH),
            "Lost v  controller+completed",
            {},
            ["Warning ClaimLost"],
        ),
        "3-3 volume without claimRef": (
            [volume("v", "10Gi")],
            claim("c", "u", "10Gi", "v", "Pending", *BOTH),
            "Bound v 10Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "3-4 the volume is an earlier claim's": (
            [volume("v", "10Gi", "x", "c", "Pending")],
            claim("c", "u", "10Gi", "v", "Pending", *BOTH),
            "Lost v  controller+completed",
            {"v": "Pending c#x"},
            ["Warning ClaimMisbound"],
        ),
        "3-5 wrong phases": (
            [volume("v", "10Gi", "u", "c", "Pending")],
            claim("c", "u", "10Gi", "v", "Pending", COMPLETED),
            "Bound v 10Gi completed",
            {"v": "Bound c#u"},
            [],
        ),
        "3-6 the volume is bound to another claim": (
            [volume("v", "10Gi", "x", "other", "Pending")],
            claim("c", "u", "10Gi", "v", "Pending", COMPLETED),
            "Lost v  completed",
            {"v": "Pending other#x"},
            ["Warning ClaimMisbound"],
        ),
        "3-7 whatever its labels": (
            [volume("v", "10Gi")],
            claim("c", "u", "10Gi", "v", "Pending", *BOTH, selects=LABELS),
            "Bound v 10Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        "the event for a lost claim is emitted once": (
            [],
            claim("c", "u", "10Gi", "v", "Lost", *BOTH),
            "Lost v  controller+completed",
            {},
            [],
        ),
        "lost volume returns": (
            [volume("v", "10Gi", "u", "c", "Available", CONTROLLER)],
            claim("c", "u", "10Gi", "v", "Lost", *BOTH),
            "Bound v 10Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
        # Set 13: classes.
        "13-1 of the class, though larger": (
            [volume("a"), volume("b", "10Gi", class_name="gold")],
            claim("c", class_name="gold"),
            "Bound b 10Gi controller+completed",
            {"a": "Available", "b": "Bound c#u controller"},
            [],
        ),
        "13-2 of no class, though larger": (
            [volume("a", class_name="gold"), volume("b", "10Gi")],
            claim("c"),
            "Bound b 10Gi controller+completed",
            {"a": "Available", "b": "Bound c#u controller"},
            [],
        ),
        "13-3 of the class, though another class has a smaller one": (
            [volume("a", class_name="silver"), volume("b", "10Gi", class_name="gold")],
            claim("c", class_name="gold"),
            "Bound b 10Gi controller+completed",
            {"a": "Available", "b": "Bound c#u controller"},
            [],
        ),
        "13-4 to 13-6 no class and an empty one are the same to volumes": (
            [volume("v")],
            claim("c", class_name=""),
            "Bound v 1Gi controller+completed",
            {"v": "Bound c#u controller"},
            [],
        ),
    },
)
def test_sync_claim(
    volumes: list[Doc], requested: Doc, claim_then: str, volumes_then: dict[str, str], message: list[str]
) -> None:
    desk = FakeBinder(volumes, [requested], [], [])
    desk.sync_claim("c")
    assert desk.claim_text("c") == claim_then
    assert {name: desk.volume_text(name) for name in volumes_then} == volumes_then
    assert desk.told == message


@cases(
    "volumes, requested",
    {
        "bound": ([volume("v")], claim("c")),
        "pending": ([], claim("c")),
        "lost": ([], claim("c", "u", "1Gi", "v", "Bound", *BOTH)),
        "reserved both ways": ([volume("v", "2Gi", "", "c")], claim("c", "u", "1Gi", "v")),
    },
)
def test_second_sync_writes_nothing(volumes: list[Doc], requested: Doc) -> None:
    desk = FakeBinder(volumes, [requested], [], [])
    desk.sync_claim("c")
    for doc in volumes:
        desk.sync_volume(doc["metadata"]["name"])
    before = [desk.claims.get("ns/c"), *(desk.volumes.get(doc["metadata"]["name"]) for doc in volumes)]
    desk.sync_claim("c")
    for doc in volumes:
        desk.sync_volume(doc["metadata"]["name"])
    assert [desk.claims.get("ns/c"), *(desk.volumes.get(doc["metadata"]["name"]) for doc in volumes)] == before


def test_two_volumes_pre_bound_to_one_claim() -> None:
    """10-2: two binders have bound one each; the claim keeps the first."""
    desk = FakeBinder(
        [volume("a", "1Gi", "u", "c", "Bound", CONTROLLER), volume("b", "1Gi", "u", "c", "Bound", CONTROLLER)],
        [claim("c", "u", "1Gi", "a", "Bound", *BOTH)],
        [],
        [],
    )
    desk.sync_claim("c")
    desk.sync_volume("a")
    desk.sync_volume("b")
    assert desk.volume_text("a") == "Bound c#u controller"
    assert desk.volume_text("b") == "Available"
    assert desk.claim_text("c") == "Bound a 1Gi controller+completed"


LATER: dict[str, Any] = {"volumeBindingMode": "WaitForFirstConsumer"}
CLASSES = [
    storage_class("gold"),
    storage_class("later", **LATER),
    storage_class("static", "kubernetes.io/no-provisioner", **LATER),
]
DEFAULT = [storage_class("std", default=True)]


def chosen(doc: Doc) -> Doc:
    doc["metadata"].setdefault("annotations", {})[SELECTED_NODE] = "node1"
    return doc


def old_style(doc: Doc, name: str) -> Doc:
    doc["metadata"].setdefault("annotations", {})["volume.beta.kubernetes.io/storage-class"] = name
    return doc


WAITING = ClaimEvent("Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
NOTHING = ClaimEvent(
    "Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
)


@cases(
    "volumes, requested, classes, pods, step",
    {
        "11-1 provision": ([], claim("c", class_name="gold"), CLASSES, [], Provision()),
        "11-6 existing volume is bound": (
            [volume("v", class_name="gold")],
            claim("c", class_name="gold"),
            CLASSES,
            [],
            Bind("v"),
        ),
        "11-14 missing class": ([], claim("c", class_name="none"), CLASSES, [], Provision()),
        "11-15 no class is a choice": ([], claim("c", class_name=""), DEFAULT, [], StayPending(NOTHING)),
        "11-16 no class, no default class": ([], claim("c"), CLASSES, [], StayPending(NOTHING)),
        "no class, with a default class": ([], claim("c"), DEFAULT, [], AssignDefaultStorageClass("std")),
        "a matching volume precedes the default class": ([volume("v")], claim("c"), DEFAULT, [], Bind("v")),
        "the old annotation is a choice, too": ([], old_style(claim("c"), ""), DEFAULT, [], StayPending(NOTHING)),
        "beta annotation precedes storageClassName": (
            [],
            old_style(claim("c", class_name="x"), "gold"),
            CLASSES,
            [],
            Provision(),
        ),
        "1-13 no consumer yet: also if a volume matches": (
            [volume("v", class_name="later")],
            claim("c", class_name="later"),
            CLASSES,
            [],
            StayPending(WAITING),
        ),
        "WaitForFirstConsumer: an unscheduled pod": (
            [],
            claim("c", class_name="later"),
            CLASSES,
            ["p"],
            StayPending(ClaimEvent("Normal", "WaitForPodScheduled", "waiting for pod p to be scheduled")),
        ),
        "WaitForFirstConsumer: two unscheduled pods": (
            [],
            claim("c", class_name="later"),
            CLASSES,
            ["p", "q"],
            StayPending(ClaimEvent("Normal", "WaitForPodScheduled", "waiting for pods p,q to be scheduled")),
        ),
        "11-23 selected node: provision despite a matching volume": (
            [volume("v", class_name="later")],
            chosen(claim("c", class_name="later")),
            CLASSES,
            [],
            Provision(),
        ),
        "1-14 what the scheduler has linked is bound": (
            [volume("v", "1Gi", "u", "c", class_name="later")],
            claim("c", class_name="later"),
            CLASSES,
            [],
            Bind("v"),
        ),
        "2-7 removed annotation": (
            [volume("v", "1Gi", "x", "other", "Bound")],
            claim("c", "u", "1Gi", "v", "Pending", CONTROLLER),
            [],
            [],
            InvalidClaim(
                ClaimEvent("Warning", "FailedBinding", 'volume "v" already bound to a different claim.'),
                'invalid binding of claim "ns/c" to volume "v": volume already claimed by "ns/other"',
            ),
        ),
    },
)
def test_next_action(
    volumes: list[Doc], requested: Doc, classes: list[StorageClass], pods: list[str], step: ClaimStep
) -> None:
    assert decide_claim(as_claim(requested), FakeBinder(volumes, [requested], classes, pods)) == step


@cases(
    "volume_spec, requested, why",
    {
        "size": ({}, {"size": "2Gi"}, "requested PV is too small"),
        "class": ({}, {"class_name": "gold"}, "storageClassName does not match"),
        "attributes": ({}, {"volumeAttributesClassName": "x"}, "volumeAttributesClassName does not match"),
        "mode": ({}, {"volumeMode": "Block"}, "incompatible volumeMode"),
        "access": ({}, {"modes": ("ReadWriteMany",)}, "incompatible accessMode"),
    },
)
def test_mismatch_of_a_requested_volume(volume_spec: dict[str, Any], requested: dict[str, Any], why: str) -> None:
    doc = claim("c", wants="v", **requested)
    step = decide_claim(as_claim(doc), FakeBinder([volume("v", **volume_spec)], [doc], [], []))
    text = f'Cannot bind to requested volume "v": {why}'
    assert step == StayPending(ClaimEvent("Warning", "VolumeMismatch", text))


def test_terminating_volume_does_not_match() -> None:
    doc = volume("v")
    doc["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    step = decide_claim(as_claim(claim("c", wants="v")), FakeBinder([doc], [], [], []))
    assert isinstance(step, StayPending)
    assert step.event is not None
    assert step.event.message.endswith('the volume is marked for deletion "v"')


def test_newest_default_class_is_used_then_the_first_by_name() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    classes = [
        storage_class("a", default=True, created=old),
        storage_class("d", default=True, created=new),
        storage_class("c", default=True, created=new),
        storage_class("b", created=new),
    ]
    default = FakeBinder([], [], classes, []).default_class()
    assert default is not None
    assert default.metadata.name == "c"
