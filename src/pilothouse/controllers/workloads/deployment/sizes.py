"""Scaling of ReplicaSets, and the orders in which they are processed. Pure."""

import datetime

import msgspec

from pilothouse.api.apps import ReplicaSet

_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class Resize(msgspec.Struct, frozen=True):
    """Scale a ReplicaSet to this size. ``annotate``: also update its annotations if the size does not change.
    ``reason``: the cause, for the record."""

    name: str
    size: int
    annotate: bool = False
    reason: str = ""


def size_of(replica_set: ReplicaSet) -> int:
    replicas = replica_set.spec.replicas
    return 1 if replicas is None else replicas


def is_in_use(replica_set: ReplicaSet) -> bool:
    return size_of(replica_set) > 0


def created_at(replica_set: ReplicaSet) -> datetime.datetime:
    return replica_set.metadata.creation_timestamp or _NEVER


def by_age(replica_set: ReplicaSet) -> tuple[datetime.datetime, str]:
    """Sort key: the oldest first, of the same second by name."""
    return created_at(replica_set), replica_set.metadata.name
