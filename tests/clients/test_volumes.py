"""Claims and volumes on ``pilothouse up``, by kubectl. Most scenarios are those of ``tests/real/test_volumes.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.running_up import running_up
from tests.clients.test_kubectl import KUBECTL
from tests.clients.volume_scenarios import ATTACHING, PROVISIONER, SCENARIOS, VolumeCluster
from tests.programs import until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VolumeCluster]:
    flags = "--controllers=*,selinux-warning-controller"
    with running_up(VolumeCluster, tmp_path_factory.mktemp("up"), 2, flags) as cluster:
        yield cluster


@pytest.fixture
def stage(up: VolumeCluster) -> Iterator[VolumeCluster]:
    """The cluster without pods, claims and volumes."""
    yield up
    up.clear()


def test_default_storage_class_exists(up: VolumeCluster) -> None:
    assert "standard (default)" in up("get", "storageclass")


@pytest.mark.parametrize("scenario", [*SCENARIOS, *ATTACHING])
def test_claim_and_volume_scenarios(scenario: Callable[[VolumeCluster], None], stage: VolumeCluster) -> None:
    scenario(stage)


def test_conflicting_selinux_labels_emit_events(stage: VolumeCluster) -> None:
    """Once the driver has seLinuxMount."""
    stage.create_claim("shared", "standard")
    levels = {"web": "s0:c1,c2", "backup": "s0:c98,c99"}
    for name, level in levels.items():
        mounts = [{"name": "data", "mountPath": "/data"}]
        spec = {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"seLinuxOptions": {"level": level}},
            "containers": [{"name": "main", "image": "pause:1", "volumeMounts": mounts}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}],
        }
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        stage("create", "-f", "-", stdin=document)
    until(lambda: stage.phases()["shared"] == "Bound", "the volume is made")
    assert "SELinuxLabelConflict" not in stage.event_reasons("web")
    stage("patch", "csidriver", PROVISIONER, "--type=merge", "-p", '{"spec":{"seLinuxMount":true}}')

    def has_event(name: str, other: str) -> bool:
        text = (
            f'SELinuxLabel ":::{levels[name]}" conflicts with pod {other} that uses the same volume as this pod with '
        )
        return f'{text}SELinuxLabel ":::{levels[other]}".' in stage("describe", "pod", name)

    until(lambda: has_event("web", "backup"), "one is told of the other")
    until(lambda: has_event("backup", "web"), "and the other of the one")
