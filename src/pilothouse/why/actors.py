"""Describes who made a change, and classifies root causes. Pure."""

from pilothouse.machinery.causes import TIMER, Cause, Origin
from pilothouse.why.evidence import ObjectChange
from pilothouse.why.steps import FAULT, PROGRAM, TIME, UNKNOWN, USER

FAULTS = frozenset({"kubelet", "node-lifecycle-controller"})
"""Components whose writes without a trigger follow from something outside of the API: a container, a node."""


_SERVER = "kube-apiserver"
_SERVER_USER = "system:apiserver"


def component_cause(change: ObjectChange) -> Cause | None:
    """The cause of a write by a component. None if the API server added the cause to another user's request."""
    origin = change.origin
    return None if origin is not None and _is_annotation(change.cause, origin) else change.cause


def _is_annotation(cause: Cause | None, origin: Origin) -> bool:
    """Whether the API server added the cause to another user's request: which budget an eviction is charged to."""
    return cause is not None and cause.component == _SERVER and origin.user != _SERVER_USER


def actor(change: ObjectChange) -> str:
    """Who made a change: ``jane with kubectl scale``, ``replicaset-controller``."""
    origin = change.origin
    if origin is None:
        return ""
    cause = component_cause(change)
    if cause is not None:
        program = origin.user_agent.partition(" ")[0] if change.inferred else ""
        return _component(cause.component, origin.user) + (f" ({program})" if program else "")
    claimed = origin.cause if change.cause is None and not _is_annotation(origin.cause, origin) else None
    claims = f", who claims to be {claimed.component}" if claimed is not None else ""
    tool = _tool(origin)
    return (" with ".join(part for part in (origin.shown_user, tool) if part)) + claims


def _tool(origin: Origin) -> str:
    """The program with its subcommand: kubectl sends it as ``Kubectl-Command`` since v1.22; before, it is often in the
    field manager."""
    evicts = origin.subresource == "eviction"
    if origin.command.startswith("kubectl "):
        return f"{origin.command} (an eviction)" if evicts else origin.command
    program = origin.user_agent.partition("/")[0]
    manager = origin.field_manager
    if program == "kubectl":
        if evicts:
            return "kubectl drain (an eviction)"
        if origin.subresource == "scale":
            return "kubectl scale"
        if manager.startswith("kubectl-"):
            program = f"kubectl {manager.removeprefix('kubectl-').replace('client-side-apply', 'apply')}"
        elif origin.verb.startswith("delete"):
            program = "kubectl delete"
    tool = program or manager
    if not origin.subresource or origin.subresource == "status":
        return tool
    return f"{tool} ({origin.subresource})" if tool else f"the subresource {origin.subresource}"


def _component(name: str, user: str) -> str:
    """The name of a component; that of another program with its user."""
    if user.startswith("system:serviceaccount:") and not user.startswith("system:serviceaccount:kube-system:"):
        return f"{name} as {user}"
    return name


_COMMAND_BY_CHANGE = {
    "spec.unschedulable added (true)": "cordon or drain",
    "spec.unschedulable removed": "uncordon",
    "spec.paused added (true)": "rollout pause",
    "spec.paused removed": "rollout resume",
    "kubectl.kubernetes.io/restartedAt": "rollout restart",
    "changed: taint ": "taint",
}
"""Changes by which kubectl commands without a field manager of their own are recognized (older releases)."""


def actor_with_command(change: ObjectChange, text: str) -> str:
    """``actor``, with the kubectl command that makes such a change."""
    name = actor(change)
    if name.endswith(" with kubectl"):
        for part, command in _COMMAND_BY_CHANGE.items():
            if part in text:
                return f"{name} {command}"
    return name


def root_kind(change: ObjectChange) -> str:
    """The kind of root cause for a change without a known reason: USER, PROGRAM, FAULT, TIME or UNKNOWN."""
    origin = change.origin
    if origin is None:
        return UNKNOWN
    cause = component_cause(change)
    if cause is None:
        # Without a user it is from a decision log, and so from a program of pilothouse.
        return PROGRAM if origin.sender.startswith("system:") or not origin.sender else USER
    if cause.component in FAULTS:
        return FAULT
    if any(trigger.type == TIMER for trigger in cause.triggers):
        return TIME
    return UNKNOWN
