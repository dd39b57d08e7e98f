"""The CSR cleaner: which requests are deleted, and when.

Rows mirror ``TestCleanerWithApprovedExpiredCSR``, ``pkg/controller/certificates/cleaner/cleaner_test.go`` of v1.36, and
add the other side of each limit.
"""

import asyncio
import base64
import datetime
from typing import Any

from cryptography import x509
from tests.certificate_requests import REQUESTS, authority, document, request_pem, with_approval_condition
from tests.controllers.node_world import World
from tests.tables import cases

from pilothouse.api.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.certificatesigningrequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_cleaner.controller import cleanup_reason
from pilothouse.env import virtual
from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT

NOW = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
MINUTE, HOUR = datetime.timedelta(minutes=1), datetime.timedelta(hours=1)
LIVING = authority(NOW).certificate
ENDED = authority(NOW - datetime.timedelta(days=4000)).certificate


def condition(kind: str, age: datetime.timedelta | None) -> CertificateSigningRequestCondition:
    at = None if age is None else NOW - age
    return CertificateSigningRequestCondition(type=kind, status="True", last_update_time=at)


def certificate_request(
    *conditions: CertificateSigningRequestCondition,
    age: datetime.timedelta | None = MINUTE,
    certificate: bytes = b"",
) -> CertificateSigningRequest:
    created = None if age is None else NOW - age
    return CertificateSigningRequest(
        metadata=ObjectMeta(name="r", creation_timestamp=created),
        status=CertificateSigningRequestStatus(conditions=conditions, certificate=certificate),
    )


APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


@cases(
    "request_, goes",
    {
        "issued recently": (certificate_request(condition(APPROVED, 50 * MINUTE), certificate=LIVING), False),
        "an hour ago to the second": (certificate_request(condition(APPROVED, HOUR), certificate=LIVING), False),
        "issued long ago": (certificate_request(condition(APPROVED, 2 * HOUR), certificate=LIVING), True),
        "approved, its signer has time": (certificate_request(condition(APPROVED, 50 * MINUTE)), False),
        "approved longer ago, its signer still has time": (certificate_request(condition(APPROVED, 2 * HOUR)), False),
        "approved a day ago and not signed": (certificate_request(condition(APPROVED, 25 * HOUR)), True),
        "denied not long ago": (certificate_request(condition(DENIED, 50 * MINUTE)), False),
        "denied long ago": (certificate_request(condition(DENIED, 2 * HOUR)), True),
        "failed not long ago": (
            certificate_request(condition(APPROVED, 2 * HOUR), condition(FAILED, 50 * MINUTE)),
            False,
        ),
        "failed long ago": (certificate_request(condition(APPROVED, 2 * HOUR), condition(FAILED, 2 * HOUR)), True),
        "pending recently": (certificate_request(age=5 * HOUR), False),
        "pending for a day": (certificate_request(age=25 * HOUR), True),
        "pending with another condition": (certificate_request(condition("Other", 25 * HOUR), age=25 * HOUR), False),
        "expired certificate": (certificate_request(condition(APPROVED, 50 * MINUTE), certificate=ENDED), True),
        "expired certificate without approval": (certificate_request(age=5 * HOUR, certificate=ENDED), False),
        "unparsable certificate": (
            certificate_request(condition(APPROVED, 50 * MINUTE), certificate=b"garbage"),
            False,
        ),
        "unparsable certificate, issued long ago": (
            certificate_request(condition(APPROVED, 2 * HOUR), certificate=b"garbage"),
            True,
        ),
        "denied without lastUpdateTime": (certificate_request(condition(DENIED, None)), False),
        "no creationTimestamp": (certificate_request(age=None), False),
    },
)
def test_expired_requests(request_: CertificateSigningRequest, goes: bool) -> None:
    assert (cleanup_reason(request_, NOW) is not None) is goes


# The controller


async def create_request(world: World, name: str) -> Any:
    return await world.request("POST", REQUESTS, document(name, request_pem("u", []), API_SERVER_CLIENT))


async def names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.must_get(REQUESTS))["items"]]


async def test_expired_requests_are_deleted_every_hour(world: World) -> None:
    for name in ("pending", "denied", "served"):
        created = await create_request(world, name)
        if name != "pending":
            kind = "Denied" if name == "denied" else "Approved"
            await world.request("PUT", f"{REQUESTS}/{name}/approval", with_approval_condition(created, kind))
    certificate = base64.b64encode(authority(virtual.START).certificate).decode()
    await world.merge(f"{REQUESTS}/served/status", {"status": {"certificate": certificate}})
    await world.start(DESCRIPTOR)
    await asyncio.sleep(3600 + 60)
    assert await names(world) == ["denied", "pending", "served"], "an hour to the second is not too long"
    await asyncio.sleep(3600)
    assert await names(world) == ["pending"]
    assert world.requests() == [f"delete certificatesigningrequests {name}" for name in ("denied", "served")]
    await asyncio.sleep(24 * 3600)
    assert await names(world) == []


async def test_failed_deletion_does_not_block_others_and_is_retried(world: World) -> None:
    for name in ("a", "b"):
        await world.request(
            "PUT", f"{REQUESTS}/{name}/approval", with_approval_condition(await create_request(world, name), "Denied")
        )
    await asyncio.sleep(2 * 3600)
    world.faults.add(Rule(fail(500), verb="delete", resource="certificatesigningrequests", nth=1))
    await world.start(DESCRIPTOR)
    await asyncio.sleep(60)
    assert await names(world) == ["a"]
    await asyncio.sleep(3600)
    assert await names(world) == []


async def test_recreated_request_of_the_same_name_is_not_deleted(world: World) -> None:
    """The uid precondition names the cached object, however stale the cache is."""
    created = await create_request(world, "a")
    await world.request("PUT", f"{REQUESTS}/a/approval", with_approval_condition(created, "Denied"))
    await world.start(DESCRIPTOR)
    await asyncio.sleep(3600 + 60)
    with world.faults.hold(resource="certificatesigningrequests"):
        await world.delete(f"{REQUESTS}/a")
        await create_request(world, "a")
        await asyncio.sleep(3600)
        assert world.requests() == ["delete certificatesigningrequests a"]
    await asyncio.sleep(60)
    request = await world.must_get(f"{REQUESTS}/a")
    assert request["metadata"]["uid"] != created["metadata"]["uid"]


def test_test_cases_are_consistent() -> None:
    ends = {x509.load_pem_x509_certificate(pem).not_valid_after_utc > NOW for pem in (LIVING,)}
    assert ends == {True}
    assert x509.load_pem_x509_certificate(ENDED).not_valid_after_utc < NOW
