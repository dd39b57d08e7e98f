"""Sessions of the page: who logged in with a token that the administrator was given may read it.

A token is valid for one login, within some minutes. A session needs two secrets: a cookie that scripts cannot read, and
a key that the page keeps in the storage of its origin and sends as a header. Cookies ignore ports, so another server of
this machine that the browser visits may receive the cookie, but not the key. Forms and images of other sites cannot
send the header.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable

import msgspec

TOKEN_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
MAX_TOKENS = 8
MAX_SESSIONS = 16
_BYTES = 32
_LONGEST = 256
"""Characters of a secret that is compared; valid ones have 43."""


class Session(msgspec.Struct, frozen=True, eq=False):
    """A logged-in browser; ``ends_at`` is monotonic time."""

    cookie: str
    key: str
    ends_at: float


class Sessions:
    """The unused tokens and the sessions, all of the same user. Both are bounded in number and time: of too many, the
    oldest ends."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens: dict[str, float] = {}
        self._sessions: dict[str, Session] = {}
        """By the digest of the cookie, so that the time of a comparison reveals nothing about the secret."""

    def new_token(self) -> str:
        """Create a token for one login."""
        self._expire()
        while len(self._tokens) >= MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_BYTES)
        self._tokens[_digest(token)] = self._monotonic() + TOKEN_SECONDS
        return token

    def log_in(self, token: str) -> Session | None:
        """Exchange a token for a new session; None if the token is invalid, used or expired."""
        self._expire()
        if len(token) > _LONGEST or self._tokens.pop(_digest(token), None) is None:
            return None
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = Session(
            secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES), self._monotonic() + SESSION_SECONDS
        )
        self._sessions[_digest(session.cookie)] = session
        return session

    def find(self, cookie: str, key: str) -> Session | None:
        """The session with both secrets; None if there is none."""
        self._expire()
        if len(cookie) > _LONGEST or len(key) > _LONGEST:
            return None
        session = self._sessions.get(_digest(cookie))
        if session is None or not hmac.compare_digest(session.key.encode(), key.encode()):
            return None
        return session

    def is_valid(self, session: Session) -> bool:
        """Whether the session has not ended since."""
        return session.ends_at > self._monotonic() and self._sessions.get(_digest(session.cookie)) is session

    def log_out(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(_digest(session.cookie), None)

    def _expire(self) -> None:
        now = self._monotonic()
        self._tokens = {token: ends_at for token, ends_at in self._tokens.items() if ends_at > now}
        self._sessions = {cookie: session for cookie, session in self._sessions.items() if session.ends_at > now}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
