"""Priority: sets ``priority`` and ``preemptionPolicy`` of pods from their PriorityClass or the global default.

After kubernetes' ``plugin/pkg/admission/priority/admission.go`` (v1.36).
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, all_records, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Change, Store

PREFIX = storage_prefix("scheduling.k8s.io", "priorityclasses")
SYSTEM_CLASSES: dict[str, tuple[int, str]] = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
"""The system classes, which every cluster has (``pkg/apis/scheduling/v1/helpers.go``)."""


class Priority(Plugin):
    """Sets the fields of new pods, and rejects a second class with ``globalDefault``."""

    resources = frozenset({"pods", "priorityclasses.scheduling.k8s.io"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cached_defaults: list[Object] | None = None
        store.follow(PREFIX, self._invalidate)

    def admit(self, write: AdmissionAttributes) -> None:
        if write.pod is None:
            return
        spec = write.pod.get("spec")
        if not isinstance(spec, dict):
            return
        if write.operation == "CREATE":
            self._admit_pod(write, spec)
        elif write.old is not None:
            # Updates of clients without these fields must not be rejected for removing them.
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and write.old["spec"].get(field) is not None:
                    spec[field] = write.old["spec"][field]

    def validate(self, write: AdmissionAttributes) -> None:
        if write.info.resource != "priorityclasses" or write.info.group != "scheduling.k8s.io":
            return
        if write.operation == "DELETE" and write.name in SYSTEM_CLASSES:
            # Upstream's storage checks it (pkg/registry/scheduling/priorityclass/storage).
            raise errors.forbidden(write.info, write.name, "this is a system priority class and cannot be deleted")
        if write.operation == "DELETE" or write.obj is None or not write.obj.get("globalDefault"):
            return
        for priority_class in self._defaults():
            name = priority_class["metadata"]["name"]
            if name != write.obj["metadata"].get("name"):
                reason = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise errors.forbidden(write.info, write.name, reason)

    def _admit_pod(self, write: AdmissionAttributes, spec: dict[str, Any]) -> None:
        name = spec.get("priorityClassName")
        if name:
            record = self._store.staged(PREFIX + name)
            if record is None and name not in SYSTEM_CLASSES:
                raise errors.forbidden(write.info, write.name, f"no PriorityClass with name {name} was found")
            priority_class: Object | None = (
                decode(record.value) if record is not None else {"value": SYSTEM_CLASSES[name][0]}
            )
        else:
            priority_class = min(self._defaults(), key=lambda default_class: int(default_class["value"]), default=None)
            if priority_class is not None:
                spec["priorityClassName"] = priority_class["metadata"]["name"]
        value = int(priority_class.get("value") or 0) if priority_class is not None else 0
        policy = (
            priority_class.get("preemptionPolicy") if priority_class is not None else None
        ) or "PreemptLowerPriority"
        if spec.get("priority") not in (None, value):
            raise _mismatch(write, f"the integer value of priority ({spec['priority']})", str(value))
        if spec.get("preemptionPolicy") not in (None, policy):
            raise _mismatch(write, f"the string value of PreemptionPolicy ({spec['preemptionPolicy']})", policy)
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _defaults(self) -> list[Object]:
        """The classes with ``globalDefault``. More than one exists only after concurrent writes."""
        if self._cached_defaults is None:
            stored = (record.value for record in all_records(self._store, PREFIX))
            self._cached_defaults = [decode(value) for value in stored if b'"globalDefault":true' in value]
        return self._cached_defaults

    def _invalidate(self, _changes: list[Change]) -> None:
        self._cached_defaults = None


def _mismatch(write: AdmissionAttributes, provided: str, computed: str) -> StatusError:
    return errors.forbidden(
        write.info,
        write.name,
        f"{provided} must not be provided in pod spec; priority admission controller computed {computed} from the "
        "given PriorityClass name",
    )
