"""TLS towards an API server: trust, client certificate, and both again when their files change.

``connect`` fills a ``TlsSettings`` from the kubeconfig or the pod's files; ``Dialer`` gets the context of each new
connection from ``TlsContexts``. Invalid certificates are reported when they are loaded, not by an alert of the peer
later.
"""

import datetime
import os
import ssl

import msgspec

from pilothouse.client.errors import ConfigError
from pilothouse.client.metrics import ConnectionMetrics
from pilothouse.env import Env, Log
from pilothouse.env.bounded_files import read_bytes
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.trust import trust_as_go

with lazy_imports():
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    from pilothouse.env import temporary
    from pilothouse.machinery import pem_errors

_log = Log("client")


class KeyPair(msgspec.Struct, frozen=True):
    """A client certificate chain and its key, PEM. ``origin`` is their source, for messages."""

    certificate: bytes
    key: bytes
    origin: str = "the client certificate"


class TlsSettings(msgspec.Struct, frozen=True):
    """TLS configuration. Data takes precedence over files, as in a kubeconfig; ``origin`` names the entry, for
    messages."""

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
    """The current ``SSLContext``. It is created again when one of its files has changed."""

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

        Changed files that are invalid are logged, and their previous content stays in use: certificate and key are
        rarely replaced at the same moment. Raises ``ConfigError`` if there is no previous content.
        """
        stamps = self._file_stamps()
        if self._context is None or stamps != self._stamps or pair != self._pair:
            self._read_authority()
            try:
                context = make_context(self.settings, self._env.now(), pair)
            except ConfigError as error:
                if self._context is None or pair != self._pair:
                    raise
                _log.error("Unable to reload certificates, the old ones stay in use", error=error)
                return self._context
            if self._context is not None:
                self.generation += 1
            self._context, self._stamps, self._pair = context, stamps, pair
        return self._context

    def _read_authority(self) -> None:
        """Record the result of reloading the file, once for each change (client-go ``transport/ca_rotation.go``)."""
        path = self.settings.ca_file
        if self._metrics is None or not path or self.settings.ca_data:
            return
        stamp = _stamp(path)
        if self._context is not None and stamp == self._authority_stamp:
            return
        old_bundle, self._authority_stamp = self._authority, stamp
        try:
            bundle = read_bytes(path)
        except OSError:
            outcome = ("failure", "read_error")
        else:
            outcome = _verify_authority(bundle, old_bundle)
            if outcome[0] == "success":
                self._authority = bundle
        if self._context is not None:
            self._metrics.ca_reloaded(*outcome)

    def reload(self) -> None:
        """Create the context again, with the same certificate of the plugin."""
        self.get(self._pair)

    def has_changed(self) -> bool:
        """Whether a file has changed since the context was created. Costs a ``stat`` per file."""
        return self._context is not None and self._file_stamps() != self._stamps

    def _file_stamps(self) -> tuple[object, ...]:
        settings = self.settings
        return tuple(_stamp(path) for path in (settings.ca_file, settings.certificate_file, settings.key_file) if path)


def _verify_authority(bundle: bytes, old_bundle: bytes | None) -> tuple[str, str]:
    """Result and reason of a reload."""
    if not bundle:
        return "failure", "empty"
    if bundle == old_bundle:
        return "success", "unchanged"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=bundle.decode("ascii"))
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
    """Create a client context for these settings. Raises ``ConfigError`` with entry and reason."""
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


def with_ca_data(settings: TlsSettings) -> TlsSettings:
    """The settings with the content of the CA file instead of its path. Raises ``ConfigError``."""
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
    # Only users with a client certificate pay for these imports (80 ms).
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
    except ValueError as error:
        raise ConfigError(f"{pair.origin} is not a PEM certificate: {pem_errors.error_text(error)}") from error
    if certificate.not_valid_after_utc <= now:
        # The server would reject it anyway, with an alert or a 401 without the reason.
        raise ConfigError(
            f"{pair.origin} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC; get a new kubeconfig or"
            " renew the certificate (and check this machine's clock if that date is in the future)"
        )
    try:
        serialization.load_pem_private_key(pair.key, None)
    except (ValueError, TypeError) as error:
        # Otherwise OpenSSL would prompt for the passphrase of an encrypted key.
        raise ConfigError(
            f"{pair.origin}: its key is not an unencrypted PEM private key: {pem_errors.error_text(error)}"
        ) from error
    # OpenSSL can only load files.
    with temporary.files(pair=pair.key.rstrip() + b"\n" + pair.certificate) as paths:
        try:
            context.load_cert_chain(paths["pair"])
        except ssl.SSLError as error:
            raise ConfigError(f"{pair.origin}: certificate and key do not belong together: {error}") from error


def _read(path: str, origin: str, description: str) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ConfigError(f"{origin}: cannot read the {description} {path}: {error.strerror or error}") from error
