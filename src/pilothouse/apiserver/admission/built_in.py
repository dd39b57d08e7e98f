"""Creates the enabled admission plugins of a server, in upstream's order (apiserver ``Plugins.NewFromPlugins``).

Names of upstream's plugins without a factory here are accepted and have no effect: their feature gates are off, or
their resources are not served. ``unimplemented`` lists those that a user has enabled.
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
from pilothouse.apiserver.admission.dynamic.configurations import storage_prefix_of
from pilothouse.apiserver.admission.limit_ranger import LimitRanger
from pilothouse.apiserver.admission.names import ALL_ORDERED_PLUGINS, DEFAULT_OFF_ADMISSION_PLUGINS
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


class UnconfiguredPlugin(Plugin):
    """A placeholder for a plugin without configuration objects; most servers never have any. The plugin is loaded and
    replaces the placeholder when the first object of its ``resources`` is stored."""

    def __init__(self, core: Core, factory: Callable[[Core], Plugin], resources: Collection[str]) -> None:
        self._core = core
        self._factory = factory
        for resource in resources:
            core.store.follow(storage_prefix_of(resource), lambda _changes: self.load())

    @classmethod
    def or_plugin(cls, core: Core, factory: Callable[[Core], Plugin], resources: Collection[str]) -> Plugin:
        """The placeholder, or the plugin if configuration objects are stored already."""
        if any(core.store.list(storage_prefix_of(resource), limit=1).records for resource in resources):
            return factory(core)
        return cls(core, factory, resources)

    def load(self) -> None:
        """Replace this placeholder in the chain by the plugin."""
        plugins = self._core.admission.plugins
        if self in plugins:
            plugin = plugins[plugins.index(self)] = self._factory(self._core)
            plugin.name = self.name


FACTORIES: Mapping[str, Callable[[Core], Plugin]] = {
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
    "MutatingAdmissionPolicy": lambda core: UnconfiguredPlugin.or_plugin(
        core,
        lambda core: mutating_policies.MutatingAdmissionPolicy(core),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ),
    "MutatingAdmissionWebhook": lambda core: UnconfiguredPlugin.or_plugin(
        core, lambda core: webhooks.MutatingWebhooks(core), ("mutatingwebhookconfigurations",)
    ),
    "ValidatingAdmissionPolicy": lambda core: UnconfiguredPlugin.or_plugin(
        core,
        lambda core: policies.ValidatingAdmissionPolicy(core),
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    ),
    "ValidatingAdmissionWebhook": lambda core: UnconfiguredPlugin.or_plugin(
        core, lambda core: webhooks.ValidatingWebhooks(core), ("validatingwebhookconfigurations",)
    ),
    "ResourceQuota": ResourceQuota,
}
"""Plugin name → factory. Plugins run in the order of ``names.ALL_ORDERED_PLUGINS``, not of these rows."""


FEATURE_GATES = {"PodGroupProtection": "GenericWorkload", "PodGroupWorkloadExists": "GenericWorkload"}
"""Plugins that are created only if their feature gate is enabled."""


def new_from_plugins(core: Core, names: Collection[str]) -> list[Plugin]:
    """Create the plugins of these names, in the order in which they run."""
    enabled_gates = ("", *core.options.gates)
    plugins = []
    for name in ALL_ORDERED_PLUGINS:
        if name in names and name in FACTORIES and FEATURE_GATES.get(name, "") in enabled_gates:
            plugin = FACTORIES[name](core)
            plugin.name = name
            plugins.append(plugin)
    return plugins


def unimplemented(names: Collection[str]) -> list[str]:
    """The names of plugins that upstream has off by default and that have no factory here."""
    return [
        name
        for name in ALL_ORDERED_PLUGINS
        if name in names and name in DEFAULT_OFF_ADMISSION_PLUGINS and name not in FACTORIES
    ]
