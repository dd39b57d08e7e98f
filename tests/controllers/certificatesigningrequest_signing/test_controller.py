"""The signers against the embedded API server, in virtual time. Rows mirror ``TestHandle``,
``pkg/controller/certificates/signer/signer_test.go``, and ``TestCertSpecified``,
``cmd/kube-controller-manager/app/certificates_test.go``, of v1.36."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from tests.certificate_requests import (
    CLIENT,
    NODES,
    REQUESTS,
    SERVING,
    authority,
    certificate_in,
    document,
    request_pem,
    with_approval_condition,
)
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, fixture_of
from tests.tables import cases

from pilothouse.client.interceptor import Action, Rule, conflict, fail, lose_answer
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR, SigningOptions
from pilothouse.controllers.identity.certificatesigningrequest_signing.authorities import authorities
from pilothouse.env import Env, Log, virtual
from pilothouse.runtime.errors import CannotRun
from pilothouse.semantics.certificate_requests import (
    API_SERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from pilothouse.serving.certificates import Pair, create_authority

MINUTE, HOUR = datetime.timedelta(minutes=1), datetime.timedelta(hours=1)
STATUS = "update certificatesigningrequests/status r"
OURS = authority(virtual.START)


@contextlib.asynccontextmanager
async def running(env: Env, options: SigningOptions | None = None) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, options or SigningOptions(pair=OURS))
        yield world


world = fixture_of(running)


async def create_request(world: World, body: Doc, request_spec: str = "Approved") -> Doc:
    name, signer = body["metadata"]["name"], body["spec"]["signerName"]
    if signer == LEGACY_UNKNOWN:
        # It cannot be requested any more, but existing requests remain.
        await world.request("POST", REQUESTS, {**body, "spec": {**body["spec"], "signerName": API_SERVER_CLIENT}})
        key = f"certificates.k8s.io/certificatesigningrequests/{name}"
        record = world.store.staged(key)
        assert record is not None
        value = record.value.replace(API_SERVER_CLIENT.encode(), signer.encode())
        await world.store.commit(world.store.stage(key, lambda _revision: value))
        created = await world.must_get(f"{REQUESTS}/{name}")
    else:
        created = await world.request("POST", REQUESTS, body)
    return (
        await world.request("PUT", f"{REQUESTS}/{name}/approval", with_approval_condition(created, request_spec))
        if request_spec
        else created
    )


async def end_of(world: World, name: str = "r") -> tuple[x509.Certificate | None, str]:
    """The certificate, and the message of the Failed condition."""
    request = await world.must_get(f"{REQUESTS}/{name}")
    failed = [item for item in request["status"].get("conditions") or () if item["type"] == "Failed"]
    return certificate_in(request), failed[0]["message"] if failed else ""


USER = request_pem("hello-world", ["some-org"])
SERVER = request_pem("system:node:testnode", NODES, dns=["example.com"])


@cases(
    "body, request_spec, served, reason",
    {
        "kube-apiserver-client": (document("r", USER, API_SERVER_CLIENT, CLIENT), "Approved", True, ""),
        "kube-apiserver-client with an unexpected usage": (
            document("r", USER, API_SERVER_CLIENT, (*CLIENT, "server auth")),
            "Approved",
            False,
            "invalid usage for client certificate: server auth",
        ),
        "…-client-kubelet": (document("r", request_pem("system:node:x"), KUBELET_CLIENT), "Approved", True, ""),
        "kubelet client of a user that is not a node": (
            document("r", USER, KUBELET_CLIENT),
            "Approved",
            False,
            "subject organization is not system:nodes",
        ),
        "legacy-unknown": (document("r", USER, LEGACY_UNKNOWN, ["any"]), "Approved", True, ""),
        "kubelet-serving": (document("r", SERVER, KUBELET_SERVING, SERVING), "Approved", True, ""),
        "kubelet-serving without an address": (
            document("r", request_pem(), KUBELET_SERVING, SERVING),
            "Approved",
            False,
            "DNS or IP subjectAltName is required",
        ),
        "pending": (document("r", SERVER, KUBELET_SERVING, SERVING), "", False, ""),
        "denied": (document("r", SERVER, KUBELET_SERVING, SERVING), "Denied", False, ""),
        "unknown signer": (document("r", USER, "kubernetes.io/not-recognised"), "Approved", False, ""),
        "signer of another controller": (document("r", USER, "example.com/sample-name"), "Approved", False, ""),
    },
)
async def test_handle_signs_or_fails_requests(
    world: World, body: Doc, request_spec: str, served: bool, reason: str
) -> None:
    await create_request(world, body, request_spec)
    await asyncio.sleep(3600)
    certificate, why = await end_of(world)
    assert (certificate is not None, why) == (served, reason)
    assert world.requests() == ([STATUS] if served or reason else []), "one write, and that is all"


async def test_failed_condition_has_reason_and_time(world: World) -> None:
    await create_request(world, document("r", USER, KUBELET_SERVING, SERVING))
    await asyncio.sleep(1)
    conditions = (await world.must_get(f"{REQUESTS}/r"))["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Approved", "Failed"]
    assert {name: conditions[1][name] for name in ("status", "reason", "message")} == {
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": "subject organization is not system:nodes",
    }
    (sent,) = world.bodies("update", "certificatesigningrequests/status")
    assert sent["status"]["conditions"][1]["lastUpdateTime"] == "2026-01-01T00:00:00Z"
    assert "lastTransitionTime" not in sent["status"]["conditions"][1]


async def test_failed_request_is_not_signed(world: World) -> None:
    body = document("r", SERVER, KUBELET_SERVING, SERVING)
    created = await world.request("POST", REQUESTS, body)
    failed = {"type": "Failed", "status": "True", "reason": "Mine", "message": "somebody else's"}
    await world.merge(f"{REQUESTS}/r/status", {"status": {"conditions": [failed]}})
    created = await world.must_get(f"{REQUESTS}/r")
    await world.request("PUT", f"{REQUESTS}/r/approval", with_approval_condition(created))
    await asyncio.sleep(60)
    assert (await end_of(world))[0] is None
    assert world.requests() == []


@cases(
    "seconds, limit, after",
    {
        "ten minutes": (600, 8760, 10 * MINUTE),
        "a day": (86400, 8760, 24 * HOUR - 5 * MINUTE),
        "no expirationSeconds": (None, 8760, 8760 * HOUR - 5 * MINUTE),
        "above --cluster-signing-duration": (86400, 1, HOUR),
        "beyond the expiry of the CA": (None, 200_000, 3650 * 24 * HOUR),
        "duration 0": (600, 0, 0 * HOUR),
        "negative duration": (None, -1, -1 * HOUR),
    },
)
async def test_issued_certificate_duration(
    env: Env, seconds: int | None, limit: int, after: datetime.timedelta
) -> None:
    async with running(env, SigningOptions(pair=OURS, duration=limit * 3600.0)) as world:
        await create_request(world, document("r", USER, API_SERVER_CLIENT, seconds=seconds))
        await asyncio.sleep(1)
        status, _why = await end_of(world)
        assert status is not None
        assert status.not_valid_before_utc == virtual.START - 5 * MINUTE
        assert status.not_valid_after_utc == virtual.START + after
        status.verify_directly_issued_by(x509.load_pem_x509_certificate(OURS.certificate))


@pytest.mark.parametrize(
    "fault", [fail(500), conflict(), fail(403, "Forbidden"), lose_answer()], ids=["500", "409", "403", "answer lost"]
)
async def test_failed_status_update_is_retried_with_one_certificate_issued(world: World, fault: Action) -> None:
    world.faults.add(Rule(fault, verb="update", resource="certificatesigningrequests", times=2))
    await create_request(world, document("r", USER, API_SERVER_CLIENT))
    await asyncio.sleep(5)
    first, _why = await end_of(world)
    assert first is not None
    await asyncio.sleep(3600)
    assert (await end_of(world))[0] == first


async def test_recreated_request_of_the_same_name_is_not_signed(world: World) -> None:
    """It was approved, deleted, and recreated by another user while the cache still has the first one."""
    await create_request(world, document("r", USER, API_SERVER_CLIENT), "")
    await asyncio.sleep(1)
    with world.faults.hold(resource="certificatesigningrequests") as hold:
        await world.request(
            "PUT", f"{REQUESTS}/r/approval", with_approval_condition(await world.must_get(f"{REQUESTS}/r"))
        )
        await world.delete(f"{REQUESTS}/r")
        await create_request(world, document("r", request_pem("mallory", ["some-org"]), API_SERVER_CLIENT), "")
        hold.release(1)
        await asyncio.sleep(5)
        assert set(world.requests()) == {STATUS}
        assert await end_of(world) == (None, "")
    await asyncio.sleep(3600)
    assert await end_of(world) == (None, "")


async def test_requests_wait_while_the_ca_is_expired(env: Env, tmp_path: Path) -> None:

    files = tmp_path / "ca.crt", tmp_path / "ca.key"
    create_authority("old", virtual.START - datetime.timedelta(days=4000)).save(*files)
    async with running(env, SigningOptions(cert_file=str(files[0]), key_file=str(files[1]))) as world:
        await create_request(world, document("r", USER, API_SERVER_CLIENT))
        await asyncio.sleep(5)
        assert world.requests() == []
        assert "pilothouse_reconcile_errors_total{" in world.metrics.exposition()
        OURS.save(*files)
        await asyncio.sleep(60)
        status, _why = await end_of(world)
        assert status is not None
        status.verify_directly_issued_by(x509.load_pem_x509_certificate(OURS.certificate))


# Files


def signers(tmp_path: Path, **named: str) -> dict[str, str]:
    """Which signer runs with which authority, when these files are named."""
    paths: dict[str, str] = {}
    for field, stem in named.items():
        pair = authority(virtual.START, stem)
        pair.save(tmp_path / f"{stem}.crt", tmp_path / f"{stem}.key")
        before = f"{field}_" if field else ""
        paths |= {f"{before}cert_file": f"{tmp_path}/{stem}.crt", f"{before}key_file": f"{tmp_path}/{stem}.key"}
    result = authorities(SigningOptions(**paths), Log("test"))  # type: ignore[arg-type]
    return {signer: source().certificate.subject.rfc4514_string() for signer, source in result.items()}


def test_cluster_signing_files_apply_to_all_signers_and_own_files_to_one(tmp_path: Path) -> None:
    every = (KUBELET_SERVING, KUBELET_CLIENT, API_SERVER_CLIENT, LEGACY_UNKNOWN)
    assert signers(tmp_path, **{"": "one"}) == dict.fromkeys(every, "CN=one")
    assert signers(tmp_path, kubelet_serving="a", legacy_unknown="b") == {
        KUBELET_SERVING: "CN=a",
        LEGACY_UNKNOWN: "CN=b",
    }
    assert signers(tmp_path, kubelet_client="a", kube_apiserver_client="a") == {
        KUBELET_CLIENT: "CN=a",
        API_SERVER_CLIENT: "CN=a",
    }


@cases(
    "options, can, errors",
    {
        "no signers": ({}, False, 0),
        "a certificate alone: no signer, as upstream": ({"cert_file": "a"}, False, 0),
        "one certificate and key": ({"cert_file": "a", "key_file": "b"}, True, 0),
        "an own pair": ({"kubelet_client_cert_file": "a", "kubelet_client_key_file": "b"}, True, 0),
        "a certificate without its key": ({"kubelet_client_cert_file": "a"}, True, 1),
        "a key without its certificate": ({"legacy_unknown_key_file": "a"}, True, 1),
        "shared and per-signer flags": (
            {"cert_file": "a", "legacy_unknown_cert_file": "b", "legacy_unknown_key_file": "c"},
            True,
            1,
        ),
        "CA of the embedded server": ({"pair": OURS}, True, 0),
    },
)
def test_certificate_and_key_flags_must_be_set_together(options: dict[str, str], can: bool, errors: int) -> None:
    options_ = SigningOptions(**options)  # type: ignore[arg-type]
    assert (options_.can_sign, len(options_.validate())) == (can, errors)


@cases(
    "certificate, key, text",
    {
        "missing certificate file": (None, OURS.key, "no such file or directory"),
        "missing key file": (OURS.certificate, None, "no such file or directory"),
        "two certificates": (OURS.certificate * 2, OURS.key, "expected 1 certificate, found 2"),
        "certificate is not PEM": (b"x", OURS.key, "can't be read"),
        "key is not PEM": (OURS.certificate, b"secret", "can't be read"),
        "the key of another": (OURS.certificate, authority(virtual.START, "other").key, "is not the key of"),
    },
)
def test_unusable_files_fail_startup_without_printing_their_content(
    certificate: bytes | None, key: bytes | None, text: str, tmp_path: Path
) -> None:
    paths = tmp_path / "ca.crt", tmp_path / "ca.key"
    for path, content in zip(paths, (certificate, key), strict=True):
        if content is not None:
            path.write_bytes(content)
    options = SigningOptions(cert_file=str(paths[0]), key_file=str(paths[1]))
    with pytest.raises(CannotRun, match=r"failed to start .*error reading CA cert") as caught:
        authorities(options, Log("test"))
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_changed_files_are_reloaded(tmp_path: Path) -> None:
    first, second = OURS, authority(virtual.START, "second")
    paths = tmp_path / "ca.crt", tmp_path / "ca.key"
    first.save(*paths)
    source = authorities(SigningOptions(cert_file=str(paths[0]), key_file=str(paths[1])), Log("test"))[LEGACY_UNKNOWN]

    def name() -> str:
        return source().certificate.subject.rfc4514_string()

    assert name() == "CN=test-ca"
    paths[1].write_bytes(second.key)
    assert name() == "CN=test-ca", "the pair does not fit yet: the old one stays in use"
    paths[0].write_bytes(second.certificate)
    assert name() == "CN=second"
    paths[0].unlink()
    assert name() == "CN=second", "also when there is none for a moment"
    first.save(*paths)
    assert name() == "CN=test-ca"


async def test_private_keys_do_not_leak_into_logs_events_or_metrics(
    env: Env, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the highest verbosity, and with files that become invalid in between."""
    paths = tmp_path / "ca.crt", tmp_path / "ca.key"
    OURS.save(*paths)
    body = OURS.key.decode().splitlines()[1]
    observed: list[str] = []

    caplog.set_level(1)
    async with running(env, SigningOptions(cert_file=str(paths[0]), key_file=str(paths[1]))) as world:
        await create_request(world, document("r", USER, API_SERVER_CLIENT))
        await asyncio.sleep(1)
        Pair(OURS.certificate, OURS.key[:-60]).save(*paths)
        await create_request(world, document("s", USER, API_SERVER_CLIENT))
        await asyncio.sleep(1)
        assert (await end_of(world, "s"))[0] is not None
        observed.append(world.metrics.exposition())
        observed.append(str((await world.must_get("/api/v1/events"))["items"]))
    reported = [str(vars(record)) for record in caplog.records]
    assert any("keeping the old one" in text for text in reported)
    for text in (*observed, *reported):
        assert body not in text
        assert "PRIVATE" not in text
