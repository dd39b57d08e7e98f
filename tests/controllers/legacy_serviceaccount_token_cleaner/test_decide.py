"""Cleanup of unused legacy tokens.

Rows mirror ``TestLegacyServiceAccountTokenCleanUp``, v1.36
``pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner_test.go``; its clock is the time of the test run,
ours 1 March 2023.
"""

import datetime
from pathlib import Path

import pytest
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.core import Secret, SecretReference, ServiceAccount
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import LegacyTokenCleanerOptions
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner.decide import (
    Action,
    CleanUpTime,
    account_key,
    decide,
    is_tracked_long_enough,
    parse_date,
)
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, INVALID_SINCE, LAST_USED, SECRET_TYPE

NOW = datetime.datetime(2023, 3, 1, 12, tzinfo=datetime.UTC)
DAY = 24 * 3600.0
MOMENT = CleanUpTime(NOW, 30 * DAY)
"""Whatever was before 30 January, noon, is long ago."""
ACCOUNT = ServiceAccount(
    metadata=ObjectMeta(name="default", namespace="default", uid="12345"), secrets=(SecretReference(name="t"),)
)
BARE = ServiceAccount(metadata=ACCOUNT.metadata)

_WHAT, _TRACKED = "test_legacy_service_account_token_clean_up", "test_no_cleanup_before_tracking_for_one_period"
_MAP = "test_nothing_is_cleaned_without_a_tracking_start_date"
_GENERATED, _USED = "auto-generated secret", "the time period since last-used is larger than CleanUpPeriod"
_NEVER = f"{_GENERATED} does not have 'last-used' label"

COVERED: Cases = {
    "configmap does not exist": _MAP,
    "configmap exists, but the configmap does not have tracked-since label": _MAP,
    "configmap exists, the time period since 'tracked-since' is smaller than the CleanUpPeriod": _TRACKED,
    "configmap exists, the 'tracked-since' cannot be parsed": _MAP,
    "secret is not SecretTypeServiceAccountToken type": _WHAT,
    "secret is not referenced by serviceaccount": _WHAT,
    f"{_GENERATED} has a late creation time": _WHAT,
    f"{_GENERATED} has a deletion time": _WHAT,
    f"{_GENERATED} has a late last-used time": _WHAT,
    f"{_GENERATED} has a last-used label, but it can not be parsed": _WHAT,
    "secret-referenced service account does not exist": _WHAT,
    "secret-referenced service account uid does not match": _WHAT,
    "secret-referenced service account name is empty": "test_secret_without_a_service_account_annotation",
    f"{_NEVER}, has not been marked as invalid": _WHAT,
    f"{_NEVER}, has been marked as invalid, invalid_since label can not be parsed": _WHAT,
    f"{_NEVER}, has been marked as invalid, time period since invalid is less than CleanUpPeriod": _WHAT,
    f"{_NEVER}, has been marked as invalid, time period since invalid is larger than CleanUpPeriod": _WHAT,
    f"{_GENERATED} is mounted by the pod": _WHAT,
    f"{_GENERATED} has 'last-used' label, {_USED}, secret has not been marked as invalid": _WHAT,
    f"{_GENERATED} has 'last-used' label, {_USED}, marked as invalid for less than CleanUpPeriod": _WHAT,
    f"{_GENERATED} has 'last-used' label, {_USED}, marked as invalid for longer than CleanUpPeriod": _WHAT,
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def secret(
    *,
    used: str = "2023-01-15",
    invalid: str = "",
    token_secret: str = "2023-01-01",
    name: str = "t",
    uid: str = "12345",
    kind: str = SECRET_TYPE,
    going: bool = False,
) -> Secret:
    """A Secret that has not been used since 15 January."""
    labels = {key: value for key, value in ((LAST_USED, used), (INVALID_SINCE, invalid)) if value}
    meta = ObjectMeta(
        name=name,
        namespace="default",
        labels=labels,
        annotations={ACCOUNT_NAME: "default", ACCOUNT_UID: uid},
        creation_timestamp=datetime.datetime.fromisoformat(f"{token_secret}T00:00:00+00:00"),
        deletion_timestamp=NOW if going else None,
    )
    return Secret(metadata=meta, type=kind)


@cases(
    "tokens, account, pods, expected",
    {
        "unused for the period": (secret(), ACCOUNT, set(), Action.MARK),
        "never used": (secret(used=""), ACCOUNT, set(), Action.MARK),
        "reference without uid": (secret(uid=""), ACCOUNT, set(), Action.MARK),
        "used on the last day of the period": (secret(used="2023-01-30"), ACCOUNT, set(), Action.NOTHING),
        "used on the day before that": (secret(used="2023-01-29"), ACCOUNT, set(), Action.MARK),
        "used lately": (secret(used="2023-02-20"), ACCOUNT, set(), Action.NOTHING),
        "invalid last-used date": (secret(used="2023-01-15-1"), ACCOUNT, set(), Action.NOTHING),
        "created recently": (secret(token_secret="2023-01-31"), ACCOUNT, set(), Action.NOTHING),
        "being deleted": (secret(going=True), ACCOUNT, set(), Action.NOTHING),
        "secret of another type": (secret(kind="Opaque"), ACCOUNT, set(), Action.NOTHING),
        "created manually: not referenced by its account": (secret(), BARE, set(), Action.NOTHING),
        "account lists another secret": (secret(name="other"), ACCOUNT, set(), Action.NOTHING),
        "account deleted": (secret(), None, set(), Action.NOTHING),
        "account recreated": (secret(uid="123456"), ACCOUNT, set(), Action.NOTHING),
        "a pod uses it": (secret(), ACCOUNT, {"t"}, Action.NOTHING),
        "a pod uses another one": (secret(), ACCOUNT, {"u"}, Action.MARK),
        "marked lately": (secret(invalid="2023-02-20"), ACCOUNT, set(), Action.NOTHING),
        "marked on the last day of the period": (secret(invalid="2023-01-30"), ACCOUNT, set(), Action.NOTHING),
        "marked on the day before that": (secret(invalid="2023-01-29"), ACCOUNT, set(), Action.DELETE),
        "never used, marked long ago": (secret(used="", invalid="2023-01-15"), ACCOUNT, set(), Action.DELETE),
        "invalid date of the mark": (secret(invalid="2023-01-15-1"), ACCOUNT, set(), Action.MARK),
        "marked, and a pod uses it now": (secret(invalid="2023-01-15"), ACCOUNT, {"t"}, Action.NOTHING),
        "marked, and used again": (secret(used="2023-02-20", invalid="2023-01-15"), ACCOUNT, set(), Action.NOTHING),
    },
)
def test_legacy_service_account_token_clean_up(
    tokens: Secret, account: ServiceAccount | None, pods: set[str], expected: Action
) -> None:
    assert decide(tokens, account, pods, MOMENT) is expected


@cases(
    "since, expected",
    {
        "since the end of that day": ("2023-01-28", True),
        "since noon before that": ("2023-01-29", True),
        "half a day too early": ("2023-01-30", False),
        "since lately": ("2023-02-20", False),
        "since the end of days": ("9999-12-31", False),
    },
)
def test_no_cleanup_before_tracking_for_one_period(since: str, expected: bool) -> None:
    assert is_tracked_long_enough(datetime.date.fromisoformat(since), MOMENT) is expected


def test_huge_period_cleans_nothing() -> None:
    for_ever = CleanUpTime(NOW, 10_000 * 365 * DAY)
    assert decide(secret(), ACCOUNT, set(), for_ever) is Action.NOTHING
    assert not is_tracked_long_enough(datetime.date(2000, 1, 1), for_ever)


@pytest.mark.parametrize("text", ["", "2023-1-5", "2023-13-01", "2023-01-01-1", "20230101", "2023-W01-1", "soon"])
def test_invalid_dates(text: str) -> None:
    assert parse_date(text) is None


def test_secret_without_a_service_account_annotation() -> None:
    assert account_key(Secret(metadata=ObjectMeta(name="t", namespace="default"))) == ""
    assert account_key(secret()) == "default/default"


@pytest.mark.parametrize(
    ("period", "errors"),
    [(1.0, []), (0.0, ["invalid CleanUpPeriod: 0s"]), (-60.0, ["invalid CleanUpPeriod: -1m0s"])],
    ids=["a period", "zero", "a negative one"],
)
def test_period_must_be_positive(period: float, errors: list[str]) -> None:
    assert LegacyTokenCleanerOptions(period=period).validate() == errors
