"""PodTopologyLabels: copies the labels for zone and region from the node to its pods.

After kubernetes' ``plugin/pkg/admission/podtopologylabels/admission.go`` (v1.36). Upstream sets the labels on the
Binding, which is then merged into the pod; here a binding is admitted as an update of the pod.
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import decode
from pilothouse.storage import Store

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_LABEL_PREFIX = b"topology.kubernetes.io/"


class PodTopologyLabels(Plugin):
    """Sets the labels when a pod gets its node; labels of the pod are overwritten."""

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
        if record is None or _LABEL_PREFIX not in record.value:
            return
        node_labels = decode(record.value)["metadata"].get("labels") or {}
        topology_labels = {label: node_labels[label] for label in LABELS if label in node_labels}
        if topology_labels:
            meta = pod["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), **topology_labels}
