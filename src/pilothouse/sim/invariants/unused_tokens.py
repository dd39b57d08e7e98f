"""Invariants of unused legacy tokens: none is marked that is observably in use, recent or user-created, and none is
deleted that was not marked and unused for a whole period.

A mark can be removed again, and is checked against the caches of the process, which may be behind. A deletion cannot
be undone, and is checked against the deleted Secret; accounts and pods in the caches may be behind.
"""

import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import Secret, ServiceAccount
from pilothouse.client.interceptor import Answered, Observation, Sent
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import DESCRIPTOR
from pilothouse.semantics.pod_secrets import SecretsOfPod, secrets_of
from pilothouse.semantics.service_accounts import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    INVALID_SINCE,
    LAST_USED,
    SECRET_TYPE,
    TRACKING,
)
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.cached import InformerCache
from pilothouse.sim.invariants.clocks import recent
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_document = msgspec.json.Decoder(dict[str, Any]).decode
_secret = msgspec.json.Decoder(Secret).decode
_PREFIX = "/secrets/"
DAY = datetime.timedelta(days=1)
ON_ITS_WAY = 10.0
"""Maximum seconds until a request is sent."""


class _ProcessState:
    """One process: its observations since the start of its sync, with times.

    A sync takes time. It may use any state of Secrets, accounts and pods that was observed during that.
    """

    def __init__(self, process: "Process") -> None:
        self._env = process.wire.env
        self._secrets = InformerCache("secrets", Secret, lambda old, _new: self._keep(self._old_secrets, old))
        self._accounts = InformerCache(
            "serviceaccounts", ServiceAccount, lambda old, _new: self._keep(self._old_accounts, old)
        )
        self._pods = InformerCache("pods", SecretsOfPod, self._pods_changed)
        self._old_secrets: list[Secret] = []
        self._old_accounts: list[ServiceAccount] = []
        self._named: frozenset[str] = frozenset()
        self._unused: set[str] = set()  # never iterated
        """Secrets that no pod used at some moment."""
        self.moments: list[datetime.datetime] = []
        """The time of the sync. It reads the clock once, and possibly again for the next steps."""
        self._is_answered = True
        self.tracked_since: datetime.date | None = None

    def observe(self, observation: Observation) -> None:
        """Something passed between the process and the server."""
        for cache in (self._secrets, self._accounts, self._pods):
            cache.observe(observation)
        if not isinstance(observation, Sent | Answered) or (observation.call.verb, observation.call.name) != (
            "get",
            TRACKING,
        ):
            return
        if isinstance(observation, Sent):
            self._begin()
        elif observation.response.status == 200:
            self._is_answered = True
            self.tracked_since = date_of(_document(observation.response.body)["data"].get("since", ""))

    def _begin(self) -> None:
        if self._is_answered:
            self._is_answered, self.tracked_since = False, None
            self.moments.clear()
            self._old_secrets.clear()
            self._old_accounts.clear()
            self._unused.clear()
        # The process may have read the clock earlier: requests may be delayed.
        self.moments += recent(self._env, ON_ITS_WAY)

    def _keep(self, olds: list[Any], old: Any) -> None:
        if old is not None:
            olds.append(old)

    def _pods_changed(self, _old: SecretsOfPod | None, _new: SecretsOfPod | None) -> None:
        named = frozenset[str]().union(*map(secrets_of, self._pods.objects.values()))
        if self._pods.is_filled:
            self._unused |= named ^ self._named
        self._named = named

    def secrets(self, uid: str) -> list[Secret]:
        """The states of a Secret."""
        return [
            secret for secret in (*self._old_secrets, *self._secrets.objects.values()) if secret.metadata.uid == uid
        ]

    def is_listed(self, secret: Secret) -> bool:
        """Whether its account lists it, in one of its states."""
        notes, name = secret.metadata.annotations, secret.metadata.name
        return any(
            account.metadata.name == notes.get(ACCOUNT_NAME)
            and notes.get(ACCOUNT_UID, "") in ("", account.metadata.uid)
            and any(listed.name == name for listed in account.secrets)
            for account in (*self._old_accounts, *self._accounts.objects.values())
        )

    def was_unused(self, name: str) -> bool:
        """Whether no pod named it, at one of these moments."""
        return name not in self._named or name in self._unused


class UnusedTokens(Invariant):
    """The token Secrets of a cluster in which one namespace has pods. ``period``: how long a token may be unused, and
    then invalid. ``marked`` and ``deleted`` count writes of the cleaner (for tests)."""

    def __init__(self, period: datetime.timedelta) -> None:
        self._period = period
        self._processes: dict[str, _ProcessState] = {}
        self.marked = 0
        self.deleted = 0

    def started(self, process: "Process") -> None:
        self._processes[process.name] = _ProcessState(process)

    def observed(self, process: "Process", observation: Observation) -> None:
        self._processes[process.name].observe(observation)

    def committed(self, change: Change, origin: Origin | None) -> None:
        if origin is None or origin.controller != DESCRIPTOR.client_name:
            return
        key = change.key.removeprefix(_PREFIX)
        if key == change.key or change.old_value is None:
            raise Violation(f"the cleaner created or wrote {change.key}")
        process_state = self._processes[origin.program]
        if not any(self._is_tracked(process_state.tracked_since, moment) for moment in process_state.moments):
            raise Violation(
                f"secret {key} was written, although usage is tracked only since {process_state.tracked_since}"
            )
        if change.type == "DELETED":
            self.deleted += 1
            secret = _secret(change.old_value)
            self._check(key, process_state, [secret], "deleted", is_marked=True)
        else:
            self.marked += 1
            self._check_label(key, process_state, _document(change.old_value), _document(change.value))
            secret = _secret(change.old_value)
            self._check(key, process_state, process_state.secrets(secret.metadata.uid), "marked", is_marked=False)

    def _is_tracked(self, since: datetime.date | None, moment: datetime.datetime) -> bool:
        return since is not None and moment - self._period >= datetime.datetime.combine(
            since + DAY, datetime.time(), datetime.UTC
        )

    def _check_label(self, key: str, process_state: _ProcessState, old: dict[str, Any], new: dict[str, Any]) -> None:
        marked = new["metadata"]["labels"][INVALID_SINCE]
        if marked not in [moment.date().isoformat() for moment in process_state.moments]:
            raise Violation(f"secret {key} is marked invalid since {marked}, at {process_state.moments[0]}")
        if _user_content(old) != _user_content(new):
            raise Violation(f"secret {key} was changed by its mark")

    def _check(
        self, key: str, process_state: _ProcessState, states: list[Secret], action: str, *, is_marked: bool
    ) -> None:
        """Whether marking or deletion was allowed, for one of its states at one of the moments."""
        reason = "was never observed"
        for moment in process_state.moments:
            for state in states:
                protection = self._protection(process_state, state, moment, is_marked=is_marked)
                if protection is None:
                    return
                reason = protection
        raise Violation(f"secret {key} was {action}, and {reason}")

    def _protection(
        self, process_state: _ProcessState, secret: Secret, moment: datetime.datetime, *, is_marked: bool
    ) -> str | None:
        meta = secret.metadata
        period_start = moment - self._period
        created, used, since = meta.creation_timestamp, meta.labels.get(LAST_USED), meta.labels.get(INVALID_SINCE, "")
        if secret.type != SECRET_TYPE or meta.deletion_timestamp is not None:
            return "is no auto-generated token of an account"
        if created is None or created >= period_start:
            return f"was created {created}"
        if used is not None and (date_of(used) or moment.date()) >= period_start.date():
            return f"was used {used}"
        if is_marked and (date_of(since) or moment.date()) >= period_start.date():
            return f"is invalid since {since!r}"
        if not is_marked and date_of(since) is not None:
            return f"was marked already: {since}"
        if not process_state.is_listed(secret):
            return "was created by a user"
        if not process_state.was_unused(meta.name):
            return "is used by a pod"
        return None


def date_of(text: str) -> datetime.date | None:
    """Parse a date; None if it is invalid."""
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=datetime.UTC).date()
    except ValueError:
        return None


def _user_content(document: dict[str, Any]) -> dict[str, Any]:
    """The content without the mark."""
    meta = {
        key: value for key, value in document["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    meta["labels"] = {key: value for key, value in meta.get("labels", {}).items() if key != INVALID_SINCE}
    return {**document, "metadata": meta}
