"""The causes of writes that the API server has recorded."""

import re

from pilothouse.apiserver.resources import storage_prefix
from pilothouse.machinery.causes import Cause
from pilothouse.storage import Change, Store


def changes(store: Store, resource: str, name: str = "") -> list[Change]:
    """The changes of a group resource (``replicasets.apps``), of objects with this name prefix, oldest first."""
    plural, _dot, group = resource.partition(".")
    return [
        change
        for change in store.changes(storage_prefix(group, plural))
        if change.key.rpartition("/")[2].startswith(name)
    ]


def causes(store: Store, resource: str, name: str = "", component: str = "") -> list[Cause]:
    """The causes of these changes, optionally of one component."""
    origins = [change.origin for change in changes(store, resource, name)]
    result = [origin.cause for origin in origins if origin is not None and origin.cause is not None]
    return [cause for cause in result if component in ("", cause.component)]


def decisions(store: Store, resource: str, name: str = "", component: str = "") -> list[str]:
    """The decisions of these causes, with random parts masked."""
    return [plain(cause.decision) for cause in causes(store, resource, name, component)]


def plain(text: str) -> str:
    """Mask uids, template hashes and generated name suffixes."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-HASH", text)
    return re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-POD", text)
