"""Authentication: bearer tokens, client certificates, service account tokens, anonymous requests.

``asgi`` calls it with the headers of the request and the verified client certificate. Invalid credentials are rejected,
never treated as anonymous (apiserver ``pkg/authentication``, v0.36).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from pilothouse.apiserver.authentication.identity import ALL_AUTHENTICATED, ANONYMOUS, Identity
from pilothouse.apiserver.errors import StatusError
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import csv

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509 import oid

_UID_OID = "1.3.6.1.4.1.57683.2"


class TokenAuthenticator(Protocol):
    """Authenticates one kind of bearer token (``authenticator.Token``)."""

    def identity(self, token: str) -> Identity | None:
        """The user of the token, or None if it is not a valid token of this kind."""
        ...


def unauthorized() -> StatusError:
    """401: credentials are invalid, or missing and required."""
    return StatusError(401, "Unauthorized", "Unauthorized")


class StaticTokenAuthenticator:
    """Tokens from ``--token-auth-file``."""

    def __init__(self, tokens: Mapping[str, Identity]) -> None:
        self._tokens = dict(tokens)

    @staticmethod
    def read(text: str) -> "StaticTokenAuthenticator":
        """Parse a ``--token-auth-file``: lines of token, user, uid and, quoted, groups.

        Raises ``ValueError`` for a line with fewer than three columns.
        """
        tokens: dict[str, Identity] = {}
        for row in csv.reader(text.splitlines(), skipinitialspace=True):
            if not row:
                continue
            if len(row) < 3:
                raise ValueError(f"a token line needs token, user and uid, this one has {len(row)} columns")
            token, user, uid, *groups = row
            tokens[token] = Identity(
                user, tuple(group for group in groups[0].split(",") if group) if groups else (), uid
            )
        return StaticTokenAuthenticator(tokens)

    def identity(self, token: str) -> Identity | None:
        """The user of the token."""
        return self._tokens.get(token)


@lru_cache(maxsize=1024)
def certificate_identity(certificate: bytes) -> Identity | None:
    """The user (common name) and groups (organizations) of a certificate in DER or PEM; None if it has no decodable
    name.

    The chain must have been verified; the extended key usage is checked here.
    """
    try:
        return _certificate_identity(certificate)
    except ValueError:
        return None


def _certificate_identity(certificate: bytes) -> Identity | None:
    if certificate.lstrip().startswith(b"-----BEGIN"):
        parsed = x509.load_pem_x509_certificate(certificate)
    else:
        parsed = x509.load_der_x509_certificate(certificate)
    if not _is_for_clients(parsed):
        return None
    names = parsed.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)
    if not names or not names[0].value:
        return None
    groups = [
        str(organization.value) for organization in parsed.subject.get_attributes_for_oid(oid.NameOID.ORGANIZATION_NAME)
    ]
    uids = parsed.subject.get_attributes_for_oid(x509.ObjectIdentifier(_UID_OID))
    digest = parsed.fingerprint(hashes.SHA256()).hex()
    return Identity(
        str(names[0].value),
        tuple(groups),
        str(uids[0].value) if uids else "",
        {"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)},
    )


def _is_for_clients(certificate: "x509.Certificate") -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # without the extension every usage is allowed (Go's x509.Certificate.Verify)
    return not {oid.ExtendedKeyUsageOID.CLIENT_AUTH, oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}.isdisjoint(usages)


class Authenticator:
    """Tries the certificate, then bearer tokens. ``token_authenticators`` are tried in order."""

    def __init__(self, token_authenticators: Iterable[TokenAuthenticator] = (), *, anonymous: bool = True) -> None:
        self.token_authenticators = list(token_authenticators)
        self._anonymous = anonymous

    def token_identity(self, token: str) -> Identity | None:
        """The user of the token, with the group system:authenticated."""
        for authenticator in self.token_authenticators:
            identity = authenticator.identity(token)
            if identity is not None:
                return authenticated(identity)
        return None

    def identity(self, headers: Mapping[str, str], certificate: bytes | None = None) -> Identity:
        """Authenticate a request with these headers over a connection with this verified certificate.

        Raises ``StatusError`` 401.
        """
        if certificate is not None:
            identity = certificate_identity(certificate)
            if identity is not None:
                return authenticated(identity)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token.strip():
            identity = self.token_identity(token.strip())
            if identity is None:
                raise unauthorized()
            return identity
        if not self._anonymous:
            raise unauthorized()
        return ANONYMOUS


@lru_cache(maxsize=1024)
def _with_group(user: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    return groups if ALL_AUTHENTICATED in groups else (*groups, ALL_AUTHENTICATED)


def authenticated(identity: Identity) -> Identity:
    """The identity with the group of all authenticated users."""
    groups = _with_group(identity.user, identity.groups)
    if groups is identity.groups:
        return identity
    return Identity(identity.user, groups, identity.uid, identity.extra)
