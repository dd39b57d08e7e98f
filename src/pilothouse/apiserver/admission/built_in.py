"""Makes the admission plugins that a server runs, in upstream's order.

Names that are known but have no row here are accepted and do nothing: their gates are off, or what they guard is not
served (``missing`` says which of a choice those are).
"""

from collections.abc import Callable, Collection, Mapping

from pilothouse.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from pilothouse.apiserver.admission.chain import Plugin
from pilothouse.apiserver.admission.default_classes import DefaultIngressClass, DefaultStorageClass
from pilothouse.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from pilothouse.apiserver.admission.dynamic.configurations import prefix_of
from pilothouse.apiserver.admission.limit_ranger import LimitRanger
from pilothouse.apiserver.admission.names import OFF_BY_DEFAULT, ORDER
from pilothouse.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from pilothouse.apiserver.admission.pod_groups import PodGroupProtection, PodGroupWorkloadExists
from pilothouse.apiserver.admission.pod_security.plugin import PodSecurity
from pilothouse.apiserver.admission.pod_topology_labels import PodTopologyLabels
from pilothouse.apiserver.admission.priority import Priority
from pilothouse.apiserver.admission.resource_quota import ResourceQuota
from pilothouse.apiserver.admission.runtime_class import RuntimeClass
from pilothouse.apiserver.admission.service_account import ServiceAccount
from pilothouse.apiserver.admission.storage_protection import (
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from pilothouse.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition
from pilothouse.apiserver.core import Core
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.admission.dynamic import mutating_policies, policies, webhooks
    from pilothouse.apiserver.admission.node_restriction import (
        plugin as node_restriction,
    )  # for servers with node identities


class Unconfigured(Plugin):
    """Stands where a plugin goes that does nothing before something is configured, which most servers never see.
    With the first object of its ``resources`` the plugin is loaded, and takes its place."""

    def __init__(self, core: Core, make: Callable[[Core], Plugin], resources: Collection[str]) -> None:
        self._core = core
        self._make = make
        for resource in resources:
            core.store.follow(prefix_of(resource), lambda _changes: self.make_way())

    @classmethod
    def or_made(cls, core: Core, make: Callable[[Core], Plugin], resources: Collection[str]) -> Plugin:
        """The plugin itself where something is configured already."""
        if any(core.store.list(prefix_of(resource), limit=1).records for resource in resources):
            return make(core)
        return cls(core, make, resources)

    def make_way(self) -> None:
        """Be replaced by the plugin."""
        plugins = self._core.admission.plugins
        if self in plugins:
            made = plugins[plugins.index(self)] = self._make(self._core)
            made.name = self.name


MAKERS: Mapping[str, Callable[[Core], Plugin]] = {
    "NamespaceLifecycle": lambda core: NamespaceLifecycle(core.store),
    "LimitRanger": lambda core: LimitRanger(core.store),
    "ServiceAccount": lambda core: ServiceAccount(core.env, core.store),
    "NodeRestriction": lambda core: node_restriction.NodeRestriction(core),
    "TaintNodesByCondition": lambda core: TaintNodesByCondition(),
    "PodSecurity": lambda core: PodSecurity(core.store, core.options.pod_security),
    "Priority": lambda core: Priority(core.store),
    "DefaultTolerationSeconds": lambda core: DefaultTolerationSeconds(),
    "DefaultStorageClass": lambda core: DefaultStorageClass(core.store),
    "StorageObjectInUseProtection": lambda core: StorageObjectInUseProtection(),
    "PodGroupProtection": lambda core: PodGroupProtection(),
    "PersistentVolumeClaimResize": lambda core: PersistentVolumeClaimResize(core.store),
    "RuntimeClass": lambda core: RuntimeClass(core.store),
    "CertificateApproval": CertificateApproval,
    "CertificateSigning": CertificateSigning,
    "ClusterTrustBundleAttest": ClusterTrustBundleAttest,
    "CertificateSubjectRestriction": lambda core: CertificateSubjectRestriction(),
    "DefaultIngressClass": lambda core: DefaultIngressClass(core.store),
    "PodTopologyLabels": lambda core: PodTopologyLabels(core.store),
    "PodGroupWorkloadExists": lambda core: PodGroupWorkloadExists(core.store),
    "MutatingAdmissionPolicy": lambda core: Unconfigured.or_made(
        core,
        lambda core: mutating_policies.MutatingAdmissionPolicy(core),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ),
    "MutatingAdmissionWebhook": lambda core: Unconfigured.or_made(
        core, lambda core: webhooks.MutatingWebhooks(core), ("mutatingwebhookconfigurations",)
    ),
    "ValidatingAdmissionPolicy": lambda core: Unconfigured.or_made(
        core,
        lambda core: policies.ValidatingAdmissionPolicy(core),
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    ),
    "ValidatingAdmissionWebhook": lambda core: Unconfigured.or_made(
        core, lambda core: webhooks.ValidatingWebhooks(core), ("validatingwebhookconfigurations",)
    ),
    "ResourceQuota": lambda core: ResourceQuota(core.env, core.store, core.table),
}
"""How each plugin is made. The order is that of ``names.ORDER``, not of these rows."""


GATES = {"PodGroupProtection": "GenericWorkload", "PodGroupWorkloadExists": "GenericWorkload"}
"""Without its gate such a plugin does nothing, and is left out."""


def plugins(core: Core, names: Collection[str]) -> list[Plugin]:
    """The plugins of those names."""
    on = ("", *core.options.gates)
    made = []
    for name in ORDER:
        if name in names and name in MAKERS and GATES.get(name, "") in on:
            plugin = MAKERS[name](core)
            plugin.name = name
            made.append(plugin)
    return made


def missing(names: Collection[str]) -> list[str]:
    """Those of the names that are off by default upstream, and that do nothing here."""
    return [name for name in ORDER if name in names and name in OFF_BY_DEFAULT and name not in MAKERS]
