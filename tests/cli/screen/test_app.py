"""``pilothouse top``: its views and keys."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cli.screen.screens import shown
from tests.why.cluster import deployment
from textual.events import Key

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import EVENTS, PODS
from pilothouse.client import Client, merge_patch
from pilothouse.client.interceptor import Interceptor, Rule, fail, refuse
from pilothouse.env import Env
from pilothouse.testing import AsyncCluster, async_plane

pytestmark = pytest.mark.real_loop(timeout=120)


@pytest.fixture
async def cluster() -> AsyncIterator[AsyncCluster]:
    async with async_plane(nodes=2) as plane:
        yield plane


def event(name: str, message: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-1"},
        "type": "Warning",
        "reason": "Told",
        "message": message,
        "firstTimestamp": "2999-01-01T00:00:00Z",
        "lastTimestamp": "2999-01-01T00:00:00Z",
        "source": {"component": "test"},
    }


async def test_nodes_have_a_sign_for_each_pod(cluster: AsyncCluster) -> None:
    await cluster.create(deployment("web", replicas=3))
    async with shown(cluster.client) as screen:
        text = await screen.until("3 pods  ● 3")
        assert "[1 Cluster]" in text
        lines = [line for line in text.splitlines() if line.startswith("node-")]
        assert len(lines) == 2
        assert sum(line.count("●") for line in lines) == 3


async def test_a_rollout_is_followed_down_to_the_pods(cluster: AsyncCluster) -> None:
    await cluster.create(deployment("web", replicas=2))
    async with shown(cluster.client) as screen:
        await screen.press("2")
        await screen.until(r"▸ Deployment web +2/2 +██████████ +2/2 +available")
        await cluster.client.patch(
            DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": 4, "paused": True}}), "default"
        )
        await screen.until(r"▸ Deployment web +4/4 .*paused")
        await screen.press("down")
        text = await screen.until(r"▸ ReplicaSet web-\w+ \(revision 1\) +4/4")
        assert "Pod" not in text.split("▸", 1)[1]
        await screen.press("space")
        await screen.until_true(lambda text: text.count("● web-") == 4, "four pods below the ReplicaSet")
        await screen.press("space")
        await screen.until("● web-", removed=True)


async def test_keys_that_arrive_at_once_are_for_the_prompt(cluster: AsyncCluster) -> None:
    """As when they are pasted: the prompt has the focus before the next key is read."""
    await cluster.create(deployment("web", replicas=1))
    async with shown(cluster.client) as screen:
        await screen.until(r"2 nodes  1 pod  ● 1")
        for key, character in (
            ("colon", ":"),
            *((key, key) for key in "cm"),
            ("slash", "/"),
            *((c, c) for c in "nope"),
        ):
            screen.app.post_message(Key(key, character))
        screen.app.post_message(Key("enter", "\r"))
        await screen.until("ConfigMap default/nope is not there")


async def test_pods_are_searched_sorted_and_restricted_to_a_namespace(cluster: AsyncCluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    await cluster.create(deployment("web", replicas=2))
    stuck = deployment("stuck", replicas=1, nodeSelector={"no": "node"})
    stuck["metadata"]["namespace"] = "other"
    await cluster.create(stuck)
    async with shown(cluster.client) as screen:
        await screen.press("6")
        await screen.until(r"3 pods  ● 2  ○ 1")
        text = await screen.until(r"○ +other +stuck-.* Pending .*0/2 nodes are available")
        assert text.index("web-") < text.index("stuck-")
        await screen.press("o")
        text = await screen.until("sorted by state")
        assert text.index("stuck-") < text.index("web-")
        await screen.press("O")
        await screen.until_true(lambda text: text.index("web-") < text.index("stuck-"), "the other way round")
        await screen.press("slash")
        await screen.type("web running")
        text = await screen.until("search: web running")
        assert "stuck-" not in text
        assert text.count("Running") == 2
        await screen.press("escape")
        await screen.until("stuck-")
        await screen.press("N")
        await screen.type("other")
        text = await screen.until("test  other")
        assert "web-" not in text
        assert "stuck-" in text


async def test_an_object_has_yaml_events_history_and_why(cluster: AsyncCluster) -> None:
    await cluster.create(deployment("web", replicas=1))
    async with shown(cluster.client) as screen:
        await screen.press("6")
        await screen.until("1 pod  ● 1")
        await screen.press("enter")
        text = await screen.until("kind: Pod")
        assert "Pod default/web-" in text
        assert "managedFields" not in text
        await screen.press("e")
        await screen.until(r"Scheduled: Successfully assigned default/web-\S+ to node-")
        await screen.press("h")
        await screen.until(r"ADDED  by kube-controller-manager")
        await screen.until(r"\+ spec.nodeName: \"node-")
        await screen.press("w")
        await screen.until(r"deployment/web was created, by kubernetes-admin")
        await screen.press("escape")
        await screen.until(r"● +default +web-")


async def test_any_object_can_be_opened_by_its_type_and_name(cluster: AsyncCluster) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"password": "hush"}}
    await cluster.create(secret)
    async with shown(cluster.client) as screen:
        await screen.until("2 nodes")
        await screen.press("colon")
        await screen.type("secrets/key")
        text = await screen.until("password:")
        assert "(hidden)" in text
        assert "aHVzaA" not in text
        await screen.press("colon")
        await screen.type("wombats/a")
        await screen.until('the server doesn\'t have a resource type "wombats"')
        await screen.press("colon")
        await screen.type("cm/none")
        await screen.until("ConfigMap default/none is not there")


async def test_past_state_is_shown(cluster: AsyncCluster) -> None:
    await cluster.create(deployment("web", replicas=1))
    async with shown(cluster.client) as screen:
        await screen.until("1 pod  ● 1")
        then = (await cluster.client.list(PODS.raw, limit=1)).metadata.resource_version
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await screen.until(" 0 pods")
        await screen.press("t")
        await screen.type(then)
        text = await screen.until("1 pod  ● 1")
        assert f"THE PAST: resourceVersion {then}" in text
        await screen.press("6", "enter")
        await screen.until("kind: Pod")
        await screen.press("n")
        text = await screen.until("is not there; its history")
        assert "THE PAST" not in text
        await screen.press("t")
        await screen.type("yesterday")
        await screen.until('"yesterday" is no resourceVersion, no time such as')
    async with shown(cluster.client, at=then) as screen:
        await screen.until(f"THE PAST: resourceVersion {then}")
        await screen.until("1 pod  ● 1")


async def test_control_characters_of_the_cluster_are_escaped(cluster: AsyncCluster) -> None:
    await cluster.client.create(EVENTS, event("told", "red \x1b[31m\x07 [bold]text[/]"), "default")
    async with shown(cluster.client) as screen:
        await screen.press("3")
        text = await screen.until("Told")
        assert r"red ^[[31m\x07 [bold]text[/]" in text
        assert "\x1b" not in text
        await screen.press("colon")
        await screen.type("events/told")
        text = await screen.until("kind: Event")
        assert "\x1b" not in text


async def test_user_restricted_to_a_namespace(cluster: AsyncCluster) -> None:
    env = Env()
    await cluster.create(deployment("web", replicas=1))
    faults = Interceptor(cluster.client.transport, env)
    forbidden = fail(403, "Forbidden", "not you")
    faults.add(Rule(forbidden, verb="list", when=lambda call, _request: not call.namespace))
    async with shown(Client(faults, env), fallback="default") as screen:
        await screen.press("6")
        text = await screen.until(r"● +default +web-")
        assert "only namespace default: reading all namespaces is forbidden" in text
        assert "nodes: not you" in text


async def test_a_lost_connection_is_shown_until_it_is_back(cluster: AsyncCluster) -> None:
    env = Env()
    await cluster.create(deployment("web", replicas=1))
    faults = Interceptor(cluster.client.transport, env)
    async with shown(Client(faults, env)) as screen:
        await screen.until("1 pod  ● 1")
        faults.add(Rule(refuse()))
        faults.end_watches()
        text = await screen.until("connection refused")
        assert "1 pod  ● 1" in text
        await cluster.client.patch(DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": 2}}), "default")
        faults.clear()
        await screen.until("2 pods  ● 2")
        await screen.until("refused", removed=True)


async def test_help_lists_the_keys(cluster: AsyncCluster) -> None:
    async with shown(cluster.client) as screen:
        await screen.press("question_mark")
        text = await screen.until("go to a time or resourceVersion")
        assert "● ready" in text
        await screen.press("d")
        assert screen.app.theme == "textual-light"
        await screen.press("escape")
        await screen.until(r"node-0 +Ready")


async def test_the_cursor_stays_on_its_object(cluster: AsyncCluster) -> None:
    await cluster.create(deployment("m", replicas=1))
    async with shown(cluster.client) as screen:
        await screen.press("2")
        await screen.until("Deployment m +1/1")
        await cluster.create(deployment("a", replicas=1))
        await screen.until("Deployment a +1/1")
        assert screen.app.grid.view.key(screen.app.grid.cursor) == "apps/deployments/default/m"


async def test_unexpected_error_ends_the_application(cluster: AsyncCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cluster.client, "list", failing)
    with pytest.raises(BaseExceptionGroup, match="feeds"):
        async with shown(cluster.client) as screen:
            await screen.until_true(lambda _text: not screen.app.is_running, "the end")
