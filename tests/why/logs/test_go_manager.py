"""Go's kube-controller-manager before a real kube-apiserver, with nothing but its audit log: who wrote is known, and
why is not, which the answer says. The root is still found, by who owns what."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import until
from tests.real_cluster import missing_programs
from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.place import Place
from tests.why.catalogue.scene import ADMIN, Scene
from tests.why.logs.place import LoggedPlace, go_place

from pilothouse.why.logs import LogSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
]

GO = "(kube-controller-manager/v1.20.2)"
METADATA = "metadata"


@pytest.fixture(scope="module")
def place() -> Iterator[LoggedPlace]:
    with go_place(METADATA) as found:
        yield found


def test_scaled_down(place: Place) -> None:
    scene = Scene(place, "scaled-down")
    before = scene.deployment(replicas=3)
    scene("scale", "deployment", "web", "--replicas=2")
    (gone,) = set(before) - set(scene.until_ready(2))
    found = scene.why(f"pod/{gone}")
    assert_explains(
        found,
        "deleted",
        f"""pod/{gone} by replicaset-controller {GO} < replicaset/web-* by deployment-controller {GO}
            < deployment/web by {ADMIN} scale* [user]""",
    )
    assert "the reason was not recorded" in whole_text(found)
    assert f"why replicaset-controller {GO} wrote: no decision log has it" in found.unseen


def test_rolled_out(place: Place) -> None:
    scene = Scene(place, "rolled-out")
    (old,) = scene.deployment(replicas=1)
    scene("set", "image", "deployment/web", "main=nginx:2")
    scene.until_gone("pods", old)
    (new,) = scene.until_ready(1)
    for name, state in ((old, "deleted"), (new, "as desired")):
        assert_explains(
            scene.why(f"pod/{name}"),
            state,
            f"""pod/{name} by replicaset-controller {GO} < replicaset/web-* by deployment-controller {GO}
                < deployment/web by {ADMIN} set* [user]""",
        )


def test_deleted_with_its_deployment(place: Place) -> None:
    scene = Scene(place, "with-deployment")
    (name,) = scene.deployment(replicas=1)
    scene("delete", "deployment", "web")
    scene.until_gone("pods", name)
    assert_explains(
        scene.why(f"pod/{name}"),
        "deleted",
        f"""pod/{name} by garbage-collector-controller {GO} < replicaset/web-* by garbage-collector-controller {GO}
            < deployment/web by {ADMIN} delete* [user]""",
    )


def test_deleted_with_its_namespace(place: Place) -> None:
    scene = Scene(place, "with-namespace")
    scene("run", "lone", "--image=pause")
    scene.until_ready(1)
    scene("delete", "namespace", scene.namespace, "--wait=false")
    scene.until_gone("namespaces", scene.namespace)
    assert_explains(
        scene.why("pod/lone"),
        "deleted",
        f"""pod/lone by namespace-controller {GO} < namespace/{scene.namespace} by {ADMIN} delete* [user]""",
    )


def test_pods_of_a_job(place: Place) -> None:
    scene = Scene(place, "job")
    scene("create", "job", "once", "--image=busybox")
    scene.until(lambda: scene.objects("pods"), "there is a pod")
    (pod,) = scene.objects("pods")
    name = pod["metadata"]["name"]
    scene("delete", "job", "once")
    scene.until_gone("pods", name)
    assert_explains(
        scene.why(f"pod/{name}"),
        "deleted",
        f"pod/{name} by garbage-collector-controller {GO} < job/once by {ADMIN} delete* [user]",
    )


def test_only_metadata(place: LoggedPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without objects in the log it is known who did it, and when."""
    scene = Scene(place, METADATA)
    before = scene.deployment(replicas=2)
    scene("scale", "deployment", "web", "--replicas=1")
    (gone,) = set(before) - set(scene.until_ready(1))
    (whole,), log = place.sources, tmp_path / "audit.log"

    def written() -> bool:
        """What a policy for this namespace alone would have left."""
        lines = [line for line in Path(whole.path).read_text().splitlines(True) if '"level":"Metadata"' in line]
        log.write_text("".join(line for line in lines if f'"namespace":"{METADATA}"' in line))
        return any('"verb":"delete"' in line and f"/pods/{gone}" in line for line in lines)

    until(written, "the log has its deletion")
    monkeypatch.setattr(place, "sources", [LogSource(whole.kind, str(log))])
    found = scene.why(f"pod/{gone}")
    assert found.state == "deleted"
    assert found.steps[0].by == f"replicaset-controller {GO}"
    assert "what writes changed: the audit log has the level Metadata, and no objects" in found.unseen
    scaled = scene.why("deployment/web")
    assert scaled.roots()[0].by.startswith(f"{ADMIN} scale"), whole_text(scaled)
