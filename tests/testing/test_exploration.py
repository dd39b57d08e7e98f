"""``explore``: it finds planted bugs and shrinks their faults; the example operator has none."""

import asyncio
import contextlib
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pilothouse.api.core import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, TaskGroup
from pilothouse.operator import App, Context, CustomResource, Reconciler, Requeue, Settings, WebhookSettings
from pilothouse.runtime import Controller, InformerFactory, object_key
from pilothouse.sim import Invariant, Origin, Violation
from pilothouse.storage import Change
from pilothouse.testing import AsyncCluster, ExplorationFailed, State, explore
from pilothouse.testing.exploration import SEEDS

ALONE: dict[str, Any] = {"nodes": 0, "controllers": ()}
"""Operators that need nothing else of the cluster."""
MAP = ("v1", "ConfigMap")


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


THINGS = CustomResource("example.com/v1", Thing)
THING = ("example.com/v1", "Thing")


def thing(name: str) -> dict[str, Any]:
    return {"apiVersion": THING[0], "kind": THING[1], "metadata": {"name": name}}


async def three_things(cluster: AsyncCluster) -> None:
    for number in range(3):
        await cluster.create(thing(f"thing-{number}"))
        await asyncio.sleep(15)


def children(state: State) -> list[str]:
    owned = [obj for obj in state.list(*MAP, "default") if obj["metadata"].get("labels", {}).get("thing")]
    return sorted(item["metadata"]["labels"]["thing"] for item in owned)


def never_two_children(state: State) -> None:
    result = children(state)
    assert len(set(result)) == len(result), f"children: {result}"


def each_has_a_child(state: State) -> None:
    if state.converged:
        assert children(state) == [obj["metadata"]["name"] for obj in state.list(*THING)]


def child(owner: ObjectMeta, **meta: Any) -> dict[str, Any]:
    reference = {"apiVersion": THING[0], "kind": THING[1], "name": owner.name, "uid": owner.uid, "controller": True}
    metadata = {"namespace": "default", "labels": {"thing": owner.name}, "ownerReferences": [reference], **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def correct() -> App:
    app = App("correct")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> None:
        labels = {"thing": found.metadata.name}
        meta = {"name": found.metadata.name, "labels": labels}
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})

    return app


def creates_again() -> App:
    """A lost answer is taken for a write that did not happen; the name is made up by the API server."""
    app = App("creates-again")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> None:
        if ctx.owned(CONFIG_MAPS):
            return
        body = child(found.metadata, generateName="child-")
        try:
            await ctx.client.create(CONFIG_MAPS.raw, body, "default")
        except (ConnectionError, TimeoutError):
            await ctx.client.create(CONFIG_MAPS.raw, body, "default")

    return app


def trusts_its_cache() -> App:
    """It looks into a cache that may not have seen its own write yet, and writes past what the operator API tracks."""
    app = App("trusts-its-cache")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> Requeue | None:
        if ctx.owned(CONFIG_MAPS):
            return None
        await ctx.client.create(CONFIG_MAPS.raw, child(found.metadata, generateName="child-"), "default")
        return Requeue(5.0)

    return app


async def forgets_the_finalizer(client: Client, env: Env) -> None:
    """What it has to clean up it does when it sees the deletion. It does not see what happens while it is not there."""
    informers = InformerFactory(client, env)
    cleaner = _Cleaner(client, env, informers)
    async with TaskGroup("cleaner") as group:
        informers.start(group)
        await cleaner.run()


class _Cleaner(Controller):
    def __init__(self, client: Client, env: Env, informers: InformerFactory) -> None:
        things = informers.informer(THINGS.kind)
        super().__init__("cleaner", env, waits_for=(things,))
        self._client, self._things = client, things.cache
        things.add_handler(
            on_add=lambda found, _initial: self.queue.add(object_key(found.metadata)),
            on_delete=lambda found, _unknown: self.queue.add(object_key(found.metadata)),
        )

    async def reconcile(self, key: str) -> None:
        name = key.partition("/")[2]
        if self._things.get(key) is None:
            with contextlib.suppress(NotFound):
                await self._client.delete(CONFIG_MAPS, name, "default")
            return
        body = {"metadata": {"name": name, "labels": {"thing": name}}, "apiVersion": "v1", "kind": "ConfigMap"}
        if not (await self._client.list(CONFIG_MAPS, "default", field_selector=f"metadata.name={name}")).items:
            await self._client.create(CONFIG_MAPS.raw, body, "default")


async def made_and_deleted(cluster: AsyncCluster) -> None:
    for number in range(3):
        await cluster.create(thing(f"thing-{number}"))
        await asyncio.sleep(10)
        await cluster.delete(*THING, f"thing-{number}")
        await asyncio.sleep(5)


def faults_of(failed: ExplorationFailed) -> list[str]:
    return re.findall(r"^  \[\d+\] (\w+)\(", str(failed), re.MULTILINE)


def test_a_correct_operator_passes() -> None:
    done = explore(correct(), three_things, [never_two_children, each_has_a_child], seeds=5, **ALONE)
    assert sorted(done.digests) == list(range(5))
    assert sum(done.faults.values()) == 40
    assert {"Crash", "FailWrite"} <= set(done.faults)


def test_the_same_seed_is_the_same_run() -> None:
    runs = [explore(correct(), three_things, seeds=[7, 8], **ALONE).digests for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0][7] != runs[0][8]


def test_a_create_that_is_repeated_is_found() -> None:
    with pytest.raises(ExplorationFailed, match="CheckFailed: never_two_children: children: ") as failed:
        explore(creates_again(), three_things, [never_two_children, each_has_a_child], seeds=100, **ALONE)
    assert faults_of(failed.value) == ["FailWrite"]
    assert re.search(r"how='(answer lost|timed out)'", str(failed.value))
    assert re.search(r"faults: 1 of 8 are enough, found in \d+ runs", str(failed.value))


def test_a_cache_that_is_behind_is_found() -> None:
    with pytest.raises(ExplorationFailed, match="CheckFailed: never_two_children: children: ") as failed:
        explore(trusts_its_cache(), three_things, [never_two_children, each_has_a_child], seeds=100, **ALONE)
    assert 1 <= len(faults_of(failed.value)) <= 2


def test_a_deletion_that_is_not_seen_is_found() -> None:
    def nothing_is_left(state: State) -> None:
        assert not (state.converged and children(state)), children(state)

    with pytest.raises(ExplorationFailed, match="CheckFailed: nothing_is_left: ") as failed:
        explore(forgets_the_finalizer, made_and_deleted, [nothing_is_left], seeds=100, crds=THINGS, **ALONE)
    assert len(faults_of(failed.value)) == 1


def test_a_failure_can_be_reproduced_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_a.py::test_it[a b] (call)")
    with pytest.raises(ExplorationFailed) as failed:
        explore(creates_again(), three_things, [never_two_children], seeds=100, **ALONE)
    line = re.search(
        rf"^reproduce: {SEEDS}=(\d+:\d+) pytest 'tests/test_a.py::test_it\[a b\]'$", str(failed.value), re.M
    )
    assert line is not None
    monkeypatch.setenv(SEEDS, line[1])
    with pytest.raises(ExplorationFailed) as again:
        explore(creates_again(), three_things, [never_two_children], seeds=0, **ALONE)
    assert str(again.value).splitlines()[0] == str(failed.value).splitlines()[0]
    assert faults_of(again.value) == faults_of(failed.value)


def test_the_variable_names_seeds_and_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEEDS, "3-5")
    assert list(explore(correct(), three_things, faults=0, **ALONE).digests) == [3, 4, 5]
    monkeypatch.setenv(SEEDS, "9:")
    assert explore(correct(), three_things, **ALONE).faults == {}
    monkeypatch.setenv(SEEDS, "5-2")
    with pytest.raises(ValueError, match="PILOTHOUSE_SEEDS=5-2: the last seed is before the first"):
        explore(correct(), three_things, **ALONE)
    monkeypatch.setenv(SEEDS, "0:0,99")
    with pytest.raises(ValueError, match="seed 0 has no fault 99; its faults are 0 to 7"):
        explore(correct(), three_things, **ALONE)
    monkeypatch.setenv(SEEDS, "nine")
    with pytest.raises(ValueError, match="PILOTHOUSE_SEEDS is a seed"):
        explore(correct(), three_things, **ALONE)


def test_a_failure_without_faults_is_reported_as_such() -> None:
    def wrong(state: State) -> None:
        assert not state.list(*THING), "a thing"

    with pytest.raises(ExplorationFailed, match="none: it fails without faults") as failed:
        explore(correct(), three_things, [wrong], seeds=1, **ALONE)
    assert "seed 0: CheckFailed: wrong: a thing\n" in str(failed.value)
    assert "0 of 8 are enough, found in 1 runs" in str(failed.value)


def test_the_log_has_the_reason_of_a_denied_request() -> None:
    app = App("invalid")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> None:
        await ctx.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": found.metadata.name}, "data": {"/": "x"}}
        )

    with pytest.raises(ExplorationFailed) as failed:
        explore(app, three_things, [each_has_a_child], seeds=1, faults=0, **ALONE)
    assert 'patch configmaps default/thing-0 -> 422: ConfigMap "thing-0" is invalid: data[/]' in str(failed.value)


def test_an_operator_that_never_stops_writing_fails() -> None:
    app = App("restless")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> Requeue:
        data = {"now": str(ctx.env.monotonic())}
        await ctx.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": found.metadata.name}, "data": data}
        )
        return Requeue(60.0)

    written = r"/configmaps/default/thing-\d by restless#\d+ \(\d+ times\)"
    with pytest.raises(ExplorationFailed, match=f"Violation: objects are still written .*recently {written}"):
        explore(app, three_things, seeds=1, shrink_runs=0, **ALONE)


def test_claims_get_volumes() -> None:
    app = App("claims")

    @app.controller(THINGS, owns=(PERSISTENT_VOLUME_CLAIMS,))
    async def sync(found: Thing, ctx: Context[Thing]) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        meta = {"name": found.metadata.name}
        await ctx.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})

    async def with_pods(cluster: AsyncCluster) -> None:
        await cluster.create(thing("a"))
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "a"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})

    def runs(state: State) -> None:
        if state.converged:
            assert [obj["status"]["phase"] for obj in state.list("v1", "Pod")] == ["Running"]

    explore(app, with_pods, [runs], seeds=1)


def test_a_restarted_reconciler_has_no_state() -> None:
    app, made = App("memory"), []

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    class Remembering(Reconciler[Thing]):
        def __init__(self) -> None:
            self.synced = 0
            made.append(self)

        async def reconcile(self, obj: Thing, ctx: Context[Thing]) -> None:
            self.synced += 1
            await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": obj.metadata.name}})

    explore(app, three_things, seeds=[0, 1, 2], **ALONE)
    working = [child for child in made if child.synced]
    assert len(working) > 3, "at least one for each run, and one for each restart"
    assert made[0] not in working, "the one of the declaration is never used here"


def test_definitions_with_a_conversion_webhook_are_rejected() -> None:
    definition = THINGS.definition()
    definition["spec"]["conversion"] = {"strategy": "Webhook"}
    with pytest.raises(
        ValueError, match=r"things\.example\.com in crds= is converted by a webhook, which explore does not serve"
    ):
        explore(correct(), three_things, crds=definition)
    with pytest.raises(ValueError, match="calls the app's webhooks without a port: leave webhooks= out"):
        explore(correct(), three_things, settings=Settings(webhooks=WebhookSettings()))


def test_invariants_of_simulations_work_as_well() -> None:
    class Counted(Invariant):
        made = 0

        def __init__(self) -> None:
            Counted.made += 1
            self.writes = 0

        def committed(self, change: Change, origin: Origin | None) -> None:
            self.writes += 1

        def settled(self) -> None:
            if self.writes < 10_000:
                raise Violation("too few")

    with pytest.raises(ExplorationFailed, match="Violation: too few"):
        explore(correct(), three_things, [Counted], seeds=[4], shrink_runs=3, **ALONE)
    assert Counted.made == 2, "one for the run, one without faults"


def test_the_state_is_read_by_kind() -> None:
    observed: list[Any] = []

    def look_at(state: State) -> None:
        if state.converged:
            observed.append(state.get(*THING, "thing-1"))
            observed.append(state.get("v1", "Namespace", "default", ""))
            observed.append(state.get(*MAP, "none"))
            with pytest.raises(LookupError, match=r"no kind 'Widget' in example\.com/v1"):
                state.list("example.com/v1", "Widget")
            with pytest.raises(LookupError, match=r"did you mean v1 Namespace\?"):
                state.list("v1", "Namspace")

    explore(correct(), three_things, [look_at], seeds=1, faults=0, **ALONE)
    assert [None if item is None else item["metadata"]["name"] for item in observed] == ["thing-1", "default", None]


def test_only_a_run_that_was_asked_for_writes_its_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    explore(correct(), three_things, seeds=[3], **ALONE)
    assert not caplog.records
    assert logging.getLogger("pilothouse").level == logging.NOTSET or caplog.handler.level == 0
    monkeypatch.setenv(SEEDS, "3-4")
    explore(correct(), three_things, **ALONE)
    assert not caplog.records
    monkeypatch.setenv(SEEDS, "3")
    explore(correct(), three_things, **ALONE)
    assert {record.levelno for record in caplog.records} >= {logging.INFO}


async def websites(cluster: AsyncCluster) -> None:
    site = {"apiVersion": "example.com/v1", "kind": "Website"}
    await cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dark"}, "data": {"css": "black"}}
    )
    for number in range(3):
        spec = {"html": "<h1>Hello</h1>", "theme": "dark"}
        await cluster.create({**site, "metadata": {"name": f"site-{number}"}, "spec": spec})
        await asyncio.sleep(7)
    await cluster.patch("example.com/v1", "Website", "site-1", {"spec": {"html": "changed"}})
    await asyncio.sleep(10)
    await cluster.delete("example.com/v1", "Website", "site-0")
    with contextlib.suppress(NotFound):  # the operator may be down
        await cluster.delete("v1", "Service", "site-1")
    await asyncio.sleep(10)


def websites_are_served(state: State) -> None:
    if not state.converged:
        return
    pages = {
        obj["metadata"]["name"]: obj["data"]["index.html"]
        for obj in state.list(*MAP)
        if "index.html" in obj.get("data", {})
    }
    assert pages == {"site-1-page": "<style>black</style>changed", "site-2-page": "<style>black</style><h1>Hello</h1>"}
    for api_version, kind in (("apps/v1", "Deployment"), ("v1", "Service")):
        names = [obj["metadata"]["name"] for obj in state.list(api_version, kind, "default")]
        assert [name for name in names if name != "kubernetes"] == ["site-1", "site-2"]
    for obj in state.list("example.com/v1", "Website"):
        assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


def test_the_example_passes_under_faults(example: ModuleType, seeds: range) -> None:
    explore(example.app, websites, [websites_are_served], seeds=seeds)


@pytest.mark.slow
def test_the_example_passes_many_seeds(example: ModuleType, soak: bool) -> None:
    explore(example.app, websites, [websites_are_served], seeds=200 if soak else 20)


_PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from tests.testing.test_exploration import correct, three_things
from pilothouse.testing import explore
print(explore(correct(), three_things, seeds=[5], nodes=0, controllers=()).digests)
"""


def test_a_seed_is_the_same_run_in_every_process() -> None:
    root = Path(__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(root), str(root / "src")],
            env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert re.fullmatch(r"\{5: '[0-9a-f]{32}'\}\n", outputs.pop())


@pytest.mark.parametrize("seeds", [0, -3, [], range(5, 2)])
def test_at_least_one_seed_is_required(seeds: Any) -> None:
    with pytest.raises(ValueError, match="seeds must be a positive number or name at least one seed"):
        explore(correct(), three_things, seeds=seeds, **ALONE)


def test_a_definition_of_the_app_may_be_given_as_well() -> None:
    explore(correct(), three_things, crds=THINGS, seeds=1, faults=0, **ALONE)


def test_controllers_are_checked() -> None:
    with pytest.raises(ValueError, match=r"'job-controler' is not .* \(did you mean job-controller\?\)"):
        explore(correct(), three_things, controllers=["job-controler"])


def test_number_of_faults_is_not_negative() -> None:
    with pytest.raises(ValueError, match="faults must not be negative, got -1"):
        explore(correct(), three_things, faults=-1, **ALONE)
