"""What is configured, kept decoded while it is stored: admission goes through all of it on every write."""

from collections.abc import Callable
from typing import Generic, TypeVar

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env import Log
from pilothouse.storage import Change
from pilothouse.storage.unreadable import shown_key

GROUP = "admissionregistration.k8s.io"
EXEMPT = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
"""Resources of the group that no webhook and no policy is about: no configuration may lock all users out."""

T = TypeVar("T")

_log = Log("admission")


def prefix_of(resource: str) -> str:
    """Under which keys the objects of a resource of the group are stored."""
    return storage_prefix(GROUP, resource)


class Configurations(Generic[T]):
    """The stored objects of one resource, made into something by ``make``, in the order of their names.

    This server lets no object in that it cannot read, so that another program has written the store when there is one.
    What upstream's informers do with it follows from what they know: the state before stays in force; where there is
    none, because the server has just started, they are not ready, and nothing is written that may be concerned.
    """

    def __init__(self, core: Core, resource: str, make: Callable[[Object], T]) -> None:
        self._prefix, self._make = prefix_of(resource), make
        self._made: dict[str, T] = {}
        self._unread: set[str] = set()
        for record in core.store.list(self._prefix).records:
            # The plugin may be there only since something is configured; before that it was known that nothing is.
            if not self._read(record.key, record.value) and record.revision <= core.begun_at:
                self._unread.add(record.key)
        core.store.follow(self._prefix, self._follow)

    @property
    def all(self) -> list[T]:
        """Everything there is."""
        return [self._made[key] for key in sorted(self._made)] if self._made else []

    @property
    def ready(self) -> bool:
        """Whether everything has been read that was stored when the server started."""
        return not self._unread

    def __bool__(self) -> bool:
        return bool(self._made)

    def _read(self, key: str, value: bytes) -> bool:
        try:
            self._made[key] = self._make(decode(value))
        except (StatusError, RecursionError, AttributeError, TypeError, ValueError) as error:
            # The write itself has happened, and all others must be notified.
            _log.error("A stored configuration of admission can't be read", key=shown_key(key), err=error)
            return False
        self._unread.discard(key)
        return True

    def _follow(self, changes: list[Change]) -> None:
        for change in changes:
            if change.type == "DELETED":
                self._made.pop(change.key, None)
                self._unread.discard(change.key)
            else:
                self._read(change.key, change.value)
