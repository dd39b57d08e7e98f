"""The PodCertificateRequest cleaner.

Rows mirror ``TestPCRCleaner``, ``pkg/controller/certificates/cleaner/pcrcleaner_test.go`` of v1.36: the status of a
request does not matter.
"""

import asyncio
import datetime

from tests.controllers.certificate_kinds import serve
from tests.controllers.node_world import Doc, World
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.podcertificaterequest_cleaner.controller import is_expired

NOW = datetime.datetime(2025, 1, 1, 0, 30, tzinfo=datetime.UTC)
REQUESTS = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"


@cases(
    "minute, second, expected",
    {
        "within the threshold": (15, 1, False),
        "a quarter of an hour to the second": (15, 0, True),
        "outside the threshold": (14, 59, True),
    },
)
def test_expired_requests(minute: int, second: int, expected: bool) -> None:
    assert is_expired(ObjectMeta(creation_timestamp=NOW.replace(minute=minute, second=second)), NOW) is expected


def test_request_without_creation_timestamp_is_kept() -> None:
    assert not is_expired(ObjectMeta(), NOW)


async def create_request(world: World, name: str) -> Doc:
    head = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest"}
    return await world.request(
        "POST", REQUESTS, {**head, "metadata": {"name": name}, "spec": {"signerName": "foo.com/abc"}}
    )


async def names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.must_get(REQUESTS))["items"]]


async def prepare(world: World) -> None:
    await serve(world, "podcertificaterequests", "PodCertificateRequest", namespaced=True)
    await asyncio.sleep(2)


async def test_expired_requests_are_deleted_every_five_minutes(world: World) -> None:
    await prepare(world)
    await create_request(world, "a")
    await world.start(DESCRIPTOR)
    await asyncio.sleep(600)
    await create_request(world, "b")
    assert await names(world) == ["a", "b"]
    await asyncio.sleep(330)
    assert await names(world) == ["b"]
    await asyncio.sleep(600)
    assert await names(world) == []
    assert world.requests() == [f"delete podcertificaterequests {name}" for name in "ab"]


async def test_failed_deletion_does_not_block_others_and_is_retried(world: World) -> None:
    await prepare(world)
    for name in "ab":
        await create_request(world, name)
    await asyncio.sleep(1000)
    world.faults.add(Rule(fail(500), verb="delete", resource="podcertificaterequests", nth=1))
    await world.start(DESCRIPTOR)
    await asyncio.sleep(1)
    assert await names(world) == ["a"]
    await asyncio.sleep(300)
    assert await names(world) == []


async def test_recreated_request_of_the_same_name_is_not_deleted(world: World) -> None:
    await prepare(world)
    await create_request(world, "a")
    await world.start(DESCRIPTOR)
    await asyncio.sleep(700)
    with world.faults.hold(resource="podcertificaterequests"):
        await world.delete(f"{REQUESTS}/a")
        await create_request(world, "a")
        await asyncio.sleep(300)
        assert world.requests() == ["delete podcertificaterequests a"]
    assert await names(world) == ["a"]


def test_feature_gate() -> None:
    assert DESCRIPTOR.gates == ("PodCertificateRequest",)
