"""Kinds of the group ``rbac.authorization.k8s.io``."""

from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import path_segment_errors


class RbacStrategy(Strategy):
    validate_name = staticmethod(path_segment_errors)
    update_steps = ("object meta", "object", "object meta update", "update")
