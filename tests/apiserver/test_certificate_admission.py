"""Who may approve and sign (kubernetes ``plugin/pkg/admission/certificates``, v1.36)."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.apiserver.api import Answer, Api, on

from pilothouse.apiserver.admission import Admission
from pilothouse.apiserver.admission.certificates import ClusterTrustBundleAttest
from pilothouse.apiserver.authorization import Attributes, Decision, Rule
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.resources import ResourceInfo

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}


class Allows:
    """An authorizer that knows signers only."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def decide(self, identity: Identity, asked: Attributes) -> Decision:
        assert (asked.group, asked.resource) == ("certificates.k8s.io", "signers")
        return Decision(f"{asked.verb} {asked.name}" in self.allowed)

    def rules(self, identity: Identity, namespace: str) -> tuple[list[Rule], str]:
        return [], ""


def request(signer: str = "example.com/s", organization: str = "people") -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.NameAttribute(NameOID.COMMON_NAME, "somebody"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
    ]
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    pem = made.public_bytes(serialization.Encoding.PEM)
    spec = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("allowed", "code"),
    [
        pytest.param(["approve example.com/s"], 200, id="this signer"),
        pytest.param(["approve example.com/*"], 200, id="every signer of the domain"),
        pytest.param(["approve example.com/other", "sign example.com/s", "approve *"], 403, id="neither"),
    ],
)
def test_who_may_approve(allowed: list[str], code: int) -> None:
    async def main(api: Api) -> Answer:
        await api.made(REQUESTS, request())
        api.server.core.authorizer = Allows(*allowed)
        return await api.patch(f"{REQUESTS}/c/approval", {"status": {"conditions": [APPROVED]}})

    answer = on(main)
    assert answer.status == code, answer.text
    if code == 403:
        assert answer.message == (
            'certificatesigningrequests.certificates.k8s.io "c" is forbidden: user not permitted to approve requests '
            'with signerName "example.com/s"'
        )


def test_who_may_sign() -> None:
    failed = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}

    async def main(api: Api) -> list[Answer]:
        await api.made(REQUESTS, request())
        api.server.core.authorizer = Allows("approve example.com/s")
        nothing = await api.patch(f"{REQUESTS}/c/status", {"metadata": {"labels": {"a": "b"}}})
        refused = await api.patch(f"{REQUESTS}/c/status", {"status": {"conditions": [failed]}})
        api.server.core.authorizer = Allows("sign example.com/s")
        return [nothing, refused, await api.patch(f"{REQUESTS}/c/status", {"status": {"conditions": [failed]}})]

    answers = on(main)
    assert [answer.status for answer in answers] == [200, 403, 200], answers[-1].text
    assert answers[1].message.endswith('user not permitted to sign requests with signerName "example.com/s"')


def test_nobody_asks_to_be_an_administrator_by_certificate() -> None:
    async def main(api: Api) -> list[Answer]:
        everywhere = [await api.post(REQUESTS, request(CLIENT, "system:masters"))]
        everywhere.append(await api.post(REQUESTS, request(CLIENT)))
        await api.delete(f"{REQUESTS}/c")
        everywhere.append(await api.post(REQUESTS, request("example.com/s", "system:masters")))
        return everywhere

    refused, *others = on(main)
    assert refused.status == 403
    assert refused.message.endswith(f"use of {CLIENT} signer with system:masters group is not allowed")
    assert [answer.status for answer in others] == [201, 201]


def test_who_may_attest_for_a_signer() -> None:
    info = ResourceInfo.make(
        "certificates.k8s.io", "v1beta1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False
    )

    async def main(api: Api) -> str:
        api.server.core.authorizer = Allows("attest example.com/good")
        plugin = ClusterTrustBundleAttest(api.server.core)
        for signer in ("", "example.com/good", "example.com/bad"):
            obj = {"metadata": {"name": "b"}, "spec": {"signerName": signer}}
            try:
                plugin.review(Admission("CREATE", info, "", "b", Identity("u"), obj=obj))
            except StatusError as error:
                return error.message
        return ""

    assert on(main).endswith('user not permitted to attest for signerName "example.com/bad"')
