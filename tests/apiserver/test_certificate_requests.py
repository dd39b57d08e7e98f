"""CertificateSigningRequests: who asks, who approves (after kubernetes' strategy and validation, v1.36)."""

import base64
from functools import lru_cache
from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, Object, on

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NOW = "2026-01-01T00:00:00Z"


@lru_cache(maxsize=1)
def _pem() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def _request(**more: Any) -> Object:
    spec = {
        "request": _pem(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        **more,
    }
    return {"metadata": {"name": "r"}, "spec": spec}


def _condition(kind: str = "Approved", **more: Any) -> Object:
    return {"type": kind, "status": "True", "reason": "ByHand", "message": "yes", **more}


def test_a_request_says_who_asked_whatever_its_body_says() -> None:
    async def main(api: Api) -> Object:
        return await api.made(
            REQUESTS, {**_request(username="somebody", groups=["g"]), "status": {"conditions": [_condition()]}}
        )

    made = on(main)
    assert made["spec"]["username"] == "admin"
    assert made["spec"]["groups"] == ["system:masters"]
    assert made["status"] == {}


def test_approval_stamps_its_condition_and_changes_nothing_else() -> None:
    async def main(api: Api) -> Answer:
        made = await api.made(REQUESTS, _request())
        made["status"] = {"conditions": [_condition()], "certificate": "eA=="}
        made["spec"]["signerName"] = "example.com/other"
        return await api.put(REQUESTS + "/r/approval", made)

    answer = on(main)
    assert answer.status == 200, answer.text
    assert answer.body["status"] == {"conditions": [{**_condition(), "lastUpdateTime": NOW, "lastTransitionTime": NOW}]}
    assert answer.body["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client"


@pytest.mark.parametrize(
    ("target", "conditions", "message"),
    [
        pytest.param(
            "approval",
            [_condition(), _condition("Denied")],
            'status.conditions[1].type: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive',
            id="both at once",
        ),
        pytest.param(
            "approval",
            [_condition(status="False")],
            'status.conditions[0].status: Unsupported value: "False": supported values: "True"',
            id="not really approved",
        ),
        pytest.param(
            "status",
            [_condition()],
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"',
            id="approved through status",
        ),
    ],
)
def test_approvals_that_are_refused(target: str, conditions: list[Object], message: str) -> None:
    async def main(api: Api) -> Answer:
        await api.made(REQUESTS, _request())
        return await api.patch(f"{REQUESTS}/r/{target}", {"status": {"conditions": conditions}})

    answer = on(main)
    assert (answer.status, answer.message) == (
        422,
        f'CertificateSigningRequest.certificates.k8s.io "r" is invalid: {message}',
    )


@pytest.mark.parametrize("kind", ["Approved", "Denied"])
def test_whoever_approves_may_say_it_again_in_other_words_and_later(kind: str) -> None:
    async def main(api: Api) -> Answer:
        await api.made(REQUESTS, _request())
        await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition(kind)]}})
        later = _condition(kind, message="still", lastUpdateTime="2026-01-02T00:00:00Z")
        return await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [later]}})

    answer = on(main)
    assert answer.status == 200, answer.text
    later = _condition(kind, message="still", lastUpdateTime="2026-01-02T00:00:00Z", lastTransitionTime=NOW)
    assert answer.body["status"] == {"conditions": [later]}


def test_the_signer_leaves_the_approval_as_it_was() -> None:
    async def main(api: Api) -> Answer:
        await api.made(REQUESTS, _request())
        await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
        return await api.patch(REQUESTS + "/r/status", {"status": {"conditions": [_condition(message="mine")]}})

    answer = on(main)
    assert answer.status == 200, answer.text
    assert answer.body["status"]["conditions"][0]["message"] == "yes"


def test_an_approval_is_not_taken_back() -> None:
    async def main(api: Api) -> Answer:
        await api.made(REQUESTS, _request())
        await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
        return await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": []}})

    answer = on(main)
    assert answer.status == 422
    assert answer.message.endswith(
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    )


def test_the_signer_adds_the_certificate_once() -> None:
    async def main(api: Api) -> tuple[Answer, Answer, Answer]:
        await api.made(REQUESTS, _request())
        await api.patch(REQUESTS + "/r/approval", {"status": {"conditions": [_condition()]}})
        signed = await api.patch(REQUESTS + "/r/status", {"status": {"certificate": "eA=="}})
        other = await api.patch(REQUESTS + "/r/status", {"status": {"certificate": "eQ=="}})
        gone = await api.patch(REQUESTS + "/r/status", {"status": {"conditions": []}})
        return signed, other, gone

    signed, other, gone = on(main)
    assert signed.body["status"]["certificate"] == "eA=="
    assert signed.body["status"]["conditions"][0]["type"] == "Approved"
    assert other.message.endswith("status.certificate: Forbidden: updates may not modify existing certificate content")
    assert gone.message.endswith('status.conditions: Forbidden: updates may not remove a condition of type "Approved"')


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"signerName": "nonsense"},
            'spec.signerName: Invalid value: "nonsense": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'",
            id="a signer without a domain",
        ),
        pytest.param({"usages": []}, "spec.usages: Required value", id="no usages"),
        pytest.param(
            {"request": "eA=="},
            'spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST',
            id="no request",
        ),
    ],
)
def test_requests_that_are_refused(spec: Object, message: str) -> None:
    async def main(api: Api) -> Answer:
        return await api.post(REQUESTS, _request(**spec))

    answer = on(main)
    assert answer.status == 422
    assert message in answer.message


def test_labels_of_a_status_are_judged_as_often_as_those_of_a_request() -> None:
    async def main(api: Api) -> list[Answer]:
        await api.made(REQUESTS, _request())
        bad = {"metadata": {"labels": {"a": "b c"}}}
        return [await api.patch(f"{REQUESTS}/r{part}", bad) for part in ("/status", "")]

    counts = [len(answer.body["details"]["causes"]) for answer in on(main)]
    assert counts == [4, 4]
