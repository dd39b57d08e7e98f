"""Stages in a cluster: the embedded API server, simulated nodes, virtual time. The examples are played here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.remains import remains
from tests.nodes.world import QUIET, World, world
from tests.tables import cases

from pilothouse.api.core import PODS
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Rule, delay_answer, fail
from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.nodes.stages import Stage, load_stages
from pilothouse.nodes.stages.stage import parse_yaml, stage_from
from pilothouse.semantics.pods import is_ready

EXAMPLES = Path(__file__).parents[3] / "examples" / "stages"


@contextlib.asynccontextmanager
async def staged(env: Env, *stages: Stage) -> AsyncIterator[World]:
    async with world(env) as running:
        await running.start_nodes("n0", profile=QUIET, stages=stages)
        yield running


@pytest.fixture
async def w(env: Env, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A node with the stages of the test's mark."""
    async with staged(env, *request.node.get_closest_marker("world").args) as running:
        yield running


def example(name: str) -> tuple[Stage, ...]:
    return load_stages([str(EXAMPLES / name)])


def stage(spec: str, name: str = "s") -> Stage:
    head = f"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\nspec:\n"
    head += "  resourceRef: {kind: Pod}\n"
    result = stage_from(parse_yaml(head + "".join(f"  {line}\n" for line in spec.splitlines())), "f.yaml")
    assert result is not None
    return result


async def phases(w: World, seconds: float, name: str = "p") -> list[tuple[str, float]]:
    """The observed phases of the pod, with their first times."""
    observed: list[tuple[str, float]] = []
    for tenth in range(int(seconds * 10)):
        pod = await w.pod(name)
        phase = "gone" if pod is None else f"{pod.status.phase}{' ready' if is_ready(pod) else ''}"
        if not observed or observed[-1][0] != phase:
            observed.append((phase, tenth / 10))
        await asyncio.sleep(0.1)
    return observed


@pytest.mark.world(*example("web-pod.yaml"))
async def test_the_example_of_pods(w: World) -> None:
    await w.create_pod(node="n0")
    (_, _), (running, at) = await phases(w, 8)
    assert running == "Running ready"
    assert 3.0 <= at <= 6.1, "one to two seconds, then two to four"
    status = (await w.document())["status"]
    assert (status["hostIP"], status["podIP"]) == ("10.64.0.1", "10.128.0.1")
    assert [event.reason for event in await w.events()] == ["Created"], "stages' events are always sent"
    await w.create_pod("quick", node="n0", metadata={"annotations": {"example.com/start-delay": "100ms"}})
    await w.create_pod("elsewhere", node="other")
    await asyncio.sleep(7)
    assert (await w.existing("quick")).status.pod_ip == "10.128.0.2"
    assert w.count_writes("pods/default/elsewhere") == 1
    await w.delete()
    assert [phase for phase, _at in await phases(w, 3)] == ["Running ready", "gone"]


@pytest.mark.world(*example("flaky-node.yaml"))
async def test_the_example_of_nodes(w: World) -> None:
    await asyncio.sleep(1)

    async def ready() -> str:
        return {c.type: c.status for c in (await w.node("n0")).status.conditions}["Ready"]

    assert await ready() == "True"
    await asyncio.sleep(300)
    assert await ready() == "True"
    await w.label_node("n0", "example.com/flaky", "true")
    observed = []
    for _ in range(300):
        await asyncio.sleep(1)
        observed.append(await ready())
    assert 40 < observed.count("False") < 150, "it falls over every 30 to 60 seconds, for 20"
    assert observed.count("True") > 100
    assert "FellOver" in {event.reason for event in await w.node_events()}
    assert w.count_writes("leases/kube-node-lease/n0") > 40, "the Lease is renewed as ever"


ON_CREATION = "selector: {matchExpressions: [{key: .status.podIP, operator: DoesNotExist}]}\n"


@pytest.mark.world(
    stage(f"{ON_CREATION}delay: {{durationMilliseconds: 5000}}\nnext: {{statusTemplate: 'podIP: 1.2.3.4'}}")
)
async def test_a_change_during_the_delay_restarts_it(w: World) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(4)
    await w.set_condition("example.com/x", "True")
    await asyncio.sleep(4)
    assert (await w.existing()).status.pod_ip == ""
    await asyncio.sleep(2)
    assert (await w.existing()).status.pod_ip == "1.2.3.4"


PATCH = "{subresource: status, root: status, template: 'podIP: 1.2.3.4'}"


@pytest.mark.world(stage(f"{ON_CREATION}steps: [{{event: {{reason: Once}}}}, {{patch: {PATCH}}}]"))
async def test_steps_that_were_done_are_not_repeated_after_a_failure(w: World) -> None:
    rule = Rule(fail(503, "ServiceUnavailable"), verb="patch", resource="pods", times=2)
    w.node_faults.add(rule)
    await w.create_pod(node="n0")
    await asyncio.sleep(10)
    assert (await w.existing()).status.pod_ip == "1.2.3.4"
    assert [(event.reason, event.count) for event in await w.events()] == [("Once", 1)]


HOLD = "selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: DoesNotExist}]}\n"
HOLD += "next: {finalizers: {add: [{value: example.com/hold}]}}"
FREE = "selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}\n"
FREE += "delay: {durationMilliseconds: 1000}\nnext: {finalizers: {empty: true}, delete: true}"


@pytest.mark.world(stage(HOLD, "hold"), stage(FREE, "free"))
async def test_finalizers_come_and_go(w: World) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(1)
    assert (await w.existing()).metadata.finalizers == ("example.com/hold",)
    await w.delete(grace=5)
    await asyncio.sleep(3)
    assert await w.pod() is None


FIRST = f"{ON_CREATION}next: {{statusTemplate: '{{podIP: 1.2.3.4, conditions: [{{type: x, status: \"1\"}}]}}'}}\n"
SECOND = 'selector: {matchExpressions: [{key: ".status.conditions.[].status", operator: In, values: ["1"]}]}\n'
SECOND += "next: {statusTemplate: '{conditions: [{type: x, status: \"2\"}]}'}"


@pytest.mark.world(stage(f"{FIRST}immediateNextStage: true", "first"), stage(SECOND, "second"))
async def test_an_immediate_stage_needs_no_change_by_others(w: World) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(1)
    assert [c.status for c in (await w.existing()).status.conditions if c.type == "x"] == ["2"]


@cases(
    "template",
    {
        "a template that fails": "podIP: {{ index .spec.none 0 }}",
        "invalid YAML": "podIP: [",
        "rejected by the API server": "podIP: {a: 1}",
    },
)
async def test_a_stage_that_fails_is_logged_and_tried_again_after_a_change(
    env: Env, template: str, caplog: Any
) -> None:
    async with staged(env, stage(f"{ON_CREATION}next: {{statusTemplate: '{template}'}}")) as w:
        await w.create_pod(node="n0")
        await asyncio.sleep(60)
        logged = [record for record in caplog.records if "Stage can't be applied" in record.message]
        assert len(logged) == 1
        await w.set_condition("example.com/x", "True")
        await asyncio.sleep(60)
        logged = [record for record in caplog.records if "Stage can't be applied" in record.message]
        assert len(logged) == 2


@pytest.mark.world(*example("web-pod.yaml"))
async def test_a_silent_node_plays_no_stages(w: World) -> None:
    w.nodes.silence("n0")
    await w.create_pod(node="n0")
    await asyncio.sleep(60)
    assert (await w.existing()).status.pod_ip == ""
    w.nodes.revive("n0")
    await asyncio.sleep(7)
    assert is_ready(await w.existing())


def test_the_same_seed_draws_the_same_delays() -> None:
    async def play(env: Env) -> list[tuple[str, float]]:
        async with staged(env, *example("web-pod.yaml")) as w:
            await w.create_pod(node="n0")
            return await phases(w, 8)

    first = run(play, seed=1)
    assert run(play, seed=1) == first
    assert run(play, seed=2) != first


async def test_state_of_a_pod_deleted_between_two_steps_is_dropped(env: Env) -> None:
    """Its address would never be another pod's."""
    patch = "{subresource: status, root: status, template: 'podIP: {{ PodIP }}'}"
    steps = f"{ON_CREATION}steps: [{{finalizers: {{add: [{{value: example.com/wait}}]}}}}, {{patch: {patch}}}]"
    async with staged(env, stage(steps)) as w:
        rule = w.node_faults.add(Rule(delay_answer(2.0), verb="patch", resource="pods", times=1))
        pod = await w.create_pod(node="n0")
        await asyncio.sleep(1)
        assert rule.hits == 1
        await w.delete(grace=0)
        await w.client.patch(PODS.raw, "p", merge_patch({"metadata": {"finalizers": None}}), "default")
        assert await w.pod() is None
        await asyncio.sleep(30)
        assert remains(w.nodes, pod.metadata.uid, "default/p") == []
