"""Tokens are valid once and expire; sessions need both secrets; both are limited in number."""

from pilothouse.ui.sessions import MAX_SESSIONS, MAX_TOKENS, SESSION_SECONDS, TOKEN_SECONDS, Sessions


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_token_is_valid_once() -> None:
    sessions = Sessions(Time())
    token = sessions.new_token()
    assert sessions.log_in(token) is not None
    assert sessions.log_in(token) is None


def test_token_expires() -> None:
    time = Time()
    sessions = Sessions(time)
    early, late = sessions.new_token(), sessions.new_token()
    time.now = TOKEN_SECONDS - 1
    assert sessions.log_in(early) is not None
    time.now = TOKEN_SECONDS
    assert sessions.log_in(late) is None


def test_invalid_token_is_rejected() -> None:
    sessions = Sessions(Time())
    token = sessions.new_token()
    for guess in ("", "x", token[:-1], token + "x", token.swapcase(), "x" * 100_000, "\udcff"):
        assert sessions.log_in(guess) is None
    assert sessions.log_in(token) is not None


def test_a_session_needs_both_secrets() -> None:
    sessions = Sessions(Time())
    session, other = (sessions.log_in(sessions.new_token()) for _ in range(2))
    assert session is not None
    assert other is not None
    assert sessions.find(session.cookie, session.key) is session
    for cookie, key in (
        ("", ""),
        (session.cookie, ""),
        ("", session.key),
        (session.cookie, other.key),
        (session.key, session.cookie),
    ):
        assert sessions.find(cookie, key) is None
    assert sessions.find(session.cookie, "é") is None


def test_session_expires() -> None:
    time = Time()
    sessions = Sessions(time)
    session = sessions.log_in(sessions.new_token())
    assert session is not None
    time.now = SESSION_SECONDS - 1
    assert sessions.is_valid(session)
    time.now = SESSION_SECONDS
    assert not sessions.is_valid(session)
    assert sessions.find(session.cookie, session.key) is None


def test_session_can_be_ended() -> None:
    sessions = Sessions(Time())
    session = sessions.log_in(sessions.new_token())
    assert session is not None
    sessions.log_out(session)
    assert not sessions.is_valid(session)
    assert sessions.find(session.cookie, session.key) is None


def test_oldest_session_ends_above_the_limit() -> None:
    sessions = Sessions(Time())
    tokens = [sessions.new_token() for _ in range(MAX_TOKENS + 1)]
    assert sessions.log_in(tokens[0]) is None
    result = [sessions.log_in(token) for token in tokens[1:]]
    result += [sessions.log_in(sessions.new_token()) for _ in range(MAX_SESSIONS + 1 - len(result))]
    valid = [item is not None and sessions.is_valid(item) for item in result]
    assert valid == [False] + [True] * MAX_SESSIONS
