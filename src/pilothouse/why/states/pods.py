"""Pods that do not run, are not ready, or have finished."""

import datetime
import re
from typing import Any

from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.changes import summary
from pilothouse.why.states import lifetime
from pilothouse.why.states.containers import Failure, container_lines, failures
from pilothouse.why.states.unreachable_nodes import eviction_lines
from pilothouse.why.steps import FAULT, STATE, UNREADABLE, Step
from pilothouse.why.view import Finding, View

STARTING = "is being started, nothing is known to hold it up"
_MAX_FAILURES = 3
_MISSING_CLASSES = (
    ("priorityclasses.scheduling.k8s.io", re.compile(r"no PriorityClass with name (\S+) was found")),
    ("runtimeclasses.node.k8s.io", re.compile(r'RuntimeClass "(\S+)" not found')),
)
_VOLUME_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeResizeFailed"})


async def finished(view: View) -> Finding | None:
    """A pod in phase Failed or Succeeded."""
    phase = view.status.get("phase")
    if phase not in ("Failed", "Succeeded"):
        return None
    table = container_lines(view.now or {})
    changed = await _phase_change(view, phase)
    if changed is None:
        reason = ": ".join(text for text in (view.status.get("reason"), view.status.get("message")) if text)
        step = view.step(f"has ended as {phase}{f', {reason}' if reason else ''}", root=FAULT)
    else:
        step = changed
    step.table = [*step.table, *table]
    return Finding("failed" if phase == "Failed" else "completed", (step,))


async def _phase_change(view: View, phase: str) -> Step | None:
    for change in reversed(await view.changes()):
        if change.uid != view.uid or change.type != "MODIFIED":
            continue
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if _phase(new) == phase and _phase(old) not in (phase, ""):
            text = summary(change, old, new).text
            return await view.chain.step(change, text="completed" if phase == "Succeeded" else text)
    return None


def _phase(document: dict[str, Any] | None) -> str:
    return str(((document or {}).get("status") or {}).get("phase") or "")


async def not_ready(view: View) -> Finding | None:
    """A scheduled pod that is not ready: because of its containers, node, volumes, probes or readiness gates."""
    if not view.spec.get("nodeName") or view.condition("Ready").get("status") == "True":
        return None
    steps = [await _failure_step(view, failure) for failure in failures(view.now or {})[:_MAX_FAILURES]]
    if not steps:
        for check in (_node_step, _volume_step, _init_step, _probe_step, _readiness_gates_step, _marked_step):
            step = await check(view)
            if step is not None:
                steps.append(step)
                break
    if not steps:
        steps.append(await _starting_step(view))
    steps[0].table = [*steps[0].table, *container_lines(view.now or {}), *await _killed_lines(view)]
    state = "not ready" if view.status.get("phase") == "Running" else "not started"
    return Finding(state, tuple(steps))


async def _failure_step(view: View, failure: Failure) -> Step:
    missing = await missing_object(view, failure.text)
    if missing is not None:
        return view.step(f"is held up: {failure.text}", because=[missing])
    if failure.in_spec and not await was_ready(view):
        creation = await lifetime.created(view)
        if creation is not None:
            return view.step(f"is held up: {failure.text}", because=[creation])
    because = await view.chain.injected(view.reference)
    return view.step(f"is held up: {failure.text}", root=FAULT, because=because)


async def missing_object(view: View, text: str) -> Step | None:
    """For messages like ``configmap "x" not found``: who deleted the object, or that it was never created."""
    for resource, pattern in _MISSING_CLASSES:
        match = pattern.search(text)
        class_ = await view.read(resource, match[1], namespace="") if match is not None else None
        if class_ is not None and class_.now is None and not await _may_exist(class_):
            return await _missing_object_step(view, class_)
    for plural, word in (("configmaps", "configmap"), ("secrets", "secret"), ("serviceaccounts", "serviceaccount")):
        for prefix in (f'{word} "', f'{plural} "'):
            _prefix, separator, rest = text.partition(prefix)
            name = rest.partition('"')[0]
            if separator and name and "not found" in rest:
                other = await view.read(plural, name)
                if other.now is not None or await _may_exist(other):
                    return None
                return await _missing_object_step(view, other)
    return None


async def _may_exist(view: View) -> bool:
    """Whether an object could not be read, and no deletion of it is recorded."""
    return view.is_unreadable and (await lifetime.unreadable(view)).state == UNREADABLE


async def _missing_object_step(view: View, other: View) -> Step | None:
    steps = (await other.finding()).steps
    if steps and steps[0].by:
        return steps[0]
    creation = await lifetime.created(view)
    missing = other.step("is not there, and no change of it is known")
    if creation is None:
        missing.root = STATE
    else:
        missing.because = [creation]
    return missing


async def was_ready(view: View) -> bool:
    """Whether a recorded version of the pod was ready."""
    for change in await view.changes():
        is_update = change.uid == view.uid and change.type == "MODIFIED"
        if is_update and _is_ready(await view.evidence.after(change)):
            return True
    return False


async def _node_step(view: View) -> Step | None:
    name = view.spec["nodeName"]
    node = await view.read("nodes", name, namespace="")
    if await _may_exist(node):
        return await _unreadable_node_step(view, node)
    if node.now is None:
        finding = await node.finding()
        return view.step(f"is bound to node {name}, which is gone", because=list(finding.steps))
    if node.condition("Ready").get("status") == "True":
        return None
    finding = await node.finding()
    because = list(finding.steps)
    return view.step(f"is on node {name}, which is not ready", table=eviction_lines(view, node), because=because)


async def _unreadable_node_step(view: View, node: View) -> Step | None:
    """Only the node lifecycle controller sets Ready to False while the containers are ready (v1.36
    ``pkg/controller/util/node``, ``MarkPodsNotReady``)."""
    if view.condition("ContainersReady").get("status") != "True" or _missing_gates(view):
        return None
    text = f"is on node {node.reference.name}, which is probably not ready: the containers of the pod are"
    return view.step(text, because=list((await node.finding()).steps))


async def _volume_step(view: View) -> Step | None:
    for event in reversed(await view.evidence.events(view.reference, view.uid)):
        if event.reason in _VOLUME_EVENTS:
            step = view.step(f"waits for a volume: {event.message}")
            missing = await missing_object(view, event.message)
            if missing is not None:
                step.because = [missing]
            else:
                step.root = FAULT
            return step
    waiting = [
        status for status in (view.status.get("containerStatuses") or ()) if (status.get("state") or {}).get("waiting")
    ]
    claims = [volume for volume in view.spec.get("volumes") or () if volume.get("persistentVolumeClaim")]
    if waiting and claims and view.status.get("phase") == "Pending" and not _is_starting(view):
        names = ", ".join(claim["persistentVolumeClaim"].get("claimName", "") for claim in claims)
        return view.step(f"waits until the volumes of its claims {names} are attached", root=STATE)
    return None


def _is_starting(view: View) -> bool:
    return view.condition("PodReadyToStartContainers").get("status") == "True"


async def _init_step(view: View) -> Step | None:
    """An init container that runs; if it is a sidecar, until its startup probe succeeds."""
    # Since v1.34 (ContainerRestartRules) init containers that end may have another restart policy.
    sidecars = {
        entry.get("name") for entry in view.spec.get("initContainers") or () if entry.get("restartPolicy") == "Always"
    }
    for status in view.status.get("initContainerStatuses") or ():
        running = (status.get("state") or {}).get("running")
        if running is None or (status.get("name") in sidecars and status.get("started")):
            continue
        end = "has started" if status.get("name") in sidecars else "ends"
        creation = await lifetime.created(view)
        return view.step(
            f"waits until its init container {status.get('name')} {end}, which runs since {running.get('startedAt')}",
            root=STATE,
            because=[creation] if creation is not None else [],
        )
    return None


async def _killed_lines(view: View) -> list[str]:
    """That the kubelet restarts a container because of a probe, with the last failure of the probe."""
    restarted = any(status.get("restartCount") for status in view.status.get("containerStatuses") or ())
    events = await view.evidence.events(view.reference, view.uid) if restarted else []
    killed = [
        event.message for event in events if event.reason == "Killing" and "probe, will be restarted" in event.message
    ]
    kind = "Startup" if killed and "startup probe" in killed[-1] else "Liveness"
    failed = [event.message for event in events if event.reason == "Unhealthy" and event.message.startswith(kind)]
    return [" ".join(message.split()) for message in (*killed[-1:], *(failed[-1:] if killed else ()))]


async def _probe_step(view: View) -> Step | None:
    running = [
        status
        for status in view.status.get("containerStatuses") or ()
        if (status.get("state") or {}).get("running") and not status.get("ready")
    ]
    if not running:
        return None
    names = ", ".join(str(status.get("name")) for status in running)
    kind, result = ("startup", "has not succeeded") if not running[0].get("started", True) else ("readiness", "fails")
    messages = [
        event.message
        for event in await view.evidence.events(view.reference, view.uid)
        if event.reason == "Unhealthy" and event.message
    ]
    if kind == "readiness" and not messages and (delays := _delays_before_probes(view, running)):
        seconds = f"{max(delays.values())} s (initialDelaySeconds)"
        text = (
            f"runs, and waits for the first readiness probe of container {', '.join(delays)}, {seconds} after its start"
        )
        return view.step(text, root=STATE)
    detail = f": {' '.join(messages[-1].split())}" if messages else ""
    text = f"runs, but the {kind} probe of container {names} {result}{detail}"
    if not await was_ready(view):
        creation = await lifetime.created(view)
        if creation is not None:
            return view.step(text, because=[creation])
    return view.step(text, root=FAULT, because=await view.chain.injected(view.reference))


def _delays_before_probes(view: View, running: list[dict[str, Any]]) -> dict[str, int]:
    """The initial delays of the readiness probes of these containers, by name, if none of them is over."""
    delays: dict[str, int] = {}
    specs = {container.get("name"): container for container in view.spec.get("containers") or ()}
    for status in running:
        name = str(status.get("name"))
        seconds = ((specs.get(name) or {}).get("readinessProbe") or {}).get("initialDelaySeconds") or 0
        try:
            started = parse_time(status["state"]["running"].get("startedAt") or "")
        except TimeError:
            return {}
        if view.time >= started + datetime.timedelta(seconds=seconds):
            return {}
        delays[name] = seconds
    return delays


async def _readiness_gates_step(view: View) -> Step | None:
    missing = _missing_gates(view)
    if not missing:
        return None
    statuses = "; ".join(f"{gate} is {view.condition(gate).get('status') or 'not set'}" for gate in missing)
    return view.step(f"runs, but waits for its readiness gates, which another program sets: {statuses}", root=STATE)


def _missing_gates(view: View) -> list[str]:
    gates = [gate.get("conditionType", "") for gate in view.spec.get("readinessGates") or ()]
    return [gate for gate in gates if view.condition(gate).get("status") != "True"]


async def _marked_step(view: View) -> Step | None:
    """A pod that the node lifecycle controller has marked because of its node. The node is ready again, and the kubelet
    has not reported the pod's status since."""
    if view.condition("ContainersReady").get("status") != "True":
        return None
    for change in reversed(await view.changes()):
        if change.uid != view.uid or change.type != "MODIFIED":
            continue
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if _is_ready(old) and not _is_ready(new):
            text = "was marked as not ready because of its node, which is ready again: its kubelet will report the pod"
            return await view.chain.step(change, text=text)
    return None


def _is_ready(document: dict[str, Any] | None) -> bool:
    conditions = ((document or {}).get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


async def _starting_step(view: View) -> Step:
    creation = await lifetime.created(view)
    step = view.step(STARTING)
    if creation is not None:
        step.because = [creation]
    else:
        step.root = STATE
    return step
