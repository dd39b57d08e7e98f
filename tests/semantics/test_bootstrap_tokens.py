"""Bootstrap token Secrets.

Rows mirror ``pkg/controller/bootstrap/util_test.go`` and cluster-bootstrap's ``util/secrets/secrets_test.go`` of v1.36.
"""

import datetime

from tests.tables import cases

from pilothouse.machinery.times import format_time
from pilothouse.semantics.bootstrap_tokens import id_from_name, seconds_left, signing_secret, text_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ID, SECRET = "abc123", "tokenSecret"
HOUR = datetime.timedelta(hours=1)


def data(
    token_id: str = ID, secret: str = SECRET, signs: str = "true", expiration: str = ""
) -> dict[str, bytes | None]:
    """A token's data."""
    return {
        "token-id": token_id.encode(),
        "token-secret": secret.encode(),
        "usage-bootstrap-signing": signs.encode(),
        "expiration": expiration.encode(),
    }


@cases(
    "name, signed, expected",
    {
        "no expiration": ("bootstrap-token-abc123", data(), True),
        "not expired": ("bootstrap-token-abc123", data(expiration=format_time(NOW + HOUR)), True),
        "expired": ("bootstrap-token-abc123", data(expiration=format_time(NOW - HOUR)), False),
        "expires now": ("bootstrap-token-abc123", data(expiration=format_time(NOW)), False),
        "invalid expiration": ("bootstrap-token-abc123", data(expiration="garbage"), False),
        "invalid expiration, no signing usage": ("bootstrap-token-abc123", data(signs="", expiration="garbage"), False),
        "no signing usage": ("bootstrap-token-abc123", data(signs=""), False),
        "only true is true": ("bootstrap-token-abc123", data(signs="True"), False),
        "missing token-id": ("bootstrap-token-abc123", data(token_id=""), False),
        "missing token-secret": ("bootstrap-token-abc123", data(secret=""), False),
        "a secret that is null": ("bootstrap-token-abc123", {**data(), "token-secret": None}, False),
        "no data": ("bootstrap-token-abc123", {}, False),
        "a name without prefix": ("abc123", data(), False),
        "the name of another token": ("bootstrap-token-def456", data(), False),
    },
)
def test_tokens_for_signing(name: str, signed: dict[str, bytes | None], expected: bool) -> None:
    assert signing_secret(name, signed, NOW) == ((ID, SECRET.encode()) if expected else None)


@cases(
    "name, expected",
    {
        "valid": ("bootstrap-token-abc123", "abc123"),
        "empty": ("", None),
        "missing prefix": ("abc123", None),
        "missing token ID": ("bootstrap-token-", None),
        "too short": ("bootstrap-token-abc", None),
        "too long": ("bootstrap-token-abc123ghi", None),
        "capitals": ("bootstrap-token-ABC123", None),
        "trailing newline": ("bootstrap-token-abc123\n", None),
    },
)
def test_token_id_of_a_secret_name(name: str, expected: str | None) -> None:
    assert id_from_name(name) == expected


@cases(
    "expiration, expected",
    {
        "empty expiration": ("", None),
        "in ten seconds": ("2026-01-01T00:00:10Z", 10.0),
        "in ten seconds, other time zone": ("2026-01-01T01:00:10+01:00", 10.0),
        "a second ago": ("2025-12-31T23:59:59Z", 0.0),
        "now": ("2026-01-01T00:00:00Z", 0.0),
        "a date is no time": ("2026-01-02", 0.0),
        "time without zone": ("2026-01-02T00:00:00", 0.0),
    },
)
def test_token_expiration(expiration: str, expected: float | None) -> None:
    assert seconds_left(expiration, NOW) == expected


def test_non_utf8_value_matches_no_token() -> None:
    assert text_of({"token-id": b"\xff\xfe"}, "token-id") == "\ufffd\ufffd"
    assert text_of({}, "token-id") == ""
