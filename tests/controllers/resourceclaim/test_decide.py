"""Decisions about pods and claims: tables.

Cases of ``TestSyncHandler`` and ``TestResourceClaimEventHandler``, v1.36
``pkg/controller/resourceclaim/controller_test.go``, have their names in the ids.
"""

import string

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.resourceclaim.builders import ENTRY, claim, owner, pod, reference, view
from tests.tables import cases

from pilothouse.api.core import Pod, PodResourceClaim
from pilothouse.api.resource import ConsumerReference, ResourceClaim, ResourceClaimTemplate
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR
from pilothouse.controllers.devices.resourceclaim.created_claims import CreatedClaims, DeletedPods
from pilothouse.controllers.devices.resourceclaim.decide import (
    MAX_BASE,
    Owner,
    Reservation,
    Step,
    claim_statuses_to_apply,
    claims_to_release,
    decide_owner,
    decide_reservation,
    generate_name,
    is_done,
    needs_sync,
    new_claim,
    next_step,
    owner_of,
)
from pilothouse.controllers.devices.resourceclaim.metrics import labels_of
from pilothouse.machinery.names import dns_label_errors

NAMED = {"gpu": "claim"}
MINE = owner()
NOT_NEEDED = {"name": "unused", "resourceClaimTemplateName": "template"}


@cases(
    "state, known, expected",
    {
        "new-pods: create": (pod(), None, True),
        "pod-without-resource-claims": (pod(entries=()), None, False),
        "pod-deleted": (pod(deleted=True), None, False),
        "recreate: its claim is deleted": (pod(named=NAMED), None, True),
        "terminated: its claim is not recreated": (pod(named=NAMED, phase="Succeeded"), None, False),
        "nop: it has its claim": (pod(named=NAMED), claim(owner=MINE), False),
        "the claim is another pod's": (pod(named=NAMED), claim(owner=owner(uid="other")), False),
        "no claim needed": (pod(named={"gpu": None}), None, False),
        "claims by name": (pod(entries=[{"name": "gpu", "resourceClaimName": "claim"}]), None, False),
        "unknown claim reference: event": (pod(entries=[{"name": "gpu"}]), None, True),
        "add-reserved: scheduled, claim allocated and unreserved": (
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True),
            True,
        ),
        "not scheduled: the scheduler reserves": (pod(named=NAMED), claim(owner=MINE, allocated=True), False),
        "already reserved": (
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True, users=[reference()]),
            False,
        ),
        "256 users are enough": (
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True, users=[reference(f"p{n}", f"u{n}") for n in range(256)]),
            False,
        ),
        "unallocated claims are not reserved": (pod(named=NAMED, node="n"), claim(owner=MINE), False),
        "a missing claim by name does not block others": (
            pod(entries=[{"name": "own", "resourceClaimName": "not-there"}, ENTRY]),
            None,
            True,
        ),
        "entries after one that needs no claim: create": (
            pod(entries=[NOT_NEEDED, ENTRY], named={"unused": None}),
            None,
            True,
        ),
        "entries after one that needs no claim: reserve": (
            pod(entries=[NOT_NEEDED, ENTRY], named={"unused": None, **NAMED}, node="n"),
            claim(owner=MINE, allocated=True),
            True,
        ),
        "the entries after one whose claim is another pod's": (
            pod(entries=[ENTRY, {"name": "net", "resourceClaimTemplateName": "template"}], named=NAMED),
            claim(owner=owner(uid="other")),
            True,
        ),
    },
)
def test_pod_needs_work(state: Pod, known: ResourceClaim | None, expected: bool) -> None:
    assert needs_sync(state, lambda _name: known) is expected


@cases(
    "state, done",
    {
        "Running": (pod(phase="Running", node="n"), False),
        "Succeeded": (pod(phase="Succeeded", node="n"), True),
        "Failed": (pod(phase="Failed"), True),
        "deleted before it was scheduled": (pod(phase="Pending", deleted=True), True),
        "deleted on a node: it still runs": (pod(phase="Running", deleted=True, node="n"), False),
    },
)
def test_pod_is_done(state: Pod, done: bool) -> None:
    assert is_done(state) is done


def test_claims_to_release_include_extended_resources() -> None:
    """completed-pod-with-regular-and-extended-resource-claim."""
    extended = {"resourceClaimName": "made-by-scheduler"}
    assert claims_to_release(pod(entries=(), extendedResourceClaimStatus=extended)) == ["made-by-scheduler"]
    both = pod(named=NAMED, extendedResourceClaimStatus=extended)
    assert claims_to_release(both) == ["claim", "made-by-scheduler"]


@cases(
    "pod_name, entry, expected",
    {
        "short names": ("web", "gpu", "web-gpu-"),
        "57 characters": ("p" * 40, "e" * 15, "p" * 40 + "-" + "e" * 15 + "-"),
        "pod name truncated in proportion": ("p" * 60, "gpu", "p" * 52 + "-" + "gp"),
        "both names truncated": ("p" * 100, "e" * 60, "p" * 35 + "-" + "e" * 21),
        "truncated after a dot": ("p" * 34 + "." + "p" * 65, "e" * 60, "p" * 34 + "-" + "e" * 21),
    },
)
def test_claim_generate_name(pod_name: str, entry: str, expected: str) -> None:
    assert generate_name(pod_name, entry) == expected


_label = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=63)


@given(
    pod_name=st.lists(_label, min_size=1, max_size=4).map(lambda parts: ".".join(parts)[:200].strip(".")), entry=_label
)
def test_generated_names_are_valid(pod_name: str, entry: str) -> None:
    base = generate_name(pod_name, entry)
    assert len(base) <= MAX_BASE
    assert all(dns_label_errors(part) == [] for part in f"{base}x7k2p".split("."))


def test_claim_from_template() -> None:
    template = msgspec.json.decode(
        msgspec.json.encode(
            {
                "metadata": {"name": "template", "namespace": "default"},
                "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"newer": [1, 2.50]}},
            }
        ),
        type=ResourceClaimTemplate,
    )
    new = new_claim(pod("web", "u1"), PodResourceClaim(name="gpu"), template)
    assert msgspec.json.decode(new.pop("spec")) == {"newer": [1, 2.5]}
    assert new == {
        "metadata": {
            "generateName": "web-gpu-",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner("web", "u1")],
        }
    }


@cases(
    "named, created_claims, expected",
    {
        "create": (None, {"gpu": "c1"}, {"gpu": "c1"}),
        "nop: up to date": ({"gpu": "c1"}, {"gpu": "c1"}, None),
        "no claims": ({"gpu": "c1"}, {}, None),
        "recreate": ({"gpu": "c1"}, {"gpu": "c2"}, {"gpu": "c2"}),
        "one of two entries changes": (
            {"gpu": "c1", "net": "c2"},
            {"net": "c3"},
            {"gpu": "c1", "net": "c3"},
        ),
        "entry removed from the spec": ({"gone": "c1"}, {"gpu": "c2"}, {"gpu": "c2"}),
    },
)
def test_resource_claim_statuses(named: object, created_claims: dict[str, str], expected: object) -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "template"} for name in ("gpu", "net")]
    assert claim_statuses_to_apply(pod(entries=entries, named=named), created_claims) == expected


@cases(
    "user, known, observed_deleted, expected",
    {
        "stay-reserved-seen": ({}, pod(), False, Reservation.KEEP),
        "stay-reserved-not-seen: live read": ({}, None, False, Reservation.READ_LIVE),
        "clear-reserved: pod deletion observed": ({}, None, True, Reservation.DROP),
        "clear-reserved-when-done": ({}, pod(phase="Succeeded"), False, Reservation.DROP),
        "deleted before it was scheduled": ({}, pod(deleted=True), False, Reservation.DROP),
        "deleted, but it runs": ({}, pod(deleted=True, node="n"), False, Reservation.KEEP),
        "recreated, pod deletion observed": ({}, pod(uid="new"), True, Reservation.DROP),
        "the cache may have the pod before it": ({}, pod(uid="new"), False, Reservation.READ_LIVE),
        "dont-clear-reserved-podgroup-feature-disabled": (
            {"resource": "podgroups", "api_group": "scheduling.k8s.io"},
            None,
            False,
            Reservation.KEEP,
        ),
        "users other than pods are kept": ({"resource": "foo", "api_group": "foo.com"}, None, True, Reservation.KEEP),
    },
)
def test_reservation_is_kept(
    user: dict[str, str], known: Pod | None, observed_deleted: bool, expected: Reservation
) -> None:
    consumer = ConsumerReference(**{"resource": "pods", "name": "pod", "uid": "pod-uid", **user})
    assert decide_reservation(consumer, known, observed_deleted=observed_deleted) is expected


BOTH = [reference(), reference("other", "other-uid")]


@cases(
    "state, kept, cleared, expected",
    {
        "all users are kept": (claim(users=BOTH, finalizer=True, allocated=True), 2, False, Step.NOTHING),
        "dont-clear-reserved-structured": (claim(users=BOTH, finalizer=True, allocated=True), 1, False, Step.RELEASE),
        "clear-reserved-structured": (claim(users=BOTH, finalizer=True, allocated=True), 0, False, Step.DEALLOCATE),
        "clear-reserved-structured-deleted": (
            claim(users=BOTH, finalizer=True, allocated=True, deleted=True),
            0,
            False,
            Step.DEALLOCATE,
        ),
        "allocated by another driver": (claim(users=BOTH, allocated=True), 0, False, Step.RELEASE),
        "allocated, not reserved yet": (claim(finalizer=True, allocated=True), 0, False, Step.NOTHING),
        "structured-deleted": (claim(finalizer=True, allocated=True, deleted=True), 0, False, Step.DEALLOCATE),
        "deleted, nothing allocated": (claim(finalizer=True, deleted=True), 0, False, Step.REMOVE_FINALIZER),
        "deleted, in use": (claim(finalizer=True, allocated=True, deleted=True, users=BOTH), 2, False, Step.NOTHING),
        "a scheduler is about to allocate it": (claim(finalizer=True), 0, False, Step.NOTHING),
        "deallocated here, and the second write failed": (claim(finalizer=True), 0, True, Step.REMOVE_FINALIZER),
        "new-claim": (claim(), 0, False, Step.NOTHING),
    },
)
def test_sync_claim(state: ResourceClaim, kept: int, cleared: bool, expected: Step) -> None:
    assert next_step(state, kept, cleared=cleared) is expected


@cases(
    "known, observed_deleted, expected",
    {
        "the pod runs": (pod(phase="Running", node="n"), False, Reservation.KEEP),
        "delete-claim-when-done": (pod(phase="Succeeded"), False, Reservation.DROP),
        "the pod was replaced": (pod(uid="new"), True, Reservation.DROP),
        "the cache may have the pod before it": (pod(uid="new"), False, Reservation.READ_LIVE),
        "pod deleted: left to the garbage collector": (None, True, Reservation.KEEP),
    },
)
def test_unused_claim_is_kept_for_its_pod(known: Pod | None, observed_deleted: bool, expected: Reservation) -> None:
    assert decide_owner(Owner("pod", "pod-uid"), known, observed_deleted=observed_deleted) is expected


def test_only_a_pod_that_controls_a_claim_owns_it() -> None:
    assert owner_of(claim(owner=owner()).metadata) == Owner("pod", "pod-uid")
    assert owner_of(claim(owner={**owner(), "controller": False}).metadata) is None
    assert owner_of(claim(owner={**owner(), "apiVersion": "apps/v1"}).metadata) is None


@cases(
    "annotations, admin, allocated, expected",
    {
        "new-claim": ({}, False, False, ("false", "false", "")),
        "allocate-claim": ({}, False, True, ("true", "false", "")),
        "new-claim-admin-access": (
            {"resource.kubernetes.io/pod-claim-name": "gpu"},
            True,
            False,
            ("false", "true", "resource_claim_template"),
        ),
        "allocate-claim-extended-resources": (
            {"resource.kubernetes.io/extended-resource-claim": "true"},
            False,
            True,
            ("true", "false", "extended_resource"),
        ),
    },
)
def test_claim_metric_labels(
    annotations: dict[str, str], admin: bool, allocated: bool, expected: tuple[str, ...]
) -> None:
    requests = [{"exactly": {"adminAccess": False}}, {"exactly": {"adminAccess": admin}}, {"firstAvailable": [{}]}]
    doc = {
        "metadata": {"annotations": annotations},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {}} if allocated else {},
    }
    assert labels_of(view(doc, ResourceClaim)) == expected


def test_created_claims_are_kept_until_the_cache_has_them() -> None:
    read = "5"
    created_claims = CreatedClaims(lambda: read)
    first, second = claim("a", owner=MINE, resourceVersion="7"), claim("b", owner=MINE, resourceVersion="9")
    created_claims.put(second)
    created_claims.put(first)
    assert created_claims.of("pod-uid") == [first, second]
    read = "7"
    assert created_claims.of("pod-uid") == [second]
    created_claims.remove_if_cached(second)
    assert created_claims.of("pod-uid") == []
    created_claims.put(second)
    created_claims.forget("pod-uid")
    assert created_claims.of("pod-uid") == []


def test_last_500_deleted_pods_are_kept() -> None:
    deleted_pods = DeletedPods()
    for number in range(501):
        deleted_pods.add(str(number))
    assert "0" not in deleted_pods
    assert "1" in deleted_pods
    deleted_pods.add("501")
    assert "1" in deleted_pods, "it was asked for"
    assert "2" not in deleted_pods


def test_deprecated_controller_name() -> None:
    assert DESCRIPTOR.aliases == ("resource-claim-controller",)
