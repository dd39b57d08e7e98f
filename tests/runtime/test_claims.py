"""Controller references: the decision as a table, and its effects (v1.36
``pkg/controller/controller_ref_manager_test.go``)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.runtime.cluster import Cluster
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.core import PODS, ObjectReference, Pod
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.client.errors import NotFound
from pilothouse.env import Env
from pilothouse.env.virtual import START
from pilothouse.machinery.labels import parse_selector
from pilothouse.runtime import Claims, EventRecorder, PodControl, classify, object_reference, pod_body
from pilothouse.runtime.cache import Cache
from pilothouse.runtime.claims import CONTROLLER_INDEX, Claim, ClaimError, controller_index_key, index_by_controller
from pilothouse.runtime.pod_control import NoLabels

MINE = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="web", uid="u1", controller=True, block_owner_deletion=True
)
OTHER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="other", uid="u2", controller=True)
BYSTANDER = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="u1")
OWNER = ObjectMeta(name="web", namespace="default", uid="u1")


@cases(
    "owners, pod_deleting, owner_deleting, matches, claim",
    {
        "controlled by another owner: ignored": ([OTHER], False, False, True, Claim.IGNORE),
        "controlled, matching: kept": ([MINE], False, False, True, Claim.KEEP),
        "controlled, terminating: kept": ([MINE], True, False, True, Claim.KEEP),
        "controlled, owner terminating: kept": ([MINE], False, True, True, Claim.KEEP),
        "controlled, not matching, owner terminating: ignored": ([MINE], False, True, False, Claim.IGNORE),
        "controlled, not matching: released": ([MINE], False, False, False, Claim.RELEASE),
        "orphan, owner terminating: ignored": ([], False, True, True, Claim.IGNORE),
        "an orphan that does not match: ignored": ([], False, False, False, Claim.IGNORE),
        "terminating orphan: ignored": ([], True, False, True, Claim.IGNORE),
        "a matching orphan: adopted": ([], False, False, True, Claim.ADOPT),
        "other owner references: adopted": ([BYSTANDER], False, False, True, Claim.ADOPT),
    },
)
def test_classify(
    owners: Sequence[OwnerReference], pod_deleting: bool, owner_deleting: bool, matches: bool, claim: Claim
) -> None:
    meta = ObjectMeta(owner_references=tuple(owners), deletion_timestamp=START if pod_deleting else None)
    assert classify(meta, owner_uid="u1", owner_deleting=owner_deleting, matches=matches) is claim


def pod(name: str, *owners: OwnerReference, app: str = "web", deleting: bool = False) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            labels={"app": app},
            owner_references=owners,
            deletion_timestamp=START if deleting else None,
        )
    )


class ClaimedPods:
    """A server that has some pods, and one owner's claims on them."""

    def __init__(self, env: Env, live: ObjectMeta | Exception) -> None:
        self.server = Cluster(env)
        self.pods: list[Pod] = []
        self.live_reads = 0
        self.written: list[str] = []
        self._live = live
        self.claims: Claims[Pod] = Claims(
            self.server.client(), PODS, OWNER, MINE, parse_selector("app=web"),
            read_live=self._read, on_write=lambda meta: self.written.append(meta.resource_version),
        )  # fmt: skip

    @classmethod
    async def of(cls, env: Env, pods: Sequence[Pod], live: ObjectMeta | Exception = OWNER) -> "ClaimedPods":
        claimed = cls(env, live)
        for item in pods:
            body = msgspec.json.decode(msgspec.json.encode(item))
            body |= {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
            claimed.pods.append(await claimed.server.admin().create(PODS, body, "default"))
        return claimed

    async def _read(self) -> ObjectMeta:
        self.live_reads += 1
        await asyncio.sleep(0)
        if isinstance(self._live, Exception):
            raise self._live
        return self._live

    async def claim(self) -> list[str]:
        return [item.metadata.name for item in await self.claims.claim(self.pods)]

    def uid(self, name: str) -> str:
        return next(item.metadata.uid for item in self.pods if item.metadata.name == name)

    @property
    def patches(self) -> list[tuple[str, Any]]:
        return [(name, body) for _at, method, name, body in self.server.log if method == "PATCH"]


async def test_adoption_and_release_patches_have_the_uid_after_one_live_get(env: Env) -> None:
    claimed = await ClaimedPods.of(
        env, [pod("a"), pod("b"), pod("c", MINE), pod("d", MINE, app="x"), pod("e", OTHER), pod("f", app="y")]
    )
    assert await claimed.claim() == ["a", "b", "c"]
    assert claimed.live_reads == 1
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    assert claimed.patches == [
        ("a", {"metadata": {"ownerReferences": [reference], "uid": claimed.uid("a")}}),
        ("b", {"metadata": {"ownerReferences": [reference], "uid": claimed.uid("b")}}),
        ("d", {"metadata": {"uid": claimed.uid("d"), "ownerReferences": [{"$patch": "delete", "uid": "u1"}]}}),
    ]
    after = {obj["metadata"]["name"]: obj["metadata"] for obj in claimed.server.objects("/pods/")}
    assert claimed.written == [after[name]["resourceVersion"] for name in "abd"], "each write is recorded"
    assert after["a"]["ownerReferences"] == [reference]
    assert "ownerReferences" not in after["d"]


async def test_keep_and_release_need_no_live_get(env: Env) -> None:
    claimed = await ClaimedPods.of(env, [pod("c", MINE), pod("d", MINE, app="x")], live=RuntimeError("not asked"))
    assert await claimed.claim() == ["c"]
    assert claimed.live_reads == 0


@cases(
    "live, message",
    {
        "owner recreated": (
            ObjectMeta(name="web", namespace="default", uid="u9"),
            "can't adopt Pod default/a (uid-a): original ReplicaSet default/web is gone: got uid u9, wanted u1",
        ),
        "owner terminating": (
            ObjectMeta(name="web", namespace="default", uid="u1", deletion_timestamp=START),
            "can't adopt Pod default/a (uid-a): default/web has just been deleted at 2026-01-01T00:00:00Z",
        ),
        "the owner cannot be read": (OSError("no answer"), "can't adopt Pod default/a (uid-a): no answer"),
    },
)
async def test_owner_differing_from_the_cache_adopts_nothing(
    env: Env, live: ObjectMeta | Exception, message: str
) -> None:
    claimed = await ClaimedPods.of(env, [pod("a"), pod("b"), pod("c", MINE)], live=live)
    with pytest.raises(ClaimError) as caught:
        await claimed.claim()
    assert str(caught.value.errors[0]) == message.replace("uid-a", claimed.uid("a"))
    assert len(caught.value.errors) == 2, "every orphan fails, by the one look"
    assert claimed.live_reads == 1
    assert claimed.patches == []


@cases(
    "code, reason, adopts, releases",
    {
        "not found: not claimed": (404, "NotFound", [], True),
        "invalid: error when adopting": (422, "Invalid", None, True),
        "other errors": (409, "Conflict", None, False),
    },
)
async def test_rejected_patches(env: Env, code: int, reason: str, adopts: list[str] | None, releases: bool) -> None:
    for pods, expected in (([pod("a")], adopts), ([pod("d", MINE, app="x")], [] if releases else None)):
        claimed = await ClaimedPods.of(env, pods)

        def refuse(request: wire.Request, claimed: ClaimedPods = claimed) -> wire.Response:
            return claimed.server.answer(code, reason, "refused")

        claimed.server.before = refuse
        if expected is None:
            with pytest.raises(ClaimError, match=r"^refused$"):
                await claimed.claim()
        else:
            assert await claimed.claim() == expected


def test_candidates_come_from_the_index() -> None:
    cache: Cache[Pod] = Cache("pods")
    cache.add_index(CONTROLLER_INDEX, index_by_controller)
    for item in (pod("b", MINE), pod("a", MINE), pod("c"), pod("d", OTHER)):
        cache.put(f"default/{item.metadata.name}", item)
    owned = cache.by_index(CONTROLLER_INDEX, controller_index_key("default", "ReplicaSet", "web", "u1"))
    assert [one.metadata.name for one in owned] == ["a", "b"]
    assert [one.metadata.name for one in cache.by_index(CONTROLLER_INDEX, "default")] == ["c"]


TEMPLATE = (
    b'{"metadata":{"name":"ignored","labels":{"app":"web"},"annotations":{"a":"b"},"finalizers":["x/y"],'
    b'"creationTimestamp":null},"spec":{"containers":[{"name":"c","image":"i","newerThanUs":1.50}]}}'
)


def test_pod_from_template_keeps_the_spec_bytes() -> None:
    assert pod_body(TEMPLATE, "web", MINE) == (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"app":"web"},'
        b'"annotations":{"a":"b"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u1",'
        b'"controller":true,"blockOwnerDeletion":true}],"finalizers":["x/y"]},'
        b'"spec":{"containers":[{"name":"c","image":"i","newerThanUs":1.50}]}}'
    )
    named = msgspec.json.decode(pod_body(TEMPLATE, "web", MINE, name="web-0"))
    assert named["metadata"]["name"] == "web-0"
    assert named["metadata"]["generateName"] == "web-"
    with pytest.raises(NoLabels, match="unable to create pods, no labels"):
        pod_body(b'{"metadata":{},"spec":{}}', "web", MINE)
    with pytest.raises(ValueError, match="controller"):
        pod_body(TEMPLATE, "web", BYSTANDER)


async def test_pod_writes_record_events_on_the_owner(env: Env) -> None:
    server = Cluster(env)
    client = server.client()
    recorder = EventRecorder(client, env, "replicaset-controller")
    recorded: list[tuple[str, str, str]] = []

    def record(about: ObjectReference, type_: str, reason: str, message: str) -> None:
        recorded.append((type_, reason, message))

    recorder.event = record  # type: ignore[method-assign]
    control = PodControl(client, recorder)
    owner = object_reference(PODS, OWNER)
    created = await control.create_pod("default", TEMPLATE, owner, MINE)
    await control.delete_pod("default", created.metadata.name, owner)
    with pytest.raises(NotFound):
        await control.delete_pod("default", "gone", owner)
    server.before = lambda _request: server.answer(403, "Forbidden", "quota")
    with pytest.raises(Exception, match="quota"):
        await control.create_pod("default", TEMPLATE, owner, MINE)
    with pytest.raises(Exception, match="quota"):
        await control.delete_pod("default", "web-x", owner)
    server.before = lambda _request: server.answer(403, "Forbidden", "going", cause="NamespaceTerminating")
    with pytest.raises(Exception, match="going"):
        await control.create_pod("default", TEMPLATE, owner, MINE)
    assert recorded == [
        ("Normal", "SuccessfulCreate", f"Created pod: {created.metadata.name}"),
        ("Normal", "SuccessfulDelete", f"Deleted pod: {created.metadata.name}"),
        ("Warning", "FailedCreate", "Error creating: quota"),
        ("Warning", "FailedDelete", "Error deleting: quota"),
    ]
