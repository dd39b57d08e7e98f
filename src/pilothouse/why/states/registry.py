"""The checks by group resource; those under the empty name are for all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pilothouse.why.states import daemonsets, deployments, nodes, pods, replicas, scheduling, statefulsets
from pilothouse.why.states.autoscaling import autoscaler
from pilothouse.why.states.budgets import BUDGETS, budget
from pilothouse.why.states.certificates import request
from pilothouse.why.states.claims import claim
from pilothouse.why.states.conditions import not_reported, unfulfilled
from pilothouse.why.states.devices import resource_claim
from pilothouse.why.states.jobs import cron_job, job
from pilothouse.why.states.kopf_handlers import failed_handler
from pilothouse.why.states.namespaces import namespace
from pilothouse.why.states.policies import policy
from pilothouse.why.states.quotas import quota
from pilothouse.why.states.references import binding, ingress, policy_binding, webhooks
from pilothouse.why.states.services import endpoint_slice, endpoints, service
from pilothouse.why.states.terminating import terminating
from pilothouse.why.states.unprocessed import unprocessed, unprocessed_if_observed
from pilothouse.why.states.volumes import attachment, volume
from pilothouse.why.view import Finding, View

Check = Callable[[View], Awaitable[Finding | None]]

CHECKS: Mapping[str, Sequence[Check]] = {
    "": (terminating,),
    "cronjobs.batch": (cron_job,),
    "horizontalpodautoscalers.autoscaling": (autoscaler,),
    "jobs.batch": (job,),
    "namespaces": (namespace,),
    "persistentvolumeclaims": (claim,),
    "persistentvolumes": (volume,),
    "volumeattachments.storage.k8s.io": (attachment,),
    "resourcequotas": (quota,),
    BUDGETS: (unprocessed, budget),
    "services": (service,),
    "endpoints": (endpoints,),
    "endpointslices.discovery.k8s.io": (endpoint_slice,),
    "pods": (scheduling.unscheduled, pods.finished, pods.not_ready),
    "nodes": (nodes.not_ready, nodes.restricted),
    "replicasets.apps": (unprocessed, replicas.short_of_pods),
    "replicationcontrollers": (unprocessed, replicas.short_of_pods),
    "deployments.apps": (unprocessed, deployments.incomplete),
    "statefulsets.apps": (unprocessed, statefulsets.incomplete),
    "daemonsets.apps": (unprocessed, daemonsets.incomplete),
    "certificatesigningrequests.certificates.k8s.io": (request,),
    "resourceclaims.resource.k8s.io": (resource_claim,),
    "ingresses.networking.k8s.io": (ingress,),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (policy,),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (policy,),
}
"""The checks of a resource run in this order; the first with a finding is the explanation."""
CHECKS_OF_STORED: Mapping[str, Sequence[Check]] = {
    "rolebindings.rbac.authorization.k8s.io": (binding,),
    "clusterrolebindings.rbac.authorization.k8s.io": (binding,),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (webhooks,),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (webhooks,),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (policy_binding,),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (policy_binding,),
}
"""The same for objects without a status."""
DEFAULT_CHECKS: Sequence[Check] = (failed_handler, unprocessed_if_observed, unfulfilled, not_reported)
"""The checks of all other resources."""
