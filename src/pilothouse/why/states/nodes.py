"""Nodes that are not ready, cordoned, tainted or under pressure."""

from typing import Any

from pilothouse.why.evidence import Reference
from pilothouse.why.states.budgets import blocked_evictions
from pilothouse.why.states.scheduling import UNSCHEDULABLE, node_change
from pilothouse.why.steps import FAULT, STATE, Step
from pilothouse.why.view import Finding, View

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_OF_CONDITIONS = "node.kubernetes.io/"
_MAX_TAINTS = 3


async def not_ready(view: View) -> Finding | None:
    """A node whose condition Ready is not True: since when its kubelet is silent, or the reason it reports."""
    ready = view.condition("Ready")
    if ready.get("status") == "True":
        return None
    if not ready:
        return Finding(
            "not ready", (view.step("has no condition Ready: its kubelet has reported nothing", root=STATE),)
        )
    if ready.get("status") == "Unknown":
        step = view.step(f"does not report: {await _last_heartbeat(view, ready)}", root=FAULT)
        step.table = [f"{ready.get('reason')}: {ready.get('message')}"]
    else:
        step = view.step(f"is not ready, its kubelet says: {_reason_and_message(ready)}", root=FAULT)
    step.because = await view.chain.injected(view.reference)
    return Finding("not ready", (step,))


async def _last_heartbeat(view: View, ready: dict[str, Any]) -> str:
    lease = await view.evidence.get(Reference("leases.coordination.k8s.io", "kube-node-lease", view.reference.name))
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    parts = [f"its last status was at {ready.get('lastHeartbeatTime')}"]
    if renewed:
        parts.append(f"its Lease was last renewed at {renewed}")
    return f"{', '.join(parts)}, and it was marked at {ready.get('lastTransitionTime')}"


def _reason_and_message(condition: dict[str, Any]) -> str:
    return ": ".join(str(text) for text in (condition.get("reason"), condition.get("message")) if text)


async def restricted(view: View) -> Finding | None:
    """A ready node that is cordoned, tainted or under pressure, and by whom."""
    steps: list[Step] = []
    states: list[str] = []
    for kind in _PRESSURES:
        condition = view.condition(kind)
        if condition.get("status") == "True":
            states.append("under pressure")
            because = await view.chain.injected(view.reference)
            steps.append(
                view.step(f"has the condition {kind}: {_reason_and_message(condition)}", root=FAULT, because=because)
            )
    if view.spec.get("unschedulable"):
        states.append("cordoned")
        steps.append(await node_change(view, UNSCHEDULABLE) or view.step("is cordoned", root=STATE))
        steps += await blocked_evictions(view)
    for taint in (view.spec.get("taints") or ())[:_MAX_TAINTS]:
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if key.startswith(_OF_CONDITIONS) and steps:
            continue  # explained by the condition or the cordon
        states.append("tainted")
        step = await node_change(view, f"taint {key}")
        steps.append(step or view.step(f"has the taint {key}:{effect}, since before the history", root=STATE))
    if not steps:
        return None
    return Finding(", ".join(dict.fromkeys(states)), tuple(steps))
