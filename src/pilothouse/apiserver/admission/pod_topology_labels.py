"""PodTopologyLabels: a pod knows the zone and region of its node.

After kubernetes' ``plugin/pkg/admission/podtopologylabels/admission.go`` (v1.36). Upstream puts the labels on the
Binding, from where they come to the pod; here a binding is admitted as the change of the pod that it is.
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import decode
from pilothouse.storage import Store

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_MARK = b"topology.kubernetes.io/"


class PodTopologyLabels(Plugin):
    """Copies the labels when a pod gets its node, over what the pod says."""

    resources = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: AdmissionAttributes) -> None:
        info, pod = write.info, write.obj
        if info.resource != "pods" or info.group or pod is None or write.operation not in ("CREATE", "UPDATE"):
            return
        name = (pod.get("spec") or {}).get("nodeName")
        if not name or (write.old is not None and (write.old.get("spec") or {}).get("nodeName")):
            return
        record = self._store.staged("/nodes/" + name)
        if record is None or _MARK not in record.value:
            return
        of_node = decode(record.value)["metadata"].get("labels") or {}
        found = {label: of_node[label] for label in LABELS if label in of_node}
        if found:
            meta = pod["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), **found}
