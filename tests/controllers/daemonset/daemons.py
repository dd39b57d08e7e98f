"""Builders of pods, nodes and DaemonSets for tables."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.apps import (
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from pilothouse.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Taint,
)
from pilothouse.api.meta import LabelSelector, ObjectMeta, OwnerReference
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules, in_order
from pilothouse.controllers.workloads.daemonset.placement import MAY_CONTINUE, MUST_NOT_RUN, SHOULD_RUN

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
OWNER = OwnerReference(
    api_version="apps/v1", kind="DaemonSet", name="agent", uid="ds-uid", controller=True, block_owner_deletion=True
)


def ago(**duration: float) -> datetime.datetime:
    """An instant before ``NOW``."""
    return NOW - datetime.timedelta(**duration)


AN_HOUR_AGO = ago(hours=1)
TWO_HOURS_AGO = ago(hours=2)


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Taint:
    return Taint(key=key, effect=effect, value=value)


def node(name: str = "n1", labels: dict[str, str] | None = None, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=name, labels=labels or {}), spec=NodeSpec(taints=taints))


def pinned_to(*names: str) -> Affinity:
    """The affinity of a daemon pod."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=names)
    term = NodeSelectorTerm(match_fields=(requirement,))
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,))
        )
    )


def pod(
    name: str,
    *,
    on: str = "n1",
    pinned: str = "",
    hash: str = "new",  # noqa: A002  # the label's own name
    generation: int | None = None,
    phase: str = "Running",
    ready: bool = True,
    since: datetime.datetime | None = AN_HOUR_AGO,
    created: datetime.datetime | None = TWO_HOURS_AGO,
    deleted: bool = False,
    labels: dict[str, str] | None = None,
    version: str = "1",
) -> Pod:
    """A pod of the DaemonSet default/agent, running and ready on node n1 by default."""
    marks = {"app": "agent", "controller-revision-hash": hash}
    if generation is not None:
        marks["pod-template-generation"] = str(generation)
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=since),) if ready else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            resource_version=version,
            labels=marks if labels is None else labels,
            creation_timestamp=created,
            deletion_timestamp=NOW if deleted else None,
            owner_references=(OWNER,),
        ),
        spec=PodSpec(node_name="" if pinned else on, affinity=pinned_to(pinned) if pinned else None),
        status=PodStatus(phase=phase, conditions=conditions),
    )


def node_pods(*pods: Pod, at: str = "n1", run: bool = True, stay: bool | None = None, exists: bool = True) -> NodePods:
    """A node that should run a pod, or (``run=False``) must not, or (``stay=True``) may only keep one."""
    placement = SHOULD_RUN if run else (MAY_CONTINUE if stay else MUST_NOT_RUN)
    return NodePods(node=at, exists=exists, placement=placement, pods=in_order(pods))


PLAIN = Rules(revision_hash="new")
SURGE = Rules(revision_hash="new", surges=True)


def rolling(unavailable: int | str | None = None, surge: int | str | None = None) -> DaemonSetUpdateStrategy:
    return DaemonSetUpdateStrategy(
        type="RollingUpdate",
        rolling_update=RollingUpdateDaemonSet(max_unavailable=unavailable, max_surge=surge),
    )


def daemon_set(
    template: dict[str, Any] | None = None, *, generation: int = 1, status: DaemonSetStatus | None = None
) -> DaemonSet:
    """The DaemonSet default/agent, selecting app=agent."""
    whole = {"metadata": {"labels": {"app": "agent"}}, "spec": template or {}}
    return DaemonSet(
        metadata=ObjectMeta(name="agent", namespace="default", uid="ds-uid", generation=generation),
        spec=DaemonSetSpec(
            selector=LabelSelector(match_labels={"app": "agent"}), template=msgspec.Raw(msgspec.json.encode(whole))
        ),
        status=status or DaemonSetStatus(),
    )


def revision(name: str, number: int, *, hash: str | None = None, data: bytes = b"{}") -> ControllerRevision:  # noqa: A002
    return ControllerRevision(
        metadata=ObjectMeta(name=name, labels={} if hash is None else {"controller-revision-hash": hash}),
        data=msgspec.Raw(data),
        revision=number,
    )
