"""The application at ``/ui``: authentication, responses and limits."""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases
from tests.ui.page_client import ADMIN_TOKEN, HOST, PageClient, page_client

import pilothouse
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import PODS, SECRETS
from pilothouse.client import merge_patch
from pilothouse.env import Env
from pilothouse.ui.answers import LONGEST_QUERY
from pilothouse.ui.files import load_files
from pilothouse.ui.live import MAX_READERS

VALUE, APPLIED = "correct horse", "battery staple"
STATIC = Path(pilothouse.__file__).parent / "ui" / "static"
DATA = ("session", "kinds", "search?q=a", "stream", "state?at=5", "object?resource=nodes&name=node-0", "history")


def deployment(replicas: int) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "nginx"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


async def create_secret(one: PageClient) -> None:
    copies = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"stringData": {"key": APPLIED}})}
    await one.client.create(
        SECRETS,
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "login", "annotations": copies},
                "data": {"password": base64.b64encode(VALUE.encode()).decode()},
            }
        ).encode(),
        "default",
    )


def tables(frames: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows by table and key."""
    columns = next(frame["reset"] for frame in frames if "reset" in frame)
    result: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in columns}
    for frame in frames:
        for row in frame.get("rows", ()) if "table" in frame else ():
            result[frame["table"]][row[0]] = dict(zip(columns[frame["table"]], row, strict=True))
    return result


async def test_files_are_public_and_data_need_a_session(env: Env) -> None:
    async with page_client(env) as one:
        page = await one.request("/ui/")
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert (await one.request("/ui")).headers["location"] == "/ui/"
        for name in DATA:
            assert (await one.request(f"/ui/api/{name}")).status == 401, name


async def test_security_headers(env: Env) -> None:
    async with page_client(env) as one:
        for target in ("/ui/", "/ui/main.js", "/ui/none", "/ui/api/session", "/ui"):
            headers = (await one.request(target)).headers
            policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
            assert policy == {
                "default-src": "'none'",
                "script-src": "'self'",
                "style-src": "'self'",
                "connect-src": "'self'",
                "img-src": "'self'",
                "base-uri": "'none'",
                "form-action": "'none'",
                "frame-ancestors": "'none'",
                "require-trusted-types-for": "'script'",
                "trusted-types": "'none'",
            }
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-resource-policy"] == "same-origin"


async def test_link_is_valid_for_one_login(env: Env) -> None:
    async with page_client(env) as one:
        token = one.page.link("").partition("#token=")[2]
        answer = await one.log_in(token)
        assert answer.status == 200
        name, _equals, rest = answer.headers["set-cookie"].partition("=")
        assert name == "__Host-pilothouse-ui-6443"
        assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(rest.split("; "))
        assert (await one.request("/ui/api/session")).json == {"user": "kubernetes-admin"}
        assert (await one.log_in(token)).status == 401


async def test_a_session_needs_cookie_and_key(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        assert (await one.request("/ui/api/session", cookie="")).status == 401
        assert (await one.request("/ui/api/session", x_pilothouse_key="")).status == 401
        assert (await one.request("/ui/api/session", x_pilothouse_key="guess")).status == 401
        assert (await one.request("/ui/api/session")).status == 200


async def test_logout(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        assert (await one.request("/ui/api/logout", "POST")).status == 200
        assert (await one.request("/ui/api/session")).status == 401


async def test_only_administrators_get_links(env: Env) -> None:
    async with page_client(env) as one:
        assert (await one.request("/ui/api/link", "POST")).status == 403
        assert (await one.request("/ui/api/link", "POST", authorization="Bearer guess")).status == 401
        answer = await one.request("/ui/api/link", "POST", authorization=ADMIN_TOKEN)
        assert answer.status == 201
        assert (await one.log_in(answer.json["path"].partition("#token=")[2])).status == 200


ATTACKS = {
    "a form of another site": ({"origin": "https://evil.test", "sec_fetch_site": "cross-site"}, 403),
    "different port": ({"origin": "http://127.0.0.1:8000", "sec_fetch_site": "same-site"}, 403),
    "DNS rebinding": ({"host": "evil.test:6443", "origin": "https://evil.test:6443"}, 403),
    "duplicate cookie": ({"cookie": "__Host-pilothouse-ui-6443=x; __Host-pilothouse-ui-6443=y"}, 401),
    "a long cookie": ({"cookie": "__Host-pilothouse-ui-6443=" + "x" * 100_000}, 401),
    "a cookie for another port": ({"host": "127.0.0.1:7443"}, 401),
}


@cases("headers, status", ATTACKS)
async def test_session_of_another_browser_is_rejected(env: Env, headers: Any, status: int) -> None:
    async with page_client(env) as one:
        await one.log_in()
        assert (await one.request("/ui/api/session", **headers)).status == status


BAD = {
    "a write": ("POST", "object?resource=nodes&name=node-0", 405, "only reads"),
    "a login as GET": ("GET", "login", 405, "use POST"),
    "unknown path": ("GET", "none", 404, "not found"),
    "a path out of the files": ("GET", "../../pyproject.toml", 404, "not found"),
    "unknown resource": ("GET", "object?resource=nones&name=a", 404, "no resource 'nones'"),
    "missing name": ("GET", "object?resource=nodes", 400, "a name"),
    "missing namespace": ("GET", "object?resource=pods&name=a", 400, "a namespace"),
    "a name with a slash": ("GET", "object?resource=nodes&name=a%2Fb", 400, "a name"),
    "invalid time": ("GET", "state?at=yesterday", 400, "a time"),
    "future time": ("GET", "state?at=2999-01-01T00:00:00Z", 400, "in the future"),
    "future revision": ("GET", "state?at=99999999999999999999999", 400, "the newest"),
    "a long query": ("GET", "search?q=" + "x" * LONGEST_QUERY, 414, "longer than"),
    "too many parameters": ("GET", "search?" + "&".join(f"p{n}=1" for n in range(50)), 400, "more than"),
}


@cases("method, target, status, reason", BAD)
async def test_bad_requests_are_explained(env: Env, method: str, target: str, status: int, reason: str) -> None:
    async with page_client(env) as one:
        await one.log_in()
        answer = await one.request(f"/ui/api/{target}", method)
        assert (answer.status, reason in answer.json["error"]) == (status, True), answer


@cases(
    "body, status",
    {
        "invalid JSON": (b"token", 400),
        "missing token": (b"{}", 400),
        "large": (b" " * 2000, 413),
        "a guess": (b'{"token":"x"}', 401),
    },
)
async def test_bad_logins_are_rejected(env: Env, body: bytes, status: int) -> None:
    async with page_client(env) as one:
        assert (await one.request("/ui/api/login", "POST", body, origin=f"https://{HOST}")).status == status


async def test_secret_values_are_never_sent(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await create_secret(one)
        changed = {"data": {"password": base64.b64encode(b"another value").decode()}}
        await one.client.patch(SECRETS, "login", merge_patch(changed), "default")
        await asyncio.sleep(2)
        query = "resource=secrets&namespace=default&name=login"
        texts = [(await one.request(f"/ui/api/why?{query}")).body.decode()]
        assert "data.password" in texts[0]
        await one.client.delete(SECRETS, "login", "default")
        revision = one.plane.server.store.revision
        for page_name in ("object", "history", "why"):
            texts.append((await one.request(f"/ui/api/{page_name}?{query}")).body.decode())
        for target in ("search?q=login", "kinds", f"state?at={revision}", f"object?{query}&at={revision - 1}"):
            texts.append((await one.request(f"/ui/api/{target}")).body.decode())
        for value in (VALUE, APPLIED, "another value"):
            for text in (value, base64.b64encode(value.encode()).decode()):
                assert not [item for item in texts if text in item]
        obj = (await one.request(f"/ui/api/object?{query}")).json
        assert obj["gone"]
        assert obj["object"]["data"] == {"password": "(hidden)"}
        changes = (await one.request(f"/ui/api/history?{query}")).json["versions"][1]["changes"]
        assert {"path": "data.password", "before": "(hidden)", "after": "(hidden)"} in changes


async def test_history_has_user_and_decision(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await one.client.create(DEPLOYMENTS, json.dumps(deployment(2)).encode(), "default")
        await asyncio.sleep(10)
        await one.client.patch(DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": 1}}), "default")
        await asyncio.sleep(10)
        obj = (await one.request("/ui/api/history?group=apps&resource=deployments&namespace=default&name=web")).json
        versions = obj["versions"]
        assert versions[-1]["type"] == "ADDED"
        (scaled,) = [
            version
            for version in versions
            if {"path": "spec.replicas", "before": "2", "after": "1"} in version["changes"]
        ]
        assert scaled["origin"]["user"] == "kubernetes-admin"
        assert scaled["origin"]["cause"] is None
        assert versions[0]["origin"]["cause"]["component"] == "deployment-controller"
        assert versions[0]["at"] == pytest.approx(env.now().timestamp(), abs=30)


async def test_explanation_has_the_root_cause(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await one.client.create(DEPLOYMENTS, json.dumps(deployment(2)).encode(), "default")
        await asyncio.sleep(10)
        before = one.plane.server.store.revision
        await one.client.patch(DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": 1}}), "default")
        await asyncio.sleep(60)
        (deleted,) = [
            change.key.rpartition("/")[2]
            for change in one.plane.server.store.changes("/pods/")
            if change.type == "DELETED"
        ]
        target = f"/ui/api/why?resource=pods&namespace=default&name={deleted}"
        obj = (await one.request(target)).json
        assert obj["state"] == "deleted"
        assert "spec.replicas: 2 -> 1" in json.dumps(obj)
        then = (await one.request(f"{target}&at={before}")).json
        assert then["state"] == "as desired"


async def test_object_has_its_events(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await one.client.create(DEPLOYMENTS, json.dumps(deployment(1)).encode(), "default")
        await asyncio.sleep(10)
        (pod,) = (await one.client.list(PODS, "default")).items
        obj = (await one.request(f"/ui/api/object?resource=pods&namespace=default&name={pod.metadata.name}")).json
        assert obj["object"]["metadata"]["uid"] == pod.metadata.uid
        assert {row[3] for row in obj["events"]} >= {"Scheduled", "Started"}
        assert obj["events"] == sorted(obj["events"], key=lambda row: (row[1], row[0]), reverse=True)
        node = (await one.request("/ui/api/object?resource=nodes&name=node-0")).json
        assert "Starting" in {row[3] for row in node["events"]}


async def test_rows_of_a_past_state(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await one.client.create(DEPLOYMENTS, json.dumps(deployment(3)).encode(), "default")
        await asyncio.sleep(20)
        revision, moment = one.plane.server.store.revision, env.now()
        then = tables(await one.frames(f"/ui/api/state?at={revision}"))
        assert len(then["pods"]) == 3
        await asyncio.sleep(2)
        await one.client.delete(DEPLOYMENTS, "web", "default")
        await asyncio.sleep(60)
        assert tables(await one.frames(f"/ui/api/state?at={one.plane.server.store.revision}"))["pods"] == {}
        for at in (str(revision), moment.isoformat().replace("+00:00", "Z")):
            frames = await one.frames(f"/ui/api/state?at={at}")
            result = tables(frames)
            assert {name: result[name] for name in ("nodes", "pods", "workloads")} == {
                name: then[name] for name in ("nodes", "pods", "workloads")
            }
            assert frames[-1]["complete"]
            # A revision is of the time at which it was written.
            assert moment.timestamp() - (60 if at.isdigit() else 2) < frames[-1]["time"] <= moment.timestamp()
        deleted = (await one.request("/ui/api/object?group=apps&resource=deployments&namespace=default&name=web")).json
        assert deleted["gone"]
        target = f"/ui/api/object?group=apps&resource=deployments&namespace=default&name=web&at={revision}"
        assert (await one.request(target)).json["exists"]


async def test_a_time_before_the_history_is_an_error(env: Env) -> None:
    async with page_client(env, history=30) as one:
        await one.log_in()
        await asyncio.sleep(200)
        for at in ("3", "2000-01-01T00:00:00Z"):
            answer = await one.request(f"/ui/api/state?at={at}")
            assert answer.status == 410
            assert "the history begins" in answer.json["error"]


async def test_search_finds_names_of_every_kind(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        await create_secret(one)

        async def keys(text: str) -> list[str]:
            return [item["key"] for item in (await one.request(f"/ui/api/search?q={text}")).json["found"]]

        assert await keys("LOGIN") == ["/secrets/default/login"]
        assert await keys("secret+login") == ["/secrets/default/login"]
        assert await keys("no+default") == []
        assert await keys("no+node-1") == ["/nodes/node-1"]
        assert "/nodes/node-0" in await keys("node-0")
        assert VALUE not in str(await keys(VALUE.replace(" ", "+")))
        await one.client.delete(SECRETS, "login", "default")
        (results,) = (await one.request("/ui/api/search?q=login")).json["found"]
        assert results == {"key": "/secrets/default/login", "kind": "Secret", "gone": True}


async def test_streams_are_limited_in_number(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        readers = [one.page.live.open() for _ in range(MAX_READERS)]
        answer = await one.request("/ui/api/stream")
        assert (answer.status, "too many pages" in answer.json["error"]) == (429, True)
        assert readers[0] is not None
        one.page.live.close(readers[0])
        assert one.page.live.readers == MAX_READERS - 1


async def test_a_stream_ends_with_its_session(env: Env) -> None:
    async with page_client(env) as one:
        await one.log_in()
        stream = asyncio.create_task(one.request("/ui/api/stream"))
        await asyncio.sleep(1)
        assert one.page.live.readers == 1
        await one.request("/ui/api/logout", "POST")
        await asyncio.sleep(10)
        assert (await stream).status == 200
        assert one.page.live.readers == 0


def test_files_load_nothing_from_other_origins() -> None:
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|[\"'(]//", text), path.name


def test_scripts_insert_no_markup() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text), (
            path.name
        )


def test_every_import_of_a_script_is_a_file() -> None:
    files = load_files()
    for path in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8")):
            assert name in files, f"{path.name} imports {name}"
