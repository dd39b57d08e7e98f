"""The objects of the cluster as variables of expressions: ``objects.deployments['default/web']``.

Updated with every commit; only resources that an expression reads are kept.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.apiserver.resources import ResourceTable
from pilothouse.storage import Change, Store

_decode = msgspec.json.Decoder().decode


class ObservedObjects:
    """Objects by resource and key (``NAMESPACE/NAME``, or the name where there are no namespaces)."""

    def __init__(self, store: Store, table: ResourceTable) -> None:
        self._store = store
        self._by_name: dict[str, str] = {}
        for info in table:
            if "list" in info.verbs and info.group != "events.k8s.io":
                self._by_name.setdefault(info.resource, info.prefix)
                self._by_name.setdefault(info.group_resource, info.prefix)
        self._kept: dict[str, dict[str, Any]] = {}
        """By prefix."""

    @property
    def names(self) -> Iterable[str]:
        """The known resources."""
        return self._by_name

    def follow(self, name: str) -> None:
        """Keep the objects of a resource: its plural, or with its group (``widgets.example.com``)."""
        prefix = self._prefix(name)
        if prefix not in self._kept:
            self._kept[prefix] = {
                record.key.removeprefix(prefix): _decoded(record.value) for record in self._store.list(prefix).records
            }

    def _prefix(self, name: str) -> str:
        prefix = self._by_name.get(name)
        if prefix is None:
            resource, _dot, group = name.partition(".")
            prefix = self._by_name[name] = f"{group}/{resource}/"
        return prefix

    def of(self, name: str) -> dict[str, Any]:
        """The objects of a resource by key; never changed in place."""
        return self._kept[self._prefix(name)]

    def committed(self, change: Change) -> tuple[str, str] | None:
        """Apply the change. Returns prefix and key of the object, None if no expression reads the resource."""
        first = change.key.find("/")
        prefix = change.key[: change.key.find("/", first + 1) + 1]
        kept = self._kept.get(prefix)
        if kept is None:
            return None
        key = change.key[len(prefix) :]
        if change.type == "DELETED":
            kept.pop(key, None)
        else:
            kept[key] = _decoded(change.value)
        return prefix, key

    def prefix_of(self, name: str) -> str:
        """The storage prefix of a resource."""
        return self._prefix(name)


def _decoded(value: bytes) -> Any:
    obj = _decode(value)
    # Half of the size of an object, and not useful in expressions.
    obj.get("metadata", {}).pop("managedFields", None)
    return obj
