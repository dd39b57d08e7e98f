"""TLS towards an API server: trust, client certificate, and both again when their files change.

``connect`` fills a ``TlsSettings`` from kubeconfig or the pod's files; ``Dialer`` asks ``TlsContexts`` for the context
of each new connection. What is wrong with a certificate is said when it is loaded, not by the peer's alert later.
"""

import datetime
import os
import ssl
from pathlib import Path

import msgspec

from pilothouse.client.errors import ConfigError
from pilothouse.client.metrics import ConnectionMetrics
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.trust import trust_as_go

with lazy_imports():
    import tempfile

    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

_log = Log("client")


class KeyPair(msgspec.Struct, frozen=True):
    """A client certificate chain and its key, PEM. ``origin`` says where they came from, for messages."""

    certificate: bytes
    key: bytes
    origin: str = "the client certificate"


class TlsSettings(msgspec.Struct, frozen=True):
    """How to speak TLS. Data goes before files, as in a kubeconfig; ``origin`` names the entry, for messages."""

    ca_data: bytes = b""
    ca_file: str = ""
    certificate_data: bytes = b""
    certificate_file: str = ""
    key_data: bytes = b""
    key_file: str = ""
    server_name: str = ""
    """Checked, and sent as SNI, instead of the host that is connected to."""
    insecure_skip_verify: bool = False
    origin: str = "the TLS settings"


class TlsContexts:
    """The ``SSLContext`` to use now. It is made anew when a file that went into it has changed."""

    def __init__(self, settings: TlsSettings, env: Env, metrics: ConnectionMetrics | None = None) -> None:
        self.settings = settings
        self._env = env
        self.generation = 0
        """Grows with every change, so that connections with older credentials can be distinguished."""
        self._context: ssl.SSLContext | None = None
        self._stamps: tuple[object, ...] = ()
        self._pair: KeyPair | None = None
        self._metrics = metrics
        self._authority: bytes | None = None
        self._authority_stamp: object = None

    def get(self, pair: KeyPair | None = None) -> ssl.SSLContext:
        """The context; ``pair`` is a client certificate that a plugin issued.

        Files that have changed and make no sense are logged, and what they were before stays in use: certificate and
        key are rarely replaced at one instant. Raises ``ConfigError`` when there is no before.
        """
        stamps = self._file_stamps()
        if self._context is None or stamps != self._stamps or pair != self._pair:
            self._read_authority()
            try:
                made = make_context(self.settings, self._env.now(), pair)
            except ConfigError as error:
                if self._context is None or pair != self._pair:
                    raise
                _log.error("Unable to reload certificates, the old ones stay in use", error=error)
                return self._context
            if self._context is not None:
                self.generation += 1
            self._context, self._stamps, self._pair = made, stamps, pair
        return self._context

    def _read_authority(self) -> None:
        """Report what has become of the file, once for each of its changes (client-go ``transport/ca_rotation.go``)."""
        path = self.settings.ca_file
        if self._metrics is None or not path or self.settings.ca_data:
            return
        stamp = _stamp(path)
        if self._context is not None and stamp == self._authority_stamp:
            return
        before, self._authority_stamp = self._authority, stamp
        try:
            found = Path(path).read_bytes()
        except OSError:
            outcome = ("failure", "read_error")
        else:
            outcome = _verify_authority(found, before)
            if outcome[0] == "success":
                self._authority = found
        if self._context is not None:
            self._metrics.ca_reloaded(*outcome)

    def reload(self) -> None:
        """Make the context anew, with the same plugin's certificate as before."""
        self.get(self._pair)

    def has_changed(self) -> bool:
        """Whether a file has changed since the context was made. Costs a ``stat`` for each file."""
        return self._context is not None and self._file_stamps() != self._stamps

    def _file_stamps(self) -> tuple[object, ...]:
        settings = self.settings
        return tuple(_stamp(path) for path in (settings.ca_file, settings.certificate_file, settings.key_file) if path)


def _verify_authority(found: bytes, before: bytes | None) -> tuple[str, str]:
    """Result and reason of a reload."""
    if not found:
        return "failure", "empty"
    if found == before:
        return "success", "unchanged"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        return "failure", "ca_parse_error"
    return "success", "updated"


def _stamp(path: str) -> object:
    try:
        status = os.stat(path)  # follows the links by which kubelet and cert-manager swap files
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def make_context(settings: TlsSettings, now: datetime.datetime, pair: KeyPair | None = None) -> ssl.SSLContext:
    """A client context for these settings. Raises ``ConfigError`` with what is wrong, where."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    trust_as_go(context)
    if settings.insecure_skip_verify:
        if settings.ca_data or settings.ca_file:
            # client-go transport.TLSConfigFor rejects the combination (v0.36).
            raise ConfigError(
                f"{settings.origin}: insecure-skip-tls-verify and a certificate authority exclude each other"
            )
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_data or settings.ca_file:
        source = settings.ca_file if not settings.ca_data else "certificate-authority-data"
        pem = settings.ca_data or _read(settings.ca_file, settings.origin, "certificate authority")
        try:
            context.load_verify_locations(cadata=pem.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise ConfigError(
                f"{settings.origin}: the certificate authority in {source} is not a PEM certificate: {error}"
            ) from error
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    client = pair or _pair_of(settings)
    if client is not None:
        _load_pair(context, client, now)
    return context


def with_authority_read(settings: TlsSettings) -> TlsSettings:
    """The settings with what is in the authority's file in place of its name. Raises ``ConfigError``."""
    if settings.ca_data or not settings.ca_file:
        return settings
    pem = _read(settings.ca_file, settings.origin, "certificate authority")
    return msgspec.structs.replace(settings, ca_data=pem, ca_file="")


def _pair_of(settings: TlsSettings) -> KeyPair | None:
    has_certificate = bool(settings.certificate_data or settings.certificate_file)
    has_key = bool(settings.key_data or settings.key_file)
    if not has_certificate and not has_key:
        return None
    if not has_key:
        raise ConfigError(f"{settings.origin}: a client certificate without its key; set client-key(-data) as well")
    if not has_certificate:
        raise ConfigError(
            f"{settings.origin}: a client key without its certificate; set client-certificate(-data) as well"
        )
    return KeyPair(
        settings.certificate_data or _read(settings.certificate_file, settings.origin, "client certificate"),
        settings.key_data or _read(settings.key_file, settings.origin, "client key"),
        f"{settings.origin}: {settings.certificate_file or 'client-certificate-data'}",
    )


def _load_pair(context: ssl.SSLContext, pair: KeyPair, now: datetime.datetime) -> None:
    # Only who has a client certificate pays for these (80 ms at start).
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError as error:
        raise ConfigError(f"{pair.origin} is not a PEM certificate: {error}") from error
    if certificate.not_valid_after_utc <= now:
        # The server would reject it anyway, with an alert or a 401 that does not say why.
        raise ConfigError(
            f"{pair.origin} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC; get a new kubeconfig or"
            " renew the certificate (and check this machine's clock if that date is in the future)"
        )
    try:
        serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError) as error:
        # Without this OpenSSL would ask for the passphrase of an encrypted key on the terminal.
        raise ConfigError(f"{pair.origin}: its key is not an unencrypted PEM private key: {error}") from error
    # OpenSSL's loader reads files only. A private folder for a moment is the portable way.
    with tempfile.TemporaryDirectory(prefix="pilothouse-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair.key.rstrip() + b"\n" + pair.certificate)
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ConfigError(f"{pair.origin}: certificate and key do not belong together: {error}") from error


def _read(path: str, origin: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{origin}: cannot read the {what} {path}: {error.strerror or error}") from error
