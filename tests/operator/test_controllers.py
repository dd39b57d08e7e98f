"""Single rules of declared controllers, on an embedded API server in virtual time."""

import asyncio
import itertools
import re
from typing import Any

import msgspec
import pytest
from tests.operator.things import THING, THINGS, Thing, config_map, thing

from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, SECRETS, ConfigMap
from pilothouse.env import Env
from pilothouse.operator import (
    App,
    Context,
    Index,
    Owned,
    Reconciler,
    Reference,
    Requeue,
    RetryLater,
    Settings,
    TerminalError,
    any_of,
    generation_changed,
    label_changed,
)
from pilothouse.runtime.rate_limiters import ExponentialFailureLimiter
from pilothouse.testing import AsyncCluster


async def condition(cluster: AsyncCluster, name: str = "one") -> dict[str, Any]:
    obj = await cluster.get(*THING, name)
    (only,) = obj["status"]["conditions"]
    return only  # type: ignore[no-any-return]


async def test_a_class_keeps_state_between_syncs(cluster: AsyncCluster) -> None:
    app, finalized = App("things"), []

    @app.controller(THINGS, finalizer="example.com/done")
    class Things(Reconciler[Thing]):
        def __init__(self) -> None:
            self.seen = 0

        async def reconcile(self, obj: Thing, ctx: Context[Thing]) -> None:
            self.seen += 1
            ctx.condition("Seen", True, reason="Counted", message=str(obj.spec.size))

        async def finalize(self, obj: Thing, _ctx: Context[Thing]) -> Requeue | None:
            finalized.append(obj.metadata.name)
            return Requeue(5) if len(finalized) < 3 else None

    async with cluster.running(app.run):
        await cluster.create(thing(size=3))
        await asyncio.sleep(1)
        assert (await condition(cluster))["message"] == "3"
        await cluster.delete(*THING, "one")
        await asyncio.sleep(7)
        assert (await cluster.get(*THING, "one"))["metadata"]["finalizers"] == ["example.com/done"]
        await asyncio.sleep(10)
        assert await cluster.list(*THING) == []
        assert finalized == ["one"] * 3


@pytest.mark.parametrize("replaced", [False, True], ids=["the object is deleted", "another one has its name"])
async def test_other_finalizers_are_removed_during_a_finalizer(
    cluster: AsyncCluster, caplog: pytest.LogCaptureFixture, replaced: bool
) -> None:
    """Then its position changes. That is no failure, and the function is not called again."""
    app, finalized = App("things"), []

    @app.controller(THINGS, name="fast")
    async def fast(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    @app.controller(THINGS, name="slow")
    async def slow(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    @fast.finalizer("example.com/fast")
    async def finalize_fast(_obj: Thing, _ctx: Context[Thing]) -> None:
        finalized.append("fast")

    @slow.finalizer("example.com/slow")
    async def finalize_slow(_obj: Thing, _ctx: Context[Thing]) -> None:
        finalized.append("slow")
        await asyncio.sleep(5)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(5)
        assert (await cluster.get(*THING, "one"))["metadata"]["finalizers"] == ["example.com/fast", "example.com/slow"]
        caplog.clear()
        await cluster.delete(*THING, "one")
        await asyncio.sleep(2)
        assert (await cluster.get(*THING, "one"))["metadata"]["finalizers"] == ["example.com/slow"]
        if replaced:
            await cluster.patch(*THING, "one", {"metadata": {"finalizers": None}})
            made = thing()
            made["metadata"]["finalizers"] = ["example.com/of-a-user", "example.com/slow"]
            await cluster.create(made)
        await asyncio.sleep(5)
        assert len(await cluster.list(*THING)) == replaced
        if replaced:
            assert "example.com/slow" in (await cluster.get(*THING, "one"))["metadata"]["finalizers"]
    assert finalized == ["fast", "slow"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_finalizer_of_an_object_that_is_invalid_by_now_is_reported(
    cluster: AsyncCluster, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    @sync.finalizer("example.com/done")
    async def finalize(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    async with cluster.running(app.run):
        await cluster.create(thing(size=3))
        await asyncio.sleep(1)
        definition = THINGS.definition()
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [
            {"rule": "self.spec.size > 3", "message": "too small"}
        ]
        await cluster.apply(definition)
        await cluster.delete(*THING, "one")
        await asyncio.sleep(1)
        assert (await cluster.get(*THING, "one"))["metadata"]["finalizers"] == ["example.com/done"]
    assert "too small" in caplog.text


async def test_the_rate_limiter_delays_the_retry_of_a_failed_sync(cluster: AsyncCluster) -> None:
    app, times = App("things"), []

    @app.controller(THINGS, rate_limiter=lambda _env: ExponentialFailureLimiter(10.0, 30.0))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        times.append(ctx.env.monotonic())
        raise RetryLater("not yet")

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(95)
    assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [10, 20, 30, 30]


@pytest.mark.parametrize(
    ("error", "syncs"), [(TerminalError("no"), 2), (RetryLater("not yet"), 10), (RuntimeError("broken"), 10)]
)
async def test_the_status_of_a_failed_sync_is_written(cluster: AsyncCluster, error: Exception, syncs: int) -> None:
    app, count = App("things"), 0

    @app.controller(THINGS)
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        nonlocal count
        count += 1
        ctx.condition("Ready", False, reason="Failed", message="why")
        raise error

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(20)
        assert (await condition(cluster))["reason"] == "Failed"
        # The write of the status is a change, which syncs once more.
        assert count <= syncs if isinstance(error, TerminalError) else count >= syncs


async def test_a_sync_can_be_postponed_for_a_known_time(cluster: AsyncCluster, env: Env) -> None:
    app, times = App("things"), []

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        times.append(env.monotonic())
        raise RetryLater("the service asks for a pause", delay=60)

    async with cluster.running(app):
        await cluster.create(thing())
        await asyncio.sleep(200)
        assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [60, 60, 60]
        assert app.explain(*THING, "default/one")[0].endswith(
            "its last sync was postponed: RetryLater: the service asks for a pause"
        )


async def test_apply_returns_the_object(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        applied = await ctx.apply({**config_map("a"), "data": {"size": str(obj.spec.size)}})
        again = await ctx.apply({**config_map("a"), "data": {"size": str(obj.spec.size)}})
        assert isinstance(applied, ConfigMap)
        observed.append((applied.data["size"], applied.metadata.resource_version, again is ctx.get(CONFIG_MAPS, "a")))

    async with cluster.running(app):
        await cluster.create(thing(size=1))
        await asyncio.sleep(5)
        await cluster.patch(*THING, "one", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(5)
        version = (await cluster.get("v1", "ConfigMap", "a"))["metadata"]["resourceVersion"]
        assert observed[0][:2] == ("1", version), "as the API server answered"
        assert observed[-1] == ("1", version, True), "as it is in the cache"


async def test_an_object_that_a_sync_applies_to_itself_does_not_own_itself(cluster: AsyncCluster) -> None:
    app = App("things")

    @app.controller(THINGS, owns=(THINGS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        if obj.metadata.name == "one":
            await ctx.apply({**thing("one", labels={"size": "small"}), "spec": {"size": 1}})
            await ctx.apply(thing("two"))

    async with cluster.running(app):
        await cluster.create(thing())
        await asyncio.sleep(5)
        itself, other = await cluster.get(*THING, "one"), await cluster.get(*THING, "two")
        assert itself["metadata"]["labels"] == {"size": "small"}
        assert itself["spec"] == {"size": 1}
        assert "ownerReferences" not in itself["metadata"]
        assert [owner["name"] for owner in other["metadata"]["ownerReferences"]] == ["one"]


@pytest.mark.parametrize(
    ("renamed", "data"), [(False, {"a": "1", "b": "2"}), (True, {"a": "1"})], ids=["as it was", "renamed"]
)
async def test_fields_of_a_previous_operator_are_removed_if_its_field_manager_is_renamed(
    cluster: AsyncCluster, renamed: bool, data: dict[str, str]
) -> None:
    """As docs/operator-concepts.md says."""
    app = App("things")

    @app.controller(THINGS, owns=(CONFIG_MAPS,), name="thing")
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        await ctx.apply(config_map("a") | {"data": {"a": "1"}})

    body = config_map("a") | {"data": {"a": "1", "b": "2"}}
    await cluster.client.create(CONFIG_MAPS.raw, body, cluster.namespace, field_manager="OpenAPI-Generator")
    if renamed:
        found = await cluster.get("v1", "ConfigMap", "a")
        (entry,) = found["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("OpenAPI-Generator", "Update")
        entry |= {"manager": "things/thing", "operation": "Apply"}
        await cluster.client.update(CONFIG_MAPS.raw, "a", msgspec.json.encode(found), cluster.namespace)
    async with cluster.running(app):
        await cluster.create(thing())
        await asyncio.sleep(5)
        found = await cluster.get("v1", "ConfigMap", "a")
        assert found["data"] == data
        assert [owner["name"] for owner in found["metadata"]["ownerReferences"]] == ["one"]


async def test_requeued_objects_are_synced_again(cluster: AsyncCluster, env: Env) -> None:
    app, times = App("things"), []

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> Requeue:
        times.append(env.monotonic())
        return Requeue(60)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(200)
        assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [60, 60, 60]


@pytest.mark.parametrize("seconds", [0.0, -5.0])
async def test_a_requeue_without_a_delay_waits_for_the_backoff(cluster: AsyncCluster, env: Env, seconds: float) -> None:
    app, times = App("things"), []

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> Requeue | None:
        times.append(env.monotonic())
        return Requeue(seconds) if len(times) % 5 else None

    async with cluster.running(app.run):
        for name in ("one", "two"):
            await cluster.create(thing(name))
            await asyncio.sleep(10)
    waits = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
    assert waits[:4] == waits[5:] == [0.005, 0.01, 0.02, 0.04], "None ends the backoff"


@pytest.mark.parametrize(
    ("predicates", "patch", "syncs"),
    [
        ((), {"metadata": {"labels": {"a": "b"}}}, 2),
        ((generation_changed,), {"metadata": {"labels": {"a": "b"}}}, 1),
        ((generation_changed,), {"spec": {"size": 5}}, 2),
        ((label_changed("a"),), {"metadata": {"labels": {"a": "b"}}}, 2),
        ((label_changed("a"),), {"spec": {"size": 5}}, 1),
        ((label_changed("a"), generation_changed), {"spec": {"size": 5}}, 1),
        ((any_of(label_changed("a"), generation_changed),), {"spec": {"size": 5}}, 2),
        ((any_of(label_changed("a"), generation_changed),), {"metadata": {"labels": {"c": "d"}}}, 1),
    ],
)
async def test_predicates_decide_about_updates(
    cluster: AsyncCluster, predicates: tuple[Any, ...], patch: dict[str, Any], syncs: int
) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS, predicates=predicates)
    async def sync(obj: Thing, _ctx: Context[Thing]) -> None:
        observed.append(obj.metadata.resource_version)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
        await cluster.patch(*THING, "one", patch)
        await asyncio.sleep(1)
        assert len(observed) == syncs


async def test_owned_objects_are_found_created_once_and_deleted(cluster: AsyncCluster) -> None:
    app = App("things")
    owned: list[str] = []

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        for number in range(obj.spec.size):
            await ctx.create_once(config_map(f"{obj.metadata.name}-{number}"))
        maps: list[ConfigMap] = ctx.owned(CONFIG_MAPS)
        owned[:] = [owned_map.metadata.name for owned_map in maps]
        for owned_map in maps[obj.spec.size :]:
            await ctx.delete(CONFIG_MAPS, owned_map.metadata.name)

    async with cluster.running(app.run):
        await cluster.create(config_map("foreign"))
        await cluster.create(thing(size=3))
        await asyncio.sleep(2)
        assert owned == ["one-0", "one-1", "one-2"]
        await cluster.patch(*THING, "one", {"spec": {"size": 1}})
        await asyncio.sleep(2)
        assert owned == ["one-0"]


async def test_string_data_of_a_secret_is_restored(cluster: AsyncCluster) -> None:
    app, syncs = App("things"), []

    @app.controller(THINGS, owns=(SECRETS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        syncs.append(obj.spec.size)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
        await ctx.apply({**secret, "data": {"a": "eA==", "b": "eQ=="}, "stringData": {"b": str(obj.spec.size)}})

    async def data() -> Any:
        return (await cluster.get("v1", "Secret", "one"))["data"]

    async with cluster.running(app.run):
        await cluster.create(thing(size=3))
        await asyncio.sleep(2)
        assert await data() == {"a": "eA==", "b": "Mw=="}
        await cluster.patch("v1", "Secret", "one", {"data": {"b": "aGFja2Vk"}})
        await asyncio.sleep(2)
        assert await data() == {"a": "eA==", "b": "Mw=="}
        version = (await cluster.get("v1", "Secret", "one"))["metadata"]["resourceVersion"]
        before = len(syncs)
        await cluster.patch(*THING, "one", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(2)
        assert len(syncs) > before
        assert (await cluster.get("v1", "Secret", "one"))["metadata"]["resourceVersion"] == version


async def test_references_enqueue_the_referring_objects(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []
    by_name = Reference(kind=CONFIG_MAPS, of=lambda obj: (f"shared-{obj.spec.size}",))
    by_map = Reference(kind=SECRETS, map=lambda secret: (f"default/{secret.metadata.name}",))

    @app.controller(THINGS, references=(by_name, by_map))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        observed.append((obj.metadata.name, ctx.get(CONFIG_MAPS, f"shared-{obj.spec.size}") is not None))

    async with cluster.running(app.run):
        await cluster.create(thing("one", size=1))
        await cluster.create(thing("two", size=2))
        await asyncio.sleep(1)
        observed.clear()
        await cluster.create(config_map("shared-2"))
        await asyncio.sleep(1)
        assert observed == [("two", True)]
        observed.clear()
        await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}})
        await asyncio.sleep(1)
        assert observed == [("one", False)]


async def test_predicates_of_a_reference_decide_about_its_updates(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []
    shared = Reference(kind=CONFIG_MAPS, of=lambda _obj: ("shared",), predicates=(label_changed("version"),))

    @app.controller(THINGS, references=(shared,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        obj = ctx.get(CONFIG_MAPS, "shared")
        observed.append(obj.metadata.labels.get("version") if obj else None)

    async with cluster.running(app.run):
        await cluster.create(thing())
        await cluster.create(config_map("shared"))
        await asyncio.sleep(1)
        assert observed == [None, None]
        observed.clear()
        await cluster.patch("v1", "ConfigMap", "shared", {"data": {"a": "b"}})
        await asyncio.sleep(1)
        assert observed == []
        await cluster.patch("v1", "ConfigMap", "shared", {"metadata": {"labels": {"version": "2"}}})
        await asyncio.sleep(1)
        assert observed == ["2"]
        await cluster.delete("v1", "ConfigMap", "shared")
        await asyncio.sleep(1)
        assert observed == ["2", None]


async def test_predicates_of_an_owned_kind_decide_about_its_updates(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS, owns=(Owned(CONFIG_MAPS, (label_changed("version"),)),))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        observed.append(sorted(config_map.metadata.labels.get("version", "") for config_map in ctx.owned(CONFIG_MAPS)))
        await ctx.create_once(config_map("part"))

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
        assert observed == [[], [""]]
        observed.clear()
        await cluster.patch("v1", "ConfigMap", "part", {"data": {"a": "b"}})
        await asyncio.sleep(1)
        assert observed == []
        await cluster.patch("v1", "ConfigMap", "part", {"metadata": {"labels": {"version": "2"}}})
        await asyncio.sleep(1)
        assert observed == [["2"]]
        observed.clear()
        await cluster.patch("v1", "ConfigMap", "part", {"metadata": {"ownerReferences": None}})
        await asyncio.sleep(1)
        assert observed == [[]]  # it is no longer owned, whatever the predicates say


async def test_every_cached_kind_can_have_indexes(cluster: AsyncCluster) -> None:
    app = App("things")
    result: dict[str, list[str]] = {}
    errors: list[str] = []

    def by_team(obj: ConfigMap | Thing) -> tuple[str, ...]:
        return tuple(filter(None, (obj.metadata.labels.get("team"),)))

    @app.controller(THINGS, reads=(CONFIG_MAPS,), indexes=(Index(CONFIG_MAPS, "team", by_team),))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        (team,) = by_team(obj)
        result[obj.metadata.name] = [
            config_map.metadata.name for config_map in ctx.list(CONFIG_MAPS, index="team", value=team)
        ]
        try:
            ctx.list(THINGS, index="team", value=team)
        except TerminalError as error:
            errors.append(str(error))

    # Names of indexes are a controller's own. A text is one value, not its characters.
    @app.controller(THINGS, name="other", reads=(CONFIG_MAPS,), indexes={"team": lambda _obj: "all"})
    async def other(obj: Thing, ctx: Context[Thing]) -> None:
        result["other"] = [obj.metadata.name for obj in ctx.list(THINGS, index="team", value="all")]

    for name, team in (("one", "a"), ("two", "b"), ("three", "a")):
        await cluster.create({**config_map(name), "metadata": {"name": name, "labels": {"team": team}}})
    async with cluster.running(app.run):
        await cluster.create(thing("first", labels={"team": "a"}))
        await cluster.create(thing("second", labels={"team": "b"}))
        await asyncio.sleep(1)
    assert result == {"first": ["one", "three"], "second": ["two"], "other": ["first", "second"]}
    assert errors[0] == (
        "controller thing has no index 'team' of things.example.com; it has none: declare it with indexes="
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}, r"writes Secret \(v1\) and does not"),
        ({"kind": "ConfigMap"}, "the body of a ConfigMap has no apiVersion: a body"),
        ({"metadata": {"name": "a"}}, "the body has no apiVersion and no kind: a body has both"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "metadata.name of a ConfigMap is missing"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "other"}},
         "Thing default/one cannot own ConfigMap a"),
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, "one cannot own Namespace"),
    ],
)  # fmt: skip
async def test_invalid_applies_are_explained(cluster: AsyncCluster, body: dict[str, Any], message: str) -> None:
    app, errors = App("things"), []

    @app.controller(THINGS, owns=(CONFIG_MAPS, NAMESPACES))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        try:
            await ctx.apply(body)
        except TerminalError as error:
            errors.append(str(error))
            raise

    async with cluster.running(app.run):
        await cluster.create(thing())
        await asyncio.sleep(1)
    (only,) = errors
    assert re.search(message, only)


async def test_namespaces_and_selectors_restrict_the_synced_objects(cluster: AsyncCluster) -> None:
    app, observed = App("things"), []

    @app.controller(THINGS, selector="tier=gold")
    async def sync(obj: Thing, _ctx: Context[Thing]) -> None:
        observed.append((obj.metadata.namespace, obj.metadata.name))

    labels = {"tier": "gold"}
    other = await cluster.new_namespace()
    settings = Settings(namespaces=("default",))
    async with cluster.running(lambda client, env: app.run(client, env, settings)):
        for place in (cluster, other):
            await place.create(thing("gold", labels=labels))
            await place.create(thing("plain"))
        await asyncio.sleep(1)
        assert observed == [("default", "gold")]


async def test_writes_stay_in_the_watched_namespaces(cluster: AsyncCluster) -> None:
    app, errors = App("things"), []

    @app.controller(THINGS, owns=(CONFIG_MAPS,))
    async def sync(_obj: Thing, ctx: Context[Thing]) -> None:
        try:
            await ctx.apply({**config_map("a"), "metadata": {"name": "a", "namespace": "kube-system"}}, owned=False)
        except TerminalError as error:
            errors.append(str(error))

    settings = Settings(namespaces=("default",))
    async with cluster.running(lambda client, env: app.run(client, env, settings)):
        await cluster.create(thing())
        await asyncio.sleep(1)
    assert errors == ["ConfigMap a is outside of the namespace default, which is watched"]


def test_wrong_declarations_are_rejected() -> None:
    app = App("things")

    @app.controller(THINGS)
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None:
        return

    with pytest.raises(ValueError, match="has a controller 'thing' already"):
        app.controller(THINGS)
    for name in ("n" * 122, "a\nb"):
        with pytest.raises(ValueError, match="at most 128 printable characters"):
            app.controller(THINGS, name=name)
    with pytest.raises(ValueError, match="DOMAIN/PATH"):
        sync.finalizer("cleanup")
    with pytest.raises(TypeError, match="declare it async def"):
        app.controller(THINGS, name="two")(print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"index 'team' of secrets, which it does not declare"):
        app.controller(THINGS, name="two", indexes=[Index(SECRETS, "team", lambda _secret: ())])
    with pytest.raises(TypeError, match="is no Reconciler"):
        app.controller(THINGS, name="three")(type("Plain", (), {}))
    with pytest.raises(ValueError, match="either of= or map="):
        Reference(kind=CONFIG_MAPS)


async def test_two_controllers_apply_parts_of_one_object(cluster: AsyncCluster) -> None:
    """Each is a separate field manager: fields applied by the other one are kept."""
    app = App("things")

    def applies(name: str) -> None:
        @app.controller(THINGS, name=name, owns=(CONFIG_MAPS,))
        async def sync(obj: Thing, ctx: Context[Thing]) -> None:
            await ctx.apply({**config_map("shared"), "data": {name: str(obj.spec.size)}}, owned=False)

    applies("left")
    applies("right")
    async with cluster.running(app.run):
        await cluster.create(thing(size=1))
        await asyncio.sleep(5)
        await cluster.patch(*THING, "one", {"spec": {"size": 2}})
        await asyncio.sleep(5)
        stored = await cluster.get("v1", "ConfigMap", "shared")
        assert stored["data"] == {"left": "2", "right": "2"}
        assert [managed_field["manager"] for managed_field in stored["metadata"]["managedFields"]] == [
            "things/left",
            "things/right",
        ]


def test_further_rights_are_rules_of_the_role() -> None:
    app = App("things")
    bind = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"],
            "verbs": ["bind"]}  # fmt: skip

    @app.controller(THINGS, rights=(bind,))
    async def sync(_obj: Thing, _ctx: Context[Thing]) -> None: ...

    assert app.rules()[-1] == bind
    assert len(app.rules()) > 1
