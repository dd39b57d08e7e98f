"""``node.k8s.io/v1``: RuntimeClasses."""

from pilothouse.api.core import Toleration
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class Overhead(View, frozen=True):
    pod_fixed: dict[str, str] = {}


class Scheduling(View, frozen=True):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(View, frozen=True):
    handler: str = ""
    metadata: ObjectMeta = ObjectMeta()
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, RuntimeClass)
