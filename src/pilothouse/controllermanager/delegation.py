"""Who may read the secure port: asked of the API server, answers kept for a while.

Tokens go into a TokenReview, what they may do into a SubjectAccessReview, as the apiserver library's delegating
authenticator and authorizer do (v0.36 ``pkg/authentication/authenticatorfactory``,
``pkg/authorization/authorizerfactory``).
"""

import hashlib
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Env, Log

V = TypeVar("V")

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
_CACHE_ENTRIES = 4096


class User(View, frozen=True):
    """Who is asking."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class _TokenReviewStatus(View, frozen=True):
    authenticated: bool = False
    user: User = User()
    error: str = ""


class _TokenReview(View, frozen=True):
    status: _TokenReviewStatus = _TokenReviewStatus()


class _AccessReviewStatus(View, frozen=True):
    allowed: bool = False
    reason: str = ""


class _AccessReview(View, frozen=True):
    status: _AccessReviewStatus = _AccessReviewStatus()


_TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, _TokenReview)
_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, _AccessReview
)


class _Kept(Generic[V]):
    """Answers by key, each until its own moment; the least recently used go first when there are too many."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._entries: OrderedDict[str, tuple[float, V]] = OrderedDict()

    def get(self, key: str) -> V | None:
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._env.monotonic():
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: str, answer: V, seconds: float) -> None:
        self._entries[key] = (self._env.monotonic() + seconds, answer)
        self._entries.move_to_end(key)
        while len(self._entries) > _CACHE_ENTRIES:
            self._entries.popitem(last=False)


class Authenticator:
    """Tells users by certificate or token.

    Without a client, tokens can't be checked and everybody else is anonymous.
    """

    def __init__(self, env: Env, client: Client | None, *, cache_seconds: float) -> None:
        self._client = client
        self._seconds = cache_seconds
        self._kept: _Kept[User | bool] = _Kept(env)
        self._log = Log("authentication")

    async def user(self, certificate_user: User | None, authorization: str) -> User | None:
        """The user of a request, or None for a credential that is wrong (401). No credential is the anonymous user."""
        if certificate_user is not None:
            return _authenticated(certificate_user)
        scheme, _space, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or self._client is None:
            return User(username=ANONYMOUS, groups=(UNAUTHENTICATED,))
        return await self._review(self._client, token.strip())

    async def _review(self, client: Client, token: str) -> User | None:
        # Only a digest is kept, so that a dump of this process shows no tokens beyond the requests under way.
        key = hashlib.sha256(token.encode()).hexdigest()
        known = self._kept.get(key)
        if known is not None:
            return known if isinstance(known, User) else None
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = (await client.create(_TOKEN_REVIEWS, body)).status
        except (ApiError, ConnectionError, TimeoutError) as error:
            self._log.error("Unable to authenticate the request", error=error)
            return None
        user = _authenticated(status.user) if status.authenticated else None
        self._kept.put(key, user if user is not None else False, self._seconds)
        return user


class Authorizer:
    """Decides whether a user may get a path. Without a client only the always-allowed paths and masters pass."""

    def __init__(
        self,
        env: Env,
        client: Client | None,
        *,
        always_allow_paths: tuple[str, ...],
        authorized_seconds: float,
        unauthorized_seconds: float,
    ) -> None:
        self._client = client
        self._exact = frozenset(_path(p) for p in always_allow_paths if not p.endswith("*"))
        self._prefixes = tuple(_path(p[:-1]) for p in always_allow_paths if p.endswith("*"))
        self._seconds = {True: authorized_seconds, False: unauthorized_seconds}
        self._kept: _Kept[bool] = _Kept(env)
        self._log = Log("authorization")

    async def allows(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may do that."""
        if MASTERS in user.groups or path in self._exact or any(path.startswith(p) for p in self._prefixes):
            return True
        if self._client is None:
            return False
        spec = {
            "user": user.username,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        key = msgspec.json.encode(spec).decode()
        known = self._kept.get(key)
        if known is not None:
            return known
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            allowed = (await self._client.create(_ACCESS_REVIEWS, body)).status.allowed
        except (ApiError, ConnectionError, TimeoutError) as error:
            self._log.error("Failed to make webhook authorizer request", error=error)
            return False
        self._kept.put(key, allowed, self._seconds[allowed])
        return allowed


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))


def _path(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"
