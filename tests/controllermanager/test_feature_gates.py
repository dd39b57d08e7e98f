"""``--feature-gates`` as component-base v0.36 reads it. The table was read from ``--help`` of v1.36 (alpha and beta)
and from upstream's list of gates by version (GA and deprecated)."""

import pytest
from tests.tables import cases

from pilothouse.controllermanager.feature_gates import FeatureGates, Stage, known_gates, warnings_of
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options, effective_gates
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import FlagError

NOT_HERE = (
    "CoordinatedLeaderElection=false,DRAWorkloadResourceClaims=false,PersistentVolumeClaimUnusedSinceTime=false"
    ",WorkloadWithJob=false"
)
"""Rejected when they are on."""

DEPENDS = "is enabled, but depends on features that are disabled: "


def options(*words: str) -> Options:
    return options_from(flag_set("x", DESCRIPTORS).parse([f"--feature-gates={word}" for word in words]), DESCRIPTORS)


def gates(*words: str) -> FeatureGates:
    return options(*words).gates


@cases(
    "words, name, on",
    {
        "beta is mostly on": ([], "ComponentFlagz", True),
        "coordinated leader election is off": ([], "CoordinatedLeaderElection", False),
        "alpha is off": ([], "NativeHistograms", False),
        "set": (["ComponentFlagz=false"], "ComponentFlagz", False),
        "set for our component": (["kube:ComponentFlagz=F"], "ComponentFlagz", False),
        "last value takes precedence": (["ComponentFlagz=false,", "ComponentFlagz=1"], "ComponentFlagz", True),
        "white space is trimmed": ([" ComponentFlagz = false "], "ComponentFlagz", False),
        "AllAlpha": ([f"AllAlpha=true,{NOT_HERE}"], "NativeHistograms", True),
        "AllAlpha without one gate": ([f"AllAlpha=true,{NOT_HERE},NativeHistograms=0"], "NativeHistograms", False),
        "alpha is not beta": ([f"AllAlpha=true,{NOT_HERE}"], "ClusterTrustBundle", False),
        "AllBeta": ([f"AllBeta=true,{NOT_HERE}"], "ClusterTrustBundle", True),
        "a locked one": (["SeparateTaintEvictionController=true"], "SeparateTaintEvictionController", True),
    },
)
def test_gates(words: list[str], name: str, on: bool) -> None:
    assert gates(*words).enabled(name) is on


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("Nope", "missing bool value for Nope"),
        (
            "ComponentFlagz=maybe",
            'invalid value of ComponentFlagz=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "SeparateTaintEvictionController=false",
            "cannot set feature gate SeparateTaintEvictionController to false, feature is locked to true",
        ),
        ("GitRepoVolumeDriver=true", "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false"),
        ("etcd:A=true", "component not registered: etcd"),
        (
            "StorageVersionAPI=1,APIServerIdentity=0,UnknownVersionInteroperabilityProxy=0",
            f"StorageVersionAPI {DEPENDS}[APIServerIdentity]",
        ),
        (
            "NodeDeclaredFeatures=false,PodLevelResources=false,ExtendWebSocketsToKubelet=false"
            ",InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false",
            f"InPlacePodLevelResourcesVerticalScaling {DEPENDS}[NodeDeclaredFeatures PodLevelResources]",
        ),
        (
            "AtomicFIFO=false,StaleControllerConsistencyJob=false,StaleControllerConsistencyReplicaSet=false"
            ",StaleControllerConsistencyStatefulSet=false",
            f"StaleControllerConsistencyDaemonSet {DEPENDS}[AtomicFIFO]",
        ),
    ],
)
def test_rejected_values(word: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        gates(word)
    assert str(caught.value) == message


def test_warnings_for_deprecated_and_ineffective_gates() -> None:
    chosen = gates(
        "ImageVolume=true,StorageNamespaceIndex=true,PodsAPI=true,PodDeletionCost=false,WatchListClient=true"
    )
    assert list(warnings_of(chosen, effective_gates(DESCRIPTORS))) == [
        "Setting GA feature gate ImageVolume=true. It will be removed in a future release.",
        "Feature gate PodsAPI=true is accepted for compatibility and has no effect",
        "Setting deprecated feature gate StorageNamespaceIndex=true. It will be removed in a future release.",
    ]


def test_table_is_upstreams() -> None:
    known = known_gates()
    counts = {stage: sum(gate.stage is stage for gate in known.values()) for stage in Stage}
    assert counts == {Stage.ALPHA: 50, Stage.BETA: 100, Stage.GA: 76, Stage.DEPRECATED: 16}
    assert list(known) == sorted(known)
    assert all(gate.default for gate in known.values() if gate.stage is Stage.GA)
    assert not any(gate.default for gate in known.values() if gate.stage is Stage.ALPHA)


def test_controllers_name_gates_that_exist_and_agree_on_defaults() -> None:
    known = known_gates()
    for descriptor in DESCRIPTORS:
        assert all(name in known for name in descriptor.gates)
        for spec in descriptor.gate_fields:
            assert known[spec.gate].default is getattr(descriptor.default_options(), spec.field), spec


def test_help_lists_alpha_and_beta_gates() -> None:
    text = flag_set("x", DESCRIPTORS).help(120)
    assert "kube:AllAlpha=true|false (ALPHA - default=false)" in text
    assert "kube:AtomicFIFO=true|false (BETA - default=true)" in text
    assert "kube:SeparateTaintEvictionController" not in text
    assert text.count("=true|false (") == 150
