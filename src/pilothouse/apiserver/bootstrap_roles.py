"""The roles and bindings that RBAC begins with, as data of v1.36.2 (``data/rbac.json``).

``bootstrap`` hands out what is missing: absent objects whole, and for those that are there the rules and subjects that
they lack; what somebody added stays (kubernetes ``pkg/registry/rbac/rest/storage_rbac.go``, v1.36).
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.apiserver.authorization import RBAC_GROUP, Rule

_KINDS = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}
_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    text = packaged("apiserver/data/rbac.json")
    return msgspec.json.decode(text, type=dict[str, dict[str, dict[str, Any]]])


def bootstrap_objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """(resource, object) for every role and binding, roles before bindings. Objects are the caller's to change."""
    for resource, kind in _KINDS.items():
        for key, entry in _table()[resource].items():
            namespace, _, name = key.rpartition("/")
            metadata: dict[str, Any] = {"name": name}
            if namespace:
                metadata["namespace"] = namespace
            for field in ("labels", "annotations"):
                if field in entry:
                    metadata[field] = dict(entry[field])
            rest = {name: value for name, value in entry.items() if name not in ("labels", "annotations")}
            fresh = msgspec.json.decode(msgspec.json.encode(rest))
            yield resource, {"kind": kind, "apiVersion": f"{RBAC_GROUP}/v1", "metadata": metadata, **fresh}


@cache
def node_rules() -> tuple[Rule, ...]:
    """What nodes may do that is the same for all of them: the role system:node."""
    return tuple(msgspec.convert(_table()["clusterroles"]["system:node"]["rules"], list[Rule]))


def reconciled(stored: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The stored object with what it lacks, or None if it lacks nothing or is not to be touched.

    A binding whose roleRef differs cannot be repaired and is left alone.
    """
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(_UPDATE) == "false" or stored.get("roleRef") != wanted.get("roleRef"):
        return None
    changed = dict(stored)
    for field in ("rules", "subjects"):
        missing = [item for item in wanted.get(field) or () if item not in (stored.get(field) or ())]
        if missing:
            changed[field] = [*(stored.get(field) or ()), *missing]
    return changed if changed != stored else None
