"""An API server that records requests like upstream's audit log: the counterpart of the recorded traces.

Every identity that upstream's roles speak of is held to them (``refuse_what_roles_forbid``), so a replay that comes out
right was also allowed to.
"""

import json
from urllib.parse import parse_qsl

import msgspec
from tests.traces.records import Record

from pilothouse.api.wire import Request, Response, Stream, Transport
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision, RbacAuthorizer, forbidden
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.apiserver.request_info import RequestInfo, read_request
from pilothouse.apiserver.server import ApiServer, ReadBody
from pilothouse.env import Env
from pilothouse.storage import Store

SERVICE_ACCOUNT = "system:serviceaccount:kube-system:"
MANAGER = "system:kube-controller-manager"

PROCESS, CALL = "x-process", "x-call"
"""Headers that correlate the records of ``Traced`` and ``AuditedServer``."""


def roles() -> RbacAuthorizer:
    """An authorizer with v1.36's bootstrap roles and bindings."""
    stored: dict[str, list[bytes]] = {}
    for resource, obj in bootstrap_objects():
        stored.setdefault(resource, []).append(msgspec.json.encode(obj))
    return RbacAuthorizer(lambda resource: stored.get(resource, []))


def short(user: str) -> str:
    """The user as traces name it: a controller's service account without its prefix, ``kube-controller-manager``."""
    return user.removeprefix(SERVICE_ACCOUNT).removeprefix("system:")


class AuditedServer(ApiServer):
    """``records`` has every request of the manager and its controllers, ``decisions`` the authorizer's decisions."""

    def __init__(self, env: Env, store: Store) -> None:
        super().__init__(env, store)
        self.records: list[Record] = []
        self.decisions: list[tuple[Identity, Attributes, Decision]] = []
        self.zero = 0.0
        """Loop time at which ``t`` is 0."""
        self._turns = 0
        self.calls: dict[str, Record] = {}
        """Records by the call number of ``Traced``."""
        self._roles = roles()
        self.authorize = self._refuse_what_roles_forbid

    def _refuse_what_roles_forbid(self, identity: Identity, info: RequestInfo) -> None:
        if not is_manager(identity):
            return
        attributes = Attributes.of(info)
        decision = self._roles.authorize(identity, attributes)
        self.decisions.append((identity, attributes, decision))
        if not decision.allowed:
            raise forbidden(identity, attributes, decision.reason)

    async def handle(
        self, request: Request, identity: Identity, read_body: ReadBody | None = None
    ) -> Response | Stream:
        if not is_manager(identity):
            return await super().handle(request, identity, read_body)
        record = self._record(request, identity)
        self.records.append(record)
        self.calls[request.headers.get(CALL, "")] = record
        answer = await super().handle(request, identity, read_body)
        self._finish(record, answer)
        return answer

    def turn(self) -> int:
        """A counter for starts and ends of calls."""
        self._turns += 1
        return self._turns

    def _record(self, request: Request, identity: Identity) -> Record:
        info = read_request(request.method, request.target, self.core.table)
        query = dict(parse_qsl(request.target.partition("?")[2], keep_blank_values=True))
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return Record(
            t=round(self.env.monotonic() - self.zero, 3),
            user=short(identity.user),
            verb=info.verb,
            group="" if not info.resource else f"{info.group}/{info.version}" if info.group else info.version,
            resource=resource or info.path,
            namespace=info.namespace,
            name=info.name,
            content_type=request.headers.get("content-type", "") if request.body else "",
            accept=request.headers.get("accept", ""),
            agent=request.headers.get("user-agent", "").rpartition("/")[2],
            query=query,
            body=json.loads(request.body) if request.body else None,
            process=request.headers.get(PROCESS, ""),
        )

    def _finish(self, record: Record, answer: Response | Stream) -> None:
        record.code = answer.status
        if not isinstance(answer, Response) or not answer.body.startswith(b"{"):
            return
        read = json.loads(answer.body)
        if answer.status >= 400:
            record.reason, record.message = read["reason"], read["message"]
        elif record.verb == "create":
            record.name = read["metadata"].get("name", "")  # reviews have none


class Traced:
    """A transport of the manager that also records the start and end of calls as seen by the caller.

    ``process`` tells several managers apart.
    """

    def __init__(self, transport: Transport, server: AuditedServer, process: str = "") -> None:
        self._transport = transport
        self._server = server
        self._process = process

    async def request(self, request: Request) -> Response:
        began = self._server.turn()
        response = await self._transport.request(self._marked(request, str(began)))
        # A request that was lost on its way has no record.
        record = self._server.calls.pop(str(began), None)
        if record is not None:
            record.began, record.ended = began, self._server.turn()
        return response

    async def open(self, request: Request) -> Stream:
        return await self._transport.open(self._marked(request, ""))

    async def close(self) -> None:
        await self._transport.close()

    def _marked(self, request: Request, call: str) -> Request:
        headers = {**request.headers, PROCESS: self._process, CALL: call}
        return Request(request.method, request.target, headers, request.body)


def is_manager(identity: Identity) -> bool:
    """Whether it is the manager or one of its controllers."""
    return identity.user == MANAGER or identity.user.startswith(SERVICE_ACCOUNT)
