"""Authenticates bootstrap tokens, which are stored in Secrets.

After kubernetes' ``plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go`` and cluster-bootstrap's
``token/{api,util}`` (v1.36).
"""

import base64
import binascii
import datetime
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.semantics.bootstrap_tokens import (
    EXPIRATION,
    FOR_LOGIN,
    GROUPS,
    NAMESPACE,
    SECRET_TYPE,
    TOKEN_ID,
    TOKEN_SECRET,
    seconds_left,
)

FindSecret = Callable[[str, str], Mapping[str, Any] | None]
"""The stored Secret: (namespace, name)."""

_FORM = r"([a-z0-9]{6})\.([a-z0-9]{16})"
_EXTRA_GROUP = r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]"
_GROUP = "system:bootstrappers"


class BootstrapTokenAuthenticator:
    """Authenticates ``<id>.<secret>`` by the Secret kube-system/bootstrap-token-<id>."""

    def __init__(self, find: FindSecret, now: Callable[[], datetime.datetime]) -> None:
        self._find = find
        self._now = now

    def identity(self, token: str) -> Identity | None:
        """The user of the token, or None."""
        match = re.fullmatch(_FORM, token)
        if match is None:
            return None
        id_, secret = match.groups()
        stored = self._find(NAMESPACE, f"bootstrap-token-{id_}")
        if stored is None or stored["metadata"].get("deletionTimestamp") or stored.get("type") != SECRET_TYPE:
            return None
        data = _texts(stored.get("data") or {})
        if not hmac.compare_digest(data.get(TOKEN_SECRET, "").encode(), secret.encode()) or data.get(TOKEN_ID) != id_:
            return None
        if seconds_left(data.get(EXPIRATION, ""), self._now()) == 0 or data.get(FOR_LOGIN) != "true":
            return None
        extra_groups = [group for group in data.get(GROUPS, "").split(",") if group]
        if not all(re.fullmatch(_EXTRA_GROUP, group) for group in extra_groups):
            return None
        return Identity(f"system:bootstrap:{id_}", tuple(sorted({_GROUP, *extra_groups})))


def _texts(data: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in data.items():
        try:
            texts[key] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue  # values that are no strings are ignored
    return texts
