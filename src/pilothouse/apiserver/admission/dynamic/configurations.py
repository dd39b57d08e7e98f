"""What is configured, kept decoded while it is stored: admission looks at all of it on every write."""

from collections.abc import Callable
from typing import Generic, TypeVar

from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env import Log
from pilothouse.storage import Change, Store

GROUP = "admissionregistration.k8s.io"
EXEMPT = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
"""Resources of the group that no webhook and no policy is about: nobody must be able to lock everybody out."""

T = TypeVar("T")

_log = Log("admission")


def prefix_of(resource: str) -> str:
    """Under which keys the objects of a resource of the group are stored."""
    return storage_prefix(GROUP, resource)


class Configurations(Generic[T]):
    """The stored objects of one resource, made into something by ``make``, in the order of their names."""

    def __init__(self, store: Store, resource: str, make: Callable[[Object], T]) -> None:
        self._prefix, self._make = prefix_of(resource), make
        self._made: dict[str, T] = {}
        for record in store.list(self._prefix).records:
            self._take(record.key, record.value)
        store.follow(self._prefix, self._follow)

    @property
    def all(self) -> list[T]:
        """Everything there is."""
        return [self._made[key] for key in sorted(self._made)] if self._made else []

    def __bool__(self) -> bool:
        return bool(self._made)

    def _follow(self, changes: list[Change]) -> None:
        for change in changes:
            if change.type == "DELETED":
                self._made.pop(change.key, None)
            else:
                self._take(change.key, change.value)

    def _take(self, key: str, value: bytes) -> None:
        try:
            self._made[key] = self._make(decode(value))
        except (StatusError, RecursionError, AttributeError, TypeError, ValueError) as error:
            # This server lets no such object in, so that somebody else has written the store. What it would have
            # admitted nobody can know; the write itself has happened, and everybody else must hear of it.
            _log.error("A stored configuration of admission can't be read, and is left out", key=key, err=error)
            self._made.pop(key, None)
