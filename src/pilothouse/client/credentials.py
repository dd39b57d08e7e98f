"""Credentials for an API server: the Authorization header, and a client certificate if an exec plugin returns one.

``RemoteTransport`` calls ``current`` before each request, which nearly always returns immediately, and reports a 401 to
``rejected``. ``exec_plugin`` has the variant that runs a program.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from pilothouse.client.errors import ApiError, ConfigError, ConnectFailed
from pilothouse.client.requests import encode_headers
from pilothouse.client.tls import KeyPair
from pilothouse.env import Env, Log
from pilothouse.env.bounded_files import read_bytes

_log = Log("client")


class Credentials(Protocol):
    """Something that can log in."""

    generation: int
    """Incremented when there is a new client certificate; connections with an older one are closed."""

    def current(self) -> bytes | None:
        """The header block to send now (empty for none), or None if it must be fetched first."""
        ...

    async def fetch(self) -> bytes:
        """The header block, fetched if necessary. Raises ``ConnectFailed`` if that fails."""
        ...

    async def rejected(self, login: bytes) -> bool:
        """The server returned 401 for this block. Returns whether there is another one to try."""
        ...

    async def key_pair(self) -> KeyPair | None:
        """A client certificate that replaces the configured one."""
        ...


class Anonymous:
    """No header: nothing to show, or only a client certificate."""

    generation = 0

    def current(self) -> bytes | None:
        return b""

    async def fetch(self) -> bytes:
        return b""

    async def rejected(self, login: bytes) -> bool:
        return False

    async def key_pair(self) -> KeyPair | None:
        return None


class StaticHeader(Anonymous):
    """The same header every time."""

    def __init__(self, value: str, origin: str) -> None:
        self._login = authorization(value, origin)

    def current(self) -> bytes | None:
        return self._login

    async def fetch(self) -> bytes:
        return self._login


class TokenFile(Anonymous):
    """A bearer token in a file that another program renews, such as the kubelet in every pod.

    Read again after 50 s (client-go ``transport/token_source.go`` v0.36: a period of a minute, ten seconds early), and
    immediately after a 401. If the file cannot be read the last token is still used.
    """

    SECONDS = 50.0

    def __init__(self, path: str, env: Env, origin: str) -> None:
        self._path = Path(path)
        self._env = env
        self._origin = origin
        self._login = b""
        self._until = 0.0

    def current(self) -> bytes | None:
        now = self._env.monotonic()
        if not self._login or now >= self._until:
            try:
                self._login = read_token(self._path, self._origin)
            except ConfigError as error:
                if not self._login:
                    raise ConnectFailed(str(error)) from error
                _log.error("Unable to rotate token", error=error)
            self._until = now + self.SECONDS
        return self._login

    async def fetch(self) -> bytes:
        return self.current() or b""

    async def rejected(self, login: bytes) -> bool:
        self._until = 0.0
        return self.current() != login


def read_token(path: Path, origin: str) -> bytes:
    """The header line for the token in a file. Raises ``ConfigError``."""
    try:
        token = read_bytes(path).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{origin}: cannot read the token file {path}: {reason}") from error
    if not token:
        raise ConfigError(f"{origin}: the token file {path} is empty")
    return authorization(f"Bearer {token}", origin)


class IssuedToken(Anonymous):
    """A bearer token that a function of the program's own issues, such as a TokenRequest for a service account.

    ``issue`` returns the token and for how many seconds to use it. It is called again after that time and after a 401;
    concurrent callers share one call. If it fails, the old token is still used (client-go
    ``transport/token_source.go``, v0.36), because it is renewed well before it expires.
    """

    PAUSE_SECONDS = 10.0

    def __init__(self, issue: Callable[[], Awaitable[tuple[str, float]]], env: Env, origin: str) -> None:
        self._issue = issue
        self._env = env
        self._origin = origin
        self._login = b""
        self._until = 0.0
        self._lock = asyncio.Lock()

    def current(self) -> bytes | None:
        return self._login if self._login and self._env.monotonic() < self._until else None

    async def fetch(self) -> bytes:
        async with self._lock:
            if self.current() is None:
                try:
                    token, seconds = await self._issue()
                except (ApiError, ConnectionError, TimeoutError) as error:
                    if not self._login:
                        raise
                    _log.error("Unable to rotate token", error=error, origin=self._origin)
                    self._until = self._env.monotonic() + self.PAUSE_SECONDS
                    return self._login
                self._login = authorization(f"Bearer {token}", self._origin)
                self._until = self._env.monotonic() + seconds
            return self._login

    async def rejected(self, login: bytes) -> bool:
        if login == self._login:
            self._until = 0.0
        return await self.fetch() != login


def basic(user: str, password: str, origin: str) -> StaticHeader:
    """HTTP basic authentication; only proxies and other gateways still take it."""
    return StaticHeader("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(), origin)


def bearer(token: str, origin: str) -> StaticHeader:
    """A bearer token that does not change."""
    return StaticHeader(f"Bearer {token}", origin)


def authorization(value: str, origin: str) -> bytes:
    """The header line. Raises ``ConfigError`` for invalid characters."""
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"{origin}: the credentials contain characters that no HTTP header can carry")
    return encode_headers({"Authorization": value})
