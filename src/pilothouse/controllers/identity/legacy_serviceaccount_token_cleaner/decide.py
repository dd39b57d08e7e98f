"""What to do with an auto-generated token. Pure. Upstream: v1.36
``pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go``.

Dates are compared as text, as upstream does: ``2026-01-31`` comes before ``2026-02-01``.
"""

import datetime
import enum
import re
from collections.abc import Set

import msgspec

from pilothouse.api.core import Secret, ServiceAccount
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, INVALID_SINCE, LAST_USED, SECRET_TYPE

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Action(enum.Enum):
    NOTHING = "nothing"
    MARK = "mark"
    """Its token must not be accepted any more."""
    DELETE = "delete"
    """It was marked long ago, and is still unused."""


class CleanUpTime(msgspec.Struct, frozen=True):
    now: datetime.datetime
    period: float

    @property
    def oldest(self) -> datetime.datetime:
        try:
            return self.now - datetime.timedelta(seconds=self.period)
        except OverflowError:
            return datetime.datetime.min.replace(tzinfo=datetime.UTC)

    @property
    def oldest_date(self) -> str:
        return self.oldest.date().isoformat()


def parse_date(text: str) -> datetime.date | None:
    """A date in the API server's format, else None."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def is_tracked_long_enough(since: datetime.date, at: CleanUpTime) -> bool:
    """Whether usage was tracked for a whole period. Tracking may have started as late as the end of that day."""
    try:
        first_full_day = datetime.datetime.combine(since + datetime.timedelta(days=1), datetime.time(), datetime.UTC)
    except OverflowError:
        return False
    return first_full_day <= at.oldest


def is_unused(secret: Secret, at: CleanUpTime) -> bool:
    """Whether the token is old and was not used recently. If it was never used since tracking started there is no
    label; a label that is not a date counts as used."""
    meta = secret.metadata
    created = meta.creation_timestamp
    if secret.type != SECRET_TYPE or meta.deletion_timestamp is not None:
        return False
    if created is not None and created >= at.oldest:
        return False
    used = meta.labels.get(LAST_USED)
    return used is None or (parse_date(used) is not None and used < at.oldest_date)


def account_key(secret: Secret) -> str:
    name = secret.metadata.annotations.get(ACCOUNT_NAME)
    return f"{secret.metadata.namespace}/{name}" if name else ""


def is_auto_generated(secret: Secret, account: ServiceAccount | None) -> bool:
    """Whether it was generated: then its service account lists it."""
    if account is None or secret.metadata.annotations.get(ACCOUNT_UID, "") not in ("", account.metadata.uid):
        return False
    return any(listed.name == secret.metadata.name for listed in account.secrets)


def decide(secret: Secret, account: ServiceAccount | None, used_by_pods: Set[str], at: CleanUpTime) -> Action:
    if not is_unused(secret, at) or not is_auto_generated(secret, account) or secret.metadata.name in used_by_pods:
        return Action.NOTHING
    since = secret.metadata.labels.get(INVALID_SINCE, "")
    if parse_date(since) is None:
        return Action.MARK
    return Action.DELETE if since < at.oldest_date else Action.NOTHING
