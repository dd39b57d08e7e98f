"""The CAs of the signers: read from files, and reloaded when the files change.

If a new pair does not match or cannot be read, the old one stays in use, as upstream (apiserver
``dynamiccertificates/dynamic_serving_content.go``, v0.36). Errors never include the content of a file.
"""

from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pilothouse.controllers.identity.certificatesigningrequest_signing import SigningOptions
from pilothouse.controllers.identity.certificatesigningrequest_signing.issuing import Authority
from pilothouse.env import Log
from pilothouse.machinery.go_text import open_error
from pilothouse.runtime.errors import CannotRun
from pilothouse.semantics.certificate_requests import (
    API_SERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from pilothouse.serving.certificates import Pair

Source = Callable[[], Authority]
"""Returns the current CA."""


_SIGNERS = {
    "kubelet-serving": KUBELET_SERVING,
    "kubelet-client": KUBELET_CLIENT,
    "kube-apiserver-client": API_SERVER_CLIENT,
    "legacy-unknown": LEGACY_UNKNOWN,
}


class InvalidAuthority(Exception):
    """The files do not contain a usable CA."""


def authorities(options: SigningOptions, log: Log) -> dict[str, Source]:
    """The CA of each enabled signer, by its name. Raises ``CannotRun`` if a CA is unusable."""
    sources: dict[str, Source] = {}
    by_files: dict[tuple[str, str], Source] = {}
    if options.pair is not None:
        # Used in place of the default files, for all signers.
        by_files["", ""] = _fixed(authority_of(options.pair))
    for signer_flag, file_pairs in options.own_files().items():
        signer = _SIGNERS[signer_flag]
        files = file_pairs if options.has_own_files else (options.cert_file, options.key_file)
        if not any(files) and files not in by_files:
            log.info("Skipping a CSR signer because files were specified for others and not for it", signer=signer)
            continue
        try:
            if files not in by_files:
                by_files[files] = AuthorityFiles(*files, log).current
        except InvalidAuthority as error:
            raise CannotRun(f"failed to start {signer} certificate controller: {error}") from error
        sources[signer] = by_files[files]
    return sources


def _fixed(authority: Authority) -> Source:
    return lambda: authority


def authority_of(pair: Pair) -> Authority:
    """Parse a CA. Raises ``ValueError``."""
    certificates = x509.load_pem_x509_certificates(pair.certificate)
    if len(certificates) != 1:
        raise ValueError(f"expected 1 certificate, found {len(certificates)}")
    key = serialization.load_pem_private_key(pair.key, None)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise ValueError("unsupported type of private key for signing certificates")  # noqa: TRY004  # about the content of a file
    return Authority(certificates[0], key)


class AuthorityFiles:
    """A certificate and its key in two files. The constructor raises ``InvalidAuthority`` if they are unusable."""

    def __init__(self, certificate: str, key: str, log: Log) -> None:
        self._certificate, self._key, self._log = Path(certificate), Path(key), log
        # Taken before reading, so that a change in between is noticed at the next call.
        self._stamp = self._stamp_now()
        try:
            self._authority = self._read()
        except (OSError, ValueError, UnsupportedAlgorithm) as error:
            reason = open_error(error.filename or certificate, error) if isinstance(error, OSError) else error
            raise InvalidAuthority(f'error reading CA cert file "{certificate}": {reason}') from error

    def current(self) -> Authority:
        """The CA of the last successful load. Reloads the files if they have changed."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._authority = self._read()
            except (OSError, ValueError, UnsupportedAlgorithm) as error:
                self._log.error("Unable to reload the signing authority, keeping the old one", error=error)
            else:
                self._log.info("Reloaded the signing authority", file=str(self._certificate))
        return self._authority

    def _read(self) -> Authority:
        return authority_of(Pair.load(self._certificate, self._key))

    def _stamp_now(self) -> tuple[object, ...]:
        return _stamp(self._certificate), _stamp(self._key)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
