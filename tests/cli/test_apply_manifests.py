"""Waiting for manifests ends when an object has failed."""

import asyncio
from typing import Any

import pytest

from pilothouse.cli.apply_manifests import apply_all
from pilothouse.cli.manifests import Manifest
from pilothouse.cli.program import UserError
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
