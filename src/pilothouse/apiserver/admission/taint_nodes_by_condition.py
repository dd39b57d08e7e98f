"""TaintNodesByCondition: taints new nodes as not-ready until they are ready.

After kubernetes' ``plugin/pkg/admission/nodetaint/admission.go`` (v1.36). Without it pods could be scheduled to the
node before the node lifecycle controller has synced it. That controller removes the taint; simulated nodes do it
themselves (``nodes.Profile.clears_start_taint``).
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin

_KEY = "node.kubernetes.io/not-ready"
_EFFECT = "NoSchedule"


class TaintNodesByCondition(Plugin):
    """Appends the taint on create, unless the node has one with this key and effect."""

    resources = frozenset({"nodes"})

    def admit(self, write: AdmissionAttributes) -> None:
        if write.info.resource != "nodes" or write.info.group or write.operation != "CREATE" or write.subresource:
            return
        if write.obj is None:
            return
        spec = write.obj.get("spec")
        if spec is None:
            spec = write.obj["spec"] = {}
        if not isinstance(spec, dict):
            return
        present = spec.get("taints") or []
        if not any((taint.get("key"), taint.get("effect")) == (_KEY, _EFFECT) for taint in present):
            spec["taints"] = [*present, {"key": _KEY, "effect": _EFFECT}]
