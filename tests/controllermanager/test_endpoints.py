"""Paths of the secure port, and their authorization."""

import asyncio
import gc
import gzip
import json
import re
import weakref
from typing import Any

import pytest
from tests.controllermanager.certificates import OTHERS, USERS, peer
from tests.controllermanager.scripted import Scripted
from tests.controllermanager.test_delegation import review
from tests.controllermanager.test_manager import Factory
from tests.runtime.cluster import Cluster
from tests.tables import cases

from pilothouse.controllermanager.app import pages_of
from pilothouse.controllermanager.authentication import Authenticator
from pilothouse.controllermanager.client_trust import ClientTrust, ConfigMap
from pilothouse.controllermanager.delegation import Authorizer, TokenReviews
from pilothouse.controllermanager.endpoints import Endpoints
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import Options, Serving
from pilothouse.env import Env, Log
from pilothouse.env.logging import configure
from pilothouse.serving.peer import EXTENSION, Peer

MASTER = peer(USERS, "admin", "system:masters")
STRANGER = peer(OTHERS, "eve", "system:masters")


class Caller:
    """Requests endpoints of a manager, without sockets."""

    def __init__(self, env: Env, more_open: tuple[str, ...] = (), **serving: Any) -> None:
        self.options = Options(serving=Serving(**serving), flag_values={"v": "0", "master": ""})
        self.manager = Manager(env, self.options, Factory(Cluster(env).client()), [])
        self.manager.readiness.remove("controllers")
        self.reviews = Scripted(review)
        client = self.reviews.client(env)
        trust = ClientTrust(env, Serving())
        trust.apply_config_map(ConfigMap(data={"client-ca-file": USERS.certificate.decode()}))
        self.pages = pages_of(env, self.options, self.manager)
        self.endpoints = Endpoints(
            self.pages,
            Authenticator(env, trust, TokenReviews(env, client, cache_seconds=10)),
            Authorizer(
                env,
                client,
                always_allow_paths=("/healthz", "/readyz", "/livez", *more_open),
                authorized_seconds=10,
                unauthorized_seconds=10,
            ),
        )
        self.headers: dict[str, str] = {}
        self.body = b""

    async def request(
        self, target: str, *, token: str = "", certificate: Peer | None = None, method: str = "GET", body: bytes = b"",
        accept: str = "",
    ) -> tuple[int, bytes]:  # fmt: skip
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        path, _, query = target.partition("?")
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        headers += [(b"accept", accept.encode())] if accept else []
        scope: dict[str, Any] = {
            "type": "http",
            "path": path,
            "method": method,
            "headers": headers,
            "query_string": query.encode(),
        }
        scope["extensions"] = {EXTENSION: {"peer": certificate, "refusal": None}}
        await self.endpoints(scope, receive, send)
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        assert self.headers["cache-control"] == "no-cache, private"
        if method != "HEAD":
            assert int(self.headers["content-length"]) == len(sent[1]["body"])
        return sent[0]["status"], sent[1]["body"]

    async def get(self, target: str, **options: Any) -> tuple[int, str]:
        """As system:masters, unless ``how`` has another user."""
        if not options.keys() & {"token", "certificate"}:
            options["certificate"] = MASTER
        status, body = await self.request(target, **options)
        return status, body.decode()


def refused(code: int, message: str) -> dict[str, Any]:
    reason = {401: "Unauthorized", 403: "Forbidden"}[code]
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    details: dict[str, Any] = {"details": {}} if code == 403 else {}
    return {**status, "message": message, "reason": reason, **details, "code": code}


EVERY_PAGE = [
    "/healthz",
    "/healthz/",
    "/livez",
    "/livez/",
    "/readyz",
    "/readyz/",
    "/metrics",
    "/metrics/slis",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/controllers/garbage-collector-controller/graph",
    "/debug/flags",
    "/debug/flags/",
    "/debug/flags/v",
    "/debug/pprof",
    "/debug/pprof/",
    "/debug/pprof/cmdline",
    "/debug/pprof/goroutine",
    "/debug/pprof/heap",
    "/debug/pprof/profile",
]
OPEN = {"/healthz", "/livez", "/readyz"}


async def test_list_of_paths(env: Env) -> None:
    assert Caller(env).pages.paths == sorted(EVERY_PAGE)


@pytest.mark.parametrize("path", [*EVERY_PAGE, "/other", "/", "/metrics/../metrics", "/api/v1/pods"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PROPFIND"])
async def test_anonymous_requests_are_limited_to_health(env: Env, path: str, method: str) -> None:
    caller = Caller(env)
    status, body = await caller.request(path, method=method)
    if path in OPEN:
        assert status == 200
    else:
        assert status == 403
        why = f'forbidden: User "system:anonymous" cannot {method.lower()} path "{path}": no role'
        assert method == "HEAD" or json.loads(body) == refused(403, why)
    # A wrong credential is rejected everywhere, also where none is needed, and before anything else is checked.
    for credentials in ({"token": "bad"}, {"certificate": STRANGER}):
        status, body = await caller.request(path, method=method, **credentials)
        assert status == 401
        assert method == "HEAD" or json.loads(body) == refused(401, "Unauthorized")
    # A right to one page is none to another.
    status, _body = await caller.request(path, method=method, token="good")
    assert status == (200 if path in OPEN or (path, method) == ("/metrics", "GET") else 403)


async def test_failed_access_review_is_an_error(env: Env) -> None:
    caller = Caller(env)
    assert (await caller.request("/metrics", token="good"))[0] == 200
    caller.reviews.down = True
    status, body = await caller.request("/configz", token="good")
    assert status == 500
    assert body.startswith(b'Internal Server Error: "/configz": ')


async def test_healthz_and_readyz(env: Env) -> None:
    caller = Caller(env)
    caller.manager.readiness.add("controllers", lambda: "not yet")
    assert (await caller.get("/healthz"))[0] == 200
    assert await caller.get("/readyz") == (500, "[-]controllers failed: reason withheld\nreadyz check failed\n")
    assert (await caller.get("/readyz?exclude=controllers"))[0] == 200
    assert (await caller.get("/livez?verbose"))[1] == "[+]ping ok\nlivez check passed\n"
    assert await caller.get("/readyz/controllers") == (500, "internal server error: not yet\n")


async def test_single_checks_have_paths(env: Env) -> None:
    caller = Caller(env)
    caller.manager.health.add("leaderElection", lambda: None)
    assert await caller.get("/healthz/leaderElection") == (200, "ok")
    assert await caller.get("/healthz/other") == (404, "404 page not found\n")
    assert await caller.get("/healthz/") == (404, "404 page not found\n")


async def test_metrics_text_format(env: Env) -> None:
    caller = Caller(env)
    caller.manager.metrics.counter("seen_total", "How many were seen").labels().inc()
    assert await caller.get("/metrics", token="good") == (
        200,
        "# HELP seen_total How many were seen\n# TYPE seen_total counter\nseen_total 1\n",
    )
    assert await caller.request("/metrics", certificate=MASTER, method="HEAD") == (200, b"")


async def test_health_checks_are_counted_until_reset(env: Env) -> None:
    caller = Caller(env)
    caller.manager.health.add("leaderElection", lambda: None)
    caller.manager.readiness.add("controllers", lambda: "not yet")
    for path in ("/healthz", "/healthz", "/readyz"):
        await caller.get(path)
    _status, text = await caller.get("/metrics/slis")
    lines = [line for line in text.splitlines() if line.startswith("kubernetes_")]
    assert lines == [
        'kubernetes_healthcheck{name="controllers",type="readyz"} 0',
        'kubernetes_healthcheck{name="leaderElection",type="healthz"} 1',
        'kubernetes_healthchecks_total{name="controllers",status="error",type="readyz"} 1',
        'kubernetes_healthchecks_total{name="leaderElection",status="success",type="healthz"} 2',
    ]
    assert "process_start_time_seconds " in text
    assert await caller.get("/metrics/slis", method="DELETE") == (200, "metrics reset\n")
    assert "kubernetes_healthcheck{" not in (await caller.get("/metrics/slis"))[1]


async def test_flagz_formats(env: Env) -> None:
    caller = Caller(env)
    lines = (await caller.get("/flagz"))[1].splitlines()
    assert lines[1] == "kube-controller-manager flagz"
    assert [line[: len(name)] for line, name in zip(lines[4:], ("master", "v"), strict=True)] == ["master", "v"]
    status, text = await caller.get("/flagz", accept="application/json;v=v1beta1;g=config.k8s.io;as=Flagz")
    assert json.loads(text) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-controller-manager"},
        "flags": {"v": "0", "master": ""},
    }
    status, text = await caller.get("/flagz", accept="application/yaml;as=Flagz;v=v1alpha1;g=config.k8s.io")
    assert text.startswith("kind: Flagz\napiVersion: config.k8s.io/v1alpha1\n")
    for accept in ("application/json", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", "image/png"):
        status, text = await caller.get("/flagz", accept=accept)
        assert status == 406, accept
    assert (await caller.get("/flagz", accept="image/png, text/plain;q=0.5"))[0] == 200


async def test_statusz_has_start_time_and_paths(env: Env) -> None:
    caller = Caller(env)
    await asyncio.sleep(3725)
    text = (await caller.get("/statusz"))[1]
    assert "\nkube-controller-manager statusz\n" in text
    assert "1 hr 02 min 05 sec" in text
    _status, text = await caller.get("/statusz", accept="application/json;v=v1beta1;g=config.k8s.io;as=Statusz")
    document = json.loads(text)
    assert (document["kind"], document["uptimeSeconds"]) == ("Statusz", 3725)
    assert document["binaryVersion"] == "1.36.2"
    assert "/metrics" in document["paths"]
    assert "/healthz" not in document["paths"]


async def test_paths_can_be_disabled(env: Env) -> None:
    caller = Caller(env, profiling=False, flagz=False, statusz=False)
    for path in ("/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/flagz", "/statusz"):
        assert (await caller.get(path))[0] == 404


async def test_verbosity_can_be_changed(env: Env) -> None:
    caller, log = Caller(env), Log("test-verbosity")
    try:
        assert await caller.get("/debug/flags/v", method="PUT", body=b"4") == (
            200,
            "successfully set klog.logging.verbosity to 4\n",
        )
        assert log.enabled(4)
        assert not log.enabled(5)
        assert (await caller.get("/debug/flags/v", method="PUT", body=b"loud"))[0] == 400
        assert (await caller.get("/debug/flags/v"))[0] == 406
    finally:
        configure()


async def test_the_profiles_are_indexed(env: Env) -> None:
    caller = Caller(env)
    assert (await caller.request("/debug/pprof", certificate=MASTER))[0] == 302
    assert caller.headers["location"] == "/debug/pprof/"
    _status, text = await caller.get("/debug/pprof/")
    assert "<a href=goroutine>goroutine</a>" in text
    assert await caller.get("/debug/pprof/mutex") == (404, "Unknown profile\n")
    assert "python" in (await caller.get("/debug/pprof/cmdline"))[1]


async def test_task_stacks(env: Env) -> None:
    caller = Caller(env)

    async def patient() -> None:
        await asyncio.sleep(100)

    tasks = [asyncio.get_running_loop().create_task(patient(), name=f"patient-{n}") for n in range(3)]
    await asyncio.sleep(1)
    _status, text = await caller.get("/debug/pprof/goroutine")
    assert "3 @ patient-0, patient-1, patient-2\n#\t" in text
    assert "patient\t" in text
    _status, text = await caller.get("/debug/pprof/goroutine?debug=2")
    assert "task patient-1:\n#\t" in text
    assert "thread MainThread:\n" in text
    for task in tasks:
        task.cancel()


def burn_the_cpu(times: int) -> int:
    return sum(number * number for number in range(times))


@pytest.mark.real_loop
async def test_cpu_profile() -> None:
    caller = Caller(Env(), ("/debug/*",))
    busy = True

    async def work() -> None:
        while busy:
            burn_the_cpu(20_000)
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(work())
    _status, text = await caller.get("/debug/pprof/profile?seconds=0.3&format=collapsed", token="")
    profile = asyncio.get_running_loop().create_task(caller.request("/debug/pprof/profile?seconds=0.3"))
    await asyncio.sleep(0.05)
    second = await caller.get("/debug/pprof/profile?seconds=1", token="")
    body = (await profile)[1]
    busy = False
    await task
    [busiest] = sorted(text.splitlines(), key=lambda line: int(line.rpartition(" ")[2]))[-1:]
    assert "burn_the_cpu" in busiest
    assert b"burn_the_cpu" in gzip.decompress(body)
    assert second[0] == 500, "one at a time"


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "301", "nan", "inf"])
async def test_profile_duration(env: Env, seconds: str) -> None:
    caller = Caller(env)
    wanted = 200 if seconds == "0" else 400  # no seconds: memory as it is, and 30 s by default
    if seconds != "0":
        assert (await caller.get(f"/debug/pprof/profile?seconds={seconds}"))[0] == 400
        assert (await caller.get(f"/debug/pprof/heap?seconds={seconds}"))[0] == wanted


@cases(
    "query, goes",
    {
        "default": ("", False),
        "gc=0": ("?gc=0", False),
        "invalid number": ("?gc=x", False),
        "yes": ("?gc=1", True),
    },
)
@pytest.mark.real_loop
async def test_heap_profile_with_gc(query: str, goes: bool) -> None:
    class SelfReference:
        """Refers to itself."""

    caller = Caller(Env(), ("/debug/*",))
    ring = SelfReference()
    ring.__dict__["self"] = ring
    left = weakref.ref(ring)
    gc.disable()
    try:
        del ring
        await caller.get(f"/debug/pprof/heap{query}", token="")
        assert (left() is None) is goes
    finally:
        gc.enable()


@pytest.mark.real_loop
async def test_heap_and_allocation_profiles() -> None:
    kept: list[bytes] = []
    caller = Caller(Env(), ("/debug/*",))
    now = (await caller.get("/debug/pprof/heap", token=""))[1]
    asyncio.get_running_loop().call_later(0.1, lambda: kept.append(bytes(3_000_000)))
    traced = (await caller.get("/debug/pprof/heap?seconds=0.3", token=""))[1]
    assert "# gc objects = " in now
    assert re.search(r"^30000\d\d \d .*test_endpoints\.py:\d+$", traced, re.MULTILINE), traced
