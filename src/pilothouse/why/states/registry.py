"""The remarks by resource; those under the empty name are for all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pilothouse.why.states import daemonsets, deployments, nodes, pods, replicas, scheduling, statefulsets
from pilothouse.why.states.autoscaling import autoscaler
from pilothouse.why.states.budgets import BUDGETS, budget
from pilothouse.why.states.claims import claim
from pilothouse.why.states.conditions import unfulfilled
from pilothouse.why.states.jobs import cron_job, job
from pilothouse.why.states.namespaces import namespace
from pilothouse.why.states.services import endpoint_slice, endpoints, service
from pilothouse.why.states.terminating import terminating
from pilothouse.why.states.unprocessed import unprocessed
from pilothouse.why.view import Finding, View

Remark = Callable[[View], Awaitable[Finding | None]]

REMARKS: Mapping[str, Sequence[Remark]] = {
    "": (terminating,),
    "cronjobs.batch": (cron_job,),
    "horizontalpodautoscalers.autoscaling": (autoscaler,),
    "jobs.batch": (job,),
    "namespaces": (namespace,),
    "persistentvolumeclaims": (claim,),
    BUDGETS: (budget,),
    "services": (service,),
    "endpoints": (endpoints,),
    "endpointslices.discovery.k8s.io": (endpoint_slice,),
    "pods": (scheduling.unscheduled, pods.ended, pods.not_ready),
    "nodes": (nodes.not_ready, nodes.closed),
    "replicasets.apps": (unprocessed, replicas.short_of_pods),
    "replicationcontrollers": (unprocessed, replicas.short_of_pods),
    "deployments.apps": (unprocessed, deployments.incomplete),
    "statefulsets.apps": (unprocessed, statefulsets.waiting),
    "daemonsets.apps": (unprocessed, daemonsets.incomplete),
}
"""The first remark that has something to say of an object is its explanation."""
OTHERS: Sequence[Remark] = (unfulfilled,)
"""Those of resources that have none of their own."""
