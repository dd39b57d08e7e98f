"""``explore`` calls webhooks and conversions, which meet faults, too."""

import asyncio
import importlib.util
import re
import sys
from types import ModuleType
from typing import Any, Literal

import msgspec
import pytest
from tests.programs import ROOT
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import ApiError, InternalError, Invalid
from pilothouse.env import Env
from pilothouse.operator import AdmissionRequest, App, Context, CustomResource, Denied, ObjectMeta, Version, View
from pilothouse.sim.connection import Marked
from pilothouse.sim.faults import WebhookFailure
from pilothouse.sim.simulation import Simulation, SimulationOptions, running
from pilothouse.testing import AsyncCluster, ExplorationFailed, State, explore
from pilothouse.testing.simulated_program import simulated_program

ALONE: dict[str, Any] = {"nodes": 0, "controllers": ()}
MAP = ("v1", "ConfigMap")


@pytest.fixture
def example() -> ModuleType:
    """A new copy of ``examples/backup_operator.py``."""
    spec = importlib.util.spec_from_file_location("backup_operator", ROOT / "examples" / "backup_operator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["backup_operator"] = module
    spec.loader.exec_module(module)
    return module


def backup(version: str, name: str, **spec: Any) -> dict[str, Any]:
    whole = {"schedule": "0 3 * * *", **spec}
    return {"apiVersion": f"example.com/{version}", "kind": "Backup", "metadata": {"name": name}, "spec": whole}


async def backups_of_both_versions(cluster: AsyncCluster) -> None:
    for number in range(2):
        await cluster.create(backup("v1", f"old-{number}", keep=3))
        await cluster.create(backup("v2", f"new-{number}"))
        await asyncio.sleep(10)
    with pytest.raises(Invalid, match="the schedule is wrong"):
        await cluster.create(backup("v1", "wrong", schedule="daily"))
    await cluster.patch("example.com/v1", "Backup", "new-1", {"spec": {"keep": 5}})
    result = await cluster.wait_for("example.com/v1", "Backup", "new-1", lambda found: found is not None, seconds=60)
    assert result is not None
    assert result["spec"] == {"schedule": "0 3 * * *", "keep": 5}
    await cluster.delete("example.com/v1", "Backup", "old-1")


def copies_are_kept(state: State) -> None:
    """Stored objects were defaulted and validated, and finally each Backup has its agent."""
    result = {obj["metadata"]["name"]: obj["spec"] for obj in state.list("example.com/v2", "Backup")}
    assert all(spec["schedule"] == "0 3 * * *" for spec in result.values()), result
    if state.converged:
        assert {name: spec["retention"]["copies"] for name, spec in result.items()} == {
            "old-0": 3,
            "new-0": 7,
            "new-1": 5,
        }
        agents = {
            obj["metadata"]["name"]: obj["spec"]["template"]["spec"]["containers"][0]["args"][1]
            for obj in state.list("apps/v1", "Deployment")
        }
        assert agents == {"old-0": "--copies=3", "new-0": "--copies=7", "new-1": "--copies=5"}


def test_the_example_with_two_versions_and_two_webhooks_passes(example: ModuleType, seeds: range) -> None:
    controllers = ("garbage-collector-controller",)
    done = explore(
        example.app,
        backups_of_both_versions,
        [copies_are_kept],
        seeds=seeds,
        faults=12,
        nodes=0,
        controllers=controllers,
    )
    again = explore(example.app, backups_of_both_versions, seeds=seeds, faults=12, nodes=0, controllers=controllers)
    assert done.digests == again.digests


# Versions, of which the older one is stored: each list and watch of the operator needs conversions


class OldSpec(View, frozen=True):
    size: str = "0"


class OldBox(View, frozen=True):
    spec: OldSpec = OldSpec()
    metadata: ObjectMeta = ObjectMeta()


class BoxSpec(View, frozen=True):
    litres: int = 0


class Box(View, frozen=True):
    spec: BoxSpec = BoxSpec()
    metadata: ObjectMeta = ObjectMeta()


def to_hub(old: OldBox) -> Box:
    return Box(spec=BoxSpec(litres=int(old.spec.size)))


def from_hub(box: Box) -> OldBox:
    return OldBox(spec=OldSpec(size=str(box.spec.litres)))


BOXES = CustomResource("example.com/v2", Box, versions=(Version("v1", OldBox, to_hub, from_hub),), stored="v1")


def box(version: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Box", "metadata": {"name": name}, "spec": spec}


def boxes(failure_policy: Literal["Fail", "Ignore"]) -> App:
    """It relies on what its mutating webhook fills in."""
    app = App("boxes")

    @app.mutating(BOXES, failure_policy=failure_policy)
    async def one_litre(obj: Box, _request: AdmissionRequest[Box]) -> Box | None:
        return None if obj.spec.litres else msgspec.structs.replace(obj, spec=BoxSpec(litres=1))

    @app.validating(BOXES)
    async def not_too_large(obj: Box, _request: AdmissionRequest[Box]) -> None:
        if obj.spec.litres > 100:
            raise Denied("too large", reason="Invalid")

    @app.controller(BOXES, owns=(CONFIG_MAPS,))
    async def sync(obj: Box, ctx: Context[Box]) -> None:
        data = {"litres": str(obj.spec.litres)}
        await ctx.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": obj.metadata.name}, "data": data}
        )

    return app


async def five_boxes(cluster: AsyncCluster) -> None:
    for number in range(5):
        version = ("v1", "v2")[number % 2]
        await cluster.create(box(version, f"box-{number}"))
        await asyncio.sleep(10)
        name = f"box-{number}"
        result = await cluster.wait_for(
            f"example.com/{version}", "Box", name, lambda found: found is not None, seconds=60
        )
        assert result is not None


def every_box_has_a_size(state: State) -> None:
    sizes = [obj["spec"].get("size") for obj in state.list("example.com/v2", "Box")]
    assert "0" not in sizes, sizes
    if state.converged:
        assert len(sizes) == 5
        result = [obj["data"] for obj in state.list(*MAP, "default") if obj["metadata"]["name"].startswith("box")]
        assert result == [{"litres": "1"}] * 5


def test_an_operator_whose_objects_are_stored_in_the_older_version_passes(seeds: range) -> None:
    explore(boxes("Fail"), five_boxes, [every_box_has_a_size], seeds=seeds, faults=15, **ALONE)


def test_an_operator_that_relies_on_a_webhook_whose_failures_are_ignored_is_found() -> None:
    with pytest.raises(ExplorationFailed, match=r"CheckFailed: every_box_has_a_size: \[.*'0'") as failed:
        explore(boxes("Ignore"), five_boxes, [every_box_has_a_size], seeds=50, **ALONE)
    (fault,) = re.findall(r"^  \[\d+\] (\w+)\(", str(failed.value), re.MULTILINE)
    assert fault in {"FailWebhook", "SlowWebhooks", "Crash"}
    path = "webhook /mutate-example-com-v2-box/one-litre"
    assert re.search(rf"{path} (fails: |for user.*: .*(refused|EOF))", str(failed.value))


# Single faults


@cases(
    "failure, seconds, text",
    {
        "refused": ("refused", 0.0, "boxes.webhooks.test:443: connect: connection refused"),
        "timed out": ("timed out", 10.0, "context deadline exceeded"),
        "answer lost": ("answer lost", 0.0, "EOF"),
        "internal error": ("internal error", 0.0, 'an error on the server ("an internal error")'),
    },
)
async def test_a_call_that_fails_fails_the_write_of_the_operator(
    env: Env, failure: WebhookFailure, seconds: float, text: str
) -> None:
    async with running(env, OPTIONS, (), simulated_program(boxes("Fail"))) as simulation:
        client, webhooks = other_client(simulation), simulation.webhooks
        assert webhooks is not None
        webhooks.fail(failure, 2)
        began = env.monotonic()
        kind = BOXES.kind.raw
        await simulation.user.create(kind, box("v2", "a"), "default")
        # Four calls for one write: the object in the hub's version, each webhook, and what is stored.
        with pytest.raises(InternalError, match=re.escape(text)) as failed:
            await client.create(kind, box("v2", "b"), "default")
        assert env.monotonic() - began == pytest.approx(seconds, abs=0.1)
        assert "failed calling webhook" in str(failed.value)
        await client.create(kind, box("v2", "b"), "default")


async def test_calls_are_refused_while_no_process_lives(env: Env) -> None:
    async with running(env, OPTIONS, (), simulated_program(boxes("Fail"))) as simulation:
        client, kind = other_client(simulation), BOXES.kind.raw
        simulation.kill(down=30.0)
        with pytest.raises(ApiError, match="connection refused"):
            await client.create(kind, box("v2", "a"), "default")
        await simulation.user.create(kind, box("v2", "b"), "default")
        await asyncio.sleep(31)
        await client.create(kind, box("v2", "a"), "default")


async def test_requests_of_the_scenario_share_no_conversion_of_others(env: Env) -> None:
    """Who needs the same object at the same time waits for one call. The scenario's is its own: its reads do not fail,
    and a write that has been stored is not answered with an error."""
    async with running(env, OPTIONS, (), simulated_program(boxes("Fail"))) as simulation:
        webhooks, user = simulation.webhooks, simulation.user
        assert webhooks is not None
        simulation.kill(down=3600.0)
        older = msgspec.structs.replace(BOXES.kind.raw, version="v1")
        for name in ("a", "b"):
            await user.create(older, box("v1", name), "default")
        slow = asyncio.create_task(webhooks.slow(10.0, 100.0))
        others = asyncio.create_task(other_client(simulation).list(BOXES.kind, "default"))
        await asyncio.sleep(0.001)
        unchanged = merge_patch({"spec": {"litres": 1}})
        patched = await user.patch(BOXES.kind, "a", unchanged, "default")
        assert patched.spec.litres == 1
        result = await user.list(BOXES.kind, "default")
        assert [item.metadata.name for item in result.items] == ["a", "b"]
        assert not others.done()
        with pytest.raises(InternalError, match="connection refused"):
            await others
        slow.cancel()


OPTIONS = SimulationOptions(nodes=0, controllers=())


def other_client(simulation: Simulation) -> Client:
    """Neither the administrator, nor the operator."""
    transport = simulation.plane.server.transport("somebody", ("system:masters",))
    return Client(Marked("somebody", transport), simulation.env)
