"""Nodes, pods and small clusters for tests, scheduled without an API server."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.core import Node, Pod
from pilothouse.machinery.labels import Selector, parse_selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.fit_error import FitError
from pilothouse.scheduler.framework.runtime import Framework, filter_node
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.schedule_one import ScheduleResult, SchedulingAlgorithm

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Namespaces:
    """A namespace lister. Each namespace has its name as a label, as in the API server."""

    def __init__(self, **labels: Mapping[str, str]) -> None:
        self._labels = {name: {"kubernetes.io/metadata.name": name, **more} for name, more in labels.items()}

    def labels(self, name: str) -> Mapping[str, str]:
        return self._labels.get(name, {})

    def select(self, selector: Selector) -> frozenset[str]:
        return frozenset(name for name, labels in self._labels.items() if selector.matches(labels))


def node(name: str = "n", *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **parts: Any) -> Node:
    """A node; ``parts`` are its labels, taints, unschedulable, images, features, and more
    resources."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **parts.get("more", {})}
    document = {
        "metadata": {"name": name, "labels": parts.get("labels", {})},
        "spec": {"taints": parts.get("taints", []), "unschedulable": parts.get("unschedulable", False)},
        "status": {
            "allocatable": allocatable,
            "images": parts.get("images", []),
            "declaredFeatures": parts.get("features", []),
        },
    }
    return msgspec.convert(document, Node)


def pod(
    name: str = "p", cpu: str = "", memory: str = "", *, namespace: str = "ns", labels: Any = None, **spec: Any
) -> Pod:
    """A pod of one container; ``spec`` is anything for its spec, ``meta`` and ``status`` for the rest."""
    meta, status = spec.pop("meta", {}), spec.pop("status", {})
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {**requests, **spec.pop("more", {})}}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}, **meta}
    spec.setdefault("containers", [container])
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def info(wanted: Node, *placed: Pod) -> NodeInfo:
    """The node with these pods on it."""
    return cluster([wanted], {wanted.metadata.name: placed}).nodes[wanted.metadata.name]


def filter_status(wanted: Pod, node_pods: Node, *placed: Pod) -> Status | None:
    """The status of the filters that use only the node, for a node with these pods."""
    return filter_node(PodInfo(wanted), info(node_pods, *placed))


def cluster(nodes: Iterable[Node], placed: Mapping[str, Iterable[Pod]] | None = None) -> Cache:
    """Nodes, and the pods on them."""
    cache = Cache()
    for item in nodes:
        cache.update_node(item)
    for name, pods in (placed or {}).items():
        for placed_pod in pods:
            document = msgspec.to_builtins(placed_pod)
            document.setdefault("spec", {})["nodeName"] = name
            cache.add_pod(msgspec.convert(document, Pod))
    return cache


def framework(cache: Cache, namespaces: Namespaces | None = None) -> Framework:
    """The plugins over that cache, without volumes."""
    return Framework(cache, namespaces or Namespaces(ns={}))


class Algorithm:
    """The scheduling algorithm, step by step."""

    def __init__(
        self, cache: Cache, namespaces: Namespaces | None = None, *, default_selector: str = "", seed: int = 1
    ) -> None:
        selector = parse_selector(default_selector) if default_selector else None
        self.framework = framework(cache, namespaces)
        self._algorithm = SchedulingAlgorithm(self.framework, lambda _pod: selector, random.Random(seed))

    def schedule(self, pod: Pod) -> str:
        """The node that is chosen for the pod; it must fit somewhere."""
        result = self._algorithm.schedule_pod(PodInfo(pod))
        assert isinstance(result, ScheduleResult)
        return result.suggested_host

    def fit_error(self, pod: Pod) -> FitError:
        """Why no node is chosen for the pod."""
        result = self._algorithm.schedule_pod(PodInfo(pod))
        assert isinstance(result, FitError)
        return result

    def feasible(self, pod: Pod) -> list[int]:
        """The positions of the nodes that the next search finds."""
        pod_info = PodInfo(pod)
        results, state = self._algorithm._filter_results.get(pod_info), self.framework.pre_filter(pod_info)
        return list(self._algorithm.find_nodes_that_pass_filters(pod_info, results, state))

    def score_differences(self, pod: Pod) -> list[int]:
        """The total score of every node, without the resource scores."""
        pod_info = PodInfo(pod)
        results = self._algorithm._filter_results.get(pod_info)
        base = [results.filter_and_score(node_info) for node_info in self.framework.cache.node_infos]
        totals = self._algorithm.prioritize_nodes(pod_info, results, range(len(base)), [])
        return [total - score for total, score in zip(totals, base, strict=True)]


def statuses(cache: Cache, wanted: Pod, namespaces: Namespaces | None = None) -> dict[str, Status | None]:
    """The status of each node."""
    plugins, pod_info = framework(cache, namespaces), PodInfo(wanted)
    return {name: plugins.filter_node(pod_info, node_info) for name, node_info in cache.nodes.items()}


def fitting(cache: Cache, wanted: Pod, namespaces: Namespaces | None = None) -> list[str]:
    """The feasible nodes. Filtering single nodes and all nodes must agree."""
    one_by_one = [name for name, status in statuses(cache, wanted, namespaces).items() if status is None]
    feasible = Algorithm(cache, namespaces).feasible(wanted)
    assert sorted(cache.node_infos[index].name for index in feasible) == sorted(one_by_one)
    return one_by_one


def term(key: str = HOSTNAME, *, app: str = "", **parts: Any) -> dict[str, Any]:
    """An affinity term for pods with the label ``app``."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}} if app else None, **parts}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required affinity to these terms."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def anti_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required anti-affinity to these terms."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def preferred(kind: str, weight: int, one: dict[str, Any]) -> dict[str, Any]:
    """A preferred term of ``podAffinity`` or ``podAntiAffinity``."""
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": one}]}}


def spread(key: str, skew: int = 1, *, app: str = "web", soft: bool = False, **parts: Any) -> dict[str, Any]:
    """A topology spread constraint."""
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **parts,
    }


def prefers(*terms: tuple[int, str, str]) -> Pod:
    """A pod that prefers nodes by weight, label and value."""
    document = [
        {"weight": w, "preference": {"matchExpressions": [{"key": k, "operator": "In", "values": [v]}]}}
        for w, k, v in terms
    ]
    return pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": document}})
