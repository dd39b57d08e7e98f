"""Invariants of PodCertificateRequests: none younger than 15 minutes is deleted by the cleaner, and none much older
remains.

Checked against the committed objects.
"""

import datetime
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.meta import Object
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR
from pilothouse.env import Env
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.clocks import latest
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_request = msgspec.json.Decoder(Object).decode
_PREFIX = "certificates.k8s.io/podcertificaterequests/"

KEPT_FOR = datetime.timedelta(minutes=15)
MUCH_OLDER = datetime.timedelta(minutes=21)
"""Tolerated age: the cleaner runs every five minutes."""
ON_ITS_WAY = 60.0
"""Maximum seconds from a decision to the deletion: earlier deletions may be slow."""


class PodRequests(Invariant):
    """All PodCertificateRequests of a cluster. ``cleaned`` counts those that the cleaner deleted (for tests)."""

    def __init__(self) -> None:
        self._created: dict[str, datetime.datetime] = {}
        self._env: Env | None = None
        self.cleaned = 0

    @property
    def env(self) -> Env:
        """The environment of the simulation."""
        assert self._env is not None, "who deletes was started"
        return self._env

    def started(self, process: "Process") -> None:
        self._env = process.wire.env

    def committed(self, change: Change, origin: Origin | None) -> None:
        is_cleaners = origin is not None and origin.controller == DESCRIPTOR.client_name
        if is_cleaners and not (change.key.startswith(_PREFIX) and change.type == "DELETED"):
            raise Violation(f"the cleaner has written {change.key}")
        if not change.key.startswith(_PREFIX):
            return
        key = change.key.removeprefix(_PREFIX)
        old = self._created.pop(key, None)
        if change.type == "DELETED":
            if is_cleaners:
                assert old is not None, "what is deleted was made"
                self._check(key, old)
            return
        created = _request(change.value).metadata.creation_timestamp
        assert created is not None, "the server sets creationTimestamp"
        self._created[key] = created

    def _check(self, key: str, created: datetime.datetime) -> None:
        self.cleaned += 1
        age = latest(self.env, ON_ITS_WAY) - created
        if age < KEPT_FOR:
            raise Violation(f"request {key} was deleted after {age}")

    def check_final_state(self) -> None:
        """At the end no expired request remains. One that was created while the clock was ahead may remain for long."""
        for key, created in self._created.items():
            if self.env.now() - created > MUCH_OLDER:
                raise Violation(f"request {key} of {created} still exists")
