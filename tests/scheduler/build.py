"""Nodes, pods and small clusters for tables: written as in a manifest, placed without a server."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.core import Node, Pod
from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.placement import Likes, Placement, Placer
from pilothouse.scheduler.refusals import Refusal
from pilothouse.scheduler.snapshot import NodeInfo, Snapshot
from pilothouse.scheduler.wish import Wish

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Namespaces:
    """Some namespaces with labels; each has its own name as a label, as the API server sees to."""

    def __init__(self, **labels: Mapping[str, str]) -> None:
        self._labels = {name: {"kubernetes.io/metadata.name": name, **more} for name, more in labels.items()}

    def labels(self, name: str) -> Mapping[str, str]:
        return self._labels.get(name, {})

    def matching(self, selector: Selector) -> frozenset[str]:
        return frozenset(name for name, labels in self._labels.items() if selector.matches(labels))


def node(name: str = "n", *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **parts: Any) -> Node:
    """A node; ``parts`` are its labels, taints, unschedulable, and more resources."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **parts.get("more", {})}
    document = {
        "metadata": {"name": name, "labels": parts.get("labels", {})},
        "spec": {"taints": parts.get("taints", []), "unschedulable": parts.get("unschedulable", False)},
        "status": {"allocatable": allocatable},
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


def cluster(nodes: Iterable[Node], placed: Mapping[str, Iterable[Pod]] | None = None) -> Snapshot:
    """Nodes, and the pods on them."""
    snapshot = Snapshot()
    for one in nodes:
        snapshot.set_node(one)
    for name, pods in (placed or {}).items():
        for placed_pod in pods:
            document = msgspec.to_builtins(placed_pod)
            document.setdefault("spec", {})["nodeName"] = name
            snapshot.confirm(msgspec.convert(document, Pod))
    return snapshot


def nobody(_pod: Pod) -> Selector | None:
    """Nothing selects any pod."""
    return None


def placer(snapshot: Snapshot, namespaces: Namespaces | None = None, likes: Likes = nobody, *, seed: int = 1) -> Placer:
    """Decides in that cluster."""
    return Placer(snapshot, namespaces or Namespaces(ns={}), likes, random.Random(seed))


def refusals(snapshot: Snapshot, wanted: Pod, namespaces: Namespaces | None = None) -> dict[str, Refusal | None]:
    """What each node says to the pod."""
    judge, wish = placer(snapshot, namespaces), Wish(wanted)
    return {name: judge.refusal(wish, info) for name, info in snapshot.nodes.items()}


def fitting(snapshot: Snapshot, wanted: Pod, namespaces: Namespaces | None = None) -> list[str]:
    """The nodes that say yes. The way node by node and the way for many at once must agree."""
    judge, wish = placer(snapshot, namespaces), Wish(wanted)
    one_by_one = [name for name, why in refusals(snapshot, wanted, namespaces).items() if why is None]
    table = judge._tables.get(wish)
    at_once = judge._search(wish, table, judge.relations(wish))
    assert sorted(snapshot.order[index].name for index in at_once) == sorted(one_by_one)
    return one_by_one


def place(snapshot: Snapshot, wanted: Pod, namespaces: Namespaces | None = None, likes: Likes = nobody) -> Placement:
    """The decision."""
    return placer(snapshot, namespaces, likes).place(Wish(wanted))


def term(key: str = HOSTNAME, *, app: str = "", **parts: Any) -> dict[str, Any]:
    """An affinity term for pods with the label ``app``."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}} if app else None, **parts}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    """Must be near these."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    """Must be far from these."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def preferred(kind: str, weight: int, one: dict[str, Any]) -> dict[str, Any]:
    """Would rather be near (``podAffinity``) or far (``podAntiAffinity``)."""
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
