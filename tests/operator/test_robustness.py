"""What must not be lost or left behind: deletions, references, statuses, memory; and mistakes of an operator's code."""

import asyncio
from typing import Any, cast

import msgspec
import pytest
from tests.operator.things import THING, THINGS, Thing, config_map, thing

from pilothouse.api.batch import JOBS
from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, SECRETS
from pilothouse.api.kinds import Kind
from pilothouse.client.interceptor import Rule, conflict, lose_answer
from pilothouse.env import Env
from pilothouse.operator import (
    App,
    Context,
    CustomResource,
    ObjectMeta,
    Reconciler,
    Reference,
    Requeue,
    Settings,
    TerminalError,
    View,
    generation_changed,
    label_changed,
)
from pilothouse.operator.controller import DeclaredController
from pilothouse.testing import AsyncCluster, async_plane


class Bare(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


BARE = CustomResource("example.com/v1", Bare)


@pytest.fixture
def controllers(monkeypatch: pytest.MonkeyPatch) -> list[DeclaredController]:
    """The running controllers, to test their memory."""
    result: list[DeclaredController] = []
    init = DeclaredController.__init__

    def noted(self: DeclaredController, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        result.append(self)

    monkeypatch.setattr(DeclaredController, "__init__", noted)
    return result


async def test_a_finalizer_runs_independently_of_predicates(cluster: AsyncCluster) -> None:
    app = App("things")

    @app.controller(THINGS, predicates=(label_changed("a"),))
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    @sync.finalizer("example.com/done")
    async def done(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
        await cluster.delete(*THING, "one")
        await asyncio.sleep(1)
        assert await cluster.list(*THING) == []


async def test_an_object_that_is_no_longer_mapped_enqueues_its_former_owner(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []
    secrets = Reference(kind=SECRETS, map=lambda secret: f"default/{secret.metadata.labels.get('thing')}")

    @app.controller(THINGS, references=(secrets,))
    async def sync(obj: Thing, _ctx: Context[Thing]) -> None:
        observed.append(obj.metadata.name)

    async with cluster.running(app.run):
        await cluster.create(thing("one"))
        await cluster.create(thing("two"))
        secret = {"name": "s", "labels": {"thing": "one"}}
        await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
        await asyncio.sleep(1)
        observed.clear()
        await cluster.patch("v1", "Secret", "s", {"metadata": {"labels": {"thing": "two"}}})
        await asyncio.sleep(1)
        assert sorted(observed) == ["one", "two"]


async def test_a_text_is_one_reference(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS, references=(Reference(kind=CONFIG_MAPS, of=lambda obj: f"shared-{obj.metadata.name}"),))
    async def sync(obj: Thing, _ctx: Context[Thing]) -> None:
        observed.append(obj.metadata.name)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
        await cluster.create(config_map("shared-one"))
        await asyncio.sleep(1)
        assert observed == ["one", "one"]


async def test_custom_resources_are_read_and_referred_to_as_declared(cluster: AsyncCluster) -> None:
    app, read_maps = App("maps"), []

    @app.controller(
        CONFIG_MAPS, references=(Reference(kind=THINGS, map=lambda config_map: f"default/{config_map.metadata.name}"),)
    )
    async def sync(obj: Any, ctx: Context[Any]) -> None:
        if obj.metadata.name == "one":
            read_maps.append((ctx.get(THINGS, "one") is not None, len(ctx.list(THINGS))))

    assert [definition["metadata"]["name"] for definition in app.definitions()] == ["things.example.com"]
    async with cluster.running(app.run):
        await cluster.create(config_map("one"))
        await asyncio.sleep(1)
        await cluster.create(thing())
        await asyncio.sleep(1)
        assert read_maps == [(False, 0), (True, 1)]


async def _recreate(cluster: AsyncCluster) -> None:
    """Recreate the Thing, which a controller in its sync does not observe."""
    await cluster.patch(*THING, "one", {"metadata": {"finalizers": None}})
    if await cluster.list(*THING):
        await cluster.delete(*THING, "one")
    await cluster.create(thing(finalizers=["example.com/done"]))


async def test_the_status_of_an_object_does_not_reach_its_successor(cluster: AsyncCluster) -> None:
    app, first = App("things"), True

    @app.controller(THINGS, predicates=(generation_changed,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        nonlocal first
        if first:
            first = False
            await _recreate(cluster)
            ctx.status["phase"] = "Old"

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(5)
        assert "phase" not in (await cluster.get(*THING, "one")).get("status", {})


async def test_the_successor_of_an_object_keeps_its_finalizer(cluster: AsyncCluster) -> None:
    app, finalizers = App("things"), []

    @app.controller(THINGS, selector="watched")
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    @sync.finalizer("example.com/done")
    async def done(_obj: Thing, _ctx: Context[Thing]) -> None:
        await _recreate(cluster)
        finalizers.append(1)

    async with cluster.running(app.run):
        await cluster.create(thing(labels={"watched": "yes"}, finalizers=["example.com/done"]))
        await asyncio.sleep(1)
        await cluster.delete(*THING, "one")
        await asyncio.sleep(5)
        assert finalizers == [1]
        assert (await cluster.get(*THING, "one"))["metadata"]["finalizers"] == ["example.com/done"]


async def test_a_condition_that_another_writes_meanwhile_is_not_lost(cluster: AsyncCluster) -> None:
    app, first = App("things"), True

    @app.controller(THINGS, predicates=(generation_changed,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        nonlocal first
        if first:
            first = False
            foreign = {"conditions": [{"type": "Theirs", "status": "True"}]}
            await cluster.patch(*THING, "one", {"status": foreign}, subresource="status")
        ctx.condition("Ours", True, reason="Set")

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(5)
        conditions = (await cluster.get(*THING, "one"))["status"]["conditions"]
        assert [condition["type"] for condition in conditions] == ["Theirs", "Ours"]


async def test_an_invalid_condition_is_the_error_of_the_sync(cluster: AsyncCluster) -> None:
    app, errors = App("things"), []

    @app.controller(THINGS)
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        before = dict(ctx.status)
        try:
            ctx.condition("Ready", True, reason="some reason")
        except ValueError as error:
            errors.append(str(error))
        assert ctx.status == before
        ctx.condition("Ready", "Unknown", reason="Paused")

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
        (condition,) = (await cluster.get(*THING, "one"))["status"]["conditions"]
    assert "reason of condition 'Ready' is invalid, got 'some reason'" in errors[0]
    assert (condition["status"], condition["reason"]) == ("Unknown", "Paused")


async def test_the_observed_generation_follows_a_status_that_stays_the_same(cluster: AsyncCluster) -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        if obj.spec.size < 0:
            raise TerminalError("no")
        ctx.status["phase"] = "Ready"

    async with cluster.running(app.run):
        await cluster.create(thing())
        for size, observed in ((5, 2), (-1, 2)):  # a sync that fails has dealt with nothing
            await asyncio.sleep(1)
            await cluster.patch(*THING, "one", {"spec": {"size": size}})
            await asyncio.sleep(1)
            assert (await cluster.get(*THING, "one"))["status"] == {"phase": "Ready", "observedGeneration": observed}


async def test_a_status_of_tuples_and_none_is_written_once(cluster: AsyncCluster) -> None:
    app, writes = App("things"), Rule(conflict(), verb="patch", nth=1000)

    @app.controller(THINGS, references=(Reference(kind=CONFIG_MAPS, map=lambda _each: ("default/one",)),))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        ctx.status |= {"names": ("a", "b"), "phase": None}

    async with cluster.running(app.run, faults=[writes]):
        await cluster.create(thing())
        for number in range(5):
            await cluster.create(config_map(f"map-{number}"))
            await asyncio.sleep(1)
        assert (await cluster.get(*THING, "one"))["status"] == {"names": ["a", "b"], "observedGeneration": 1}
        assert writes.matched == 1


async def test_a_field_that_the_status_does_not_have_is_an_error(cluster: AsyncCluster) -> None:
    app, errors = App("things"), []

    @app.controller(THINGS)
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        ctx.status["observed_names"] = ["a"]
        try:
            await ctx.write_status()
        except TerminalError as error:
            errors.append(str(error))
        ctx.status.clear()

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
    assert errors[0] == (
        "the status of a Thing has no field observed_names; it has conditions, names, observedGeneration, phase"
    )


async def test_the_status_of_a_kind_without_one_is_an_error_that_says_so(env: Env) -> None:
    app, errors = App("bare"), []

    @app.controller(BARE)
    async def sync(_obj: Bare, ctx: Context[Bare]) -> None:
        ctx.status["ready"] = True
        try:
            await ctx.write_status()
        except TerminalError as error:
            errors.append(str(error))
        ctx.status.clear()

    async with async_plane(env=env, nodes=0, controllers=()) as cluster, cluster.running(app):
        await cluster.create({"apiVersion": "example.com/v1", "kind": "Bare", "metadata": {"name": "one"}})
        await asyncio.sleep(1)
    assert errors[0] == "a Bare has no status: its class needs the field status, with ready"


async def test_the_status_of_a_sync_that_failed_for_good_is_written_in_the_end(cluster: AsyncCluster) -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        ctx.status["phase"] = "Failed"
        raise TerminalError("no")

    async with cluster.running(app.run, faults=[Rule(conflict(), verb="patch", times=2)]):
        await cluster.create(thing())
        await asyncio.sleep(5)
        assert (await cluster.get(*THING, "one"))["status"]["phase"] == "Failed"


async def test_a_status_whose_response_was_lost_is_corrected(cluster: AsyncCluster) -> None:
    """The cache is behind when the sync is repeated, and the predicate hides the event that brings it up to date."""
    app, syncs = App("things"), 0

    @app.controller(THINGS, predicates=(generation_changed,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == 1:
            cluster.lag(3.0)
        ctx.status["phase"] = "Broken" if syncs == 1 else None

    async with cluster.running(app.run, faults=[Rule(lose_answer(), verb="patch", times=1)]):
        await cluster.create(thing())
        await asyncio.sleep(30)
        assert syncs > 1
        assert (await cluster.get(*THING, "one"))["status"] == {"observedGeneration": 1}


async def test_dependents_of_a_deleted_object_are_deleted(cluster: AsyncCluster) -> None:
    """The API server orphans the Pods of Jobs by default; here, without a garbage collector, the Job would stay."""
    app = App("things")

    @app.controller(THINGS, owns=(JOBS,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        container = {"name": "a", "image": "b"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        if await ctx.create_once(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, "spec": {"template": template}}
        ):
            await asyncio.sleep(1)
            assert await ctx.delete(JOBS, "one")
            await asyncio.sleep(100)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(50)
        assert await cluster.list("batch/v1", "Job") == []


@pytest.mark.parametrize("verb", ["apply", "create_once", "delete", "owned"])
async def test_kinds_that_are_only_read_cannot_be_written(cluster: AsyncCluster, verb: str) -> None:
    """The generated roles do not allow it, either."""
    app, errors = App("things"), []

    @app.controller(THINGS, reads=(CONFIG_MAPS,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        try:
            match verb:
                case "delete":
                    await ctx.delete(CONFIG_MAPS, "a")
                case "owned":
                    ctx.owned(CONFIG_MAPS)
                case _:
                    await getattr(ctx, verb)(config_map("a"))
        except TerminalError as error:
            errors.append(str(error))

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
    assert errors[0] == "controller thing writes ConfigMap (v1) and does not declare it: add its kind to owns="


async def test_objects_that_are_not_watched_are_not_assumed_missing(cluster: AsyncCluster) -> None:
    app, errors = App("things"), []

    @app.controller(THINGS, reads=(CONFIG_MAPS,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        try:
            ctx.get(CONFIG_MAPS, "a", "kube-system")
        except TerminalError as error:
            errors.append(str(error))

    settings = Settings(namespaces=("default", "default"))
    async with cluster.running(lambda client, env: app.run(client, env, settings)):
        await cluster.create(thing())
        await asyncio.sleep(1)
    assert errors == ["ConfigMap kube-system/a is outside of the watched default"]


async def test_each_namespace_has_its_own_metrics(cluster: AsyncCluster) -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    other = await cluster.new_namespace()
    settings = Settings(namespaces=("default", other.namespace))
    async with cluster.running(lambda client, env: app.run(client, env, settings)):
        await cluster.create(thing())
        await asyncio.sleep(1)
        assert app.metrics.value("workqueue_adds_total", "thing/default") == 1
        assert app.metrics.value("workqueue_adds_total", f"thing/{other.namespace}") == 0
        for place in ("default", other.namespace):
            labels = (f"things/{place}", "example.com", "v1", "things")
            assert app.metrics.value("informer_queued_items", *labels) == 0


async def test_settings_that_cannot_work_are_rejected(cluster: AsyncCluster, env: Env) -> None:
    app = App("things")
    with pytest.raises(ValueError, match="app things has no controllers"):
        await app.run(cluster.client, env)

    @app.controller(NAMESPACES)
    async def sync(_obj: Any, _ctx: Context[Any]) -> None:
        return

    with pytest.raises(ValueError, match="Namespace is in no namespace: controller namespace can watch one"):
        await app.run(cluster.client, env, Settings(namespaces=("a", "b")))


async def test_a_definition_that_is_not_installed_is_logged_with_the_way_out(
    env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    app, foreign = App("things"), Kind("example.com", "v1", "others", "Other", True, Thing)

    @app.controller(THINGS, reads=(foreign,))
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    async with async_plane(env=env, nodes=0, controllers=()) as cluster, cluster.running(app.run):
        await asyncio.sleep(1)
    logged = [record.getMessage() for record in caplog.records if "Failed to list" in record.getMessage()]
    hint = "or its definition is not established"
    way_out = ": pilothouse run --install applies it, or apply the manifests of pilothouse generate manifests"
    assert any('type="things.example.com" version="v1" hint="the API server' in line for line in logged)
    for line in logged:
        assert line.endswith(f'{hint}{way_out if "things" in line else ""}"')
    assert any("others.example.com" in line for line in logged)


async def test_invalid_results_and_cancellations_do_not_end_a_worker(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS)
    async def sync(obj: Thing, _ctx: Context[Thing]) -> Requeue | None:
        observed.append(obj.metadata.name)
        if obj.metadata.name == "number":
            return cast("Requeue", 60)
        if obj.metadata.name == "text":
            return Requeue(cast("float", "60"))
        if obj.metadata.name == "cancelled":
            waited = asyncio.get_running_loop().create_future()
            waited.cancel()
            await waited
        return None

    async with cluster.running(app.run):
        for name in ("number", "text", "cancelled", "good"):
            await cluster.create(thing(name))
            await asyncio.sleep(1)
    assert "good" in observed
    assert min(map(observed.count, ("number", "text", "cancelled"))) > 1, "a mistake is retried"


async def test_state_of_deleted_objects_is_dropped(
    cluster: AsyncCluster, controllers: list[DeclaredController]
) -> None:
    app = App("things")

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        await ctx.apply(config_map(f"map-{obj.spec.size}"))
        for existing in ctx.list(CONFIG_MAPS, namespace="default"):
            if existing.metadata.name.startswith("map-") and existing.metadata.name != f"map-{obj.spec.size}":
                await ctx.delete(CONFIG_MAPS, existing.metadata.name)
        if obj.spec.size == 9:
            await cluster.delete(*THING, "one")
            await asyncio.sleep(1)
            ctx.status["phase"] = "Late"
            await ctx.apply(config_map("late"))

    async with cluster.running(app.run):
        await cluster.create(thing())
        for size in range(8):
            await cluster.patch(*THING, "one", {"spec": {"size": size}})
            await asyncio.sleep(1)
        (controller,) = controllers
        parts = controller._parts
        assert [key for _kind, key in parts.applied["default/one"]] == ["default/map-7"]
        await cluster.patch(*THING, "one", {"spec": {"size": 9}})
        await asyncio.sleep(10)
        assert parts.applied == {}
        assert parts.written._written == {}
        assert parts.uncertain == set()


def test_declarations_that_cannot_work_are_rejected() -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    def plain(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    class Forgotten(Reconciler[Thing]):
        async def reconcile(self, _obj: Thing, _ctx: Context[Thing]) -> None:
            return

        async def finalize(self, _obj: Thing, _ctx: Context[Thing]) -> None:
            return

    with pytest.raises(TypeError, match="declare it async def"):
        sync.finalizer("example.com/done")(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Forgotten.finalize is never called without finalizer="):
        app.controller(THINGS, name="two")(Forgotten)
    with pytest.raises(ValueError, match="it needs a worker, got workers=0"):
        app.controller(THINGS, name="three", workers=0)
    with pytest.raises(ValueError, match="unable to parse requirement"):
        app.controller(THINGS, name="four", selector="a in b")
    with pytest.raises(ValueError, match="the name of an app, 'My App', is invalid: a lowercase RFC 1123 label"):
        App("My App")
    with pytest.raises(TypeError, match="Bare needs the field: metadata"):
        CustomResource("example.com/v1", cast("type[Any]", msgspec.defstruct("Bare", [("spec", int)])))


async def test_invalid_namespace_is_named(cluster: AsyncCluster, env: Env) -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    with pytest.raises(ValueError, match="cannot watch the namespace 'A b': a lowercase RFC 1123 label"):
        await app.run(cluster.client, env, Settings(namespaces=("A b",)))
