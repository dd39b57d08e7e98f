"""The names of upstream's admission plugins, in the order in which they run, and which of them are on.

After kubernetes' ``pkg/kubeapiserver/options/plugins.go`` (v1.36). ``built_in`` makes the plugins, ``ServerOptions``
carries the choice, the flags ``--enable-admission-plugins`` and ``--disable-admission-plugins`` change it.
"""

from collections.abc import Collection, Sequence

ORDER = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
OFF_BY_DEFAULT = frozenset(
    {
        "AlwaysAdmit",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        "NodeRestriction",
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodNodeSelector",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "OwnerReferencesPermissionEnforcement",
        "DenyServiceExternalIPs",
        "AlwaysDeny",
    }
)
DEFAULT = tuple(name for name in ORDER if name not in OFF_BY_DEFAULT)
"""What kube-apiserver runs by default."""

NODE_RESTRICTION = "NodeRestriction"
SERVICE_ACCOUNT = "ServiceAccount"
WITHOUT_CONTROLLERS = tuple(name for name in DEFAULT if name != SERVICE_ACCOUNT)
"""The same for a server on its own: where no controller makes the account ``default`` of each namespace, the plugin
ServiceAccount would reject every pod. envtest turns it off for that reason."""


def default_plugins(*, authorization: str, service_accounts: bool) -> tuple[str, ...]:
    """What runs by default, by what the cluster has: modes that hold users to rights, controllers that
    make service accounts. kube-apiserver itself leaves NodeRestriction out; kubeadm adds it, and so do all that
    set up clusters with the modes Node and RBAC."""
    base = DEFAULT if service_accounts else WITHOUT_CONTROLLERS
    has_rights = not {"Node", "RBAC"}.isdisjoint(authorization.split(","))
    return chosen(base, [NODE_RESTRICTION] if has_rights else [], [])


def chosen(base: Collection[str], enable: Sequence[str], disable: Sequence[str]) -> tuple[str, ...]:
    """``base`` with and without these, in order. Raises ``ValueError`` in the words of apiserver's
    ``pkg/server/options/admission.go`` (v0.36)."""
    both = sorted(set(enable) & set(disable))
    if both:
        raise ValueError(f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped")
    for flag, names in (("disable-admission-plugins", disable), ("enable-admission-plugins", enable)):
        for name in names:
            if name not in ORDER:
                raise ValueError(f'{flag} plugin "{name}" is unknown')
    return tuple(name for name in ORDER if name in enable or (name in base and name not in disable))
