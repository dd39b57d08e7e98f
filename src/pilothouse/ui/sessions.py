"""Who may read the page: those who came with a token that the administrator was given, for as long as their session.

A token is good for one login, within some minutes. A session is known by two secrets that must come together: a cookie
that scripts cannot read, and a key that the page keeps in the storage of its origin and sends as a header. Cookies
don't know ports, so any other server of this machine that the browser visits may get the cookie; the key it does not
get. And a header of its own is nothing that a form or an image of another site can send.
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
"""Characters of a secret that is worth a comparison; ours have 43."""


class Session(msgspec.Struct, frozen=True, eq=False):
    """Somebody who has logged in; ``ends_at`` is monotonic time."""

    cookie: str
    key: str
    ends_at: float


class Sessions:
    """The tokens that have not been used, and the sessions, all of the same user. Both are bounded in number and time:
    of too many, the oldest ends."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._tokens: dict[str, float] = {}
        self._sessions: dict[str, Session] = {}
        """By the digest of the cookie: a comparison that ends early says nothing about the secret."""

    def new_token(self) -> str:
        """A token for one login."""
        self._expire()
        while len(self._tokens) >= MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_BYTES)
        self._tokens[_digest(token)] = self._monotonic() + TOKEN_SECONDS
        return token

    def log_in(self, token: str) -> Session | None:
        """A new session for a token, which is used up by that; None if it is none, or none any more."""
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
        """The session with both secrets."""
        self._expire()
        if len(cookie) > _LONGEST or len(key) > _LONGEST:
            return None
        session = self._sessions.get(_digest(cookie))
        if session is None or not hmac.compare_digest(session.key.encode(), key.encode()):
            return None
        return session

    def is_valid(self, session: Session) -> bool:
        """Whether it has not ended since it was found."""
        return session.ends_at > self._monotonic() and self._sessions.get(_digest(session.cookie)) is session

    def log_out(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(_digest(session.cookie), None)

    def _expire(self) -> None:
        now = self._monotonic()
        self._tokens = {token: ends_at for token, ends_at in self._tokens.items() if ends_at > now}
        self._sessions = {cookie: found for cookie, found in self._sessions.items() if found.ends_at > now}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
