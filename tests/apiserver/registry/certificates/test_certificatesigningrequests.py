"""CertificateSigningRequests: creation, approval and signing (kubernetes' strategy and validation, v1.36)."""

import base64
from functools import lru_cache
from typing import Any

import pytest
from tests.apiserver.api import Api, Object
from tests.tables import cases

from pilothouse.env import virtual
from pilothouse.serving.certificates import create_authority

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NOW = "2026-01-01T00:00:00Z"


@lru_cache
def _certificate(name: str) -> bytes:
    return create_authority(name, virtual.START).certificate


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


@lru_cache(maxsize=1)
def _pem() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def _request(**fields: Any) -> Object:
    spec = {
        "request": _pem(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        **fields,
    }
    return {"metadata": {"name": "r"}, "spec": spec}


def _condition(kind: str = "Approved", **fields: Any) -> Object:
    return {"type": kind, "status": "True", "reason": "ByHand", "message": "yes", **fields}


async def test_user_fields_are_set_by_the_server(api: Api) -> None:
    created = await api.create(
        REQUESTS, {**_request(username="somebody", groups=["g"]), "status": {"conditions": [_condition()]}}
    )
    assert created["spec"]["username"] == "admin"
    assert created["spec"]["groups"] == ["system:masters"]
    assert created["status"] == {}


async def test_approval_sets_times_and_changes_nothing_else(api: Api) -> None:
    created = await api.create(REQUESTS, _request())
    created["status"] = {"conditions": [_condition()], "certificate": "eA=="}
    created["spec"]["signerName"] = "example.com/other"
    answer = await api.put(REQUESTS + "/r/approval", created)
    assert answer.status == 200, answer.text
    assert answer.body["status"] == {"conditions": [{**_condition(), "lastUpdateTime": NOW, "lastTransitionTime": NOW}]}
    assert answer.body["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client"


@cases(
    "target, conditions, message",
    {
        "Approved and Denied": (
            "approval",
            [_condition(), _condition("Denied")],
            'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive',
        ),
        "Approved with status False": (
            "approval",
            [_condition(status="False")],
            'status.conditions[0].status: Unsupported value: "False": supported values: "True"',
        ),
        "approval through /status": (
            "status",
            [_condition()],
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"',
        ),
    },
)
async def test_rejected_approvals(api: Api, target: str, conditions: list[Object], message: str) -> None:
    await api.create(REQUESTS, _request())
    answer = await api.patch(f"{REQUESTS}/r/{target}", {"status": {"conditions": conditions}})
    assert (answer.status, answer.message) == (
        422,
        f'CertificateSigningRequest.certificates.k8s.io "r" is invalid: {message}',
    )


@pytest.mark.parametrize("kind", ["Approved", "Denied"])
async def test_approval_condition_can_be_updated(api: Api, kind: str) -> None:
    await api.create(REQUESTS, _request())
    await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition(kind)]}})
    condition = _condition(kind, message="still", lastUpdateTime="2026-01-02T00:00:00Z")
    answer = await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [condition]}})
    assert answer.status == 200, answer.text
    condition = _condition(kind, message="still", lastUpdateTime="2026-01-02T00:00:00Z", lastTransitionTime=NOW)
    assert answer.body["status"] == {"conditions": [condition]}


async def test_status_update_keeps_approval_conditions(api: Api) -> None:
    await api.create(REQUESTS, _request())
    await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
    answer = await api.patch(REQUESTS + "/r/status", {"status": {"conditions": [_condition(message="mine")]}})
    assert answer.status == 200, answer.text
    assert answer.body["status"]["conditions"][0]["message"] == "yes"


async def test_approval_cannot_be_removed(api: Api) -> None:
    await api.create(REQUESTS, _request())
    await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
    answer = await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": []}})
    assert answer.status == 422
    assert answer.message.endswith(
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    )


async def test_certificate_can_be_set_once(api: Api) -> None:
    certificate = _encoded(_certificate("a"))
    await api.create(REQUESTS, _request())
    await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
    signed = await api.patch(REQUESTS + "/r/status", {"status": {"certificate": certificate}})
    changed = await api.patch(REQUESTS + "/r/status", {"status": {"certificate": _encoded(_certificate("b"))}})
    removed = await api.patch(REQUESTS + "/r/status", {"status": {"conditions": []}})
    assert signed.body["status"]["certificate"] == certificate
    assert signed.body["status"]["conditions"][0]["type"] == "Approved"
    assert changed.message.endswith(
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    )
    assert removed.message.endswith(
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    )


@cases(
    "spec, message",
    {
        "signer name without domain": (
            {"signerName": "nonsense"},
            'spec.signerName: Invalid value: "nonsense": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
        ),
        "empty signer name": ({"signerName": ""}, "invalid: spec.signerName: Required value"),
        "legacy signer name": (
            {"signerName": "kubernetes.io/legacy-unknown"},
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via '
            "this API version",
        ),
        "signer name with two slashes": (
            {"signerName": "A/b/c"},
            'spec.signerName: Invalid value: "A/b/c": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
        ),
        "invalid domain and path of the signer name": (
            {"signerName": "example/B"},
            '[spec.signerName: Invalid value: "example": should be a domain with at least two segments separated by '
            'dots, spec.signerName: Invalid value: "B": validating label "B": a lowercase RFC 1123 subdomain must',
        ),
        "signer name too long": (
            {"signerName": f"example.com/{'.'.join(['a' * 250] * 3)}"},
            "invalid: spec.signerName: Too long: may not be more than 571 bytes",
        ),
        "unsupported and duplicate usages": (
            {"usages": ["client auth", "x", "client auth", "x"]},
            '"timestamping", spec.usages[2]: Duplicate value: "client auth", spec.usages[3]: Duplicate value: "x"]',
        ),
    },
)
async def test_rejected_requests(api: Api, spec: Object, message: str) -> None:
    answer = await api.post(REQUESTS, _request(**spec))
    assert answer.status == 422
    assert message in answer.message


async def test_metadata_errors_of_status_updates(api: Api) -> None:
    await api.create(REQUESTS, _request())
    invalid_labels = {"metadata": {"labels": {"a": "b c"}}}
    counts = [
        len(answer.body["details"]["causes"])
        for answer in [await api.patch(f"{REQUESTS}/r{subresource}", invalid_labels) for subresource in ("/status", "")]
    ]
    assert counts == [4, 4]


def _with_invalid_signature() -> str:
    """A request with an invalid signature."""
    lines = base64.b64decode(_pem()).splitlines()
    der = bytearray(base64.b64decode(b"".join(lines[1:-1])))
    der[-1] ^= 1
    return _encoded(b"\n".join((lines[0], base64.b64encode(der), lines[-1], b"")))


async def test_request_signature_is_checked(api: Api) -> None:
    answer = await api.post(REQUESTS, _request(request=_with_invalid_signature()))
    assert answer.status == 422, answer.text
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec.request"]
    assert answer.message.endswith(": x509: ECDSA verification failure")


KEY = b"-----BEGIN EC PRIVATE KEY-----\neA==\n-----END EC PRIVATE KEY-----\n"
BROKEN = b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"


@cases(
    "pem, detail",
    {
        "no PEM": (b"x", "must contain at least one CERTIFICATE PEM block"),
        "PEM block of another type": (KEY, 'only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"'),
        "malformed certificate": (BROKEN, "x509: malformed certificate"),
    },
)
async def test_status_certificate_must_be_valid(api: Api, pem: bytes, detail: str) -> None:
    await api.create(REQUESTS, _request())
    chain = _certificate("a") + b"and\n" + _certificate("b")
    rejected, accepted = [
        await api.patch(REQUESTS + "/r/status", {"status": {"certificate": _encoded(certificates)}})
        for certificates in (pem, chain)
    ]
    assert rejected.message.endswith(f': status.certificate: Invalid value: "<certificate data>": {detail}')
    assert accepted.status == 200, accepted.text


async def test_existing_invalid_status_can_be_kept(api: Api) -> None:
    key = "certificates.k8s.io/certificatesigningrequests/r"
    await api.create(REQUESTS, _request())
    await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition(), _condition("Other")]}})
    await api.rewrite(key, '"type":"Other"', '"type":"Denied"')
    conditions = [_condition(), _condition("Denied")]
    answers = [await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": conditions}})]
    await api.rewrite(key, '"type":"Denied"', '"type":"Approved"')
    assert [
        answer.status
        for answer in [
            *answers,
            await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()] * 2}}),
        ]
    ] == [200, 200]
