"""The server of webhooks over real TLS: rotation while it runs, two replicas, certificates of others."""

import asyncio
import contextlib
import datetime
import http.client
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.operator.test_admission import VALIDATE, a_range, review
from tests.operator.test_webhook_certificates import HOST, Shifted, apply, secret_of, the_app
from tests.programs import free_port

from pilothouse.api.core import SECRETS
from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup
from pilothouse.operator import WebhookSettings, webhook_server
from pilothouse.operator.manifests import manifests
from pilothouse.operator.webhook_server import UnusableCertificates, WebhookServer
from pilothouse.serving.certificates import ISSUED_DAYS, create_authority, issue_server
from pilothouse.storage import MemoryStore

LOOPBACK = "127.0.0.1"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Of an API server with the manifests of the app."""
    env = Env()
    server = ApiServer(env, MemoryStore(env))
    await HandlerChain(server, address="").start()
    result = Client(server.transport("admin", ["system:masters"]), env)
    async with TaskGroup() as group:
        group.start(server.run(), name="api server")
        await apply(result, manifests(the_app(), namespace="default"))
        yield result
        group.cancel()


@contextlib.asynccontextmanager
async def served(client: Client, env: Env, **settings: Any) -> AsyncIterator[int]:
    port = free_port()
    server = WebhookServer(the_app(), WebhookSettings(host=LOOPBACK, port=port, **settings), client=client, env=env)
    async with TaskGroup() as group:
        group.start(server.run(), name="webhooks")
        await server.ready.wait()
        yield port
        group.cancel()


class Caller:
    """A connection that is kept open, as API servers do."""

    def __init__(self, port: int, authorities: bytes) -> None:
        self._context = ssl.create_default_context(cadata=authorities.decode())
        self._connection = http.client.HTTPSConnection(HOST, port, timeout=10, context=self._context)
        self._connection._create_connection = self._connect  # type: ignore[attr-defined]  # the name resolves nowhere
        self._port = port

    def _connect(self, _address: object, *_arguments: object) -> Any:
        return http.client.socket.create_connection((LOOPBACK, self._port), timeout=10)  # type: ignore[attr-defined]

    def call(self) -> bool:
        """Whether a valid object is allowed."""
        headers = {"content-type": "application/json"}
        self._connection.request("POST", f"{VALIDATE}?timeout=10s", review(obj=a_range()), headers)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return bool(json.loads(body)["response"]["allowed"])

    def close(self) -> None:
        self._connection.close()


def served_certificate(port: int) -> str:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate((LOOPBACK, port), timeout=10)


@pytest.mark.real_loop(timeout=60)
async def test_certificates_are_rotated_in_all_replicas_while_they_serve(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_server, "CHECK_SECONDS", 0.05)
    env = Env()
    clock = Shifted(env.clock)
    env = msgspec.structs.replace(env, clock=clock)
    async with served(client, env) as first, served(client, env) as second:
        kept = await secret_of(client)
        caller = Caller(first, kept.bundle)
        assert await asyncio.to_thread(caller.call)
        other = Caller(second, kept.bundle)
        assert await asyncio.to_thread(other.call)
        clock.days = ISSUED_DAYS - 20
        async with asyncio.timeout(20):
            while (new := await secret_of(client)) == kept:  # noqa: ASYNC110  # nothing else says so
                await asyncio.sleep(0.02)
            for port in (first, second):
                while await asyncio.to_thread(served_certificate, port) not in new.serving.certificate.decode():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        assert await asyncio.to_thread(caller.call), "a connection from before goes on"
        for item in (caller, other):
            item.close()


@pytest.mark.real_loop(timeout=60)
async def test_certificates_of_others_are_files(client: Client, tmp_path: Path) -> None:
    env, now = Env(), datetime.datetime.now(datetime.UTC)
    authority = create_authority("others", now)
    issue_server(authority, [HOST], now).save(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with served(client, env, certificate_directory=str(tmp_path)) as port:
        caller = Caller(port, authority.certificate)
        assert await asyncio.to_thread(caller.call)
        caller.close()
        new = issue_server(authority, [HOST], now)
        new.save(tmp_path / "tls.crt", tmp_path / "tls.key")
        async with asyncio.timeout(20):
            while await asyncio.to_thread(served_certificate, port) not in new.certificate.decode():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert (await client.list(SECRETS, "default")).items == ()


@pytest.mark.real_loop(timeout=20)
async def test_a_directory_without_certificates_is_an_error(client: Client, tmp_path: Path) -> None:
    settings = WebhookSettings(host=LOOPBACK, port=free_port(), certificate_directory=str(tmp_path))
    with pytest.raises(UnusableCertificates, match=r"tls\.crt: No such file or directory$"):
        await WebhookServer(the_app(), settings, client=client, env=Env()).run()
