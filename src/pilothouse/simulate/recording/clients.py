"""Who sent a request or made a change, by the name that a reader of a report knows. Pure."""

from pilothouse.sim import Origin

API_SERVER = "kube-apiserver"
_PROGRAMS = {"manager": "kube-controller-manager", "scheduler": "kube-scheduler", "nodes": "kubelet", "user": "user"}
_SHARED = frozenset({"", "controller-discovery", "leader-election", "metadata-informers", "shared-informers"})
"""How the User-Agents of the manager's own clients end, which belong to no controller."""


def client_name(origin: Origin | None) -> str:
    """``deployment-controller``, ``kubelet``, ``user``; of an operator under test its name. None stands for what the
    API server does by itself."""
    if origin is None:
        return API_SERVER
    program = origin.program.partition("#")[0]
    if program == "manager" and origin.controller not in _SHARED:
        return origin.controller
    return _PROGRAMS.get(program, program)
