"""An embedded API server on its own port, over TLS, for client programs.

It runs on a loop in a thread, as a program of its own would; RBAC is on. ``kubeconfig`` writes one for a user, who logs
in with a client certificate, or with a token if ``token`` says so.
"""

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from tests.stores import store_factory

from pilothouse.apiserver.asgi import Application
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.server import ApiServer
from pilothouse.env import Env, TaskGroup
from pilothouse.env.loops import run
from pilothouse.serving import Server
from pilothouse.serving.certificates import create_authority, issue_client, issue_server
from pilothouse.serving.tls import ServerTls
from pilothouse.storage import Store

ADMIN_TOKEN = "admin-token"


class EmbeddedServer:
    """Serves from ``__enter__`` to ``__exit__``. Files are written to ``directory``."""

    def __init__(self, directory: Path, store: Callable[[Env], Store] | None = None) -> None:
        self.directory = directory
        self._store = store or store_factory()
        self.url = ""
        self._env = Env()
        self._authority = create_authority("test-ca", self._env.now())
        self._started: Future[str] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finish: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="embedded server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = self._started.result(timeout=20)
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._loop is not None
        assert self._finish is not None
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join(timeout=20)
        assert not self._thread.is_alive(), "the embedded server did not stop"

    @property
    def authority(self) -> bytes:
        """The CA of its certificate."""
        return self._authority.certificate

    def _run(self) -> None:
        try:
            run(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._finish = asyncio.Event()
        core = ApiServer(self._env, self._store(self._env))
        token_authenticators = [
            StaticTokenAuthenticator({ADMIN_TOKEN: Identity("admin", ("system:masters",), "admin")})
        ]
        handler_chain = HandlerChain(
            core, address="127.0.0.1", token_authenticators=token_authenticators, authorization="RBAC"
        )
        application = Application(self._env, handler_chain)
        pair = issue_server(self._authority, ["127.0.0.1"], self._env.now())
        tls = ServerTls.from_pair(pair, client_authority=self._authority.certificate)
        async with TaskGroup("embedded server") as group, Server(application, tls=tls) as server:
            group.start(core.run(), name="core")
            await handler_chain.start()
            self._started.set_result(server.url)
            await self._finish.wait()
            await application.stop()
            await server.stop()
            group.cancel()
        await core.close()

    def kubeconfig(self, user: str, groups: tuple[str, ...] = (), *, token: str = "") -> Path:
        """A kubeconfig with the user's credentials."""
        path = self.directory / f"{user.replace(':', '_')}.kubeconfig"
        if token:
            login: dict[str, Any] = {"token": token}
        else:
            pair = issue_client(self._authority, user, groups, self._env.now())
            login = {
                "client-certificate-data": base64.b64encode(pair.certificate).decode(),
                "client-key-data": base64.b64encode(pair.key).decode(),
            }
        cluster = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self._authority.certificate).decode(),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": login}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path
