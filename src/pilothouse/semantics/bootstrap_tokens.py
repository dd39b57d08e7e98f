"""Bootstrap tokens: Secrets by which a new machine authenticates and verifies the cluster. Pure.

After cluster-bootstrap's ``token/api`` and ``util/secrets`` (v1.36). The API server logs people in by them; controllers
sign for their holders and clean up after them.
"""

import datetime
import re
from collections.abc import Mapping

from pilothouse.machinery.times import TimeError, parse_time

SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105  # the name of a type
NAMESPACE = "kube-system"
TOKEN_ID, TOKEN_SECRET, EXPIRATION = "token-id", "token-secret", "expiration"  # names of fields
FOR_SIGNING, FOR_LOGIN, GROUPS = "usage-bootstrap-signing", "usage-bootstrap-authentication", "auth-extra-groups"

_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


def text_of(data: Mapping[str, bytes | None], key: str) -> str:
    """A value of the Secret, "" if it is missing. A value that is not text is replaced by a text that no token
    matches."""
    value = data.get(key)
    return "" if value is None else value.decode(errors="replace")


def id_from_name(name: str) -> str | None:
    """The token ID in the name of a Secret; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else match.group(1)


def seconds_left(expiration: str, now: datetime.datetime) -> float | None:
    """The seconds until the expiration: None without one, 0 if it has passed or cannot be parsed."""
    if not expiration:
        return None
    try:
        return max(0.0, (parse_time(expiration) - now).total_seconds())
    except TimeError:
        return 0.0


def signing_secret(name: str, data: Mapping[str, bytes | None], now: datetime.datetime) -> tuple[str, bytes] | None:
    """ID and secret of a token that may sign now, None for any other Secret."""
    token_id, secret = text_of(data, TOKEN_ID), data.get(TOKEN_SECRET)
    if not token_id or id_from_name(name) != token_id or not secret:
        return None
    if seconds_left(text_of(data, EXPIRATION), now) == 0 or text_of(data, FOR_SIGNING) != "true":
        return None
    return token_id, secret
