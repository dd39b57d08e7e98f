"""The ReplicaSet controller for another kind: see the package."""

from typing import cast

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import REPLICATION_CONTROLLERS
from pilothouse.api.kinds import Kind
from pilothouse.controllers.workloads.replicaset.controller import ReplicaSetController
from pilothouse.controllers.workloads.replicationcontroller import ReplicationControllerOptions
from pilothouse.runtime import ControllerContext


def build(context: ControllerContext) -> ReplicaSetController:
    """The controller of ReplicationControllers."""
    # The views have the same fields, but for the two that ``replicaset`` reads by type: selector and status.
    kind = cast("Kind[ReplicaSet]", REPLICATION_CONTROLLERS)
    options = context.options_as(ReplicationControllerOptions)
    return ReplicaSetController(context, kind, options, name="replication-controller", queue_name="replicationmanager")
