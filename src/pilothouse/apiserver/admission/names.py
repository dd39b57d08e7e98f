"""The names of upstream's admission plugins, in the order in which they run, and which of them are enabled.

After kubernetes' ``pkg/kubeapiserver/options/plugins.go`` (v1.36). ``built_in`` creates the plugins; ``ServerOptions``
has the enabled names, which the flags ``--enable-admission-plugins`` and ``--disable-admission-plugins`` change.
"""

from collections.abc import Collection, Sequence

ALL_ORDERED_PLUGINS = (
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
DEFAULT_OFF_ADMISSION_PLUGINS = frozenset(
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
DEFAULT = tuple(name for name in ALL_ORDERED_PLUGINS if name not in DEFAULT_OFF_ADMISSION_PLUGINS)
"""The plugins that kube-apiserver enables by default."""

NODE_RESTRICTION = "NodeRestriction"
SERVICE_ACCOUNT = "ServiceAccount"
WITHOUT_CONTROLLERS = tuple(name for name in DEFAULT if name != SERVICE_ACCOUNT)
"""The default without a controller manager: no controller creates the ServiceAccount ``default`` of each namespace, and
the plugin ServiceAccount would reject every pod. envtest disables it for that reason."""


def default_plugins(*, authorization: str, service_accounts: bool) -> tuple[str, ...]:
    """The plugins enabled by default, given the authorization modes and whether controllers create service accounts.
    NodeRestriction is enabled with the modes Node and RBAC: kube-apiserver does not enable it by default, but kubeadm
    does."""
    base = DEFAULT if service_accounts else WITHOUT_CONTROLLERS
    is_authorized = not {"Node", "RBAC"}.isdisjoint(authorization.split(","))
    return enabled_plugin_names(base, [NODE_RESTRICTION] if is_authorized else [], [])


def enabled_plugin_names(base: Collection[str], enable: Sequence[str], disable: Sequence[str]) -> tuple[str, ...]:
    """``base`` with the enabled and without the disabled names, in the order in which they run
    (``enabledPluginNames``). Raises ``ValueError`` with the messages of apiserver's ``pkg/server/options/admission.go``
    (v0.36)."""
    overlapped = sorted(set(enable) & set(disable))
    if overlapped:
        raise ValueError(
            f"[{' '.join(overlapped)}] in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    for flag, names in (("disable-admission-plugins", disable), ("enable-admission-plugins", enable)):
        for name in names:
            if name not in ALL_ORDERED_PLUGINS:
                raise ValueError(f'{flag} plugin "{name}" is unknown')
    return tuple(name for name in ALL_ORDERED_PLUGINS if name in enable or (name in base and name not in disable))
