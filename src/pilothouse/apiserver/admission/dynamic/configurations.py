"""Caches of decoded and compiled configuration objects, which admission reads on every write."""

from collections.abc import Callable
from typing import Generic, TypeVar

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env import Log
from pilothouse.storage import Change
from pilothouse.storage.unreadable import printable_key

GROUP = "admissionregistration.k8s.io"
_POLICY_RESOURCES = (
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
EXEMPT_FROM_WEBHOOKS = frozenset(
    (GROUP, resource)
    for resource in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations", *_POLICY_RESOURCES)
)
"""Resources that webhooks never match, so that no configuration can lock all users out
(``IsExemptAdmissionConfigurationResource``)."""
EXEMPT_FROM_POLICIES = frozenset(
    [
        *((GROUP, resource) for resource in _POLICY_RESOURCES),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ]
)
"""Resources that policies never match: policies, so that none can lock all users out (``admissionResources`` in
apiserver's ``policy/generic/plugin.go``), and reviews, without which webhooks and add-ons can't authenticate or
authorize anybody (``pkg/kubeapiserver/admission/exclusion/resources.go``). Configurations of webhooks are matched."""

T = TypeVar("T")

_log = Log("admission")


def storage_prefix_of(resource: str) -> str:
    """The storage prefix of a resource of the group."""
    return storage_prefix(GROUP, resource)


class Configurations(Generic[T]):
    """The stored objects of one resource, compiled by ``compile_object``, in the order of their names.

    This server never stores an unreadable object; only another program that writes to the same store can. Such an
    object has the effect that it has on upstream's informers: the previous version stays in effect; if there is none,
    because the server has just started, ``has_synced`` is False and writes that the object could match are rejected.
    """

    def __init__(self, core: Core, resource: str, compile_object: Callable[[Object], T]) -> None:
        self._prefix, self._compile = storage_prefix_of(resource), compile_object
        self._compiled: dict[str, T] = {}
        self._unreadable: set[str] = set()
        for record in core.store.list(self._prefix).records:
            # The plugin may have been loaded after the start of the server, with the first object of the resource.
            if not self._update(record.key, record.value) and core.is_from_before_start(record):
                self._unreadable.add(record.key)
        core.store.follow(self._prefix, self._on_commit)

    @property
    def all(self) -> list[T]:
        """The compiled objects, ordered by name."""
        return [self._compiled[key] for key in sorted(self._compiled)] if self._compiled else []

    @property
    def has_synced(self) -> bool:
        """Whether every object that was stored when the server started has been read."""
        return not self._unreadable

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def _update(self, key: str, value: bytes) -> bool:
        try:
            self._compiled[key] = self._compile(decode(value))
        except (StatusError, RecursionError, AttributeError, TypeError, ValueError) as error:
            # The write is already committed, and the other subscribers must still be notified.
            _log.error("Failed to read a stored admission configuration", key=printable_key(key), err=error)
            return False
        self._unreadable.discard(key)
        return True

    def _on_commit(self, changes: list[Change]) -> None:
        for change in changes:
            if change.type == "DELETED":
                self._compiled.pop(change.key, None)
                self._unreadable.discard(change.key)
            else:
                self._update(change.key, change.value)
