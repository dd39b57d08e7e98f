"""15a-csr, replayed: kubelet certificates are approved and signed, a user's manually, and invalid ones fail."""

import copy

import msgspec
from msgspec.structs import replace
from tests.certificate_requests import REQUESTS, authority, document, request_pem, with_approval_condition
from tests.traces.canonical import Trace, assert_same
from tests.traces.kubectl_user import OPTIONS, Doc, KubectlUser, replay
from tests.traces.records import Record, recorded

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import AlwaysAllow, Attributes, Decision
from pilothouse.apiserver.endpoints.reviews import register
from pilothouse.controllermanager.root_authority import with_signing_ca
from pilothouse.env import virtual
from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT, KUBELET_CLIENT, KUBELET_SERVING

SCENARIO = "15a-csr"
USER = "certificate-controller"
BOOTSTRAP = Identity("system:bootstrap:abcdef", ("system:bootstrappers", "system:authenticated"), uid="boot")
ADMIN = Identity("admin", ("system:masters", "system:authenticated"), uid="admin")


class Bound(AlwaysAllow):
    """The ClusterRoleBinding of the scenario."""

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        return Decision(allowed="system:bootstrappers" in identity.groups and attributes.subresource == "nodeclient")


async def send_request(user: KubectlUser, who: Identity, method: str, path: str, body: Doc) -> Doc:
    """Send a request as a user with a relevant uid."""
    headers = {"content-type": "application/json"}
    answer = await user.server.handle(Request(method, path, headers, msgspec.json.encode(body)), who)
    assert isinstance(answer, Response)
    decoded: Doc = msgspec.json.decode(answer.body)
    return decoded


async def approve(user: KubectlUser, name: str) -> None:
    """``kubectl certificate approve``."""
    path = f"{REQUESTS}/{name}"
    result = with_approval_condition(await user.request("GET", path.removeprefix("/")))
    result["status"]["conditions"][0] |= {
        "reason": "KubectlApprove",
        "message": "This CSR was approved by kubectl certificate approve.",
    }
    await send_request(user, ADMIN, "PUT", f"{path}/approval", result)


async def steps(user: KubectlUser) -> None:
    """As recorded."""
    register(user.server.core, Authenticator((), anonymous=False), Bound(), None)
    usages, day = ("digital signature", "client auth"), 86400
    pem = request_pem("system:node:node-9")
    await user.at(1.108)
    await send_request(user, BOOTSTRAP, "POST", REQUESTS, document("node-client", pem, KUBELET_CLIENT, usages, day))
    await user.at(3.877)
    person = request_pem("jane", ["dev"])
    await send_request(user, ADMIN, "POST", REQUESTS, document("jane", person, API_SERVER_CLIENT, usages, day))
    await user.at(6.627)
    await approve(user, "jane")
    await user.at(9.357)
    serving = ("digital signature", "server auth")
    await send_request(user, ADMIN, "POST", REQUESTS, document("bad", person, KUBELET_SERVING, serving, day))
    await user.at(12.108)
    await approve(user, "bad")
    await user.at(16.0)


def plain(record: Record) -> Record:
    """Without values that differ between two CAs, and without times."""
    if record.user != USER or not isinstance(record.body, dict):
        return record
    body = copy.deepcopy(record.body)
    if body["kind"] == "SubjectAccessReview":
        body.pop("status", None)
        return replace(record, body=body)
    assert body["spec"].pop("request")
    status = body["status"]
    if "certificate" in status:
        status["certificate"] = "BASE64"
    for condition in status["conditions"]:
        for field in ("lastUpdateTime", "lastTransitionTime"):
            if condition.pop(field, None):
                condition[field] = "TIME"
    return replace(record, body=body)


def test_requests_are_approved_and_signed_as_recorded(seed: int) -> None:
    options = with_signing_ca(OPTIONS, authority(virtual.START))
    played = replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None, options=options).records
    actual, expected = Trace(map(plain, played)), Trace(map(plain, recorded(SCENARIO)))
    assert_same(actual.lines(actual.of(USER)), expected.lines(expected.of(USER)))
    order = [[(item.verb, item.resource, item.name) for item in trace.of(USER)] for trace in (actual, expected)]
    assert order[0] == order[1]
