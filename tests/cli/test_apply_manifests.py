"""Waiting for manifests ends when an object has failed."""

import asyncio
import re
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.core import NODES
from pilothouse.cli.apply_manifests import apply_all
from pilothouse.cli.manifests import Manifest
from pilothouse.cli.program import UserError
from pilothouse.client.patches import merge_patch
from pilothouse.env import Env
from pilothouse.testing import async_plane


def job(name: str, *command: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": list(command)}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": template},
    }


async def test_failed_job_is_not_waited_for(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    later = job("later", "sleep", "5")
    async with async_plane(env=env, nodes=1, controllers=("job-controller",)) as cluster:
        began = asyncio.get_running_loop().time()
        manifests = [Manifest("f", item) for item in (job("bad", "false"), later)]
        assert await apply_all(cluster.client, manifests, limit=100) == 1
        assert 5 < asyncio.get_running_loop().time() - began < 20
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("jobs.batch/bad in default: failed") < lines.index("jobs.batch/later in default: complete")
    assert lines[-1].startswith("not ready: jobs.batch/bad in default: failed (")


async def test_the_last_line_names_the_exit_code_of_a_jobs_failed_pods(
    env: Env, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no warning about them before the backoff limit is reached."""
    migrate = job("migrate", "sh", "-c", "exit 3")
    migrate["spec"]["backoffLimit"] = 6
    other = job("other", "sh", "-c", "exit 4")
    async with async_plane(env=env, nodes=1, controllers=("job-controller",)) as cluster:
        manifests = [Manifest("f", item) for item in (migrate, other)]
        assert await apply_all(cluster.client, manifests, limit=25) == 1
    lines = capsys.readouterr().out.splitlines()
    why = r"Pod migrate-\w+ and 1 more: container c ended with exit code 3 \(Error\)"
    assert re.match(
        rf"not ready after 25 s: jobs.batch/migrate in default: 0 of 1 succeeded \({why}\); jobs.batch/other", lines[-1]
    )
    assert len([line for line in lines if line.startswith("  ") and "exit code 3" in line]) == 1
    assert any(
        re.fullmatch(r"  .*/other .*Pod other-\w+: container c ended with exit code 4 \(Error\)", line)
        for line in lines
    )


async def test_objects_that_were_not_checked_within_the_time_are_named(
    env: Env, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = [Manifest("f", job(name, "false")) for name in ("a", "b")]
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        assert await apply_all(cluster.client, manifests, limit=0) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "not ready after 0 s: jobs.batch/a in default: not checked yet; jobs.batch/b in default: not checked yet"
    ]


async def test_each_warning_is_shown_once(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """By each run, as kubectl does: an object takes several requests, and many objects have the same warning."""
    objects = [{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}} for name in ("a", "b")]
    manifests = [Manifest("f", item) for item in objects]
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        for _time in range(2):
            await apply_all(cluster.client, manifests, limit=100)
            lines = capsys.readouterr().out.splitlines()
            assert [line for line in lines if line.startswith("Warning: ")] == [
                "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
            ]


async def test_others_are_applied_if_one_is_rejected(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    documents = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in ("A", "b", "C")]
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(UserError) as raised:
            await apply_all(cluster.client, [Manifest("f", document) for document in documents], limit=100)
    assert capsys.readouterr().out == "configmaps/b in default created\n"
    first, second = str(raised.value).split("\nError: ")
    assert first.startswith('f: ConfigMap A: ConfigMap "A" is invalid: metadata.name')
    assert second.startswith('f: ConfigMap C: ConfigMap "C" is invalid: metadata.name')


async def test_an_object_that_need_not_become_ready_has_one_line(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    manifests = [Manifest("f", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})]
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        assert [await apply_all(cluster.client, manifests, limit=100) for _time in range(2)] == [0, 0]
    lines = [f"configmaps/a in default {verb}\nall manifests are ready\n" for verb in ("created", "unchanged")]
    assert capsys.readouterr().out == "".join(lines)


def deployment(**container: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", **container}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


WORKLOADS = ("deployment-controller", "replicaset-controller")


async def test_the_last_line_names_an_image_that_cannot_be_pulled(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """Also while the newest warning of the pods is only ``Error: ImagePullBackOff``. Retries say nothing new."""
    async with async_plane(env=env, nodes=1, controllers=WORKLOADS) as cluster:
        manifests = [Manifest("f", deployment(image="nginx:does-not-exist"))]
        for limit in (15, 25, 60):
            assert await apply_all(cluster.client, manifests, limit=limit) == 1
            lines = capsys.readouterr().out.splitlines()
            why = r'Pod web-\w+-\w+ and 2 more: Failed: Failed to pull image "nginx:does-not-exist": .*'
            assert re.fullmatch(rf"not ready after {limit} s: deployments.apps/web in default: .* \({why}\)", lines[-1])
            said = [line.rpartition("Failed: ")[2] for line in lines if line.startswith("  ")]
            assert len(said) == len(set(said)) == 3


async def test_pods_that_fail_alike_are_reported_by_one_line(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """Although the kubelet's message has the name and uid of the pod."""
    async with async_plane(env=env, nodes=1, controllers=WORKLOADS) as cluster:
        manifests = [Manifest("f", deployment(image="busybox", command=["false"]))]
        assert await apply_all(cluster.client, manifests, limit=120) == 1
    lines = capsys.readouterr().out.splitlines()
    why = r"Pod web-\w+-\w+ and 2 more: BackOff: Back-off restarting failed container web in pod .*"
    assert re.fullmatch(rf"not ready after 120 s: deployments.apps/web in default: .* \({why}\)", lines[-1])
    assert len([line for line in lines if line.startswith("  ")]) == 1


async def test_attempts_to_create_a_pod_are_reported_once(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """Although each has another name in its message."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    async with async_plane(env=env, nodes=1, controllers=(*WORKLOADS, "resourcequota-controller")) as cluster:
        manifests = [Manifest("f", document) for document in (quota, deployment(image="busybox"))]
        assert await apply_all(cluster.client, manifests, limit=30) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "FailedCreate: Error creating: " in line and line.startswith("  ")]) == 1


@cases(
    "container, reason",
    {
        "and does not start": (
            {"envFrom": [{"secretRef": {"name": "db-credentials"}}]},
            r' \(Pod web-\w+-\w+ and 2 more: Failed: Error: secret "db-credentials" not found\)',
        ),
        "and starts": ({"readinessProbe": {"exec": {"command": ["false"]}, "initialDelaySeconds": 600}}, ""),
    },
)
async def test_why_a_pod_was_not_scheduled_is_no_reason_when_it_is(
    env: Env, capsys: pytest.CaptureFixture[str], container: dict[str, Any], reason: str
) -> None:
    async with async_plane(env=env, nodes=1, controllers=WORKLOADS) as cluster:
        node = (await cluster.client.list(NODES)).items[0].metadata.name
        await cluster.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))

        async def uncordon() -> None:
            await asyncio.sleep(10)
            await cluster.client.patch(NODES, node, merge_patch({"spec": {"unschedulable": False}}))

        async with asyncio.TaskGroup() as group:
            group.create_task(uncordon())
            manifests = [Manifest("f", deployment(image="busybox", **container))]
            assert await apply_all(cluster.client, manifests, limit=60) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any("FailedScheduling" in line for line in lines)
    assert re.fullmatch(rf"not ready after 60 s: deployments.apps/web in default: 0 of 3 ready{reason}", lines[-1])


def with_claim(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """The workload, whose pods use a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    manifest["spec"]["template"]["spec"]["volumes"] = [volume]
    return manifest


def claim(name: str, class_name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_name, "resources": resources}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def stateful_set(class_name: str) -> dict[str, Any]:
    manifest = deployment(image="pg")
    template = {"metadata": {"name": "data"}, "spec": claim("data", class_name)["spec"]}
    manifest["spec"] |= {"serviceName": "web", "volumeClaimTemplates": [template]}
    return manifest | {"kind": "StatefulSet"}


BINDER = "persistentvolume-binder-controller"
NO_CLASS = r'ProvisioningFailed: storageclass.storage.k8s.io "gp3" not found'


@cases(
    "manifests, reason",
    {
        "of a Deployment's claim": (
            [claim("data", "gp3"), with_claim(deployment(image="pg"), "data")],
            rf"\(PersistentVolumeClaim data: {NO_CLASS}\)",
        ),
        "of a StatefulSet's claims": ([stateful_set("gp3")], rf"\(PersistentVolumeClaim data-web-0: {NO_CLASS}\)"),
        "whose provisioner is not installed": (
            [
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": {"name": "gp3"},
                    "provisioner": "ebs.csi.aws.com",
                },
                claim("data", "gp3"),
                with_claim(deployment(image="pg"), "data"),
            ],
            r"\(PersistentVolumeClaim data: ExternalProvisioning: .*'ebs.csi.aws.com'.*\)",
        ),
    },
)
async def test_the_last_line_names_a_missing_storage_class(
    env: Env, capsys: pytest.CaptureFixture[str], manifests: list[dict[str, Any]], reason: str
) -> None:
    """In place of the scheduler's message, that the pod waits for its claims."""
    controllers = (*WORKLOADS, "statefulset-controller", BINDER)
    async with async_plane(env=env, nodes=1, controllers=controllers) as cluster:
        assert await apply_all(cluster.client, [Manifest("f", item) for item in manifests], limit=20) == 1
    lines = capsys.readouterr().out.splitlines()
    for left in lines[-1].removeprefix("not ready after 20 s: ").split("; "):
        assert re.search(f"{reason}$", left), left


async def test_a_claim_that_is_bound_is_no_reason(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if its last event says that it is not: no event says that an existing volume was bound to it."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "gp3",
            "hostPath": {"path": "/v"},
        },
    }
    database = with_claim(deployment(image="pg"), "data")
    database["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    async with async_plane(env=env, nodes=1, controllers=(*WORKLOADS, BINDER)) as cluster:
        manifests = [Manifest("f", item) for item in (claim("data", "gp3"), database)]
        assert await apply_all(cluster.client, manifests, limit=20) == 1
        assert "ProvisioningFailed" in capsys.readouterr().out
        manifests = [Manifest("f", volume), *manifests]
        assert await apply_all(cluster.client, manifests, limit=60) == 1
    (last,) = capsys.readouterr().out.splitlines()[-1:]
    assert "ProvisioningFailed" not in last
    assert "didn't match Pod's node affinity/selector" in last


async def test_warnings_of_an_earlier_template_are_not_shown(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor are those of its pods, which exist until the new ones are ready."""
    delay = {"exec": {"command": ["true"]}, "initialDelaySeconds": 10}
    async with async_plane(env=env, nodes=1, controllers=WORKLOADS) as cluster:
        assert await apply_all(cluster.client, [Manifest("f", deployment(image="web:does-not-exist"))], limit=15) == 1
        assert "does-not-exist" in capsys.readouterr().out
        mended = [Manifest("f", deployment(image="web:1", readinessProbe=delay))]
        assert await apply_all(cluster.client, mended, limit=120) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")] == []


async def test_a_quota_with_room_is_no_reason(env: Env, capsys: pytest.CaptureFixture[str]) -> None:
    hard = {"pods": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    delay = {"exec": {"command": ["true"]}, "initialDelaySeconds": 600}
    workload = deployment(image="web:1", readinessProbe=delay)
    async with async_plane(env=env, nodes=1, controllers=(*WORKLOADS, "resourcequota-controller")) as cluster:
        assert await apply_all(cluster.client, [Manifest("f", item) for item in (quota, workload)], limit=15) == 1
        assert "exceeded quota" in capsys.readouterr().out.splitlines()[-1]
        hard["pods"] = "10"
        assert await apply_all(cluster.client, [Manifest("f", item) for item in (quota, workload)], limit=120) == 1
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "not ready after 120 s: deployments.apps/web in default: 0 of 3 ready"
    )
