"""TLS of servers: contexts from certificates and keys, and client certificates.

TLS 1.2 and later, HTTP/1.1 by ALPN. A client certificate is only requested if there is a client CA, and is optional. As
in Go's servers the handshake accepts any; ``verification_error`` verifies it, and the program responds with 401 (where
``openssl`` does not support that, the handshake fails with an alert).

``asyncio`` needs one context for the lifetime of a server, and nothing can be removed from a context.
``_DelegatingContext`` is that context, and creates each connection with the newest one, so that certificates and CAs
can be replaced.
"""

import asyncio
import datetime
import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.env import Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.serving import openssl
from pilothouse.serving.certificates import Pair, certificate_names
from pilothouse.serving.client_certificates import Authorities
from pilothouse.serving.peer import Peer

with lazy_imports():
    from pilothouse.env import temporary

_CHECK_SECONDS = 1.0
_PLAIN_HTTP = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 48\r\n\r\n"
    b"Client sent an HTTP request to an HTTPS server.\n"
)
"""The response to a request without TLS, as Go's ``net/http`` sends it (``server.go``, ``conn.serve``); with a length,
because the connection is closed later."""

_log = Log("serving")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Protocol options. ``ciphers`` are OpenSSL's names, for TLS 1.2; ``groups`` are for key exchange."""

    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class Files(msgspec.Struct, frozen=True):
    """A certificate and its key in files, for clients that request one of ``names`` (SNI).

    ``names`` are host names whose first label may be ``*``; by default those in the certificate.
    """

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()

    def stamp(self) -> tuple[int, ...]:
        """Changes when a file changes."""
        stats = [path.stat() for path in (self.certificate, self.key)]
        return tuple(value for stat in stats for value in (stat.st_mtime_ns, stat.st_size, stat.st_ino))


class _Handshake(ssl.SSLObject):
    """The server side of a connection, which sends alerts when a handshake fails.

    uvloop 0.23 closes a connection whose handshake fails without sending OpenSSL's alert; the client would only get a
    reset. "More data wanted" makes it send the alert and wait; then the client closes the connection, or the handshake
    times out.
    """

    _failure: ssl.SSLError | None = None
    write_bio: ssl.MemoryBIO | None = None

    def do_handshake(self) -> None:
        """One step of the handshake."""
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            _log.info("TLS handshake failed", v=2, err=error)
            self._failure = error
            if self.write_bio is not None and error.reason == "HTTP_REQUEST":
                self.write_bio.write(_PLAIN_HTTP)
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is to be sent") from error


class _DelegatingContext(ssl.SSLContext):
    """The context of a listening server, which delegates to the current one for each connection."""

    owner: "ServerTls"

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """The server side of a new connection. Event loops pass the buffers by position."""
        connection = self.owner.newest().wrap_bio(*args, **kwargs)
        if isinstance(connection, _Handshake):
            connection.write_bio = args[1]
        return connection


class ServerTls:
    """The TLS configuration of a ``Server``, from a pair in memory or from files.

    Files are checked when a connection is accepted, at most once a second; changes apply from that connection on.
    Invalid files are logged, and the previous ones stay in use.
    """

    def __init__(
        self,
        default: Pair | Files | None = None,
        *,
        client_authority: bytes = b"",
        policy: Policy | None = None,
        named: Sequence[Files] = (),
    ) -> None:
        """``named`` are certificates by host name (SNI). Raises ``OSError``, ``ValueError``."""
        self._default = default
        self._policy = policy or Policy()
        self._named = tuple(named)
        self._authorities = Authorities(client_authority) if client_authority else None
        self._files = tuple(source for source in (default, *named) if isinstance(source, Files))
        self._checked_at = float("-inf")
        self._stamps: tuple[tuple[int, ...], ...] = ()
        context = _DelegatingContext(ssl.PROTOCOL_TLS_SERVER)
        context.owner = self
        self.context: ssl.SSLContext = context
        self._newest = self._create_context()

    @classmethod
    def from_pair(cls, pair: Pair, *, client_authority: bytes = b"") -> "ServerTls":
        """From a certificate (with its chain) and key in memory."""
        return cls(pair, client_authority=client_authority)

    @classmethod
    def load(
        cls,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        *,
        client_authority: bytes = b"",
    ) -> "ServerTls":
        """From files. Raises ``OSError`` or ``ValueError``, naming the file."""
        return cls(Files(Path(certificate), Path(key)), client_authority=client_authority)

    def trust(self, client_authority: bytes) -> None:
        """From now on trust client certificates of these CAs only. Raises ``ValueError``."""
        self._authorities = Authorities(client_authority) if client_authority else None
        self._newest = self._create_context()

    def present(self, pair: Pair) -> None:
        """From now on use this certificate for new connections. Raises ``ValueError``; then the previous one stays in
        use."""
        previous = self._default, self._files
        self._default, self._files = pair, self._named
        try:
            self._newest = self._create_context()
        except ValueError:
            self._default, self._files = previous
            raise

    def verification_error(self, peer: Peer, now: datetime.datetime) -> str | None:
        """Why a client's certificate is not trusted, or None."""
        if self._authorities is None:
            return "no client authority"
        return self._authorities.verification_error(peer.chain or (peer.certificate,), now)

    def newest(self) -> ssl.SSLContext:
        """The context for a new connection."""
        now = asyncio.get_running_loop().time()
        if self._files and now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            try:
                if self.reload():
                    _log.info("Serving certificate reloaded")
            except (OSError, ValueError) as error:
                _log.error("Serving certificate could not be reloaded, the old one stays in use", error=error)
        return self._newest

    def reload(self) -> bool:
        """Load the files if they have changed, for new connections. Returns whether they have.

        Raises ``OSError`` or ``ValueError`` if they are no certificate and its key; the previous ones stay in use, and
        the next call retries.
        """
        if tuple(source.stamp() for source in self._files) == self._stamps:
            return False
        self._newest = self._create_context()
        return True

    # Contexts

    def _create_context(self) -> ssl.SSLContext:
        stamps = tuple(source.stamp() for source in self._files)
        by_name: dict[str, ssl.SSLContext] = {}
        for source in self._named:
            pair = Pair.load(source.certificate, source.key)
            context = self._context(source)
            for name in source.names or certificate_names(pair):
                by_name.setdefault(name.lower().rstrip("."), context)
        context = self._context(self._default)
        if by_name:
            context.sni_callback = lambda tls, name, _context: _choose(tls, name, by_name)
        self._stamps = stamps
        return context

    def _context(self, source: Pair | Files | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._policy.minimum_version
        context.set_alpn_protocols(["http/1.1"])
        context.sslobject_class = _Handshake
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        if self._policy.ciphers:
            context.set_ciphers(":".join(self._policy.ciphers))
        if self._policy.groups and not openssl.set_groups(context, self._policy.groups):
            _log.warning("Key exchange groups can't be configured with this Python version", groups=self._policy.groups)
        if self._authorities is not None:
            if not openssl.accept_any_client_certificate(context):
                try:
                    context.load_verify_locations(cadata=self._authorities.pem.decode("ascii"))
                except (ssl.SSLError, UnicodeDecodeError) as error:
                    raise ValueError(f"the client CA is not a PEM certificate: {error}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        if isinstance(source, Files):
            _load(context, source.certificate, source.key)
        elif source is not None:
            # Python's API only loads keys from files.
            with temporary.files(certificate=source.certificate, key=source.key) as paths:
                _load(context, paths["certificate"], paths["key"])
        return context


def _choose(tls: ssl.SSLObject, name: str | None, by_name: dict[str, ssl.SSLContext]) -> None:
    """Go's ``tls.Config.getCertificate``: the name itself, then the name with ``*`` as its first label."""
    if name:
        desired = name.lower().rstrip(".")
        chosen = by_name.get(desired) or by_name.get(f"*.{desired.partition('.')[2]}")
        if chosen is not None:
            tls.context = chosen


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        path.open("rb").close()  # OpenSSL's errors do not name the file
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise ValueError(f"{certificate} and {key} are not a certificate and its key: {error}") from error


def _no_password() -> str:
    # Without this OpenSSL would prompt on the terminal.
    raise ValueError("the key is encrypted; a server's key must not be")
