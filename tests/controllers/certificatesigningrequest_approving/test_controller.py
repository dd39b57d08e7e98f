"""The CSR approving controller.

Rows mirror ``TestRecognizers`` and ``TestHandle``, ``pkg/controller/certificates/approver/sarapprove_test.go`` of
v1.36.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.certificate_requests import CLIENT, REQUESTS, SERVING, document, request_pem, with_approval_condition
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World
from tests.tables import cases

from pilothouse.api.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import AlwaysAllow, Attributes, Decision
from pilothouse.apiserver.endpoints.reviews import register
from pilothouse.client import Client
from pilothouse.client.interceptor import Action, Rule, conflict, fail
from pilothouse.controllers.identity.certificatesigningrequest_approving import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_approving.decide import (
    ANY,
    SELF,
    CSRRecognizer,
    is_undecided,
    recognizers_for,
    review_of,
)
from pilothouse.env import Env
from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT, KUBELET_CLIENT, KUBELET_SERVING, RequestedNames

NODE = "system:node:foo"


def user(
    *said: str, by: str = NODE, signer: str = KUBELET_CLIENT, usages: tuple[str, ...] = CLIENT, served: bool = False
) -> CertificateSigningRequest:
    conditions = tuple(CertificateSigningRequestCondition(type=kind, status="True") for kind in said)
    return CertificateSigningRequest(
        spec=CertificateSigningRequestSpec(signer_name=signer, username=by, usages=usages),
        status=CertificateSigningRequestStatus(conditions=conditions, certificate=b"x" if served else b""),
    )


def requested_names(name: str = NODE, *organizations: str) -> RequestedNames:
    return RequestedNames(common_name=name, organizations=organizations or ("system:nodes",))


@cases(
    "request_, requested, expected",
    {
        "self node client": (user(), requested_names(), (SELF, ANY)),
        "requestor joe": (user(by="joe"), requested_names(), (ANY,)),
        "cn bar": (user(), requested_names("system:node:bar"), (ANY,)),
        "cn mike": (user(), requested_names("mike"), ()),
        "orgs nil": (user(), RequestedNames(common_name=NODE), ()),
        "orgs system:master": (user(), requested_names(NODE, "system:master"), ()),
        "unexpected usage server auth": (user(usages=(*CLIENT, "server auth")), requested_names(), ()),
        "no usages": (user(usages=()), requested_names(), ()),
        "missing usage client auth": (user(usages=("key encipherment", "digital signature")), requested_names(), ()),
    },
)
def test_recognizers(
    request_: CertificateSigningRequest, requested: RequestedNames, expected: tuple[CSRRecognizer, ...]
) -> None:
    assert recognizers_for(request_, requested) == expected


@cases(
    "request_, expected",
    {
        "pending": (user(), True),
        "Failed is not a decision": (user("Failed"), True),
        "approved": (user("Approved"), False),
        "denied": (user("Denied"), False),
        "issued": (user(served=True), False),
        "kubelet-serving signer": (user(signer=KUBELET_SERVING), False),
        "kube-apiserver-client signer": (user(signer=API_SERVER_CLIENT), False),
        "other signer": (user(signer="example.com/own"), False),
    },
)
def test_requests_needing_a_decision(request_: CertificateSigningRequest, expected: bool) -> None:
    assert is_undecided(request_) is expected


def test_subject_access_review_names_the_requestor() -> None:
    spec = CertificateSigningRequestSpec(username="u", uid="1", groups=("g", "h"), extra={"example.com/x": ("y", "z")})
    attributes = {
        "verb": "create",
        "group": "certificates.k8s.io",
        "version": "*",
        "resource": "certificatesigningrequests",
        "subresource": "nodeclient",
    }
    review = msgspec.json.decode(msgspec.json.encode(review_of(CertificateSigningRequest(spec=spec), ANY)))
    assert review["spec"] == {
        "resourceAttributes": attributes,
        "user": "u",
        "uid": "1",
        "groups": ["g", "h"],
        "extra": {"example.com/x": ["y", "z"]},
    }
    bare = review_of(CertificateSigningRequest(spec=CertificateSigningRequestSpec(username="u")), SELF)["spec"]
    assert set(bare) == {"resourceAttributes", "user"}


# The controller


class Granting(AlwaysAllow):
    """An authorizer that allows the subresources in ``granted``, and records the users."""

    def __init__(self, *granted: str) -> None:
        self.granted = set(granted)
        self.user: list[tuple[str, tuple[str, ...], str]] = []

    def authorize(self, identity: Identity, user: Attributes) -> Decision:
        self.user.append((identity.user, identity.groups, user.subresource))
        return Decision(allowed=user.subresource in self.granted)


@contextlib.asynccontextmanager
async def running(env: Env, *granted: str) -> AsyncIterator[tuple[World, Granting]]:
    async with node_world.world(env) as world:
        judge = Granting(*granted)
        register(world.server.core, Authenticator((), anonymous=False), judge, None)
        await world.start(DESCRIPTOR)
        yield world, judge


async def create_request(
    world: World,
    *,
    by: str = NODE,
    groups: tuple[str, ...] = ("system:nodes",),
    signer: str = KUBELET_CLIENT,
    usages: tuple[str, ...] = CLIENT,
) -> Doc:
    body = document("r", request_pem(), signer, usages)
    client = Client(world.server.transport(by, groups), world.env)
    headers = {"content-type": "application/json"}
    answer = await client.request("POST", REQUESTS, body=msgspec.json.encode(body), headers=headers)
    decoded: Doc = msgspec.json.decode(answer.body)
    return decoded


APPROVAL = "update certificatesigningrequests/approval r"
REVIEW = "create subjectaccessreviews "


@cases(
    "granted, by, message",
    {
        "selfnodeclient": (("selfnodeclient",), NODE, SELF.message),
        "nodeclient": (("nodeclient",), NODE, ANY.message),
        "selfnodeclient precedes nodeclient": (("nodeclient", "selfnodeclient"), NODE, SELF.message),
        "nodeclient of a bootstrap token": (("nodeclient",), "system:bootstrap:abcdef", ANY.message),
    },
)
async def test_authorized_requestor_is_approved(env: Env, granted: tuple[str, ...], by: str, message: str) -> None:
    async with running(env, *granted) as (world, judge):
        created = await create_request(world, by=by)
        await asyncio.sleep(1)
        request = await world.must_get(f"{REQUESTS}/r")
        (condition,) = request["status"]["conditions"]
        assert [condition[name] for name in ("type", "status", "reason", "message")] == [
            "Approved",
            "True",
            "AutoApproved",
            message,
        ]
        assert condition["lastUpdateTime"], "the server says when"
        assert request["spec"] == created["spec"]
        assert world.requests()[-1] == APPROVAL
        assert {who for who, _groups, _what in judge.user} == {by}
        assert all("system:nodes" in groups for _who, groups, _what in judge.user)
        await asyncio.sleep(3600)
        assert world.requests().count(APPROVAL) == 1


async def test_unauthorized_requestor_is_retried_and_approved_once_authorized(env: Env) -> None:
    async with running(env) as (world, judge):
        await create_request(world)
        await asyncio.sleep(2)
        # 0, 0.2, 0.6, 1.4 s: two questions each time.
        assert world.requests() == [REVIEW] * 8
        assert not (await world.must_get(f"{REQUESTS}/r"))["status"]
        judge.granted.add("nodeclient")
        await asyncio.sleep(5)
        assert world.requests()[-1] == APPROVAL
        text = world.metrics.exposition()
        assert "pilothouse_reconcile_errors_total{" not in text, "it is no error"


async def test_request_for_another_node_is_not_checked_for_selfnodeclient(env: Env) -> None:
    async with running(env, "selfnodeclient") as (world, judge):
        await create_request(world, by="system:node:other")
        await asyncio.sleep(0.1)
        assert [what for _who, _groups, what in judge.user] == ["nodeclient"]
        assert not (await world.must_get(f"{REQUESTS}/r"))["status"]


@pytest.mark.parametrize(
    ("signer", "usages"), [(KUBELET_SERVING, SERVING), (API_SERVER_CLIENT, CLIENT), (KUBELET_CLIENT, SERVING)]
)
async def test_requests_that_are_not_kubelet_client_certificates_are_left_pending(
    env: Env, signer: str, usages: tuple[str, ...]
) -> None:
    async with running(env, "nodeclient", "selfnodeclient") as (world, _judge):
        await create_request(world, signer=signer, usages=usages)
        await asyncio.sleep(3600)
        assert world.requests() == []


async def test_denied_request_is_not_approved(env: Env) -> None:
    """Also with a stale cache: the write is rejected by a conflict, and the cache catches up."""
    async with running(env) as (world, judge):
        created = await create_request(world)
        await asyncio.sleep(1)
        with world.faults.hold(resource="certificatesigningrequests"):
            await world.request("PUT", f"{REQUESTS}/r/approval", with_approval_condition(created, "Denied"))
            judge.granted.add("nodeclient")
            await asyncio.sleep(5)
            assert world.requests()[-1] == APPROVAL
        await asyncio.sleep(3600)
        request = await world.must_get(f"{REQUESTS}/r")
        assert [condition["type"] for condition in request["status"]["conditions"]] == ["Denied"]


@cases(
    "fault, verb, resource",
    {
        "SubjectAccessReview fails": (fail(500), "create", "subjectaccessreviews"),
        "approval refused": (fail(500), "update", "certificatesigningrequests"),
        "conflict": (conflict(), "update", "certificatesigningrequests"),
    },
)
async def test_failed_requests_are_retried(env: Env, fault: Action, verb: str, resource: str) -> None:
    async with running(env, "nodeclient") as (world, _judge):
        world.faults.add(Rule(fault, verb=verb, resource=resource, times=2))
        await create_request(world)
        await asyncio.sleep(5)
        assert (await world.must_get(f"{REQUESTS}/r"))["status"]["conditions"][0]["reason"] == "AutoApproved"
