"""Builders of pods, claims and ``Observed`` values for tables of decisions."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.apps import StatefulSet
from pilothouse.api.core import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Volume,
)
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.workloads.statefulset.decide import Observed
from pilothouse.controllers.workloads.statefulset.identity import NAME_LABEL, REVISION_LABEL
from pilothouse.controllers.workloads.statefulset.replicas import Rules, split_replicas
from pilothouse.controllers.workloads.statefulset.retention import Policy
from pilothouse.controllers.workloads.statefulset.volume_claims import claim_templates

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
OLD, NEW = "web-old", "web-new"
SET_UID = "set-uid"
DATA = claim_templates(msgspec.Raw(b'[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"]}}]'), {})


def pod(
    name: str,
    *,
    revision: str = NEW,
    phase: str = "Running",
    ready: bool | None = None,
    since: float = 3600.0,
    terminating: bool = False,
    labelled: bool = True,
    claim: str = "",
) -> Pod:
    """A pod, healthy by default. ``since`` is how many seconds it has been ready."""
    is_ready = phase == "Running" if ready is None else ready
    at = NOW - datetime.timedelta(seconds=since)
    labels = {REVISION_LABEL: revision} | ({NAME_LABEL: name} if labelled else {})
    source = PersistentVolumeClaimVolumeSource(claim_name=claim)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels=labels,
            deletion_timestamp=NOW if terminating else None,
        ),
        spec=PodSpec(volumes=(Volume(name="data", persistent_volume_claim=source),) if claim else ()),
        status=PodStatus(
            phase=phase,
            conditions=(PodCondition(type="Ready", status="True" if is_ready else "False", last_transition_time=at),),
        ),
    )


def pods(*states: str, revision: str = NEW) -> list[Pod]:
    """``web-0`` and on: ``+`` well, ``-`` unready, ``x`` on its way out, ``p`` pending, ``f`` failed, ``.`` missing;
    a second letter ``o`` says that it is of the old revision."""
    variants: dict[str, dict[str, Any]] = {
        "+": {},
        "-": {"ready": False},
        "x": {"terminating": True},
        "p": {"phase": "Pending"},
        "f": {"phase": "Failed"},
        "s": {"phase": "Succeeded"},
    }
    return [
        pod(f"web-{ordinal}", revision=OLD if state.endswith("o") else revision, **variants[state[0]])
        for ordinal, state in enumerate(states)
        if state != "."
    ]


RETAIN = Policy()


def observed(
    names: list[Pod], *, policy: Policy = RETAIN, claims: tuple[PersistentVolumeClaim, ...] = (), **more: Any
) -> Observed:
    """``Observed`` with these pods. ``more`` are rules, or fields of ``Observed``."""
    fields = {name: more.pop(name) for name in list(more) if name in Observed.__struct_fields__}
    rules = Rules(**{"name": "web", "desired": 3, **more})
    return Observed(
        **{
            "rules": rules,
            "replicas": split_replicas(names, rules, NOW),
            "current": OLD,
            "update": NEW,
            "uid": SET_UID,
            "policy": policy,
            "claims": {claim.metadata.name: claim for claim in claims},
            "now": NOW,
            **fields,
        }
    )


def owned_by(kind: str, name: str, uid: str, *, controller: bool = True) -> OwnerReference:
    """A reference to a StatefulSet, a pod or something else."""
    version = {"Pod": "v1", "StatefulSet": "apps/v1"}.get(kind, "example.com/v1")
    return OwnerReference(
        api_version=version, kind=kind, name=name, uid=uid, controller=controller, block_owner_deletion=controller
    )


BY_SET = owned_by("StatefulSet", "web", SET_UID)


def by_pod(name: str, uid: str = "") -> OwnerReference:
    """A controller reference of a claim to a pod."""
    return owned_by("Pod", name, uid or f"uid-{name}")


def claim(name: str, *owners: OwnerReference, terminating: bool = False) -> PersistentVolumeClaim:
    """A claim."""
    meta = ObjectMeta(
        name=name, namespace="default", owner_references=owners, deletion_timestamp=NOW if terminating else None
    )
    return PersistentVolumeClaim(metadata=meta)


def stateful_set(**fields: Any) -> StatefulSet:
    """A StatefulSet from JSON fields."""
    whole = {"metadata": {"name": "web", "namespace": "default", "uid": SET_UID, "generation": 1}, **fields}
    return msgspec.json.decode(msgspec.json.encode(whole), type=StatefulSet)
