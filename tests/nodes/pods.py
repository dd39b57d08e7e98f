"""Pods and their containers, in a short form for tables."""

import datetime
from typing import Any

import msgspec

from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import PREFIX, behaviour_of
from pilothouse.nodes.containers import RuntimePod, advance, new_runtime_pod
from pilothouse.nodes.pod_status import Instant
from pilothouse.nodes.views import NodePod

AT = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
PLAIN = Profile(start_delay=0.0, stop_delay=2.0)


def instant(loop: float) -> Instant:
    """The time this many seconds after noon."""
    return Instant(loop, AT + datetime.timedelta(seconds=loop))


def pod(
    *names: str,
    inits: tuple[str, ...] = (),
    policy: str = "Always",
    grace: int | None = None,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    owner: str = "",
    finalizers: tuple[str, ...] = (),
    **spec: Any,
) -> NodePod:
    """A pod with these containers; init containers of the form ``name*`` are sidecars."""
    metadata: dict[str, Any] = {"name": "p", "namespace": "ns", "uid": "u", "generation": 3}
    if grace is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
    if annotations:
        metadata["annotations"] = {f"{PREFIX}{key}": text for key, text in annotations.items()}
    if finalizers:
        metadata["finalizers"] = finalizers
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    pod_spec = {
        "restartPolicy": policy,
        "containers": [{"name": name, "image": "nginx:1"} for name in names or ("a",)],
        "initContainers": [
            {"name": name.rstrip("*"), "image": "x", **({"restartPolicy": "Always"} if name.endswith("*") else {})}
            for name in inits
        ],
        **spec,
    }
    return msgspec.convert({"metadata": metadata, "spec": pod_spec, "status": status or {"phase": "Pending"}}, NodePod)


def runtime_pod(
    pod_object: NodePod, profile: Profile = PLAIN, *, at: float = 0.0, until: float | None = None
) -> RuntimePod:
    """Its containers, admitted by a node at ``at``, and advanced to ``until``."""
    behaviour = behaviour_of(pod_object, profile)
    assert behaviour.invalid_annotations == ()
    started = new_runtime_pod(pod_object, behaviour, profile, at + behaviour.start_delay)
    if until is not None:
        advance(started, until)
    return started


def states(pod_object: RuntimePod) -> list[tuple[str, str, int, bool]]:
    """Name, state or waiting reason, restarts, ready."""
    return [(run.name, run.reason or run.state, run.restarts, run.ready) for run in pod_object.containers]
