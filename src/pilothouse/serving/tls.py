"""The server's side of TLS: a context from a certificate, its key, and the authority that client certificates come
from.

TLS 1.2 and later, HTTP/1.1 by ALPN. A client certificate is asked for only when there is an authority to verify it
against, and nobody has to show one. One that does not verify ends the handshake, where kube-apiserver would answer
401 (Python's ``ssl`` has no way to accept it and go on): the client sees a TLS alert that names the reason.
"""

import os
import ssl
import tempfile
from pathlib import Path

from pilothouse.env import Log
from pilothouse.serving.certificates import Pair

_log = Log("serving")


class _Handshake(ssl.SSLObject):
    """The server's end of a connection, which tells the client why a handshake failed.

    uvloop 0.23 drops a connection whose handshake fails, together with the alert that OpenSSL has prepared; the client
    would see nothing but a reset. "More data wanted" makes it send what is prepared and go on waiting; the client
    closes, or the handshake's time runs out.
    """

    _failure: ssl.SSLError | None = None

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
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the alert is to be sent") from error


class ServerTls:
    """What ``Server`` serves TLS with. Made from a pair in memory or from files; files can be reloaded."""

    def __init__(self, *, client_authority: bytes = b"") -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.sslobject_class = _Handshake
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        self.context = context
        if client_authority:
            self.trust(client_authority)
        self._files: tuple[Path, Path] | None = None
        self._stamp: tuple[int, ...] = ()

    @classmethod
    def from_pair(cls, pair: Pair, *, client_authority: bytes = b"") -> "ServerTls":
        """From a certificate (with its chain) and key in memory."""
        tls = cls(client_authority=client_authority)
        # OpenSSL reads keys from files only, as far as Python passes it on.
        with tempfile.TemporaryDirectory(prefix="pilothouse-") as directory:
            certificate, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            pair.save(certificate, key)
            tls._load(certificate, key)
        return tls

    @classmethod
    def load(
        cls,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        *,
        client_authority: bytes = b"",
    ) -> "ServerTls":
        """From files. Raises ``OSError`` or ``ValueError``, naming the file."""
        tls = cls(client_authority=client_authority)
        tls._files = (Path(certificate), Path(key))
        tls._stamp = tls._stamp_now()
        tls._load(*tls._files)
        return tls

    def trust(self, client_authority: bytes) -> None:
        """From the next connection on, believe client certificates of this authority too. Raises ``ValueError``."""
        try:
            self.context.load_verify_locations(cadata=client_authority.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ValueError(f"the client authority is not a PEM certificate: {error}") from error
        self.context.verify_mode = ssl.CERT_OPTIONAL

    @property
    def from_files(self) -> bool:
        """Whether there are files that may change."""
        return self._files is not None

    def reload(self) -> bool:
        """Take up the files if they have changed, for connections from now on. Says whether they had.

        Raises ``OSError`` or ``ValueError`` when they are not a certificate and its key; what was in use stays in
        use, and the next call tries again.
        """
        if self._files is None:
            return False
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return False
        # Into a context of its own first: a half-written pair must not spoil the one in use.
        ServerTls.load(*self._files)
        self._load(*self._files)
        self._stamp = stamp
        return True

    def _stamp_now(self) -> tuple[int, ...]:
        assert self._files is not None
        stats = [path.stat() for path in self._files]
        return tuple(value for stat in stats for value in (stat.st_mtime_ns, stat.st_size, stat.st_ino))

    def _load(self, certificate: Path, key: Path) -> None:
        try:
            self.context.load_cert_chain(certificate, key, password=_no_password)
        except ssl.SSLError as error:
            raise ValueError(f"{certificate} and {key} are not a certificate and its key: {error}") from error


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal.
    raise ValueError("the key is encrypted; a server's key must not be")
