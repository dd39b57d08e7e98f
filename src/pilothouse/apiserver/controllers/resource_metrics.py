"""Serves metrics.k8s.io/v1beta1 from simulated nodes, for ``kubectl top`` and autoscalers.

In a cluster this is metrics-server, behind an APIService. Here the server itself responds, from the stored pods and
nodes and from the program that runs the nodes (``api.usage.Metering``). Formats, tables and the role are
metrics-server's (v0.8, ``pkg/api``, ``manifests/base``). A load on a workload, annotated on the topmost owner of its
pods, is divided among the ready pods: with more pods each has less.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.usage import Metering, Usage
from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.controllers.bootstrap_objects import stage_missing
from pilothouse.apiserver.controllers.post_start_hooks import api_service
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import check_numbers
from pilothouse.apiserver.registry.generic.selection_predicate import Selection, read_selection
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.results import ListResult, ObjectResult
from pilothouse.machinery.quantities import BINARY, Quantity, QuantityError, parse_quantity
from pilothouse.machinery.times import format_time
from pilothouse.storage import Record, Staged

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
WINDOW = "15s"
LOADS = {
    "cpu": "simulated.pilothouse.dev/cpu-load",
    "memory": "simulated.pilothouse.dev/memory-load",
}
_MAX_OWNERS = 4
"""The maximum length of an owner chain that is searched for loads: pod, ReplicaSet, Deployment, and owners of that."""
_RBAC = "rbac.authorization.k8s.io"
_READER = "system:aggregated-metrics-reader"

INFOS = (
    ResourceInfo(GROUP, VERSION, "nodes", "NodeMetrics", namespaced=False, verbs=("get", "list")),
    ResourceInfo(GROUP, VERSION, "pods", "PodMetrics", namespaced=True, verbs=("get", "list")),
)


class ResourceMetrics:
    """Serves metrics.k8s.io on one core once it is constructed; ``publish`` registers it in the cluster."""

    def __init__(self, core: Core, metering: Metering) -> None:
        self._core = core
        self._metering = metering
        core.table.set_virtual(INFOS)
        core.handlers[GROUP, "nodes", ""] = self._nodes
        core.handlers[GROUP, "pods", ""] = self._pods
        self._stored = {resource: core.table.built_in("", resource) for resource in ("nodes", "pods")}

    async def publish(self) -> None:
        """Create the APIService, and the role that lets users with view access to pods read their metrics."""
        core = self._core
        rule = {"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
        labels = {f"{_RBAC}/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")}

        def stage() -> Staged | None:
            service = api_service(GROUP, VERSION, core.time.now())
            staged = stage_missing(core, "apiregistration.k8s.io", "apiservices", service)
            role: Object = {"metadata": {"name": _READER, "labels": labels}, "rules": [rule]}
            return stage_missing(core, _RBAC, "clusterroles", role) or staged

        await core.retry_until_stored(lambda: core.commit_staged(stage))

    async def _pods(self, core: Core, call: Call) -> ObjectResult | ListResult:
        info, stored = call.info, self._stored["pods"]
        shares = _LoadShares(core)
        if call.request_info.verb == "get":
            record = core.store.get(stored.key(call.namespace, call.name))
            if record is None:
                raise errors.not_found(stored, call.name)
            metrics = self._pod_metrics(info, record, shares)
            if metrics is None:
                raise errors.not_found(info, f"{call.namespace}/{call.name}")
            return ObjectResult(200, info, metrics, tuple(shares.warnings))
        values = [self._pod_metrics(info, record, shares) for record in _selected(core, call, stored)]
        return ListResult(
            info,
            [value for value in values if value is not None],
            core.store.revision,
            warnings=tuple(shares.warnings),
        )

    def _pod_metrics(self, info: ResourceInfo, record: Record, shares: "_LoadShares") -> bytes | None:
        pod: Object = msgspec.json.decode(record.value)
        used = self._metering.containers(pod, shares.of(pod))
        if not used:
            return None
        containers = [{"name": container.name, "usage": _resource_list(container.usage)} for container in used]
        return self._metrics(info, pod, {"containers": containers})

    async def _nodes(self, core: Core, call: Call) -> ObjectResult | ListResult:
        info, stored = call.info, self._stored["nodes"]
        if call.request_info.verb == "get":
            record = core.store.get(stored.key("", call.name))
            if record is None:
                raise errors.not_found(stored, call.name)
            node_records: Iterable[Record] = (record,)
        else:
            node_records = _selected(core, call, stored)
        usage_of_pods = self._usage_by_node()
        values = []
        for node_record in node_records:
            node: Object = msgspec.json.decode(node_record.value)
            name = node["metadata"]["name"]
            node_usage = self._metering.node(name)
            if node_usage is not None:
                pods_usage = usage_of_pods.get(name, _NO_USAGE)
                total = Usage(node_usage.cpu + pods_usage.cpu, node_usage.memory + pods_usage.memory)
                values.append(self._metrics(info, node, {"usage": _resource_list(total)}))
        if call.request_info.verb == "get":
            if not values:
                raise errors.not_found(info, call.name)
            return ObjectResult(200, info, values[0])
        return ListResult(info, values, core.store.revision)

    def _usage_by_node(self) -> dict[str, Usage]:
        """The usage of the pods of each node."""
        core, by_node = self._core, dict[str, Usage]()
        shares = _LoadShares(core)
        for record in core.store.list(self._stored["pods"].list_prefix("")).records:
            pod: Object = msgspec.json.decode(record.value)
            node = (pod.get("spec") or {}).get("nodeName") or ""
            for container in self._metering.containers(pod, shares.of(pod)) or ():
                total = by_node.get(node, _NO_USAGE)
                by_node[node] = Usage(total.cpu + container.usage.cpu, total.memory + container.usage.memory)
        return by_node

    def _metrics(self, info: ResourceInfo, obj: Object, fields: Mapping[str, Any]) -> bytes:
        now = format_time(self._core.env.now())
        metadata = obj["metadata"]
        meta = {"name": metadata["name"]}
        if info.namespaced:
            meta["namespace"] = metadata["namespace"]
        meta["creationTimestamp"] = now
        if metadata.get("labels"):
            meta["labels"] = metadata["labels"]
        return info.head + msgspec.json.encode({"metadata": meta, "timestamp": now, "window": WINDOW, **fields})[1:]


_NO_USAGE = Usage(0, 0)


def _resource_list(usage: Usage) -> dict[str, str]:
    return {"cpu": str(Quantity(usage.cpu, -3)), "memory": str(Quantity(usage.memory, 0, BINARY))}


def _selected(core: Core, call: Call, stored: ResourceInfo) -> list[Record]:
    """The stored objects selected by the request, by key."""
    check_numbers(call.request_info.query)
    strategy = core.strategy(stored)
    selection: Selection = read_selection(stored, call.request_info.query, strategy.fields, strategy.unsupported_field)
    namespace = call.namespace if stored.namespaced else ""
    records = core.store.list(stored.list_prefix(namespace)).records
    if selection.empty:
        return records
    attributes = core.attributes.current
    return [record for record in records if selection.matches(attributes(stored.prefix, strategy.attributes, record))]


class _LoadShares:
    """Each pod's share of the load on its workload, computed once per workload and request."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kinds = {(info.api_version, info.kind): info for info in core.table}
        self._tops: dict[str, tuple[str, dict[str, int]]] = {}
        self._ready: dict[str, dict[str, int]] = {}
        self.warnings: dict[str, None] = {}
        """The invalid loads, which are ignored."""

    def of(self, pod: Object) -> Mapping[str, int]:
        """The shares by resource; empty for a pod without a loaded workload, and for a pod that is not ready."""
        owner = _controller(pod)
        if owner is None or not _is_ready(pod):
            return {}
        top_uid, loads = self._topmost_owner(owner, pod["metadata"]["namespace"])
        if not loads:
            return {}
        ready = self._ready_pods(pod["metadata"]["namespace"])
        return {resource: load // ready[top_uid] for resource, load in loads.items()}

    def _topmost_owner(self, owner: Object, namespace: str) -> tuple[str, dict[str, int]]:
        """The uid of the topmost owner of the chain, and the loads annotated on it.

        Annotations of the owners below are ignored: a ReplicaSet keeps old annotations of its Deployment.
        """
        cached = self._tops.get(owner["uid"])
        if cached is not None:
            return cached
        top_uid, top, reference = owner["uid"], None, owner
        for _step in range(_MAX_OWNERS):
            owner_object = self._find_owner(reference, namespace)
            if owner_object is None:
                break
            top_uid, top = reference["uid"], owner_object
            next_reference = _controller(owner_object)
            if next_reference is None:
                break
            reference = next_reference
        loads = self._annotated_loads(top) if top is not None else {}
        self._tops[owner["uid"]] = top_uid, loads
        return top_uid, loads

    def _annotated_loads(self, obj: Object) -> dict[str, int]:
        annotations = obj["metadata"].get("annotations") or {}
        loads = {}
        for resource, key in LOADS.items():
            text = annotations.get(key)
            if text is None:
                continue
            try:
                quantity = parse_quantity(text)
            except QuantityError:
                self.warnings[f"{obj['kind']} {obj['metadata']['name']}: annotation {key}: {text!r} is no quantity"] = (
                    None
                )
                continue
            loads[resource] = max(quantity.milli_value if resource == "cpu" else quantity.value, 0)
        return loads

    def _find_owner(self, owner: Object, namespace: str) -> Object | None:
        info = self._kinds.get((owner.get("apiVersion") or "", owner.get("kind") or ""))
        record = None if info is None else self._core.store.get(info.key(namespace, owner["name"]))
        if record is None:
            return None
        obj: Object = msgspec.json.decode(record.value)
        return obj if obj["metadata"].get("uid") == owner["uid"] else None

    def _ready_pods(self, namespace: str) -> dict[str, int]:
        """The number of ready pods, by the uid of their topmost owner."""
        counts = self._ready.get(namespace)
        if counts is None:
            counts = self._ready[namespace] = {}
            pods = self._core.table.built_in("", "pods")
            for record in self._core.store.list(pods.list_prefix(namespace)).records:
                pod: Object = msgspec.json.decode(record.value)
                owner = _controller(pod)
                if owner is not None and _is_ready(pod):
                    top_uid, _loaded = self._topmost_owner(owner, namespace)
                    counts[top_uid] = counts.get(top_uid, 0) + 1
        return counts


def _controller(obj: Object) -> Object | None:
    for owner_reference in obj["metadata"].get("ownerReferences") or ():
        if owner_reference.get("controller"):
            controller: Object = owner_reference
            return controller
    return None


def _is_ready(pod: Object) -> bool:
    status = pod.get("status") or {}
    return not pod["metadata"].get("deletionTimestamp") and any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
