"""Decides whose causes are trusted. Any client can send the header ``Pilothouse-Cause``, so causes are used only if the
user is a component of Kubernetes or listed by the caller. Pure."""

from collections.abc import Collection

from pilothouse.machinery.causes import Cause, Origin

ADMINISTRATOR = "kubernetes-admin"
"""The user of those parts of a plane for which Kubernetes has no identity, such as the nodes' hardware. It may
impersonate anybody anyway."""

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
"""The service accounts of controllers in kube-system. Other accounts there belong to add-ons."""


def is_component(user: str) -> bool:
    """Whether a user is a component of Kubernetes, including those that send no causes (Go's manager, a kubelet)."""
    account = user.removeprefix(_ACCOUNT)
    is_controller = account != user and account in CONTROLLER_ACCOUNTS
    return user in _PROGRAMS or user.startswith(_NODE) or is_controller


def trusted_cause(origin: Origin | None, trusted_users: Collection[str] = ()) -> Cause | None:
    """The cause of a change if its user is a component or in ``trusted_users``, otherwise None. A node's user is
    trusted as a kubelet, but not as a controller."""
    if origin is None or origin.cause is None:
        return None
    user = origin.user
    if user in _COMPONENTS or user in trusted_users:
        return origin.cause
    if user.startswith(_NODE):
        return origin.cause if origin.cause.component == _KUBELET else None
    account = user.removeprefix(_ACCOUNT)
    return origin.cause if account != user and account in CONTROLLER_ACCOUNTS else None
