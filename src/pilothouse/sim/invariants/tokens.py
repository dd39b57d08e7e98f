"""Invariants of ServiceAccount token Secrets: no token for an account that never existed, none is deleted whose account
exists, and none remains whose account is deleted.

Checked against committed uids, names and writers.
"""

import msgspec

from pilothouse.api.core import Secret, ServiceAccount
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, SECRET_TYPE, TOKEN_KEY
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_secret = msgspec.json.Decoder(Secret).decode
_account = msgspec.json.Decoder(ServiceAccount).decode
_SECRETS, _ACCOUNTS = "/secrets/", "/serviceaccounts/"

WITHIN = 30
"""Maximum number of commits between the read that finds no account and the resulting deletion."""


class Tokens(Invariant):
    """All ServiceAccount token Secrets of a cluster. ``filled`` and ``deleted`` count writes of the manager (for
    tests)."""

    def __init__(self) -> None:
        self._clock = 0
        self._accounts: dict[str, tuple[str, int]] = {}
        """Uid and creation commit of each account, by key."""
        self._uids: set[tuple[str, str]] = set()  # never iterated
        self._secrets: dict[str, Secret] = {}
        self.filled = 0
        self.deleted = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        self._clock += 1
        deleted = change.type == "DELETED"
        if change.key.startswith(_ACCOUNTS):
            self._record_account(change.key.removeprefix(_ACCOUNTS), None if deleted else _account(change.value))
        elif change.key.startswith(_SECRETS):
            by_manager = origin is not None and origin.program.startswith("manager")
            key = change.key.removeprefix(_SECRETS)
            old, new = self._secrets.get(key), None if deleted else _secret(change.value)
            if new is not None and new.type != SECRET_TYPE:
                return
            if by_manager and new is not None:
                self._check_write(key, old, new)
            elif by_manager and old is not None:
                self._check_deletion(key, old)
            if new is None:
                self._secrets.pop(key, None)
            else:
                self._secrets[key] = new

    def _record_account(self, key: str, account: ServiceAccount | None) -> None:
        if account is None:
            self._accounts.pop(key, None)
            return
        uid = account.metadata.uid
        self._uids.add((key, uid))
        if self._accounts.get(key, ("", 0))[0] != uid:
            self._accounts[key] = (uid, self._clock)

    def _check_write(self, key: str, old: Secret | None, new: Secret) -> None:
        if old is None or old.metadata.uid != new.metadata.uid:
            raise Violation(f"secret {key} was created, and no account requested it")
        if old.data.get(TOKEN_KEY) not in (None, b"", new.data.get(TOKEN_KEY)):
            raise Violation(f"secret {key} had a token, and has another one")
        if (_account_key(new), new.metadata.annotations.get(ACCOUNT_UID, "")) not in self._uids:
            raise Violation(f"secret {key} has a token of an account that never existed")
        self.filled += not old.data.get(TOKEN_KEY)

    def _check_deletion(self, key: str, old: Secret) -> None:
        self.deleted += 1
        uid, since = self._accounts.get(_account_key(old), ("", 0))
        if uid and old.metadata.annotations.get(ACCOUNT_UID, "") in ("", uid) and self._clock - since > WITHIN:
            raise Violation(f"secret {key} was deleted, and its account exists")

    def check_final_state(self) -> None:
        """At the end each Secret has an account, and all its fields."""
        for key, secret in self._secrets.items():
            uid, _since = self._accounts.get(_account_key(secret), ("", 0))
            if not uid or secret.metadata.annotations.get(ACCOUNT_UID, "") not in ("", uid):
                raise Violation(f"secret {key} exists without its account")


def _account_key(secret: Secret) -> str:
    return f"{secret.metadata.namespace}/{secret.metadata.annotations.get(ACCOUNT_NAME, '')}"
