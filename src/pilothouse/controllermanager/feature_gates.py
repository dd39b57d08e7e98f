"""``--feature-gates``: the gates of v1.36 with stage and default, their validation, and the effect of setting one.

Facts: ``pkg/features``, the feature packages of apiserver, apiextensions-apiserver, client-go and component-base, and
``component-base/featuregate``. Most gates have no effect in a controller manager, also upstream. Those with an effect
here are in ``EFFECTS`` and in the descriptors (``GateSpec``, ``Descriptor.gates``).
"""

import functools
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from pilothouse.machinery.flag_types import Multimap, parse_bool, show_bool
from pilothouse.machinery.flags import FlagError

COMPONENT = "kube"


class Stage(Enum):
    """The stage of a feature, with upstream's name as value."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """A gate of v1.36. A locked one can only have its default."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False


EFFECTS = {
    "AllowParsingUserUIDFromCertAuth": "uses the uid in client certificates of the secure port",
    "ClientsAllowCARotation": "reloads the `certificate-authority` file of a kubeconfig when it changes",
    "ComponentFlagz": "serves `/flagz`",
    "ComponentStatusz": "serves `/statusz`",
    "ControllerManagerReleaseLeaderElectionLockOnExit": "`false` does not release the lease on a graceful stop; "
    "by default it is released",
    "LoggingAlphaOptions": "allows the alpha flags of logging",
    "LoggingBetaOptions": "allows `--logging-format=json`",
    "RemoteRequestHeaderUID": "allows `--requestheader-uid-headers`",
    "WatchListClient": "starts informers with a streaming list (WatchList)",
}
"""The effects of gates, except on controllers and their options."""

UNSUPPORTED = {
    "CoordinatedLeaderElection": "leader election",
}
"""Gates that change upstream's manager, but not this one, apart from controllers (``Descriptor``). A non-default value
is rejected, with the name of the component."""

DEPENDENCIES: Mapping[str, tuple[str, ...]] = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "InPlacePodLevelResourcesVerticalScaling": ("NodeDeclaredFeatures", "PodLevelResources"),
    "InPlacePodVerticalScalingInitContainers": ("NodeDeclaredFeatures",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures",),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
}
"""The gates that a gate requires (``defaultKubernetesFeatureGateDependencies``, v1.36 ``pkg/features``), without those
locked to on."""

_TABLE = {
    "ALPHA off": """AllAlpha APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRAListTypeAttributes
        DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling
        GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
        PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
        VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob""",
    "BETA off": """AllBeta ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
        CoordinatedLeaderElection DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring
        MaxUnavailableStatefulSet PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator""",
    "BETA on": """APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
        ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
        DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
        ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
        HostnameOverride InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
        MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
        MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
        PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
        SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
        StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
        WatchListClient WindowsGracefulNodeShutdown""",
    "GA on": """AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
        MutatingAdmissionPolicy""",
    "GA on locked": """APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
        AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
        CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors
        DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
        JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
        LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
        NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
        PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
        RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
        SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
        StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
        VolumeAttributesClass WinDSR WinOverlay""",
    "DEPRECATED on": """DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods
        ServiceCIDRStatusFieldWiping StorageNamespaceIndex""",
    "DEPRECATED on locked": "AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion",
    "DEPRECATED off": """AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
        ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly
        WindowsHostNetwork""",
    "DEPRECATED off locked": "AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC",
}


@functools.cache
def known_gates() -> Mapping[str, Gate]:
    """All gates, sorted by name."""
    gates = {}
    for words, names in _TABLE.items():
        stage, default, *rest = words.split()
        for name in names.split():
            gates[name] = Gate(name=name, stage=Stage(stage), default=default == "on", locked=bool(rest))
    return dict(sorted(gates.items()))


def described_gates() -> Iterable[str]:
    """A line for each alpha or beta gate, as in upstream's ``--help``."""
    for gate in known_gates().values():
        if gate.stage in {Stage.ALPHA, Stage.BETA}:
            yield f"{COMPONENT}:{gate.name}=true|false ({gate.stage.value} - default={show_bool(gate.default)})"


class FeatureGates(msgspec.Struct, frozen=True):
    """The gates: those ``chosen`` on the command line, and the defaults of the others."""

    chosen: Mapping[str, bool] = {}

    def enabled(self, name: str) -> bool:
        """Whether the gate is on. Raises ``KeyError`` for an unknown gate."""
        gate = known_gates()[name]
        if name in self.chosen:
            return self.chosen[name]
        for everything, stage in (("AllAlpha", Stage.ALPHA), ("AllBeta", Stage.BETA)):
            if gate.stage is stage and everything in self.chosen:
                return self.chosen[everything]
        return gate.default


def gates_from(values: Multimap) -> FeatureGates:
    """The gates of ``--feature-gates``; later values take precedence. Raises ``FlagError`` with upstream's message."""
    chosen: dict[str, bool] = {}
    for component, pairs in values.items():
        if component not in {"", COMPONENT}:
            raise FlagError(f"component not registered: {component}")
        for pair in pairs:
            name, sign, text = (part.strip() for part in pair.partition("="))
            if not sign:
                raise FlagError(f"missing bool value for {name}")
            try:
                chosen[name] = parse_bool(text)
            except ValueError as error:
                raise FlagError(f"invalid value of {name}={text}, err: {error}") from None
    errors = list(_validate(chosen))
    if errors:
        raise FlagError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return FeatureGates(chosen)


def _validate(chosen: Mapping[str, bool]) -> Iterable[str]:
    gates_by_name = known_gates()
    for name, value in chosen.items():
        gate = gates_by_name.get(name)
        if gate is None:
            yield f"unrecognized feature gate: {name}"
            return
        if gate.locked and value != gate.default:
            locked = show_bool(gate.default)
            yield f"cannot set feature gate {name} to {show_bool(value)}, feature is locked to {locked}"
    gates = FeatureGates(chosen)
    for name, needed in DEPENDENCIES.items():
        off = [other for other in needed if not gates.enabled(other)]
        if gates.enabled(name) and off:
            yield f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"


def unsupported_gate(gates: FeatureGates, name: str, follower: str) -> Iterable[str]:
    """The error for a gate whose value ``follower`` does not implement."""
    gate, value = known_gates()[name], gates.enabled(name)
    if value is not gate.default:
        components = "" if name in gates.chosen else f" (by All{gate.stage.value.capitalize()})"
        yield f"feature gate {name}={show_bool(value)}{components} is not supported: {follower} does not implement it"


def warnings_of(gates: FeatureGates, effective: Iterable[str]) -> Iterable[str]:
    """Warnings about the chosen gates: deprecated ones, as upstream, and those without an effect here. ``effective``
    are the gates that have one."""
    gates_by_name = known_gates()
    heeded = {*effective}
    for name, value in sorted(gates.chosen.items()):
        gate = gates_by_name[name]
        if gate.stage in {Stage.GA, Stage.DEPRECATED}:
            word = "GA" if gate.stage is Stage.GA else "deprecated"
            yield f"Setting {word} feature gate {name}={show_bool(value)}. It will be removed in a future release."
        elif value != gate.default and name not in heeded:
            yield f"Feature gate {name}={show_bool(value)} is accepted for compatibility and has no effect"
