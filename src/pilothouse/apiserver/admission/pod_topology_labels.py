"""PodTopologyLabels: copies the labels for zone and region from the node to its pods.

After kubernetes' ``plugin/pkg/admission/podtopologylabels/admission.go`` (v1.36). The labels of a Binding are merged
into the pod.
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import Object, decode
from pilothouse.storage import Store

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_LABEL_PREFIX = b"topology.kubernetes.io/"


class PodTopologyLabels(Plugin):
    """Sets the labels when a pod gets its node; labels of the pod are overwritten."""

    resources = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: AdmissionAttributes) -> None:
        info, obj = write.info, write.obj
        if info.resource != "pods" or info.group or obj is None or write.operation != "CREATE":
            return
        name = _node_name(obj, write.subresource)
        if not name:
            return
        record = self._store.staged("/nodes/" + name)
        if record is None or _LABEL_PREFIX not in record.value:
            return
        node_labels = decode(record.value)["metadata"].get("labels") or {}
        topology_labels = {label: node_labels[label] for label in LABELS if label in node_labels}
        if topology_labels:
            meta = obj["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), **topology_labels}


def _node_name(obj: Object, subresource: str) -> str:
    """The node of a pod, or of a Binding."""
    if not subresource:
        name: str = (obj.get("spec") or {}).get("nodeName") or ""
        return name
    target = obj.get("target") or {}
    return (target.get("name") or "") if subresource == "binding" and target.get("kind") == "Node" else ""
