"""TaintNodesByCondition: a new node takes no pods until it has been seen ready.

After kubernetes' ``plugin/pkg/admission/nodetaint/admission.go`` (v1.36). Without it the scheduler, or a creator of
daemons, could be faster than the node lifecycle controller's first look at the node. That controller takes the taint
off; simulated nodes do it themselves (``nodes.Profile.clears_start_taint``).
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin

_KEY = "node.kubernetes.io/not-ready"
_EFFECT = "NoSchedule"


class TaintNodesByCondition(Plugin):
    """Appends the taint on create, unless the node brings one of that key and effect."""

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
