"""The name of the client of a request or change, as in reports. Pure."""

from pilothouse.sim import Origin

API_SERVER = "kube-apiserver"
_PROGRAMS = {"manager": "kube-controller-manager", "scheduler": "kube-scheduler", "nodes": "kubelet", "user": "user"}
_SHARED = frozenset({"", "controller-discovery", "leader-election", "metadata-informers", "shared-informers"})
"""Suffixes of the manager's User-Agents that belong to no controller."""


def client_name(origin: Origin | None) -> str:
    """``deployment-controller``, ``kubelet``, ``user``, or the name of the operator under test. None is the API server
    itself."""
    if origin is None:
        return API_SERVER
    program = origin.program.partition("#")[0]
    if program == "manager" and origin.controller not in _SHARED:
        return origin.controller
    return _PROGRAMS.get(program, program)
