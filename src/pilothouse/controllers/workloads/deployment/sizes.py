"""Sizes of ReplicaSets, and the orders in which they are gone through. Pure."""

import datetime

import msgspec

from pilothouse.api.apps import ReplicaSet

_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class Resize(msgspec.Struct, frozen=True):
    """Give a ReplicaSet this size. ``annotate``: write down what it was sized for, even if the size is right.
    ``reason``: what the size follows from."""

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
