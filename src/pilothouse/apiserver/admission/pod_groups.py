"""PodGroupProtection and PodGroupWorkloadExists: the finalizer of PodGroups, and their reference to a Workload.

After kubernetes' ``plugin/pkg/admission/scheduling/podgroupprotection`` and ``plugin/pkg/admission/podgroup`` (v1.36).
Both require the feature gate ``GenericWorkload``.
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Store

_FINALIZER = "scheduling.k8s.io/podgroup-protection"
_GROUPS = frozenset({"podgroups.scheduling.k8s.io"})
_WORKLOADS = storage_prefix("scheduling.k8s.io", "workloads")


class PodGroupProtection(Plugin):
    """Adds a finalizer to new PodGroups, which the podgroup-protection-controller removes when no pod uses them."""

    resources = _GROUPS

    def admit(self, write: AdmissionAttributes) -> None:
        group = _new_group(write)
        if group is None:
            return
        present = group["metadata"].get("finalizers") or []
        if _FINALIZER not in present:
            group["metadata"]["finalizers"] = [*present, _FINALIZER]


class PodGroupWorkloadExists(Plugin):
    """Rejects new PodGroups whose Workload, or template in the Workload, does not exist."""

    resources = _GROUPS

    def __init__(self, store: Store) -> None:
        self._store = store

    def validate(self, write: AdmissionAttributes) -> None:
        group = _new_group(write)
        reference = None if group is None else (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
        if reference is None:
            return
        name, template_name = reference.get("workloadName") or "", reference.get("podGroupTemplateName") or ""
        record = self._store.staged(f"{_WORKLOADS}{write.namespace}/{name}")
        if record is None:
            raise new_forbidden(write, f'PodGroup rejected: Workload "{name}" not found')
        workload = decode(record.value)
        if workload["metadata"].get("deletionTimestamp"):
            raise new_forbidden(write, f'PodGroup rejected: Workload "{name}" is being deleted')
        if all(template.get("name") != template_name for template in workload["spec"].get("podGroupTemplates") or ()):
            raise new_forbidden(
                write, f'PodGroup rejected: PodGroupTemplate "{template_name}" not found in Workload "{name}"'
            )


def _new_group(write: AdmissionAttributes) -> Object | None:
    return write.obj if write.operation == "CREATE" and not write.subresource else None
