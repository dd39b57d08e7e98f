"""NamespaceLifecycle: nothing new in namespaces that are missing or going, and some namespaces stay.

After kubernetes' ``plugin/pkg/admission/namespace/lifecycle/admission.go`` (v1.36). Its cache can lag and bridges
that with waits and live look-ups; this one reads the store.
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import decode, read_head
from pilothouse.storage import Store

IMMORTAL = ("default", "kube-system", "kube-public")
_REVIEWS = ("localsubjectaccessreviews",)


class NamespaceLifecycle(Plugin):
    """Reads namespaces from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reads_updates(self, resource: str) -> bool:
        return False

    def admit(self, write: AdmissionAttributes) -> None:
        info = write.info
        if write.operation == "DELETE":
            if info.resource == "namespaces" and not info.group and write.name in IMMORTAL:
                raise errors.forbidden(info, write.name, "this namespace may not be deleted")
            return
        if not info.namespaced or info.resource in _REVIEWS:
            return
        namespace = write.namespace
        record = self._store.staged("/namespaces/" + namespace)
        if record is None:
            raise errors.namespace_not_found(namespace)
        if write.operation != "CREATE" or write.subresource:
            return
        if b'"deletionTimestamp":"' not in record.value:
            if self._store.has_unreadable:
                decode(record.value, record.key)  # which raises if it is none
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
