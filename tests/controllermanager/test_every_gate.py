"""Every feature gate of v1.36: supported, rejected, or not read by the manager.

``READ`` was read from upstream's sources, v1.36.2: every package that kube-controller-manager links, less those that
only the API server, kubelet, scheduler or kube-proxy call. A gate that is in neither table fails the test. Locked
gates have one value only, and ``AllAlpha`` and ``AllBeta`` stand for others.
"""

from collections.abc import Iterable, Iterator

import pytest
from tests.tables import cases

from pilothouse.controllermanager.feature_gates import DEPENDENCIES, Gate, known_gates, warnings_of
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options, effective_gates, unsupported_gates
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flag_types import show_bool
from pilothouse.machinery.flags import FlagError

READ = {
    "APIServerIdentity": "cmd/kube-controller-manager/app/core.go",
    "AllowParsingUserUIDFromCertAuth": "apiserver/pkg/authentication/request/x509/x509.go",
    "ClientsAllowCARotation": "client-go/transport/transport.go",
    "ClusterTrustBundle": "cmd/kube-controller-manager/app/certificates.go",
    "ComponentFlagz": "cmd/kube-controller-manager/app/controllermanager.go",
    "ComponentStatusz": "cmd/kube-controller-manager/app/controllermanager.go",
    "ControllerManagerReleaseLeaderElectionLockOnExit": "cmd/kube-controller-manager/app/controllermanager.go",
    "CoordinatedLeaderElection": "cmd/kube-controller-manager/app/controllermanager.go",
    "DRADeviceTaintRules": "pkg/controller/devicetainteviction/device_taint_eviction.go",
    "DRADeviceTaints": "cmd/kube-controller-manager/app/resource.go",
    "DRAExtendedResource": "pkg/quota/v1/evaluator/core/registry.go",
    "DRAPrioritizedList": "cmd/kube-controller-manager/app/resource.go",
    "DRAResourcePoolStatus": "cmd/kube-controller-manager/app/resource.go",
    "DRAWorkloadResourceClaims": "cmd/kube-controller-manager/app/resource.go",
    "DeploymentReplicaSetTerminatingReplicas": "pkg/controller/replicaset/replica_set_utils.go",
    "GenericWorkload": "cmd/kube-controller-manager/app/scheduling.go",
    "HPAConfigurableTolerance": "pkg/controller/podautoscaler/horizontal.go",
    "HPAScaleToZero": "pkg/controller/podautoscaler/horizontal.go",
    "InformerResourceVersion": "cmd/kube-controller-manager/app/storageversionmigrator.go",
    "LoggingAlphaOptions": "component-base/logs/api/v1/options.go",
    "LoggingBetaOptions": "component-base/logs/json/register/register.go",
    "MaxUnavailableStatefulSet": "pkg/controller/statefulset/stateful_set_control.go",
    "MutableSchedulingDirectivesForSuspendedJobs": "pkg/controller/job/job_controller.go",
    "PersistentVolumeClaimUnusedSinceTime": "pkg/controller/volume/pvcprotection/pvc_protection_controller.go",
    "PodCertificateRequest": "cmd/kube-controller-manager/app/certificates.go",
    "PodDeletionCost": "pkg/controller/controller_utils.go",
    "PodLevelResources": "pkg/controller/podautoscaler/replica_calculator.go, pkg/quota/v1/evaluator/core/pods.go",
    "RemoteRequestHeaderUID": "apiserver/pkg/server/options/authentication.go",
    "StaleControllerConsistencyDaemonSet": "pkg/controller/daemon/daemon_controller.go",
    "StaleControllerConsistencyJob": "pkg/controller/job/job_controller.go",
    "StaleControllerConsistencyReplicaSet": "pkg/controller/replicaset/replica_set.go",
    "StaleControllerConsistencyStatefulSet": "pkg/controller/statefulset/stateful_set.go",
    "StatefulSetSemanticRevisionComparison": "pkg/controller/statefulset/stateful_set_control.go",
    "StorageVersionAPI": "cmd/kube-controller-manager/app/core.go",
    "StorageVersionMigrator": "cmd/kube-controller-manager/app/storageversionmigrator.go",
    "TaintTolerationComparisonOperators": "pkg/apis/core/v1/helper/helpers.go, GetMatchingTolerations",
    "WatchListClient": "client-go/tools/cache/reflector.go",
    "WorkloadWithJob": "pkg/controller/job/job_controller.go",
}
"""Gates that change the behavior of upstream's manager, with the code that reads them."""

NOT_READ = {
    "API server": """APIResponseCompression APIServingWithRoutine AllowInsecureKubeletCertificateSigningRequests
        AllowUnsafeMalformedObjectDeletion AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ConcurrentWatchObjectDecode ConstrainedImpersonation
        CrossNamespaceVolumeDataSource DRAConsumableCapacity DRAResourceClaimGranularStatusAuthorization
        DeclarativeValidationBeta DeclarativeValidationTakeover DetectCacheInconsistency KMSv1 ListFromCacheSnapshot
        ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePVNodeAffinity
        MutablePodResourcesForSuspendedJobs MutatingAdmissionPolicy OpenAPIEnums PodTopologyLabelsAdmission
        PortForwardWebsockets RelaxedServiceNameValidation ServiceAccountNodeAudienceRestriction
        ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate StorageNamespaceIndex
        StorageVersionHash StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TranslateStreamCloseWebsocketRequests UnknownVersionInteroperabilityProxy WatchCacheInitializationPostStartHook
        WatchList""",
    "kubelet": """AllowDNSOnlyNodeCSR CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CRIListStreaming
        CSIVolumeHealth ChangeContainerStatusOnKubeletRestart ClusterTrustBundleProjection ContainerCheckpoint
        ContainerRestartRules ContainerStopSignals CustomCPUCFSQuotaPeriod DisableCPUQuotaWithExclusiveCPUs EnvFiles
        EventedPLEG ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
        HostnameOverride ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletInUserNamespace KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
        LocalStorageCapacityIsolationFSQuotaMonitoring MemoryQoS PLEGOnDemandRelist PodAndContainerStatsFromCRI
        PodLevelResourceManagers PodLogsQuerySplitStreams PodReadyToStartContainersCondition PodsAPI
        PreventStaticPodAPIReferences QOSReserved ReduceDefaultCrashLoopBackOffDecay ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate RuntimeClassInImageCriApi SELinuxMount
        TopologyManagerPolicyAlphaOptions TopologyManagerPolicyBetaOptions UserNamespacesHostNetworkSupport
        WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork""",
    "scheduler": """DRADeviceBindingConditions DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices
        DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout GangScheduling MatchLabelKeysInPodTopologySpread
        NodeDeclaredFeatures NominatedNodeNameForExpectation OpportunisticBatching SchedulerAsyncAPICalls
        SchedulerAsyncPreemption SchedulerPopFromBackoffQ StorageCapacityScoring TopologyAwareWorkloadScheduling
        VolumeLimitScaling WorkloadAwarePreemption""",
    "kube-proxy": "AllowServiceExternalIPs",
    "cloud-controller-manager": "CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook",
    # The same requests and decisions: how Go's caches lock and batch, when its transports are collected, which names a
    # log line carries; HTTP/2, which is not served here; and encodings that this program does not speak.
    "inner workings": """AtomicFIFO ClientsAllowTLSCacheGC ContextualLogging InOrderInformersBatchProcess
        UnauthenticatedHTTP2DOSMitigation UnlockWhileProcessingFIFO
        CBORServingAndStorage ClientsAllowCBOR ClientsPreferCBOR NativeHistograms""",
}
"""Gates that change nothing in the manager, by the code that reads them."""

ALWAYS_OFF = {"DRAExtendedResource"}
"""While they are off the manager does what upstream's does, and while they are on the same: a difference described in
docs/controllers/resourcequota.md."""

REFUSED = {
    "CoordinatedLeaderElection": "leader election",
    "DRAWorkloadResourceClaims": "device-taint-eviction-controller, resourceclaim-controller",
    "PersistentVolumeClaimUnusedSinceTime": "persistentvolumeclaim-protection-controller",
    "WorkloadWithJob": "job-controller",
}
"""What is read upstream and not followed here, and what would have to."""


def options(*words: str) -> Options:
    return options_from(flag_set("x", DESCRIPTORS).parse(list(words)), DESCRIPTORS)


def changed(gate: Gate) -> str:
    """The flag that sets the gate to the other value, with the gates it depends on."""
    chosen = {gate.name: not gate.default}
    if chosen[gate.name]:
        todo = [gate.name]
        while todo:
            needed = DEPENDENCIES.get(todo.pop(), ())
            todo += needed
            chosen |= dict.fromkeys(needed, True)
    else:
        while more := [n for n, needed in DEPENDENCIES.items() if n not in chosen and _lacks(needed, chosen)]:
            chosen |= dict.fromkeys(more, False)
    return "--feature-gates=" + ",".join(f"{name}={show_bool(value)}" for name, value in chosen.items())


def _lacks(needed: Iterable[str], chosen: dict[str, bool]) -> bool:
    return any(chosen.get(name) is False for name in needed)


def free_gates() -> Iterator[Gate]:
    return (gate for gate in known_gates().values() if not gate.locked and gate.name not in {"AllAlpha", "AllBeta"})


def test_every_gate_is_classified() -> None:
    not_read = [name for names in NOT_READ.values() for name in names.split()]
    assert sorted([*READ, *not_read]) == [gate.name for gate in free_gates()]


@pytest.mark.parametrize("gate", [pytest.param(gate, id=gate.name) for gate in free_gates()])
def test_gate_is_supported_rejected_or_not_read(gate: Gate) -> None:
    setting = f"{gate.name}={show_bool(not gate.default)}"
    if gate.name in REFUSED:
        with pytest.raises(FlagError) as refused:
            options(changed(gate))
        message = f"feature gate {setting} is not supported: {REFUSED[gate.name]} does not implement it"
        assert message in str(refused.value)
    elif gate.name in READ and gate.name not in ALWAYS_OFF:
        assert gate.name in effective_gates(DESCRIPTORS), f"{READ[gate.name]} asks for it"
        assert all("has no effect" not in line for line in _warnings(options(changed(gate))) if f" {setting} " in line)
    else:
        accepted = options(changed(gate))
        assert accepted.gates.enabled(gate.name) is not gate.default
        lines = [line for line in _warnings(accepted) if f" {setting}" in line]
        assert len(lines) == 1


def _warnings(accepted: Options) -> list[str]:
    return list(warnings_of(accepted.gates, effective_gates(DESCRIPTORS)))


def test_controller_gates_reach_their_options() -> None:
    for descriptor in DESCRIPTORS:
        for spec in descriptor.gate_fields:
            gate = known_gates()[spec.gate]
            reported = options(changed(gate), f"--controllers={descriptor.name}").controller_options[descriptor.name]
            assert getattr(reported, spec.field) is not gate.default, spec


@cases(
    "words",
    {
        "off": ["--feature-gates=WorkloadWithJob=true,GenericWorkload=true", "--controllers=*,-job"],
        "without leader election": ["--feature-gates=CoordinatedLeaderElection=true", "--leader-elect=false"],
        "WorkloadWithJob disabled": ["--feature-gates=WorkloadWithJob=false"],
    },
)
def test_disabled_controllers_reject_no_gates(words: list[str]) -> None:
    assert list(unsupported_gates(options(*words), DESCRIPTORS)) == []


def test_all_alpha_names_unsupported_gates() -> None:
    with pytest.raises(FlagError) as refused:
        options("--feature-gates=AllAlpha=true")
    assert "feature gate WorkloadWithJob=true (by AllAlpha) is not supported: job-controller" in str(refused.value)
    rest = ",".join(f"{name}={show_bool(known_gates()[name].default)}" for name in REFUSED)
    accepted = options(f"--feature-gates=AllAlpha=true,AllBeta=true,{rest}")
    assert list(unsupported_gates(accepted, DESCRIPTORS)) == []
