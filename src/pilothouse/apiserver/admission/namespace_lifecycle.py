"""NamespaceLifecycle: rejects writes in missing namespaces, creations in terminating ones, and the deletion of system
namespaces.

After apiserver's ``pkg/admission/plugin/namespace/lifecycle/admission.go`` (v0.36). Upstream reads a cache that can lag
and compensates with waits and live lookups; this plugin reads the store.
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import decode, read_head
from pilothouse.storage import Store

IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")
_ACCESS_REVIEW_RESOURCES = ("localsubjectaccessreviews",)


class NamespaceLifecycle(Plugin):
    def __init__(self, store: Store) -> None:
        self._store = store

    def reads_updates(self, resource: str) -> bool:
        return False

    def admit(self, write: AdmissionAttributes) -> None:
        info = write.info
        if write.operation == "CONNECT":
            return
        if write.operation == "DELETE":
            if info.resource == "namespaces" and not info.group and write.name in IMMORTAL_NAMESPACES:
                raise errors.forbidden(info, write.name, "this namespace may not be deleted")
            return
        if not info.namespaced or info.resource in _ACCESS_REVIEW_RESOURCES:
            return
        namespace = write.namespace
        record = self._store.staged("/namespaces/" + namespace)
        if record is None:
            raise errors.namespace_not_found(namespace)
        if write.operation != "CREATE":
            return
        if b'"deletionTimestamp":"' not in record.value:
            if self._store.has_unreadable:
                decode(record.value, record.key)  # raises if it is unreadable
            return
        if read_head(record.value).metadata.deletion_timestamp:
            raise errors.forbidden(
                info,
                write.name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                causes=(
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {namespace} is being terminated",
                        "field": "metadata.namespace",
                    },
                ),
            )
