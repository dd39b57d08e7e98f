"""DefaultTolerationSeconds: pods tolerate the taints not-ready and unreachable for 300 seconds by default.

After kubernetes' ``plugin/pkg/admission/defaulttolerationseconds/admission.go`` (v1.36). Without it, the taint eviction
controller would delete the pods of a node as soon as the node is tainted.
"""

from typing import Any

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin

SECONDS = 300
_EFFECTS = ("", "NoExecute")
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    """Appends the missing tolerations, on create and on update."""

    resources = frozenset({"pods"})

    def admit(self, write: AdmissionAttributes) -> None:
        if write.pod is None:
            return
        spec = write.pod.get("spec")
        if not isinstance(spec, dict):
            return
        present = spec.get("tolerations") or []
        missing = list(_KEYS)
        for toleration in present:
            # An empty key or effect matches all.
            if toleration.get("effect", "") in _EFFECTS:
                key = toleration.get("key", "")
                if key == "":
                    return
                if key in missing:
                    missing.remove(key)
        if missing:
            spec["tolerations"] = [*present, *(_toleration(key) for key in missing)]


def _toleration(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
