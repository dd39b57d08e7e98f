"""Certificate approval, signing and attestation (kubernetes ``plugin/pkg/admission/certificates``, v1.36)."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.apiserver.api import Api
from tests.tables import cases

from pilothouse.apiserver.admission.certificates import ClusterTrustBundleAttest
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision, Rule
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.resources import ResourceInfo

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}


class Allows:
    """An authorizer of signers only."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        assert (attributes.group, attributes.resource) == ("certificates.k8s.io", "signers")
        return Decision(f"{attributes.verb} {attributes.name}" in self.allowed)

    def rules(self, identity: Identity, namespace: str) -> tuple[list[Rule], str]:
        return [], ""


def request(signer: str = "example.com/s", organization: str = "people") -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.NameAttribute(NameOID.COMMON_NAME, "somebody"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
    ]
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    pem = csr.public_bytes(serialization.Encoding.PEM)
    spec = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"name": "c"}, "spec": spec}


@cases(
    "allowed, code",
    {
        "this signer": (["approve example.com/s"], 200),
        "every signer of the domain": (["approve example.com/*"], 200),
        "no permission for the signer": (["approve example.com/other", "sign example.com/s", "approve *"], 403),
    },
)
async def test_certificate_approval(api: Api, allowed: list[str], code: int) -> None:
    await api.create(REQUESTS, request())
    api.server.core.authorizer = Allows(*allowed)
    answer = await api.patch(f"{REQUESTS}/c/approval", {"status": {"conditions": [APPROVED]}})
    assert answer.status == code, answer.text
    if code == 403:
        assert answer.message == (
            'certificatesigningrequests.certificates.k8s.io "c" is forbidden: user not permitted to approve requests '
            'with signerName "example.com/s"'
        )


async def test_certificate_signing(api: Api) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}
    await api.create(REQUESTS, request())
    api.server.core.authorizer = Allows("approve example.com/s")
    nothing = await api.patch(f"{REQUESTS}/c/status", {"metadata": {"labels": {"a": "b"}}})
    rejected = await api.patch(f"{REQUESTS}/c/status", {"status": {"conditions": [failed]}})
    api.server.core.authorizer = Allows("sign example.com/s")
    answers = [nothing, rejected, await api.patch(f"{REQUESTS}/c/status", {"status": {"conditions": [failed]}})]
    assert [answer.status for answer in answers] == [200, 403, 200], answers[-1].text
    assert answers[1].message.endswith('user not permitted to sign requests with signerName "example.com/s"')


async def test_certificate_subject_restriction(api: Api) -> None:
    everywhere = [await api.post(REQUESTS, request(CLIENT, "system:masters"))]
    everywhere.append(await api.post(REQUESTS, request(CLIENT)))
    await api.delete(f"{REQUESTS}/c")
    everywhere.append(await api.post(REQUESTS, request("example.com/s", "system:masters")))
    rejected, *others = everywhere
    assert rejected.status == 403
    assert rejected.message.endswith(f"use of {CLIENT} signer with system:masters group is not allowed")
    assert [answer.status for answer in others] == [201, 201]


async def test_cluster_trust_bundle_attest(api: Api) -> None:
    info = ResourceInfo("certificates.k8s.io", "v1beta1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False)

    def attest(signer: str) -> None:
        obj = {"metadata": {"name": "b"}, "spec": {"signerName": signer}}
        plugin.validate(AdmissionAttributes("CREATE", info, "", "b", Identity("u"), obj=obj))

    api.server.core.authorizer = Allows("attest example.com/good")
    plugin = ClusterTrustBundleAttest(api.server.core)
    attest("")
    attest("example.com/good")
    with pytest.raises(StatusError, match=r'user not permitted to attest for signerName "example\.com/bad"$'):
        attest("example.com/bad")
