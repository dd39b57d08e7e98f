"""DefaultTolerationSeconds: a pod that says nothing about it stays five minutes on a node that is not ready or gone.

After kubernetes' ``plugin/pkg/admission/defaulttolerationseconds/admission.go`` (v1.36). Without it, taint eviction
would delete every pod of a node the moment the node is tainted.
"""

from typing import Any

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin

SECONDS = 300
_EFFECTS = ("", "NoExecute")
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    """Appends the tolerations that are missing, on create and on update."""

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
            # An empty key or effect speaks of all.
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
