"""Tokens of the controllers' service accounts (``client_builder_dynamic.go``, v1.36)."""

import datetime
from typing import Any

import pytest
from tests.controllermanager.scripted import Scripted, status
from tests.controllermanager.usual import USUAL
from tests.traces.records import Record, recorded

from pilothouse.client.connect import ConnectionInfo
from pilothouse.client.credentials import Anonymous
from pilothouse.client.endpoint import parse_endpoint
from pilothouse.client.errors import Forbidden
from pilothouse.client.tls import TlsSettings
from pilothouse.controllermanager.compatibility import own_controllers
from pilothouse.controllermanager.identities import RemoteClients, ServiceAccountToken
from pilothouse.env import Env
from pilothouse.machinery.causes import Cause, begin_sync, current_cause
from pilothouse.machinery.times import format_time

ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"


class World:
    """Has namespaces and accounts, and issues tokens for an hour."""

    def __init__(self, env: Env, *, namespace: bool = True, account: bool = True, name: str = "gc") -> None:
        self.env = env
        self.path = f"{ACCOUNTS}/{name}"
        self.namespace = namespace
        self.account = account
        self.refusals: list[tuple[int, Any]] = []
        self.lifetime = 3600

    def __call__(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        if (method, target) == ("GET", "/api/v1/namespaces/kube-system"):
            return (200, {}) if self.namespace else status(404, "NotFound")
        if (method, target) == ("POST", "/api/v1/namespaces"):
            self.namespace = True
            return 201, body
        if method == "GET" and target == self.path:
            return (200, {}) if self.account else status(404, "NotFound")
        if method == "POST" and target == ACCOUNTS:
            self.account = True
            return 201, body
        assert (method, target) == ("POST", f"{self.path}/token")
        if self.refusals:
            return self.refusals.pop(0)
        expires = self.env.now() + datetime.timedelta(seconds=self.lifetime)
        assert body["spec"] == {"expirationSeconds": 3600}
        return 201, {"status": {"token": "t", "expirationTimestamp": format_time(expires)}}


async def test_existing_account_only_gets_a_token_request(env: Env) -> None:
    server = Scripted(World(env))
    token, seconds = await ServiceAccountToken(env, server.client(env), "gc").issue()
    assert token == "t"
    assert 0.95 * 2880 - 2 <= seconds <= 2880 + 2, "a fifth of its life is left when it is renewed, or a little more"
    assert [(m, t) for m, t, _ in server.requests] == [("GET", f"{ACCOUNTS}/gc"), ("POST", f"{ACCOUNTS}/gc/token")]


async def test_missing_account_and_namespace_are_created(env: Env) -> None:
    server = Scripted(World(env, namespace=False, account=False))
    await ServiceAccountToken(env, server.client(env), "gc").issue()
    assert [(m, t) for m, t, _ in server.requests] == [
        ("GET", f"{ACCOUNTS}/gc"),
        ("GET", "/api/v1/namespaces/kube-system"),
        ("POST", "/api/v1/namespaces"),
        ("POST", ACCOUNTS),
        ("POST", f"{ACCOUNTS}/gc/token"),
    ]


async def test_account_creation_has_a_cause_of_its_own(env: Env) -> None:
    """A write without a cause counts as a user's; that of a sync which needs the token is not its cause."""
    world, causes = World(env, account=False), []

    def answer(method: str, target: str, body: Any) -> tuple[int, Any]:
        causes.append((method, current_cause()))
        return world(method, target, body)

    begin_sync("gc", "default/a")
    await ServiceAccountToken(env, Scripted(answer).client(env), "gc").issue()
    created = next(cause for method, cause in causes if method == "POST")
    assert created == Cause(
        "kube-controller-manager",
        "kube-system/gc",
        "the controller with the account gc starts, and the account does not exist",
    )
    assert causes[-1] == ("POST", Cause("gc", "default/a"))


async def test_token_lifetime_is_at_least_ten_minutes(env: Env) -> None:
    world = World(env)
    world.lifetime = 60
    _token, seconds = await ServiceAccountToken(env, Scripted(world).client(env), "gc").issue()
    assert 0.95 * 480 - 2 <= seconds <= 480 + 2


async def test_token_request_is_retried_with_backoff(env: Env) -> None:
    world = World(env)
    world.refusals = [status(403, "Forbidden")] * 3
    server = Scripted(world)
    began = env.monotonic()
    token, _seconds = await ServiceAccountToken(env, server.client(env), "gc").issue()
    assert token == "t"
    assert env.monotonic() - began == pytest.approx(0.5 + 1 + 2, abs=0.01)
    world.refusals = [status(403, "Forbidden")] * 4
    with pytest.raises(Forbidden):
        await ServiceAccountToken(env, server.client(env), "gc").issue()


class Connection(ConnectionInfo, frozen=True):
    """A connection to a scripted server, for any user."""

    def transport(self, env: Env, *, credentials: Any = None, metrics: Any = None) -> Any:
        return SERVERS[env]


SERVERS: dict[Env, Scripted] = {}


def connected(env: Env, world: World) -> RemoteClients:
    SERVERS[env] = Scripted(world)
    endpoint = parse_endpoint("https://nowhere", "test")
    connection = Connection(endpoint=endpoint, tls=TlsSettings(), login=lambda _env: Anonymous())
    return RemoteClients(env, connection, use_service_accounts=True)


async def test_account_is_created_before_its_first_request_and_the_token_lazily(env: Env) -> None:
    """As upstream (``14-startup``): GET, and if it is missing GET of the namespace and POST."""
    clients = connected(env, World(env, account=False))
    for _controller in range(2):
        await clients.for_controller("gc", qps=20, burst=30, fence=None)
    assert [(m, t) for m, t, _ in SERVERS.pop(env).requests] == [
        ("GET", f"{ACCOUNTS}/gc"),
        ("GET", "/api/v1/namespaces/kube-system"),
        ("POST", ACCOUNTS),
        ("GET", f"{ACCOUNTS}/gc"),
    ]


async def test_failed_account_creation_does_not_delay_startup(env: Env) -> None:
    clients = connected(env, World(env, account=False))
    SERVERS[env].down = True
    await clients.for_controller("gc", qps=20, burst=30, fence=None)
    SERVERS.pop(env)


NOT_UPSTREAMS = {
    "route-controller",
    "service-controller",
    *(controller.client_name for controller in own_controllers(USUAL)),
}
"""Upstream's program has no cloud controllers, and none of pilothouse's own."""


def recorded_accounts() -> list[str]:
    """The accounts of controllers that run by default."""
    return sorted({item.client_name for item in USUAL} - NOT_UPSTREAMS)


@pytest.mark.parametrize("account", recorded_accounts())
async def test_account_creation_requests_are_upstreams(env: Env, account: str) -> None:
    """The recorded start of v1.36.2. How often an account is read again depends on how many clients it has."""
    identities = of_account("14-accounts", account)
    clients = connected(env, World(env, account=False, name=account))
    await clients.for_controller(account, qps=20, burst=30, fence=None)
    if identities[-1].resource == "serviceaccounts/token":
        await ServiceAccountToken(env, SERVERS[env].client(env), account).issue()
    actual = [(method, target, essence(body)) for method, target, body in SERVERS.pop(env).requests]
    expected = [(METHODS[record.verb], path(record), essence(record.body)) for record in identities]
    assert actual[:3] == expected[:3]
    assert set(actual) == set(expected)
    assert actual[3:] == expected[len(expected) - len(actual) + 3 :], "a look, and the token"


METHODS = {"get": "GET", "create": "POST"}


def of_account(scenario: str, account: str) -> list[Record]:
    """The requests for one account; that for the namespace belongs to the account that was just found missing."""
    kept: list[Record] = []
    last = ""
    for record in recorded(scenario):
        last = record.name if record.resource != "namespaces" else last
        if last == account:
            kept.append(record)
    return kept


def path(record: Record) -> str:
    if record.resource == "namespaces":
        return "/api/v1/namespaces/kube-system"
    if record.verb == "create" and record.resource == "serviceaccounts":
        return ACCOUNTS
    return f"{ACCOUNTS}/{record.name}" + record.resource.removeprefix("serviceaccounts")


def essence(body: Any) -> str:
    """A body without the fields that the API server set."""
    if body is None:
        return ""
    summary = {"name": body["metadata"]["name"]} if body["kind"] == "ServiceAccount" else body["spec"]
    return f"{body['kind']} { {key: value for key, value in summary.items() if value is not None} }"
