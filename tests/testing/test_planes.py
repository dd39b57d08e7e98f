"""Planes for tests: the basis of the fixtures, in this process."""

import asyncio
import datetime
import importlib
import inspect
import json
import re
import stat
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from tests.connections import insecure_context
from tests.custom_resources import definition
from tests.tables import cases
from tests.workloads import workload

from pilothouse.api.core import PODS
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.env import Env
from pilothouse.scheduler import Scheduler
from pilothouse.testing import AsyncCluster, Cluster, async_plane, plane
from pilothouse.testing.asynchronous import Timeout
from pilothouse.testing.synchronous import PlaneEnded

_POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}


def _replica_set(name: str, replicas: int) -> dict[str, Any]:
    return workload("ReplicaSet", name, pod=_POD_SPEC, replicas=replicas)


def _ready(count: int) -> Any:
    return lambda found: found is not None and found.get("status", {}).get("readyReplicas", 0) == count


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with plane() as cluster:
        yield cluster


def test_a_plane_is_ready_when_it_is_handed_out(shared: Cluster) -> None:
    nodes = shared.list("v1", "Node")
    assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1", "node-2"]
    assert all(
        any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"]) for node in nodes
    )


async def test_there_are_addresses_for_more_than_254_services(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        for number in range(300):
            body = {"metadata": {"name": f"s{number}"}, "spec": {"ports": [{"port": 80}]}}
            created = await cluster.create({"apiVersion": "v1", "kind": "Service", **body})
            assert created["spec"]["clusterIP"].startswith("10.0.")


def test_controllers_scheduler_and_nodes_work(shared: Cluster) -> None:
    cluster = shared.new_namespace()
    cluster.create(_replica_set("web", 3))
    cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(3))
    cluster.delete("apps/v1", "ReplicaSet", "web")
    cluster.wait_for("apps/v1", "ReplicaSet", "web", lambda found: found is None)
    for pod in cluster.list("v1", "Pod"):
        cluster.wait_for("v1", "Pod", pod["metadata"]["name"], lambda found: found is None)


def test_what_is_not_there_is_not_found(shared: Cluster) -> None:
    with pytest.raises(NotFound):
        shared.get("v1", "ConfigMap", "nothing")


def test_an_unknown_kind_says_so(shared: Cluster) -> None:
    with pytest.raises(LookupError, match=r"no kind 'Widget' in example\.com/v1"):
        shared.list("example.com/v1", "Widget")


def test_a_kind_can_be_used_as_soon_as_its_definition_is_established(shared: Cluster) -> None:
    shared.create(definition("Gadget"))
    shared.wait_for(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "gadgets.example.com",
        lambda found: any(
            c["type"] == "Established" and c["status"] == "True"
            for c in (found or {}).get("status", {}).get("conditions", [])
        ),
    )
    created = shared.create({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}})
    assert shared.get("example.com/v1", "Gadget", "one") == created


def test_a_wait_in_vain_shows_what_was_there(shared: Cluster) -> None:
    shared.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "idle"}, "data": {"state": "dull"}})
    with pytest.raises(Timeout, match=r"(?s)ConfigMap idle: not as expected after 0\.05 s.*dull"):
        shared.wait_for("v1", "ConfigMap", "idle", lambda found: "never" in str(found), seconds=0.05)
    with pytest.raises(Timeout, match="it does not exist"):
        shared.wait_for("v1", "ConfigMap", "absent", lambda found: found is not None, seconds=0.05)


def test_a_field_that_is_not_set_yet_is_waited_for(shared: Cluster) -> None:
    shared.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}})
    with pytest.raises(Timeout, match=r"after 0\.05 s, the condition raised KeyError\('data'\)"):
        shared.wait_for("v1", "ConfigMap", "plain", lambda found: (found or {})["data"]["a"] == "b", seconds=0.05)
    with pytest.raises(Timeout, match=r"the condition raised TypeError\(.*; it does not exist"):
        shared.wait_for("v1", "ConfigMap", "not-created", lambda found: found["data"]["a"] == "b", seconds=0.05)  # type: ignore[index]  # as users write it
    shared.patch("v1", "ConfigMap", "plain", {"data": {"a": "b"}})
    result = shared.wait_for("v1", "ConfigMap", "plain", lambda found: (found or {})["data"]["a"] == "b")
    assert result is not None and result["data"] == {"a": "b"}


def test_a_condition_without_a_return_is_mentioned(shared: Cluster) -> None:
    def no_return(_found: object) -> None:
        """As one that has only assertions."""

    with pytest.raises(Timeout, match=r"after 0\.05 s, the condition returned None; it does not exist"):
        shared.wait_for("v1", "ConfigMap", "absent", no_return, seconds=0.05)  # type: ignore[arg-type]  # the mistake


def test_a_condition_can_not_call_the_cluster(shared: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"methods of a Cluster can't be called in a condition of wait_for"):
        shared.wait_for("v1", "Namespace", "default", lambda _found: shared.list("v1", "Pod") == [])


def _too_large(name: str, replicas: int = 3) -> dict[str, Any]:
    """A Deployment whose pods fit on no node."""
    document = _replica_set(name, replicas)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}}
    document["spec"]["template"] = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {**document, "kind": "Deployment"}


def test_a_wait_in_vain_says_why(shared: Cluster) -> None:
    cluster = shared.new_namespace()
    cluster.create(_too_large("large"))
    with pytest.raises(Timeout) as raised:
        cluster.wait_for("apps/v1", "Deployment", "large", _ready(3), seconds=1)
    lines = str(raised.value).splitlines()
    assert lines[0] == "Deployment large: not as expected after 1 s"
    assert re.fullmatch(
        r"  Pod large-\w+-\w+ and 2 more: FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu\..*", lines[1]
    )
    assert lines[2].startswith("  condition Available=False: MinimumReplicasUnavailable: Deployment does not have")
    assert any(line.startswith("  Deployment large: ScalingReplicaSet: Scaled up") for line in lines)
    assert "\nlast seen:\n{\n" in str(raised.value)
    assert "managedFields" not in str(raised.value)


def test_warnings_are_about_this_object(shared: Cluster) -> None:
    cluster = shared.new_namespace()
    cluster.create(_too_large("large"))
    cluster.create(_replica_set("fine", 1))
    cluster.wait_for("apps/v1", "ReplicaSet", "fine", _ready(1))
    with pytest.raises(Timeout) as raised:
        cluster.wait_for("apps/v1", "ReplicaSet", "fine", _ready(2), seconds=0.5)
    assert "FailedScheduling" not in str(raised.value)
    with pytest.raises(Timeout, match=r"Pod absent: not as expected after 0\.5 s; it does not exist$"):
        cluster.wait_for("v1", "Pod", "absent", lambda found: found is not None, seconds=0.5)


def test_of_an_object_that_is_not_there_warnings_mention_it(shared: Cluster) -> None:
    cluster = shared.new_namespace()
    limits = {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}
    cluster.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits})
    large = _too_large("db", 1)
    cluster.create({**large, "kind": "StatefulSet", "spec": {**large["spec"], "serviceName": "db"}})
    with pytest.raises(
        Timeout, match=r"it does not exist\n  StatefulSet db: FailedCreate: Create Pod db-0 .*forbidden"
    ):
        cluster.wait_for("v1", "Pod", "db-0", lambda found: found is not None, seconds=1)


def test_a_manifest_may_be_text(shared: Cluster) -> None:
    cluster = shared.new_namespace()
    text = """
    # a comment
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: written, annotations: {on: 2026-01-01}}
    """
    created = cluster.create(text)
    assert (created["metadata"]["name"], created["metadata"]["annotations"]) == (
        "written",
        {"true": "2026-01-01"},
    )


@cases(
    "manifest, error, words",
    {
        "two documents": ("a: 1\n---\nb: 2\n", ValueError, "YAML text of one object, got 2 documents"),
        "no document": ("", ValueError, "YAML text of one object, got 0 documents"),
        "a path": ("web.yaml", ValueError, "YAML text of one object, got str"),
        "invalid YAML": ("a: [", ValueError, "line 2, column 1: "),
        "missing apiVersion": ("kind: Pod", ValueError, "the manifest has no apiVersion"),
        "a list": (
            [{}],
            TypeError,
            "a manifest is a mapping, or YAML text of one object, got list; apply takes several",
        ),
    },
)
def test_what_is_no_manifest_is_rejected(shared: Cluster, manifest: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        shared.create(manifest)


@pytest.mark.parametrize("name", ["pilothouse.testing", "pilothouse.runtime"])
def test_what_is_public_can_be_listed(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, public) is not None for public in dir(module))


def test_a_wait_sees_a_change_that_comes_later(shared: Cluster) -> None:
    shared.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}})
    timer = threading.Timer(0.05, lambda: shared.patch("v1", "ConfigMap", "later", {"data": {"a": "1"}}))
    timer.start()
    result = shared.wait_for("v1", "ConfigMap", "later", lambda found: bool(found and found.get("data")))
    timer.join()
    assert result is not None
    assert result["data"] == {"a": "1"}


def test_the_typed_client_runs_on_the_planes_loop(shared: Cluster) -> None:
    async def count(client: Client) -> int:
        return len((await client.list(PODS, "kube-system")).items)

    assert shared.run(count) == 0


def test_plain_http_takes_everybody_for_the_administrator(shared: Cluster) -> None:
    with urllib.request.urlopen(f"{shared.url}/api/v1/nodes") as answer:
        assert len(json.load(answer)["items"]) == 3


def test_the_kubeconfig_is_private_and_in_the_tests_namespace(shared: Cluster) -> None:
    cluster = shared.in_namespace("kube-system")
    document = json.loads(cluster.kubeconfig.read_text())
    assert document["contexts"][0]["context"]["namespace"] == "kube-system"
    assert document["clusters"][0]["cluster"]["server"] == cluster.url
    assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
    assert cluster.kubeconfig == shared.in_namespace("kube-system").kubeconfig


def test_a_secure_plane_speaks_tls_and_asks_who_it_is() -> None:
    with plane(nodes=0, controllers=(), scheduler=False, secure=True) as cluster:
        context = insecure_context()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{cluster.url}/api/v1/nodes", context=context)
        assert refused.value.code in (401, 403)
        refused.value.close()
        token = json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
        login = urllib.request.Request(f"{cluster.url}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(login, context=context) as answer:
            assert answer.status == 200


def test_a_plane_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    with plane(nodes=1) as cluster:
        path, url = cluster.kubeconfig, cluster.url
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert not path.exists()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)
    with pytest.raises(PlaneEnded):
        cluster.list("v1", "Node")


def test_without_a_port_there_is_no_url() -> None:
    with plane(nodes=0, serve=False) as cluster:
        assert cluster.list("v1", "Node") == []
        with pytest.raises(RuntimeError, match="serve=True"):
            _ = cluster.url


def test_what_keeps_a_plane_from_starting_is_raised() -> None:
    with pytest.raises(TypeError, match="not supported between"), plane(nodes="three"):  # type: ignore[arg-type]
        pass


def test_a_failing_program_ends_calls_and_the_plane_with_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_for = threading.Event()

    async def fail(_scheduler: Scheduler) -> None:
        await asyncio.to_thread(waited_for.wait)
        raise ArithmeticError("a bug")

    monkeypatch.setattr(Scheduler, "run", fail)
    with pytest.raises(PlaneEnded) as raised, plane(nodes=0) as cluster:  # noqa: PT012  # leaving the block raises, too
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": _POD_SPEC})
        waited_for.set()
        with pytest.raises(PlaneEnded):
            cluster.wait_for("v1", "ConfigMap", "never", lambda found: found is not None)
        with pytest.raises(PlaneEnded):
            cluster.list("v1", "Node")
    assert "a bug" in "".join(traceback.format_exception(raised.value))


@pytest.mark.real_loop
async def test_an_asynchronous_plane_runs_on_the_loop_of_the_test() -> None:
    async with async_plane(nodes=1) as cluster:
        assert isinstance(cluster, AsyncCluster)
        await cluster.create(_replica_set("web", 2))
        await cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(2))
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_a_plane_can_live_in_virtual_time(env: Env) -> None:
    async with async_plane(env=env) as cluster:
        await cluster.create(_replica_set("web", 2))
        await cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(2))
        began = env.monotonic()
        with pytest.raises(Timeout):
            await cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(5), seconds=3600)
        assert (env.monotonic() - began) == 3600


async def test_a_namespace_of_a_test_ends_with_everything_in_it(env: Env) -> None:
    async with async_plane(env=env) as shared:
        cluster = await shared.new_namespace("mine-")
        assert cluster.namespace.startswith("mine-")
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        await shared.delete("v1", "Namespace", cluster.namespace)
        await shared.wait_for("v1", "Namespace", cluster.namespace, lambda found: found is None)
        assert await cluster.list("v1", "ConfigMap") == []


def test_the_fixture_hands_out_a_namespace_of_its_own(pilothouse: Cluster, pilothouse_server: Cluster) -> None:
    assert pilothouse.namespace.startswith("test-")
    assert pilothouse.url == pilothouse_server.url


@pytest.mark.pilothouse(nodes=1, serve=False)
def test_the_marker_gives_a_test_a_plane_of_its_own(pilothouse: Cluster) -> None:
    assert pilothouse.namespace == "default"
    assert len(pilothouse.list("v1", "Node")) == 1


@plane(nodes=1, serve=False)
def _nodes_of(prefix: str, cluster: Cluster) -> list[str]:
    return [prefix + node["metadata"]["name"] for node in cluster.list("v1", "Node")]


def test_a_decorated_function_gets_a_plane_of_its_own() -> None:
    assert _nodes_of("a ") == ["a node-0"]
    assert "cluster" not in inspect.signature(_nodes_of).parameters, "pytest would look for a fixture"


def test_an_asynchronous_function_gets_an_error_that_names_the_fixture() -> None:
    async def check() -> None:
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="use async_plane"):
        plane()(check)


def test_time_can_be_let_pass() -> None:
    with plane(nodes=2, movable_clock=True) as cluster:
        began, before = time.monotonic(), cluster.now()
        cluster.create(_replica_set("web", 2))
        cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(2))
        cluster.patch(
            "v1", "Node", "node-0", {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
        )
        cluster.advance(600)
        assert cluster.now() - before >= datetime.timedelta(seconds=600)
        assert time.monotonic() - began < 30
        states = {node["metadata"]["name"]: _ready_status(node) for node in cluster.list("v1", "Node")}
        assert states == {"node-0": "Unknown", "node-1": "True"}, "a silent node, and one that heartbeats all the way"
        cluster.wait_for("apps/v1", "ReplicaSet", "web", _ready(2))
        live = [pod for pod in cluster.list("v1", "Pod") if "deletionTimestamp" not in pod["metadata"]]
        assert {pod["spec"]["nodeName"] for pod in live} == {"node-1"}


def _ready_status(node: dict[str, Any]) -> str:
    return next(str(c["status"]) for c in node["status"]["conditions"] if c["type"] == "Ready")


def test_a_clock_that_cannot_be_moved_says_how_it_could() -> None:
    with (
        plane(nodes=0, controllers=(), serve=False) as cluster,
        pytest.raises(RuntimeError, match="movable_clock=True"),
    ):
        cluster.advance(1)


@pytest.mark.parametrize("controllers", [("*",), ()], ids=["with controllers", "without controllers"])
def test_a_plane_can_be_brought_back_to_its_beginning(controllers: tuple[str, ...]) -> None:
    with plane(nodes=2, controllers=controllers, serve=False) as cluster:
        other = cluster.new_namespace()
        for item in (cluster, other):
            item.create(_replica_set("web", 2))
            metadata = {"name": "held", "finalizers": ["example.com/forever"]}
            item.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        cluster.patch("v1", "Node", "node-0", {"metadata": {"labels": {"changed": "yes"}}})
        cluster.delete("v1", "Node", "node-1")
        cluster.reset()
        assert cluster.list("apps/v1", "ReplicaSet") == cluster.list("v1", "Pod") == []
        names = [namespace["metadata"]["name"] for namespace in cluster.list("v1", "Namespace")]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert "held" not in [namespace["metadata"]["name"] for namespace in cluster.list("v1", "ConfigMap")]
        nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in cluster.list("v1", "Node")}
        assert list(nodes) == ["node-0", "node-1"]
        assert "changed" not in nodes["node-0"]
        cluster.create(_replica_set("web", 1))
