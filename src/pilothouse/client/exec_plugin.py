"""Credentials from a program: client-go's exec plugins (``client.authentication.k8s.io`` v1 and v1beta1).

After client-go ``plugin/pkg/client/auth/exec`` (v0.36): the program gets the cluster in KUBERNETES_EXEC_INFO, prints an
ExecCredential, and is run again when that expires or the server returns 401.
"""

import asyncio
import contextlib
import datetime
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.client.credentials import authorization
from pilothouse.client.errors import ConfigError, ConnectFailed
from pilothouse.client.metrics import ConnectionMetrics, PluginOutcome
from pilothouse.client.tls import KeyPair
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from cryptography import x509

_log = Log("client")

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

_MAX_OUTPUT = 1024 * 1024
_PIECE = 64 * 1024


class _TooLong(Exception):
    """The plugin prints more than a credential can have."""


class ExecSettings(msgspec.Struct, frozen=True):
    """The ``exec`` entry of a kubeconfig user. ``cluster`` is passed to the program with ``provideClusterInfo``."""

    command: str
    api_version: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = {}
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    origin: str = "exec"


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime.datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPlugin:
    """Runs the program when credentials are needed, one run at a time, and caches its output."""

    def __init__(self, settings: ExecSettings, env: Env) -> None:
        self.generation = 0
        self.metrics: ConnectionMetrics | None = None
        self._settings = settings
        self._env = env
        self._login: bytes | None = None
        self._pair: KeyPair | None = None
        self._expires_at: datetime.datetime | None = None
        self._lock = asyncio.Lock()

    def current(self) -> bytes | None:
        """The last output of the program, unless it has expired."""
        if self._expires_at is not None and self._env.now() > self._expires_at:
            return None
        return self._login

    async def fetch(self) -> bytes:
        """The output of the program. Raises ``ConnectFailed`` if it fails."""
        async with self._lock:
            login = self.current()
            return login if login is not None else await self._run()

    async def rejected(self, login: bytes) -> bool:
        """Run the program again, unless another caller has in the meantime."""
        async with self._lock:
            # Compare by identity: after another run the credentials are not those that were rejected, even if they are
            # equal.
            if login is not self._login:
                return login != self._login
            pair = self._pair
            return await self._run() != login or self._pair != pair

    async def key_pair(self) -> KeyPair | None:
        """The client certificate that the program issued, if it did."""
        await self.fetch()
        return self._pair

    async def _run(self) -> bytes:
        try:
            credential = self._validated(await self._output())
        except ConfigError as error:
            raise ConnectFailed(f"getting credentials: {error}") from error
        pair = None
        if credential.client_certificate_data:
            origin = f"{self._settings.origin}: the certificate that it printed"
            pair = KeyPair(credential.client_certificate_data.encode(), credential.client_key_data.encode(), origin)
        if self._login is not None and pair != self._pair:
            self.generation += 1
        if self.metrics is not None and pair != self._pair:
            former, present = _lifetime(self._pair), _lifetime(pair)
            self.metrics.plugin_issued(
                None if present is None else present[1],
                None if former is None else (self._env.now() - former[0]).total_seconds(),
            )
        self._pair = pair
        self._expires_at = credential.expiration_timestamp
        token = credential.token
        self._login = authorization(f"Bearer {token}", self._settings.origin) if token else b""
        return self._login

    async def _output(self) -> bytes:
        settings = self._settings
        interactive = _is_interactive(settings)
        spec: dict[str, Any] = {"interactive": interactive}
        if settings.cluster is not None:
            spec["cluster"] = dict(settings.cluster)
        info = {"kind": "ExecCredential", "apiVersion": settings.api_version, "spec": spec}
        environ = {**os.environ, **settings.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        command = shutil.which(settings.command, path=environ.get("PATH"))
        if command is None:
            self._report(1, "plugin_not_found_error")
            hint = f"\n\n{settings.install_hint}" if settings.install_hint else ""
            raise ConfigError(f"{settings.origin}: executable {settings.command} not found{hint}")
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *settings.args,
                env=environ,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # A prompt must reach the terminal; otherwise stderr is part of our message.
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            self._report(1, "client_internal_error")
            raise ConfigError(f"{settings.origin}: cannot run {command}: {error.strerror or error}") from error
        complaining = asyncio.create_task(_read_tail(process.stderr))
        try:
            printed = await _read(process.stdout)
            complaint = await complaining
            await process.wait()
        except (asyncio.CancelledError, _TooLong) as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            complaining.cancel()
            await process.wait()
            if isinstance(error, asyncio.CancelledError):
                raise
            # The pipe is closed at its end. Another process may have inherited it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await _read_tail(process.stdout)
            self._report(1, "plugin_execution_error")
            raise ConfigError(
                f"{settings.origin}: executable {command} printed more than {_MAX_OUTPUT:,} bytes; an ExecCredential "
                "was expected"
            ) from None
        if process.returncode != 0:
            # As Go reports a process that was ended by a signal.
            self._report(max(process.returncode or 1, -1), "plugin_execution_error")
            text = complaint.decode(errors="replace").strip()[-1000:]
            tail = f": {text}" if text else ""
            code = process.returncode
            raise ConfigError(f"{settings.origin}: executable {command} failed with exit code {code}{tail}")
        self._report(0, "no_error")
        return printed

    def _report(self, code: int, outcome: PluginOutcome) -> None:
        if self.metrics is not None:
            self.metrics.plugin_ran(code, outcome)

    def _validated(self, printed: bytes) -> _Status:
        settings = self._settings
        source = f"{settings.origin}: the output of {settings.command}"
        try:
            credential = msgspec.json.decode(printed, type=_ExecCredential)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{source} is not an ExecCredential: {error}") from error
        if credential.kind != "ExecCredential" or credential.api_version != settings.api_version:
            raise ConfigError(
                f"{source} is {credential.api_version} {credential.kind}, not {settings.api_version} ExecCredential as"
                " the kubeconfig says"
            )
        status = credential.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise ConfigError(f"{source} has neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise ConfigError(f"{source} has a client certificate without its key, or a key without its certificate")
        return status


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """Everything that is printed. Raises ``_TooLong``."""
    assert stream is not None, "standard output is a pipe"
    printed = bytearray()
    while piece := await stream.read(_PIECE):
        printed += piece
        if len(printed) > _MAX_OUTPUT:
            raise _TooLong
    return bytes(printed)


async def _read_tail(stream: asyncio.StreamReader | None) -> bytes:
    """The end of what is printed; nothing if it goes to the terminal."""
    tail = b""
    while stream is not None and (piece := await stream.read(_PIECE)):
        tail = (tail + piece)[-_PIECE:]
    return tail


def _lifetime(pair: KeyPair | None) -> tuple[datetime.datetime, datetime.datetime] | None:
    """The validity of a certificate; None if it cannot be parsed, which is an error when it is used."""
    if pair is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError:
        return None
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _is_interactive(settings: ExecSettings) -> bool:
    if settings.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if settings.interactive_mode == "Always" and not terminal:
        raise ConfigError(f"{settings.origin}: interactiveMode is Always, but standard input is not a terminal")
    return terminal
