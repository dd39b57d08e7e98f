"""The roles and bindings of v1.36.2's bootstrap policy (``data/rbac.json``), and those of feature gates.

``reconciled`` restores what stored objects lack: their rules and subjects; additions of users are kept (kubernetes
``pkg/registry/rbac/rest/storage_rbac.go``, v1.36).
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.apiserver.authorization.authorizer import RBAC_GROUP, Rule

_KINDS = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}
_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_GATED_CONTROLLERS: dict[str, tuple[str, list[dict[str, list[str]]]]] = {
    # The controller records no events.
    "DRAResourcePoolStatus": (
        "resourcepoolstatusrequest-controller",
        [
            {
                "verbs": ["delete", "get", "list", "watch"],
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourcepoolstatusrequests"],
            },
            {
                "verbs": ["patch", "update"],
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourcepoolstatusrequests/status"],
            },
            {"verbs": ["get", "list", "watch"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"]},
            {"verbs": ["get", "list", "watch"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"]},
            {"verbs": ["create", "patch", "update"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
        ],
    ),
    # plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go, v1.36. Applying to a deleted object is
    # authorized as a create, and ends in a conflict because of the UID.
    "StorageVersionMigrator": (
        "storage-version-migrator-controller",
        [
            {"verbs": ["create", "list", "patch"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]},
            {
                "verbs": ["patch"],
                "apiGroups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions/status"],
            },
            {
                "verbs": ["update"],
                "apiGroups": ["storagemigration.k8s.io"],
                "resources": ["storageversionmigrations/status"],
            },
        ],
    ),
    "GenericWorkload": (
        "podgroup-protection-controller",
        [
            {
                "verbs": ["get", "list", "update", "watch"],
                "apiGroups": ["scheduling.k8s.io"],
                "resources": ["podgroups"],
            },
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]},
        ],
    ),
}
"""Feature gate → the controller that it enables, and its rules."""
_GATED_RULES: dict[str, dict[str, list[dict[str, list[str]]]]] = {
    # plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go, v1.36.
    "GenericWorkload": {
        "system:aggregate-to-view": [
            {
                "verbs": ["get", "list", "watch"],
                "apiGroups": ["scheduling.k8s.io"],
                "resources": ["podgroups", "podgroups/status", "workloads"],
            }
        ],
        "system:aggregate-to-edit": [
            {
                "verbs": ["create", "delete", "deletecollection", "patch", "update"],
                "apiGroups": ["scheduling.k8s.io"],
                "resources": ["podgroups", "workloads"],
            }
        ],
        "system:kube-scheduler": [
            {"verbs": ["get", "list", "watch"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"]},
            {"verbs": ["patch", "update"], "apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"]},
        ],
    },
}
"""Feature gate → rules added to other roles."""


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    text = packaged("apiserver/data/rbac.json")
    return msgspec.json.decode(text, type=dict[str, dict[str, dict[str, Any]]])


def bootstrap_objects(gates: Iterable[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """(resource, object) for every role and binding, roles before bindings. The caller may change the objects.
    ``gates`` are those enabled beyond the defaults."""
    gates = tuple(gates)
    gated_entries = _gated_objects(gates)
    for resource, kind in _KINDS.items():
        for key, entry in (*_table()[resource].items(), *gated_entries.get(resource, {}).items()):
            namespace, _, name = key.rpartition("/")
            metadata: dict[str, Any] = {"name": name}
            if namespace:
                metadata["namespace"] = namespace
            for field in ("labels", "annotations"):
                if field in entry:
                    metadata[field] = dict(entry[field])
            fields = {name: value for name, value in entry.items() if name not in ("labels", "annotations")}
            if resource == "clusterroles":
                gated_rules = [rule for gate in gates for rule in _GATED_RULES.get(gate, {}).get(name, ())]
                fields = {**fields, "rules": [*(fields.get("rules") or ()), *gated_rules]} if gated_rules else fields
            fields_copy = msgspec.json.decode(msgspec.json.encode(fields))
            yield resource, {"kind": kind, "apiVersion": f"{RBAC_GROUP}/v1", "metadata": metadata, **fields_copy}


def _gated_objects(gates: Iterable[str]) -> dict[str, dict[str, dict[str, Any]]]:
    roles: dict[str, dict[str, Any]] = {}
    bindings: dict[str, dict[str, Any]] = {}
    metadata = {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}, "annotations": {_UPDATE: "true"}}
    for gate in gates:
        if gate in _GATED_CONTROLLERS:
            account, rules = _GATED_CONTROLLERS[gate]
            name = f"system:controller:{account}"
            roles[name] = {**metadata, "rules": rules}
            bindings[name] = {
                **metadata,
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}],
                "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
            }
    return {"clusterroles": roles, "clusterrolebindings": bindings}


@cache
def node_rules() -> tuple[Rule, ...]:
    """The rules of the role system:node, which are the same for all nodes."""
    return tuple(msgspec.convert(_table()["clusterroles"]["system:node"]["rules"], list[Rule]))


def reconciled(stored: dict[str, Any], desired: dict[str, Any]) -> dict[str, Any] | None:
    """The stored object with the missing rules and subjects, or None if nothing is missing or autoupdate is off.

    A binding with a different roleRef cannot be repaired and is not changed.
    """
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(_UPDATE) == "false" or stored.get("roleRef") != desired.get("roleRef"):
        return None
    changed = dict(stored)
    for field in ("rules", "subjects"):
        missing = [item for item in desired.get(field) or () if item not in (stored.get(field) or ())]
        if missing:
            changed[field] = [*(stored.get(field) or ()), *missing]
    return changed if changed != stored else None
