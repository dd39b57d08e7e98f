"""All controllers of kube-controller-manager v1.36, implemented here or not, whose names ``--controllers`` accepts.

A name without a descriptor is accepted with a warning, and no controller is started. Facts:
``cmd/kube-controller-manager/names`` and ``app/controller_descriptor.go``.
"""

import functools
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.runtime.descriptor import Descriptor

_CONTROLLERS = """
replicaset-controller=replicaset replicationcontroller-controller=replicationcontroller
deployment-controller=deployment statefulset-controller=statefulset daemonset-controller=daemonset job-controller=job
cronjob-controller=cronjob ttl-after-finished-controller=ttl-after-finished
horizontal-pod-autoscaler-controller=horizontalpodautoscaling disruption-controller=disruption
podgroup-protection-controller endpoints-controller=endpoint endpointslice-controller=endpointslice
endpointslice-mirroring-controller=endpointslicemirroring service-cidr-controller service-lb-controller=service
node-route-controller=route node-ipam-controller=nodeipam node-lifecycle-controller=nodelifecycle
taint-eviction-controller cloud-node-lifecycle-controller=cloud-node-lifecycle ttl-controller=ttl
pod-garbage-collector-controller=podgc persistentvolume-binder-controller=persistentvolume-binder
persistentvolume-attach-detach-controller=attachdetach persistentvolume-expander-controller=persistentvolume-expander
persistentvolumeclaim-protection-controller=pvc-protection persistentvolume-protection-controller=pv-protection
volumeattributesclass-protection-controller ephemeral-volume-controller=ephemeral-volume !selinux-warning-controller
namespace-controller=namespace garbage-collector-controller=garbagecollector resourcequota-controller=resourcequota
clusterrole-aggregation-controller=clusterrole-aggregation validatingadmissionpolicy-status-controller
storageversion-garbage-collector-controller=storage-version-gc storage-version-migrator-controller=svm
serviceaccount-token-controller=serviceaccount-token serviceaccount-controller=serviceaccount
legacy-serviceaccount-token-cleaner-controller=legacy-service-account-token-cleaner
root-ca-certificate-publisher-controller=root-ca-cert-publisher
kube-apiserver-serving-clustertrustbundle-publisher-controller certificatesigningrequest-signing-controller=csrsigning
certificatesigningrequest-approving-controller=csrapproving certificatesigningrequest-cleaner-controller=csrcleaner
podcertificaterequest-cleaner-controller !bootstrap-signer-controller=bootstrapsigner
!token-cleaner-controller=tokencleaner resourceclaim-controller=resource-claim-controller
device-taint-eviction-controller resourcepoolstatusrequest-controller
"""


class UpstreamController(msgspec.Struct, frozen=True, kw_only=True):
    """A controller of upstream. ``default_on`` is False if ``*`` does not include it."""

    name: str
    alias: str
    default_on: bool


@functools.cache
def upstream_controllers() -> Mapping[str, UpstreamController]:
    """All controllers of v1.36, by canonical name."""
    controllers = {}
    for word in _CONTROLLERS.split():
        name, _sign, alias = word.removeprefix("!").partition("=")
        controllers[name] = UpstreamController(name=name, alias=alias, default_on=not word.startswith("!"))
    return controllers


@functools.cache
def upstream_names() -> frozenset[str]:
    """All names and aliases."""
    return frozenset(
        word for controller in upstream_controllers().values() for word in (controller.name, controller.alias) if word
    )


def own_controllers(descriptors: Iterable[Descriptor]) -> list[Descriptor]:
    """Controllers of pilothouse that upstream does not have."""
    upstream = upstream_controllers()
    return [descriptor for descriptor in descriptors if descriptor.name not in upstream]
