"""What pods and claims need: tables.

Cases of ``TestSyncHandler`` and ``TestResourceClaimEventHandler``, v1.36
``pkg/controller/resourceclaim/controller_test.go``, have their names in the ids.
"""

import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.resourceclaim.builders import ENTRY, claim, owner, pod, reference, view

from pilothouse.api.core import Pod, PodResourceClaim
from pilothouse.api.resource import ConsumerReference, ResourceClaim, ResourceClaimTemplate
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR
from pilothouse.controllers.devices.resourceclaim.created_claims import CreatedClaims, DeletedPods
from pilothouse.controllers.devices.resourceclaim.decide import (
    MAX_BASE,
    Owner,
    Reservation,
    Step,
    claims_to_release,
    decide_owner,
    decide_reservation,
    generate_name,
    is_done,
    needs_work,
    new_claim,
    next_step,
    owner_of,
    statuses,
)
from pilothouse.controllers.devices.resourceclaim.metrics import labels_of
from pilothouse.machinery.names import dns_label_errors

NAMED = {"gpu": "claim"}
MINE = owner()
NOT_NEEDED = {"name": "unused", "resourceClaimTemplateName": "template"}


@pytest.mark.parametrize(
    ("seen", "known", "expected"),
    [
        pytest.param(pod(), None, True, id="new-pods: a claim is to be made"),
        pytest.param(pod(entries=()), None, False, id="pod-without-resource-claims"),
        pytest.param(pod(deleted=True), None, False, id="pod-deleted"),
        pytest.param(pod(named=NAMED), None, True, id="recreate: its claim is gone"),
        pytest.param(pod(named=NAMED, phase="Succeeded"), None, False, id="it has ended: its claim is not made again"),
        pytest.param(pod(named=NAMED), claim(owner=MINE), False, id="nop: it has its claim"),
        pytest.param(pod(named=NAMED), claim(owner=owner(uid="other")), False, id="the claim is another pod's"),
        pytest.param(pod(named={"gpu": None}), None, False, id="no claim is needed"),
        pytest.param(
            pod(entries=[{"name": "gpu", "resourceClaimName": "claim"}]), None, False, id="users make their own claims"
        ),
        pytest.param(
            pod(entries=[{"name": "gpu"}]),
            None,
            True,
            id="an unknown way to name a claim: a worker says so in an event",
        ),
        pytest.param(
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True),
            True,
            id="add-reserved: it has a node, and its claim is allocated, but for nobody",
        ),
        pytest.param(
            pod(named=NAMED), claim(owner=MINE, allocated=True), False, id="without a node the scheduler reserves"
        ),
        pytest.param(
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True, users=[reference()]),
            False,
            id="it is reserved already",
        ),
        pytest.param(
            pod(named=NAMED, node="n"),
            claim(owner=MINE, allocated=True, users=[reference(f"p{n}", f"u{n}") for n in range(256)]),
            False,
            id="256 users are enough",
        ),
        pytest.param(pod(named=NAMED, node="n"), claim(owner=MINE), False, id="what is not allocated is not reserved"),
        pytest.param(
            pod(entries=[{"name": "own", "resourceClaimName": "not-there"}, ENTRY]),
            None,
            True,
            id="while a claim of its user's own is missing, the others are made",
        ),
        pytest.param(
            pod(entries=[NOT_NEEDED, ENTRY], named={"unused": None}),
            None,
            True,
            id="the entries after one that needs no claim: one is to be made",
        ),
        pytest.param(
            pod(entries=[NOT_NEEDED, ENTRY], named={"unused": None, **NAMED}, node="n"),
            claim(owner=MINE, allocated=True),
            True,
            id="the entries after one that needs no claim: one is to be reserved",
        ),
        pytest.param(
            pod(entries=[ENTRY, {"name": "net", "resourceClaimTemplateName": "template"}], named=NAMED),
            claim(owner=owner(uid="other")),
            True,
            id="the entries after one whose claim is another pod's",
        ),
    ],
)
def test_whether_a_pod_needs_work(seen: Pod, known: ResourceClaim | None, expected: bool) -> None:
    assert needs_work(seen, lambda _name: known) is expected


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        pytest.param(pod(phase="Running", node="n"), False, id="it runs"),
        pytest.param(pod(phase="Succeeded", node="n"), True, id="it has succeeded"),
        pytest.param(pod(phase="Failed"), True, id="it has failed"),
        pytest.param(pod(phase="Pending", deleted=True), True, id="deleted before it had a node"),
        pytest.param(pod(phase="Running", deleted=True, node="n"), False, id="deleted on a node: it still runs"),
    ],
)
def test_when_a_pod_is_done(seen: Pod, done: bool) -> None:
    assert is_done(seen) is done


def test_a_pod_releases_also_the_claim_of_its_extended_resources() -> None:
    """completed-pod-with-regular-and-extended-resource-claim."""
    extended = {"resourceClaimName": "made-by-scheduler"}
    assert claims_to_release(pod(entries=(), extendedResourceClaimStatus=extended)) == ["made-by-scheduler"]
    both = pod(named=NAMED, extendedResourceClaimStatus=extended)
    assert claims_to_release(both) == ["claim", "made-by-scheduler"]


@pytest.mark.parametrize(
    ("pod_name", "entry", "expected"),
    [
        pytest.param("web", "gpu", "web-gpu-", id="both fit"),
        pytest.param("p" * 40, "e" * 15, "p" * 40 + "-" + "e" * 15 + "-", id="57 characters fit"),
        pytest.param("p" * 60, "gpu", "p" * 52 + "-" + "gp", id="too long: cut in proportion, the hyphen goes"),
        pytest.param("p" * 100, "e" * 60, "p" * 35 + "-" + "e" * 21, id="both are cut"),
        pytest.param("p" * 34 + "." + "p" * 65, "e" * 60, "p" * 34 + "-" + "e" * 21, id="never right behind a dot"),
    ],
)
def test_what_the_name_begins_with(pod_name: str, entry: str, expected: str) -> None:
    assert generate_name(pod_name, entry) == expected


_label = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=63)


@given(
    pod_name=st.lists(_label, min_size=1, max_size=4).map(lambda parts: ".".join(parts)[:200].strip(".")), entry=_label
)
def test_every_generated_name_can_be_stored(pod_name: str, entry: str) -> None:
    base = generate_name(pod_name, entry)
    assert len(base) <= MAX_BASE
    assert all(dns_label_errors(part) == [] for part in f"{base}x7k2p".split("."))


def test_what_is_made_from_a_template() -> None:
    template = msgspec.json.decode(
        msgspec.json.encode(
            {
                "metadata": {"name": "template", "namespace": "default"},
                "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"newer": [1, 2.50]}},
            }
        ),
        type=ResourceClaimTemplate,
    )
    made = new_claim(pod("web", "u1"), PodResourceClaim(name="gpu"), template)
    assert msgspec.json.decode(made.pop("spec")) == {"newer": [1, 2.5]}
    assert made == {
        "metadata": {
            "generateName": "web-gpu-",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner("web", "u1")],
        }
    }


@pytest.mark.parametrize(
    ("named", "made", "expected"),
    [
        pytest.param(None, {"gpu": "c1"}, {"gpu": "c1"}, id="create"),
        pytest.param({"gpu": "c1"}, {"gpu": "c1"}, None, id="nop: it says so already"),
        pytest.param({"gpu": "c1"}, {}, None, id="nothing was made"),
        pytest.param({"gpu": "c1"}, {"gpu": "c2"}, {"gpu": "c2"}, id="recreate"),
        pytest.param(
            {"gpu": "c1", "net": "c2"},
            {"net": "c3"},
            {"gpu": "c1", "net": "c3"},
            id="the other entry stays: what an applied list leaves out is removed",
        ),
        pytest.param({"gone": "c1"}, {"gpu": "c2"}, {"gpu": "c2"}, id="no entry, no status"),
    ],
)
def test_what_the_pods_status_has_to_say(named: object, made: dict[str, str], expected: object) -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "template"} for name in ("gpu", "net")]
    assert statuses(pod(entries=entries, named=named), made) == expected


@pytest.mark.parametrize(
    ("user", "known", "seen_to_go", "expected"),
    [
        pytest.param({}, pod(), False, Reservation.KEEP, id="stay-reserved-seen"),
        pytest.param({}, None, False, Reservation.ASK, id="stay-reserved-not-seen: only the server can say"),
        pytest.param({}, None, True, Reservation.DROP, id="clear-reserved: the pod was seen to go"),
        pytest.param({}, pod(phase="Succeeded"), False, Reservation.DROP, id="clear-reserved-when-done"),
        pytest.param({}, pod(deleted=True), False, Reservation.DROP, id="deleted before it had a node"),
        pytest.param({}, pod(deleted=True, node="n"), False, Reservation.KEEP, id="deleted, but it runs"),
        pytest.param({}, pod(uid="new"), True, Reservation.DROP, id="replaced, and seen to go"),
        pytest.param({}, pod(uid="new"), False, Reservation.ASK, id="the cache may have the pod before it"),
        pytest.param(
            {"resource": "podgroups", "api_group": "scheduling.k8s.io"},
            None,
            False,
            Reservation.KEEP,
            id="dont-clear-reserved-podgroup-feature-disabled",
        ),
        pytest.param(
            {"resource": "foo", "api_group": "foo.com"}, None, True, Reservation.KEEP, id="others than pods stay"
        ),
    ],
)
def test_whether_a_claim_stays_reserved(
    user: dict[str, str], known: Pod | None, seen_to_go: bool, expected: Reservation
) -> None:
    consumer = ConsumerReference(**{"resource": "pods", "name": "pod", "uid": "pod-uid", **user})
    assert decide_reservation(consumer, known, seen_to_go=seen_to_go) is expected


BOTH = [reference(), reference("other", "other-uid")]


@pytest.mark.parametrize(
    ("seen", "kept", "cleared", "expected"),
    [
        pytest.param(claim(users=BOTH, finalizer=True, allocated=True), 2, False, Step.NOTHING, id="all stay"),
        pytest.param(
            claim(users=BOTH, finalizer=True, allocated=True),
            1,
            False,
            Step.RELEASE,
            id="dont-clear-reserved-structured",
        ),
        pytest.param(
            claim(users=BOTH, finalizer=True, allocated=True), 0, False, Step.DEALLOCATE, id="clear-reserved-structured"
        ),
        pytest.param(
            claim(users=BOTH, finalizer=True, allocated=True, deleted=True),
            0,
            False,
            Step.DEALLOCATE,
            id="clear-reserved-structured-deleted",
        ),
        pytest.param(claim(users=BOTH, allocated=True), 0, False, Step.RELEASE, id="who allocated it is not known"),
        pytest.param(
            claim(finalizer=True, allocated=True), 0, False, Step.NOTHING, id="allocated, and nobody has used it yet"
        ),
        pytest.param(
            claim(finalizer=True, allocated=True, deleted=True), 0, False, Step.DEALLOCATE, id="structured-deleted"
        ),
        pytest.param(claim(finalizer=True, deleted=True), 0, False, Step.LET_GO, id="deleted, nothing allocated"),
        pytest.param(
            claim(finalizer=True, allocated=True, deleted=True, users=BOTH),
            2,
            False,
            Step.NOTHING,
            id="deleted, in use",
        ),
        pytest.param(claim(finalizer=True), 0, False, Step.NOTHING, id="a scheduler is about to allocate it"),
        pytest.param(claim(finalizer=True), 0, True, Step.LET_GO, id="deallocated here, and the second write failed"),
        pytest.param(claim(), 0, False, Step.NOTHING, id="new-claim"),
    ],
)
def test_what_is_done_with_a_claim(seen: ResourceClaim, kept: int, cleared: bool, expected: Step) -> None:
    assert next_step(seen, kept, cleared=cleared) is expected


@pytest.mark.parametrize(
    ("known", "seen_to_go", "expected"),
    [
        pytest.param(pod(phase="Running", node="n"), False, Reservation.KEEP, id="the pod runs"),
        pytest.param(pod(phase="Succeeded"), False, Reservation.DROP, id="delete-claim-when-done"),
        pytest.param(pod(uid="new"), True, Reservation.DROP, id="the pod was replaced"),
        pytest.param(pod(uid="new"), False, Reservation.ASK, id="the cache may have the pod before it"),
        pytest.param(None, True, Reservation.KEEP, id="the pod is gone: the garbage collector does it"),
    ],
)
def test_whether_an_unused_claim_is_kept_for_its_pod(
    known: Pod | None, seen_to_go: bool, expected: Reservation
) -> None:
    assert decide_owner(Owner("pod", "pod-uid"), known, seen_to_go=seen_to_go) is expected


def test_only_a_pod_that_controls_a_claim_owns_it() -> None:
    assert owner_of(claim(owner=owner()).metadata) == Owner("pod", "pod-uid")
    assert owner_of(claim(owner={**owner(), "controller": False}).metadata) is None
    assert owner_of(claim(owner={**owner(), "apiVersion": "apps/v1"}).metadata) is None


@pytest.mark.parametrize(
    ("annotations", "admin", "allocated", "expected"),
    [
        pytest.param({}, False, False, ("false", "false", ""), id="new-claim"),
        pytest.param({}, False, True, ("true", "false", ""), id="allocate-claim"),
        pytest.param(
            {"resource.kubernetes.io/pod-claim-name": "gpu"},
            True,
            False,
            ("false", "true", "resource_claim_template"),
            id="new-claim-admin-access",
        ),
        pytest.param(
            {"resource.kubernetes.io/extended-resource-claim": "true"},
            False,
            True,
            ("true", "false", "extended_resource"),
            id="allocate-claim-extended-resources",
        ),
    ],
)
def test_as_what_a_claim_counts(
    annotations: dict[str, str], admin: bool, allocated: bool, expected: tuple[str, ...]
) -> None:
    requests = [{"exactly": {"adminAccess": False}}, {"exactly": {"adminAccess": admin}}, {"firstAvailable": [{}]}]
    doc = {
        "metadata": {"annotations": annotations},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {}} if allocated else {},
    }
    assert labels_of(view(doc, ResourceClaim)) == expected


def test_what_was_made_is_remembered_until_the_cache_has_come_past_it() -> None:
    read = "5"
    made = CreatedClaims(lambda: read)
    first, second = claim("a", owner=MINE, resourceVersion="7"), claim("b", owner=MINE, resourceVersion="9")
    made.put(second)
    made.put(first)
    assert made.of("pod-uid") == [first, second]
    read = "7"
    assert made.of("pod-uid") == [second]
    made.shown(second)
    assert made.of("pod-uid") == []
    made.put(second)
    made.forget("pod-uid")
    assert made.of("pod-uid") == []


def test_of_gone_pods_the_last_500_are_known() -> None:
    gone = DeletedPods()
    for number in range(501):
        gone.add(str(number))
    assert "0" not in gone
    assert "1" in gone
    gone.add("501")
    assert "1" in gone, "it was asked for"
    assert "2" not in gone


def test_its_older_name_is_known() -> None:
    assert DESCRIPTOR.aliases == ("resource-claim-controller",)
