"""Saving a cluster, with failures of its API server."""

import asyncio
import base64
import json
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.custom_resources import definition, version
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.snapshots.file_format import SnapshotError
from pilothouse.snapshots.reading import SnapshotFile, load
from pilothouse.snapshots.saving import SaveOptions, save
from pilothouse.testing import AsyncCluster, async_plane

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {
        "name": "login",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"password":"aHVudGVyMg=="}}'},
    },
    "data": {"password": base64.b64encode(b"hunter2").decode()},
}


def config_map(number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{number:04}"}, "data": {"a": "b"}}


def names(path: Path, kind: str) -> list[str]:
    return [item["metadata"]["name"] for item in load(path) if item["kind"] == kind]


async def test_every_object_is_saved_once(env: Env, tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with async_plane(env=env, nodes=2) as cluster:
        await cluster.create(definition("Widget", version("v1", storage=False), version("v2")))
        await cluster.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}})
        for number in range(7):
            await cluster.create(config_map(number))
        await asyncio.sleep(5)
        saved = await save(cluster.client, env, path, SaveOptions(page_size=3))
        stored = {
            (record.key, json.loads(record.value)["metadata"]["resourceVersion"])
            for record in cluster.plane.server.store.list("").records
        }
    objects = load(path)
    assert saved.totals.skipped == ()
    assert saved.totals.oldest == saved.totals.newest, "of one moment"
    assert len(objects) == saved.totals.objects == len(stored)
    assert sorted(obj["metadata"]["resourceVersion"] for obj in objects) == sorted(version for _, version in stored)
    assert objects[0]["kind"] == "CustomResourceDefinition"
    assert [obj["apiVersion"] for obj in objects if obj["kind"] == "Widget"] == ["example.com/v2"], "as it is stored"
    assert {obj["apiVersion"] for obj in objects if obj["kind"] == "Event"} <= {"v1"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("included", [False, True])
async def test_secret_values_are_saved_only_on_request(env: Env, tmp_path: Path, included: bool) -> None:
    path = tmp_path / "s"
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.create(SECRET)
        await save(cluster.client, env, path, SaveOptions(secret_values=included))
    (secret,) = [item for item in load(path) if item["kind"] == "Secret"]
    assert list(secret["data"]) == ["password"]
    text = json.dumps(load(path))
    assert ("aHVudGVyMg" in text) is included
    assert SnapshotFile(path).header.secret_values is included


class Server:
    """A proxy of an API server, which responds to lists as ``answer`` returns."""

    def __init__(self, inner: wire.Transport, answer: "Answer") -> None:
        self._inner = inner
        self._answer = answer
        self.lists: list[dict[str, str]] = []

    async def request(self, request: wire.Request) -> wire.Response:
        parts = urlsplit(request.target)
        if parts.path == "/api/v1/configmaps":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.lists.append(query)
            changed: wire.Response | None = await self._answer(query, len(self.lists))
            if changed is not None:
                return changed
        return await self._inner.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


Answer = Callable[[dict[str, str], int], Any]


async def saved_through(
    cluster: AsyncCluster, env: Env, path: Path, answer: Answer, **options: Any
) -> tuple[Any, Server]:
    server = Server(cluster.plane.server.transport("admin", ("system:masters",)), answer)
    saved = await save(Client(server, env), env, path, SaveOptions(page_size=3, **options))
    return saved, server


def refused(code: int, reason: str, message: str = "no", token: str = "") -> wire.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    body = {**status, "message": message, "metadata": {"continue": token} if token else {}}
    return wire.Response(code, {"content-type": "application/json"}, json.dumps(body).encode())


async def test_forbidden_resources_are_skipped_and_reported(env: Env, tmp_path: Path) -> None:
    async def answer(query: dict[str, str], number: int) -> Any:
        return refused(403, "Forbidden", "configmaps is forbidden: no RBAC policy matched")

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.create(config_map(1))
        saved, _ = await saved_through(cluster, env, tmp_path / "s", answer)
    assert [(item.resource, item.reason) for item in saved.totals.skipped] == [
        ("configmaps", "configmaps is forbidden: no RBAC policy matched")
    ]
    assert names(tmp_path / "s", "ConfigMap") == []
    assert names(tmp_path / "s", "Namespace") != []


@pytest.mark.parametrize("with_token", [True, False])
async def test_list_continues_after_an_expired_token(env: Env, tmp_path: Path, with_token: bool) -> None:
    """kube-apiserver returns an inconsistent continue token with the error; without one the list is restarted."""
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        for number in range(8):
            await cluster.create(config_map(number))
        tokens: list[str] = []

        async def answer(query: dict[str, str], number: int) -> Any:
            if "continue" not in query or tokens:
                return None
            tokens.append(query["continue"])
            await cluster.create(config_map(100))
            return refused(410, "Expired", token=query["continue"] if with_token else "")

        saved, _ = await saved_through(cluster, env, tmp_path / "s", answer)
    assert tokens
    result = names(tmp_path / "s", "ConfigMap")
    assert len(result) == len(set(result))
    assert {f"map-{number:04}" for number in range(8)} <= set(result)
    assert saved.totals.skipped == ()


@pytest.mark.parametrize("with_token", [True, False])
async def test_list_with_always_expiring_tokens_is_aborted(env: Env, tmp_path: Path, with_token: bool) -> None:
    async def answer(query: dict[str, str], number: int) -> Any:
        token = query.get("continue")
        return refused(410, "Expired", token=token if with_token else "") if token else None

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        for number in range(8):
            await cluster.create(config_map(number))
        saved, server = await saved_through(cluster, env, tmp_path / "s", answer)
    assert [item.resource for item in saved.totals.skipped] == ["configmaps"]
    assert len(server.lists) < 50
    assert len(names(tmp_path / "s", "ConfigMap")) == 3, "those of the first page"


@cases(
    "code, reason",
    {
        "compacted": (410, "Expired"),
        "server without resourceVersionMatch": (400, "BadRequest"),
        "timeout": (504, "Timeout"),
    },
)
async def test_current_state_is_listed_if_the_version_is_unavailable(
    env: Env, tmp_path: Path, code: int, reason: str
) -> None:
    async def answer(query: dict[str, str], number: int) -> Any:
        return refused(code, reason) if query.get("resourceVersionMatch") == "Exact" else None

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.create(config_map(1))
        saved, server = await saved_through(cluster, env, tmp_path / "s", answer)
    assert saved.totals.skipped == ()
    assert "map-0001" in names(tmp_path / "s", "ConfigMap")
    assert "resourceVersionMatch" not in server.lists[-1]


@pytest.mark.parametrize("items", [0, 1])
async def test_endless_list_is_aborted(env: Env, tmp_path: Path, items: int) -> None:
    async def answer(query: dict[str, str], number: int) -> Any:
        meta = {"name": f"n{number}", "uid": f"u{number}", "resourceVersion": "1"}
        result = [{"metadata": meta}] if items else []
        body = {"metadata": {"resourceVersion": "1", "continue": f"token{number}"}, "items": result}
        return wire.Response(200, {"content-type": "application/json"}, json.dumps(body).encode())

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(SnapshotError, match=r"leave (it|some) out"):
            await saved_through(cluster, env, tmp_path / "s", answer, max_objects=500)
    assert list(tmp_path.iterdir()) == [], "no file, and no draft of one"


async def test_too_large_object_is_skipped_and_reported(env: Env, tmp_path: Path) -> None:
    items = [
        b'{"metadata":{"name":"big","uid":"1"},"data":{"a":"' + b"x" * (8 << 20) + b'"}}',
        b'{"metadata":{"name":"deep","uid":"2"},"data":' + b'{"a":' * 400 + b"1" + b"}" * 401,
        b'{"metadata":{"name":"wrong","uid":3}}',
        b'{\n"metadata":{"name":"lines","uid":"4"}}',
        b'{"kind":"Secret","apiVersion":"v7","metadata":{"name":"other","uid":"5"}}',
    ]

    async def answer(query: dict[str, str], number: int) -> Any:
        body = b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join(items) + b"]}"
        return wire.Response(200, {"content-type": "application/json"}, body)

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        saved, _ = await saved_through(cluster, env, tmp_path / "s", answer)
    assert names(tmp_path / "s", "ConfigMap") == ["lines", "other"]
    assert [item.resource for item in saved.totals.skipped] == ["configmaps"] * 3


async def test_memory_does_not_grow_with_the_cluster(env: Env, tmp_path: Path) -> None:
    """20,000 objects of a kilobyte, of which there is never more than a page."""

    async def answer(query: dict[str, str], number: int) -> Any:
        items = [
            {"metadata": {"name": f"n{number}-{item}", "uid": f"u{number}-{item}"}, "data": {"a": "x" * 1000}}
            for item in range(500)
        ]
        meta = {"resourceVersion": "9", "continue": str(number) if number < 40 else ""}
        body = json.dumps({"metadata": meta, "items": items}).encode()
        return wire.Response(200, {"content-type": "application/json"}, body)

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        tracemalloc.start()
        try:
            saved, _ = await saved_through(cluster, env, tmp_path / "s", answer)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
    assert saved.totals.objects > 20_000
