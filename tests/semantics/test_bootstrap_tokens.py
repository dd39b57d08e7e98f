"""What bootstrap tokens say. Rows mirror ``pkg/controller/bootstrap/util_test.go`` and cluster-bootstrap's
``util/secrets/secrets_test.go`` of v1.36."""

import datetime

import pytest

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


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        pytest.param("bootstrap-token-abc123", data(), True, id="without an end"),
        pytest.param("bootstrap-token-abc123", data(expiration=format_time(NOW + HOUR)), True, id="not over yet"),
        pytest.param("bootstrap-token-abc123", data(expiration=format_time(NOW - HOUR)), False, id="over"),
        pytest.param("bootstrap-token-abc123", data(expiration=format_time(NOW)), False, id="over now"),
        pytest.param("bootstrap-token-abc123", data(expiration="garbage"), False, id="an end that nobody can read"),
        pytest.param("bootstrap-token-abc123", data(signs="", expiration="garbage"), False, id="neither may it sign"),
        pytest.param("bootstrap-token-abc123", data(signs=""), False, id="it may not sign"),
        pytest.param("bootstrap-token-abc123", data(signs="True"), False, id="only true is true"),
        pytest.param("bootstrap-token-abc123", data(token_id=""), False, id="no id"),
        pytest.param("bootstrap-token-abc123", data(secret=""), False, id="no secret"),
        pytest.param("bootstrap-token-abc123", {**data(), "token-secret": None}, False, id="a secret that is null"),
        pytest.param("bootstrap-token-abc123", {}, False, id="no data"),
        pytest.param("abc123", data(), False, id="a name without prefix"),
        pytest.param("bootstrap-token-def456", data(), False, id="the name of another token"),
    ],
)
def test_which_tokens_may_sign(name: str, found: dict[str, bytes | None], expected: bool) -> None:
    assert signing_secret(name, found, NOW) == ((ID, SECRET.encode()) if expected else None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("bootstrap-token-abc123", "abc123", id="as it should be"),
        pytest.param("", None, id="empty"),
        pytest.param("abc123", None, id="no prefix"),
        pytest.param("bootstrap-token-", None, id="no id"),
        pytest.param("bootstrap-token-abc", None, id="too short"),
        pytest.param("bootstrap-token-abc123ghi", None, id="too long"),
        pytest.param("bootstrap-token-ABC123", None, id="capitals"),
        pytest.param("bootstrap-token-abc123\n", None, id="more lines"),
    ],
)
def test_ids_in_names(name: str, expected: str | None) -> None:
    assert id_from_name(name) == expected


@pytest.mark.parametrize(
    ("expiration", "expected"),
    [
        pytest.param("", None, id="no end"),
        pytest.param("2026-01-01T00:00:10Z", 10.0, id="in ten seconds"),
        pytest.param("2026-01-01T01:00:10+01:00", 10.0, id="in ten seconds, elsewhere"),
        pytest.param("2025-12-31T23:59:59Z", 0.0, id="a second ago"),
        pytest.param("2026-01-01T00:00:00Z", 0.0, id="now"),
        pytest.param("2026-01-02", 0.0, id="a date is no time"),
        pytest.param("2026-01-02T00:00:00", 0.0, id="a time of nowhere"),
    ],
)
def test_how_long_a_token_is_good(expiration: str, expected: float | None) -> None:
    assert seconds_left(expiration, NOW) == expected


def test_a_value_that_is_no_text_reads_as_one_that_nobody_has() -> None:
    assert text_of({"token-id": b"\xff\xfe"}, "token-id") == "\ufffd\ufffd"
    assert text_of({}, "token-id") == ""
