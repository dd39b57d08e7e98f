"""Delegated authentication and authorization of requests to the secure port, with caches.

Tokens are authenticated by TokenReviews and requests authorized by SubjectAccessReviews, as in the apiserver library's
webhooks (v0.36 ``plugin/pkg/authenticator/token/webhook``, ``plugin/pkg/authorizer/webhook``). ``authentication`` uses
the first, ``endpoints`` the second.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import View
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, ConnectionLost, InternalError, ServerTimeout, Timeout, TooManyRequests
from pilothouse.env import Env, Log

V = TypeVar("V")

MASTERS = "system:masters"
REQUEST_SECONDS = 10.0
_CACHE_ENTRIES = 4096
_MAX_CACHED_KEY_BYTES = 10_000
"""Reviews with longer attributes are not cached (``webhook.go`` ``maxControlledAttrCacheSize``, v0.36)."""
_TRIES = 5
_FIRST_PAUSE_SECONDS = 0.5
_GROWTH = 1.5
_JITTER = 0.2
_RETRIABLE = (ConnectionLost, InternalError, ServerTimeout, Timeout, TooManyRequests)
"""Errors that are retried (``webhook.DefaultShouldRetry``, v0.36); refused connections are not."""


class User(View, frozen=True):
    """The user of a request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class ReviewFailed(Exception):
    """The API server could not be reached, or did not respond with a result."""


class _TokenReviewStatus(View, frozen=True):
    authenticated: bool = False
    user: User = User()
    error: str = ""


class _TokenReview(View, frozen=True):
    status: _TokenReviewStatus = _TokenReviewStatus()


class ReviewStatus(View, frozen=True):
    """Whether the user is authorized, and the API server's reason."""

    allowed: bool = False
    reason: str = ""


class _AccessReview(View, frozen=True):
    status: ReviewStatus = ReviewStatus()


_TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, _TokenReview)
_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, _AccessReview
)


class _TTLCache(Generic[V]):
    """Results by key with a time to live; above the limit the least recently used are dropped."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._entries: OrderedDict[str, tuple[float, V]] = OrderedDict()

    def get(self, key: str) -> V | None:
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._env.monotonic():
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: str, value: V, seconds: float) -> None:
        self._entries[key] = (self._env.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        while len(self._entries) > _CACHE_ENTRIES:
            self._entries.popitem(last=False)


async def _with_retries(env: Env, request: Callable[[], Awaitable[V]]) -> V:
    """The result; temporary errors are retried, up to five attempts with exponential backoff."""
    rng, pause = env.stream("delegation"), _FIRST_PAUSE_SECONDS
    for attempt in range(_TRIES):
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await request()
        except (ApiError, ConnectionError, TimeoutError) as error:
            if attempt == _TRIES - 1 or not isinstance(error, _RETRIABLE):
                raise ReviewFailed(str(error) or type(error).__name__) from error
        await asyncio.sleep(pause * (1 + rng.random() * _JITTER))
        pause *= _GROWTH
    raise AssertionError("the last try returns or raises")


class TokenReviews:
    """Authenticates bearer tokens."""

    def __init__(self, env: Env, client: Client, *, cache_seconds: float) -> None:
        self._env = env
        self._client = client.limited(REQUEST_SECONDS)
        self._seconds = cache_seconds
        self._cache: _TTLCache[User | bool] = _TTLCache(env)

    async def user(self, token: str) -> User | None:
        """The user of the token, or None if it is not authenticated. Raises ``ReviewFailed``."""
        # Only a hash is stored, so that a dump of this process contains no tokens, except those of current requests.
        key = hashlib.sha256(token.encode()).hexdigest()
        cached = self._cache.get(key)
        if cached is not None:
            return cached if isinstance(cached, User) else None
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await _with_retries(self._env, lambda: self._client.create(_TOKEN_REVIEWS, body))).status
        if status.error and not status.authenticated:
            raise ReviewFailed(status.error)  # as upstream: an error is not cached
        self._cache.put(key, status.user if status.authenticated else False, self._seconds)
        return status.user if status.authenticated else None


class Authorizer:
    """Authorizes requests for paths. Without a client only the always-allowed paths and masters are allowed."""

    def __init__(
        self,
        env: Env,
        client: Client | None,
        *,
        always_allow_paths: tuple[str, ...],
        authorized_seconds: float,
        unauthorized_seconds: float,
    ) -> None:
        self._env = env
        self._client = client.limited(REQUEST_SECONDS) if client is not None else None
        self._exact = frozenset(_path(p) for p in always_allow_paths if not p.endswith("*"))
        self._prefixes = tuple(_path(p[:-1]) for p in always_allow_paths if p.endswith("*"))
        self._seconds = {True: authorized_seconds, False: unauthorized_seconds}
        self._cache: _TTLCache[ReviewStatus] = _TTLCache(env)
        self._log = Log("authorization")

    async def review(self, user: User, verb: str, path: str) -> ReviewStatus:
        """Whether the user may send the request. Raises ``ReviewFailed``."""
        if MASTERS in user.groups or path in self._exact or any(path.startswith(p) for p in self._prefixes):
            return ReviewStatus(allowed=True)
        if self._client is None:
            return ReviewStatus()
        client = self._client
        spec: dict[str, object] = {
            "user": user.username,
            "groups": list(user.groups),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {name: list(user.extra[name]) for name in sorted(user.extra)}
        key = msgspec.json.encode(spec).decode()
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            review = (await _with_retries(self._env, lambda: client.create(_ACCESS_REVIEWS, body))).status
        except ReviewFailed as error:
            self._log.error("Failed to make webhook authorizer request", error=error)
            raise
        if len(key) < _MAX_CACHED_KEY_BYTES:
            self._cache.put(key, review, self._seconds[review.allowed])
        return review


def _path(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"
