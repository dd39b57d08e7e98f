"""Who made a change, as people say it, and what kind of beginning it is. Pure."""

from pilothouse.machinery.causes import TIMER, Cause, Origin
from pilothouse.why.evidence import ObjectChange
from pilothouse.why.steps import FAULT, PROGRAM, TIME, UNKNOWN, USER

FAULTS = frozenset({"kubelet", "node-lifecycle-controller"})
"""What these do without an event that led to it, they do because of something outside of the cluster's objects."""


_SERVER = "kube-apiserver"
_SERVER_USER = "system:apiserver"


def acting(change: ObjectChange) -> Cause | None:
    """The cause of a write by a component. What the API server remarks on the request of somebody is none."""
    cause, origin = change.cause, change.origin
    remark = cause is not None and cause.component == _SERVER and origin is not None and origin.user != _SERVER_USER
    return None if remark else cause


def who(change: ObjectChange) -> str:
    """Who made a change, as people say it: ``jane with kubectl scale``, ``replicaset-controller``."""
    origin = change.origin
    if origin is None:
        return ""
    cause = acting(change)
    if cause is not None:
        program = origin.user_agent.partition(" ")[0] if change.inferred else ""
        return _component(cause.component, origin.user) + (f" ({program})" if program else "")
    claimed = origin.cause if change.cause is None else None
    claims = f", who claims to be {claimed.component}" if claimed is not None else ""
    tool = _tool(origin)
    return (" with ".join(part for part in (origin.user, tool) if part)) + claims


def _tool(origin: Origin) -> str:
    """The program, with its subcommand: kubectl names it since v1.22, before that the field manager often does."""
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
    """A component of Kubernetes is known by its name, a program of somebody else by its user as well."""
    if user.startswith("system:serviceaccount:") and not user.startswith("system:serviceaccount:kube-system:"):
        return f"{name} as {user}"
    return name


_BY_CHANGE = {
    "spec.unschedulable added (true)": "cordon or drain",
    "spec.unschedulable removed": "uncordon",
    "spec.paused added (true)": "rollout pause",
    "spec.paused removed": "rollout resume",
    "kubectl.kubernetes.io/restartedAt": "rollout restart",
    "changed: taint ": "taint",
}
"""What the commands change that give no name of their own as field manager (those of older releases)."""


def act(change: ObjectChange, text: str) -> str:
    """``who``, with the command of kubectl that makes a change like this one."""
    found = who(change)
    if found.endswith(" with kubectl"):
        for part, command in _BY_CHANGE.items():
            if part in text:
                return f"{found} {command}"
    return found


def root_of(change: ObjectChange) -> str:
    """What kind of beginning a change is that nothing known led to."""
    origin = change.origin
    if origin is None:
        return UNKNOWN
    cause = acting(change)
    if cause is None:
        # Without a user it is from a decision log: a program of pilothouse.
        return PROGRAM if origin.user.startswith("system:") or not origin.user else USER
    if cause.component in FAULTS:
        return FAULT
    if any(trigger.type == TIMER for trigger in cause.triggers):
        return TIME
    return UNKNOWN
