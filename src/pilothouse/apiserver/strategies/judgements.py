"""How often upstream judges the same object in one request: each time, it lists what is wrong anew.

Before an update the registry looks at the metadata, and so does each kind's own validation, often by way of the whole
object; some kinds do that once more. The text of an error names a cause once, its ``causes`` as often as it was found.

Counted in kubernetes' ``pkg/registry/*/strategy.go`` and ``pkg/apis/*/validation`` (v1.36), and on a kube-apiserver
v1.20 where nothing has changed since. ``metadata`` and ``Strategy.validate_again`` read this.
"""

import msgspec


class Judgements(msgspec.Struct, frozen=True):
    """Of one kind. ``created``: its own looks at a new object, none if they leave out the metadata. ``whole`` and
    ``change``: those at the metadata of an update, as that of an object and as that of a change. ``spec``: looks at
    all the rest on an update. ``finalizers``: whether its own looks know which finalizers are the server's.
    ``status``: whether a write to the status is judged like that of an object."""

    created: int = 1
    whole: int = 0
    change: int = 1
    spec: int = 1
    finalizers: bool = True
    status: bool = False


ONCE = Judgements()
"""Most kinds, and nearly every write to a status."""
GENERIC = Judgements(finalizers=False)

_AGAIN = Judgements(whole=1)
_WHOLE = Judgements(whole=1, change=0)
_GENERIC_WHOLE = Judgements(whole=1, change=0, finalizers=False)
_SPEC_AGAIN = Judgements(whole=1, spec=2)
_TWICE = Judgements(whole=2, change=0, spec=2)
_RIGHTS = Judgements(whole=2, spec=2)
_NO_METADATA = Judgements(created=0, change=0)

OF_KIND: dict[str, Judgements] = {
    "configmaps": _AGAIN,
    "endpoints": _AGAIN,
    "events": Judgements(created=0, change=0, finalizers=False),
    "limitranges": _WHOLE,
    "namespaces": _AGAIN,
    "nodes": _SPEC_AGAIN,
    "persistentvolumeclaims": _RIGHTS,
    "persistentvolumes": _TWICE,
    "pods": _AGAIN,
    "replicationcontrollers": _SPEC_AGAIN,
    "secrets": _AGAIN,
    "serviceaccounts": _AGAIN,
    "services": _AGAIN,
    "controllerrevisions.apps": _AGAIN,
    "daemonsets.apps": _SPEC_AGAIN,
    "replicasets.apps": _SPEC_AGAIN,
    "jobs.batch": _SPEC_AGAIN,
    "leases.coordination.k8s.io": GENERIC,
    "certificatesigningrequests.certificates.k8s.io": Judgements(whole=1, status=True),
    "endpointslices.discovery.k8s.io": _WHOLE,
    "flowschemas.flowcontrol.apiserver.k8s.io": _WHOLE,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _WHOLE,
    "ingresses.networking.k8s.io": _AGAIN,
    "ingressclasses.networking.k8s.io": _AGAIN,
    "networkpolicies.networking.k8s.io": _SPEC_AGAIN,
    "poddisruptionbudgets.policy": _NO_METADATA,
    "clusterroles.rbac.authorization.k8s.io": _RIGHTS,
    "clusterrolebindings.rbac.authorization.k8s.io": _RIGHTS,
    "roles.rbac.authorization.k8s.io": _RIGHTS,
    "rolebindings.rbac.authorization.k8s.io": _RIGHTS,
    "csidrivers.storage.k8s.io": Judgements(created=2),
    "csinodes.storage.k8s.io": Judgements(created=2, whole=2, change=0, spec=2),
    "storageclasses.storage.k8s.io": _AGAIN,
    "volumeattachments.storage.k8s.io": Judgements(whole=2, change=0, spec=2, status=True),
    "deviceclasses.resource.k8s.io": _AGAIN,
    "resourceclaims.resource.k8s.io": _AGAIN,
    "runtimeclasses.node.k8s.io": Judgements(whole=1, finalizers=False),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _GENERIC_WHOLE,
    "customresourcedefinitions.apiextensions.k8s.io": GENERIC,
    "apiservices.apiregistration.k8s.io": GENERIC,
}
