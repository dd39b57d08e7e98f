"""Authentication of the secure port: a front proxy's headers, a client certificate, a bearer token, or anonymous.

The order of authenticators and the handling of invalid credentials are those of the apiserver library's delegating
authenticator (v0.36 ``pkg/authentication/authenticatorfactory/delegating.go``): authenticators are tried in order, and
the first that identifies the user wins. If none does, an invalid credential is a 401, and no credential is the
anonymous user. ``client_trust`` has the CAs, ``delegation`` reviews tokens.
"""

import hashlib
from collections.abc import Callable, Iterable
from urllib.parse import unquote

import msgspec

from pilothouse.controllermanager.client_trust import ClientTrust, RequestHeaderConfig
from pilothouse.controllermanager.delegation import ReviewFailed, TokenReviews, User
from pilothouse.env import Env, Log
from pilothouse.serving.client_certificates import Authorities
from pilothouse.serving.peer import Peer

ANONYMOUS = User(username="system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"

Headers = Iterable[tuple[bytes, bytes]]


class _InvalidCredential(Exception):
    """An invalid credential."""


class Authenticator:
    """Authenticates requests by front proxy headers, client certificate or bearer token, in this order.

    Without ``tokens`` bearer tokens are not read; ``certificate_uids`` is the gate ``AllowParsingUserUIDFromCertAuth``.
    """

    def __init__(
        self, env: Env, trust: ClientTrust, tokens: TokenReviews | None, *, certificate_uids: bool = True
    ) -> None:
        self._env = env
        self._certificate_uids = certificate_uids
        self._trust = trust
        self._tokens = tokens
        self._log = Log("authentication")

    async def user(self, peer: Peer | None, headers: Headers) -> User | None:
        """The user of a request; None for an invalid credential (401). Without a credential it is the anonymous
        user."""
        self._trust.reload()
        request_headers = _RequestHeaders(headers)
        errors = []
        authenticators: tuple[Callable[[], User | None], ...] = (
            lambda: self._authenticate_request_header(peer, request_headers),
            lambda: self._authenticate_x509(peer),
        )
        for authenticate in authenticators:
            try:
                user = authenticate()
            except _InvalidCredential as error:
                errors.append(str(error))
            else:
                if user is not None:
                    return _with_authenticated_group(user)
        token = request_headers.bearer_token()
        if token and self._tokens is not None:
            try:
                by_token = await self._tokens.user(token)
            except ReviewFailed as error:
                errors.append(str(error))
            else:
                if by_token is not None:
                    return _with_authenticated_group(by_token)
                errors.append("invalid bearer token")
        if errors:
            self._log.error("Unable to authenticate the request", err=f"[{', '.join(errors)}]")
            return None
        return ANONYMOUS

    def _authenticate_request_header(self, peer: Peer | None, headers: "_RequestHeaders") -> User | None:
        proxies = self._trust.proxies
        if peer is None or proxies is None:
            return None
        self._verify(proxies.authorities, peer)
        if proxies.allowed_names and peer.common_name not in proxies.allowed_names:
            raise _InvalidCredential(f"x509: subject with cn={peer.common_name} is not in the allowed list")
        return headers.user(proxies)

    def _authenticate_x509(self, peer: Peer | None) -> User | None:
        authorities = self._trust.clients
        if peer is None or authorities is None:
            return None
        self._verify(authorities, peer)
        if not peer.common_name:
            return None
        digest = hashlib.sha256(peer.certificate).hexdigest()
        return User(
            username=peer.common_name,
            uid=_uid_of(peer) if self._certificate_uids else "",
            groups=peer.organizations,
            extra={_CREDENTIAL: (f"X509SHA256={digest}",)},
        )

    def _verify(self, authorities: Authorities, peer: Peer) -> None:
        verification_error = authorities.verification_error(peer.chain or (peer.certificate,), self._env.now())
        if verification_error is not None:
            raise _InvalidCredential(
                f"verifying certificate of {peer.common_name!r} failed: x509: {verification_error}"
            )


def _uid_of(peer: Peer) -> str:
    """The uid in a certificate, "" without one (``authentication/request/x509``, ``parseUIDFromCert``, v0.36)."""
    if len(peer.uids) > 1:
        raise _InvalidCredential(f"expected 1 UID, but found multiple: [{' '.join(peer.uids)}]")
    if peer.uids == ("",):
        raise _InvalidCredential("UID cannot be an empty string")
    return peer.uids[0] if peer.uids else ""


class _RequestHeaders:
    """The headers of one request, for authentication."""

    def __init__(self, headers: Headers) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def bearer_token(self) -> str:
        scheme, _space, token = self._first(("authorization",)).strip().partition(" ")
        return token.strip().partition(" ")[0] if scheme.lower() == "bearer" else ""

    def user(self, proxies: RequestHeaderConfig) -> User | None:
        """The user in the headers of a front proxy (``authentication/request/headerrequest``, v0.36)."""
        name = self._first(proxies.username_headers)
        if not name:
            return None
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in proxies.extra_headers_prefix:
            for header, values in self._values.items():
                if header.startswith(prefix.lower()):
                    key = unquote(header[len(prefix) :])
                    extra[key] = (*extra.get(key, ()), *values)
        groups = [value for header in proxies.group_headers for value in self._values.get(header.lower(), ())]
        return User(username=name, uid=self._first(proxies.uid_headers), groups=tuple(groups), extra=extra)

    def _first(self, names: Iterable[str]) -> str:
        for name in names:
            for value in self._values.get(name.lower(), ())[:1]:
                if value:
                    return value
        return ""


def _with_authenticated_group(user: User) -> User:
    if AUTHENTICATED in user.groups or "system:unauthenticated" in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))
