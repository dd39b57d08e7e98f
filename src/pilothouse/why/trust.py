"""Which users' causes are trusted. Any client may send the header ``Pilothouse-Cause`` with any text, so a cause counts
only if its user is a component of Kubernetes, or is listed by the caller. Pure."""

from collections.abc import Collection

from pilothouse.machinery.causes import Cause, Origin

ADMINISTRATOR = "kubernetes-admin"
"""As this one the parts of a plane write that no component of Kubernetes has an identity for, such as its nodes'
hardware. It may impersonate everybody in any case."""

_PROGRAMS = frozenset({"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"})
_COMPONENTS = _PROGRAMS | {ADMINISTRATOR}
_NODE = "system:node:"
_KUBELET = "kubelet"
_ACCOUNT = "system:serviceaccount:kube-system:"
CONTROLLER_ACCOUNTS = frozenset(
    {
        "attachdetach-controller",
        "bootstrap-signer",
        "certificate-controller",
        "clusterrole-aggregation-controller",
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "device-taint-eviction-controller",
        "disruption-controller",
        "endpoint-controller",
        "endpointslice-controller",
        "endpointslicemirroring-controller",
        "ephemeral-volume-controller",
        "expand-controller",
        "generic-garbage-collector",
        "horizontal-pod-autoscaler",
        "job-controller",
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "legacy-service-account-token-cleaner",
        "namespace-controller",
        "node-controller",
        "persistent-volume-binder",
        "pod-garbage-collector",
        "podcertificaterequestcleaner",
        "podgroup-protection-controller",
        "pv-protection-controller",
        "pvc-protection-controller",
        "replicaset-controller",
        "replication-controller",
        "resource-claim-controller",
        "resourcepoolstatusrequest-controller",
        "resourcequota-controller",
        "root-ca-cert-publisher",
        "route-controller",
        "selinux-warning-controller",
        "service-account-controller",
        "service-cidrs-controller",
        "service-controller",
        "statefulset-controller",
        "storage-version-garbage-collector",
        "storage-version-migrator-controller",
        "token-cleaner",
        "tokens-controller",
        "ttl-after-finished-controller",
        "ttl-controller",
        "validatingadmissionpolicy-status-controller",
        "volumeattributesclass-protection-controller",
    }
)
"""The service accounts of controllers in kube-system. Further accounts there belong to add-ons."""


def is_component(user: str) -> bool:
    """Whether a user is a component of Kubernetes, also one that sends no cause: Go's manager, a kubelet."""
    account = user.removeprefix(_ACCOUNT)
    is_controller = account != user and account in CONTROLLER_ACCOUNTS
    return user in _PROGRAMS or user.startswith(_NODE) or is_controller


def believed_cause(origin: Origin | None, further: Collection[str] = ()) -> Cause | None:
    """The cause of a change, if its user is trusted: a component, or one of the users in ``further``. A node's user is
    trusted as a kubelet, but not as a controller."""
    if origin is None or origin.cause is None:
        return None
    user = origin.user
    if user in _COMPONENTS or user in further:
        return origin.cause
    if user.startswith(_NODE):
        return origin.cause if origin.cause.component == _KUBELET else None
    account = user.removeprefix(_ACCOUNT)
    return origin.cause if account != user and account in CONTROLLER_ACCOUNTS else None
