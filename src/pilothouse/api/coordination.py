"""``coordination.k8s.io``: Leases."""

import datetime

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class LeaseSpec(View, frozen=True):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: datetime.datetime | None = None
    renew_time: datetime.datetime | None = None
    lease_transitions: int = 0
    strategy: str = ""
    preferred_holder: str = ""


class Lease(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
