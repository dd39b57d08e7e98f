"""``/configz``: the options as upstream's ``KubeControllerManagerConfiguration``.

The versioned form (``kubecontrollermanager.config.k8s.io/v1alpha1``), as since v1.36. It has all sections of upstream,
also those of controllers that are not implemented here, because their flags are accepted. Sources:
``k8s.io/kube-controller-manager`` v0.36 ``config/v1alpha1``, and the defaults of ``pkg/controller/*/config/v1alpha1``.
"""

from typing import Any

import msgspec

from pilothouse.controllermanager.leader_migration import LeaderMigration
from pilothouse.controllermanager.options import PROTOBUF, Options
from pilothouse.machinery.durations import format_duration

GROUP = "kubecontrollermanager.config.k8s.io"

_SECTIONS = """
KubeCloudShared
    CloudProvider.Name "cloud-provider
    CloudProvider.CloudConfigFile "cloud-config
    ExternalCloudVolumePlugin "external-cloud-volume-plugin
    UseServiceAccountCredentials use-service-account-credentials
    AllowUntaggedCloud allow-untagged-cloud
    RouteReconciliationPeriod route-reconciliation-period
    NodeMonitorPeriod node-monitor-period
    ClusterName "cluster-name
    ClusterCIDR "cluster-cidr
    AllocateNodeCIDRs allocate-node-cidrs
    CIDRAllocatorType "cidr-allocator-type
    ConfigureCloudRoutes configure-cloud-routes
    NodeSyncPeriod node-sync-period
AttachDetachController
    DisableAttachDetachReconcilerSync disable-attach-detach-reconcile-sync
    ReconcilerSyncLoopPeriod attach-detach-reconcile-sync-period
    disableForceDetachOnTimeout disable-force-detach-on-timeout
CSRSigningController
    ClusterSigningCertFile "cluster-signing-cert-file
    ClusterSigningKeyFile "cluster-signing-key-file
    KubeletServingSignerConfiguration.CertFile "cluster-signing-kubelet-serving-cert-file
    KubeletServingSignerConfiguration.KeyFile "cluster-signing-kubelet-serving-key-file
    KubeletClientSignerConfiguration.CertFile "cluster-signing-kubelet-client-cert-file
    KubeletClientSignerConfiguration.KeyFile "cluster-signing-kubelet-client-key-file
    KubeAPIServerClientSignerConfiguration.CertFile "cluster-signing-kube-apiserver-client-cert-file
    KubeAPIServerClientSignerConfiguration.KeyFile "cluster-signing-kube-apiserver-client-key-file
    LegacyUnknownSignerConfiguration.CertFile "cluster-signing-legacy-unknown-cert-file
    LegacyUnknownSignerConfiguration.KeyFile "cluster-signing-legacy-unknown-key-file
    ClusterSigningDuration cluster-signing-duration
DaemonSetController
    ConcurrentDaemonSetSyncs concurrent-daemonset-syncs
DeploymentController
    ConcurrentDeploymentSyncs concurrent-deployment-syncs
StatefulSetController
    ConcurrentStatefulSetSyncs concurrent-statefulset-syncs
EndpointController
    ConcurrentEndpointSyncs concurrent-endpoint-syncs
    EndpointUpdatesBatchPeriod endpoint-updates-batch-period
EndpointSliceController
    ConcurrentServiceEndpointSyncs concurrent-service-endpoint-syncs
    MaxEndpointsPerSlice max-endpoints-per-slice
    EndpointUpdatesBatchPeriod endpointslice-updates-batch-period
EndpointSliceMirroringController
    MirroringConcurrentServiceEndpointSyncs mirroring-concurrent-service-endpoint-syncs
    MirroringMaxEndpointsPerSubset mirroring-max-endpoints-per-subset
    MirroringEndpointUpdatesBatchPeriod mirroring-endpointslice-updates-batch-period
EphemeralVolumeController
    ConcurrentEphemeralVolumeSyncs concurrent-ephemeralvolume-syncs
GarbageCollectorController
    EnableGarbageCollector enable-garbage-collector
    ConcurrentGCSyncs concurrent-gc-syncs
HPAController
    ConcurrentHorizontalPodAutoscalerSyncs concurrent-horizontal-pod-autoscaler-syncs
    HorizontalPodAutoscalerSyncPeriod horizontal-pod-autoscaler-sync-period
    HorizontalPodAutoscalerDownscaleStabilizationWindow horizontal-pod-autoscaler-downscale-stabilization
    HorizontalPodAutoscalerTolerance horizontal-pod-autoscaler-tolerance
    HorizontalPodAutoscalerCPUInitializationPeriod horizontal-pod-autoscaler-cpu-initialization-period
    HorizontalPodAutoscalerInitialReadinessDelay horizontal-pod-autoscaler-initial-readiness-delay
JobController
    ConcurrentJobSyncs concurrent-job-syncs
CronJobController
    ConcurrentCronJobSyncs concurrent-cron-job-syncs
LegacySATokenCleaner
    CleanUpPeriod legacy-service-account-token-clean-up-period
NamespaceController
    NamespaceSyncPeriod namespace-sync-period
    ConcurrentNamespaceSyncs concurrent-namespace-syncs
NodeIPAMController
    NodeCIDRMaskSize node-cidr-mask-size
    NodeCIDRMaskSizeIPv4 node-cidr-mask-size-ipv4
    NodeCIDRMaskSizeIPv6 node-cidr-mask-size-ipv6
NodeLifecycleController
    NodeEvictionRate node-eviction-rate
    SecondaryNodeEvictionRate secondary-node-eviction-rate
    NodeStartupGracePeriod node-startup-grace-period
    NodeMonitorGracePeriod node-monitor-grace-period
    LargeClusterSizeThreshold large-cluster-size-threshold
    UnhealthyZoneThreshold unhealthy-zone-threshold
PersistentVolumeBinderController
    PVClaimBinderSyncPeriod pvclaimbinder-sync-period
    VolumeConfiguration.EnableHostPathProvisioning enable-hostpath-provisioner
    VolumeConfiguration.EnableDynamicProvisioning enable-dynamic-provisioning
    VolumeConfiguration.FlexVolumePluginDir "flex-volume-plugin-dir
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutNFS pv-recycler-minimum-timeout-nfs
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS \
"pv-recycler-pod-template-filepath-nfs
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutNFS pv-recycler-increment-timeout-nfs
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath \
"pv-recycler-pod-template-filepath-hostpath
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutHostPath \
pv-recycler-minimum-timeout-hostpath
    VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutHostPath \
pv-recycler-timeout-increment-hostpath
PodGCController
    TerminatedPodGCThreshold terminated-pod-gc-threshold
ReplicaSetController
    ConcurrentRSSyncs concurrent-replicaset-syncs
ReplicationController
    ConcurrentRCSyncs concurrent_rc_syncs
ResourceQuotaController
    ResourceQuotaSyncPeriod resource-quota-sync-period
    ConcurrentResourceQuotaSyncs concurrent-resource-quota-syncs
SAController
    ServiceAccountKeyFile "service-account-private-key-file
    ConcurrentSATokenSyncs concurrent-serviceaccount-token-syncs
    RootCAFile "root-ca-file
ServiceController
    ConcurrentServiceSyncs concurrent-service-syncs
TTLAfterFinishedController
    ConcurrentTTLSyncs concurrent-ttl-after-finished-syncs
ValidatingAdmissionPolicyStatusController
    ConcurrentPolicySyncs concurrent-validating-admission-policy-status-syncs
DeviceTaintEvictionController
    ConcurrentSyncs concurrent-device-taint-eviction-syncs
ResourceClaimController
    ConcurrentSyncs concurrent-resourceclaim-syncs
"""
"""Section, then fields with their flags. A dot separates nested structs, ``"`` marks strings."""


def sections() -> dict[str, dict[str, str]]:
    """Section, field and flag, as in the table."""
    result: dict[str, dict[str, str]] = {}
    fields: dict[str, str] = {}
    for row in _SECTIONS.replace("\\\n", "").splitlines():
        if row.startswith(" "):
            field, flag = row.split()
            fields[field] = flag
        elif row:
            fields = result.setdefault(row, {})
    return result


def configuration(options: Options) -> dict[str, Any]:
    """The configuration under the group's name. Defaults that are not set on the command line are omitted."""
    document: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{GROUP}/v1alpha1",
        "Generic": _generic(options),
    }
    if not options.flag_values:
        return document
    for section, fields in sections().items():
        section_values: dict[str, Any] = {}
        for path, flag in fields.items():
            *outer, field = path.split(".")
            into = section_values
            for name in outer:
                into = into.setdefault(name, {})
            text = options.flag_values[flag.removeprefix('"')]
            into[field] = text if flag.startswith('"') else _json_value(text)
        document[section] = section_values
    _add_constants(document, options)
    return document


def page(options: Options) -> bytes:
    """The body of ``/configz``."""
    return msgspec.json.encode({GROUP: configuration(options)})


def _generic(options: Options) -> dict[str, Any]:
    election = options.leader_election
    migration = options.leader_migration
    return {
        "Port": 0,  # that of the insecure port, which no flag sets any more
        "Address": options.serving.bind_address,
        "MinResyncPeriod": format_duration(options.min_resync_period),
        "ClientConnection": {
            "kubeconfig": options.kubeconfig,
            "acceptContentTypes": "",
            "contentType": options.flag_values.get("kube-api-content-type", PROTOBUF),
            "qps": options.qps,
            "burst": options.burst,
        },
        "ControllerStartInterval": format_duration(options.start_interval),
        "LeaderElection": {
            "leaderElect": election.enabled,
            "leaseDuration": format_duration(election.lease_duration),
            "renewDeadline": format_duration(election.renew_deadline),
            "retryPeriod": format_duration(election.retry_period),
            "resourceLock": "leases",
            "resourceName": election.resource_name,
            "resourceNamespace": election.resource_namespace,
        },
        "Controllers": list(options.controllers),
        "Debugging": {
            "enableProfiling": options.serving.profiling,
            "enableContentionProfiling": options.flag_values.get("contention-profiling") == "true",
        },
        "LeaderMigrationEnabled": migration is not None,
        "LeaderMigration": _migration(migration),
    }


def _migration(migration: LeaderMigration | None) -> dict[str, Any]:
    if migration is None:
        return {"leaderName": "", "resourceLock": "", "controllerLeaders": None}
    leaders = [{"name": leader.name, "component": leader.component} for leader in migration.leaders]
    return {"leaderName": migration.leader_name, "resourceLock": "leases", "controllerLeaders": leaders}


def _add_constants(document: dict[str, Any], options: Options) -> None:
    """Fields that no flag sets, or not alone."""
    document["DeprecatedController"] = {}
    document["GarbageCollectorController"]["GCIgnoredResources"] = [
        {"Group": group, "Resource": resource} for resource, _dot, group in _ignored(options)
    ]
    first, _comma, second = options.flag_values["service-cluster-ip-range"].partition(",")
    document["NodeIPAMController"] |= {"ServiceCIDR": first, "SecondaryServiceCIDR": second}
    document["NodeLifecycleController"]["PodEvictionTimeout"] = "0s"
    recycler = document["PersistentVolumeBinderController"]["VolumeConfiguration"]
    recycler["PersistentVolumeRecyclerConfiguration"]["MaximumRetry"] = 3


def _ignored(options: Options) -> list[tuple[str, str, str]]:
    chosen = options.controller_options.get("garbage-collector-controller")
    return [resource.partition(".") for resource in getattr(chosen, "ignored", ())]


def _json_value(text: str) -> bool | int | float | str:
    """A flag's value as JSON; durations are strings, as in ``metav1.Duration``."""
    if text in {"true", "false"}:
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("-").isdigit() else number
