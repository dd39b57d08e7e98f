"""``running``: apps and other programs under test, their users, and the errors of ``wait_for`` when they fail."""

import asyncio
import re
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.batch import JOBS
from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.api.meta import Condition, ObjectMeta, View
from pilothouse.api.rbac import ROLES
from pilothouse.client import Client
from pilothouse.client.errors import Forbidden, NotFound
from pilothouse.client.interceptor import Rule, conflict
from pilothouse.env import Env
from pilothouse.operator import App, Context, CustomResource, Settings, TerminalError
from pilothouse.testing import Cluster, MissingRight, Timeout, async_plane, plane

ACCOUNT = "system:serviceaccount:default:greeter"
THING = ("example.com/v1", "Thing")


class ThingSpec(View, frozen=True):
    greet: str = ""


class ThingStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Thing(View, frozen=True):
    spec: ThingSpec = ThingSpec()
    metadata: ObjectMeta = ObjectMeta()
    status: ThingStatus = ThingStatus()


THINGS = CustomResource("example.com/v1", Thing)


def thing(name: str, greet: str = "") -> dict[str, Any]:
    return {"apiVersion": THING[0], "kind": THING[1], "metadata": {"name": name}, "spec": {"greet": greet}}


def greeter() -> App:
    """Writes a ConfigMap for each Thing; fails for some, and exceeds its permissions for others."""
    app = App("greeter")

    @app.controller(THINGS, name="greet", owns=(CONFIG_MAPS,), reads=(SECRETS,))
    async def greet(obj: Thing, ctx: Context[Thing]) -> None:
        match obj.spec.greet:
            case "nobody":
                ctx.condition("Ready", False, reason="NobodyThere", message="there is nobody to greet")
                ctx.event("Normal", "Waiting", "for somebody")
                raise ArithmeticError("nobody to greet")
            case "never":
                raise TerminalError("never")
            case "secretly":
                await ctx.client.delete(SECRETS, "secret", "default")
            case "jobs":
                await ctx.client.list(JOBS, "default")
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": obj.metadata.name}})

    return app


def exists(obj: Any) -> bool:
    return obj is not None


def test_an_app_runs_as_it_is(pilothouse: Cluster) -> None:
    with pilothouse.running(greeter()):
        pilothouse.apply(thing("ada"))
        pilothouse.wait_for("v1", "ConfigMap", "ada", exists)


async def test_definitions_that_are_there_are_left_alone(env: Env) -> None:
    definition = THINGS.definition()
    definition["spec"]["names"]["shortNames"] = ["mine"]
    async with async_plane(env=env, nodes=0, controllers=(), crds=definition) as cluster:
        async with cluster.running(greeter(), settings=Settings(namespaces=("default",))):
            await cluster.apply(thing("ada"))
            await cluster.wait_for("v1", "ConfigMap", "ada", exists)
        obj = await cluster.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com")
        assert obj["spec"]["names"]["shortNames"] == ["mine"]


@pytest.mark.parametrize("serve", [False, True], ids=["in-process", "over a port"])
def test_an_account_with_the_generated_roles_suffices(serve: bool) -> None:
    with plane(nodes=1, serve=serve, authorization="RBAC") as cluster:
        with cluster.running(greeter(), as_=ACCOUNT, settings=Settings(leader_elect=True)):
            cluster.apply(thing("ada"))
            cluster.wait_for("v1", "ConfigMap", "ada", exists)
            assert cluster.get("v1", "ServiceAccount", "greeter")
        with pytest.raises(NotFound):
            cluster.get("rbac.authorization.k8s.io/v1", "ClusterRole", "greeter")
        with pytest.raises(NotFound):
            cluster.get("rbac.authorization.k8s.io/v1", "RoleBinding", "greeter")


async def test_the_programs_of_a_plane_have_their_rights(env: Env) -> None:
    async with async_plane(env=env, authorization="RBAC") as cluster:
        pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
        await cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
        await cluster.wait_for(
            "apps/v1", "Deployment", "web", lambda found: (found or {}).get("status", {}).get("readyReplicas") == 2
        )


@cases(
    "greet, right",
    {
        "declared for reading only": (
            "secretly",
            f"{ACCOUNT} may not delete secrets in namespace default (tried once); declared is get list watch by "
            "reads= of controller greet; add its kind to owns=, or to rights= the rule {'apiGroups': [''], "
            "'resources': ['secrets'], 'verbs': ['delete']}",
        ),
        "not granted": (
            "jobs",
            f"{ACCOUNT} may not list jobs.batch in namespace default (tried once); no controller declares it: add its "
            "kind to reads=, references= or owns=, or to rights= the rule {'apiGroups': ['batch'], "
            "'resources': ['jobs'], 'verbs': ['list']}",
        ),
    },
)
async def test_a_missing_right_fails_the_test(env: Env, greet: str, right: str) -> None:
    app = App("greeter")

    @app.controller(THINGS, name="greet", owns=(CONFIG_MAPS,), reads=(SECRETS,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        try:
            if obj.spec.greet == "secretly":
                await ctx.client.delete(SECRETS, "secret", "default")
            else:
                await ctx.client.list(JOBS, "default")
        except Forbidden:
            ctx.log.info("It goes on regardless")

    async with async_plane(env=env, nodes=0, controllers=(), authorization="RBAC") as cluster:
        with pytest.raises(MissingRight, match=f"^{re.escape(right)}$"):  # noqa: PT012  # leaving the block raises
            async with cluster.running(app, as_=ACCOUNT):
                await cluster.apply(thing("ada", greet))
                await asyncio.sleep(1)


async def test_a_role_that_grants_more_than_its_writer_has_is_a_missing_right(env: Env) -> None:
    app = App("greeter")

    @app.controller(THINGS, name="greet", owns=(ROLES,))
    async def sync(obj: Thing, ctx: Context[Thing]) -> None:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        await ctx.apply(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": rules}
        )

    right = (
        f"{ACCOUNT} may not patch roles in namespace default that grant what it has not: "
        '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}; add that, or the verb escalate on it, to rights='
    )
    async with async_plane(env=env, nodes=0, controllers=(), authorization="RBAC") as cluster:
        with pytest.raises(MissingRight, match=f"^{re.escape(right)}$"):  # noqa: PT012  # leaving the block raises
            async with cluster.running(app, as_=ACCOUNT):
                await cluster.apply(thing("ada", "role"))
                await asyncio.sleep(1)


@pytest.mark.pilothouse(nodes=0, controllers=(), serve=False, authorization="RBAC")
def test_a_missing_right_is_what_a_wait_in_vain_shows(pilothouse: Cluster) -> None:
    async def nosy(client: Client, _env: Env) -> None:
        try:
            await client.list(SECRETS, "default")
        except Forbidden:
            await asyncio.sleep(3600)

    missing = r"stranger may not list secrets in namespace default \(tried once\)"
    with (
        pytest.raises(MissingRight, match=f"^{missing}$"),
        pilothouse.running(nosy, as_="stranger"),
        pytest.raises(Timeout, match=f"  {missing}$"),
    ):
        pilothouse.wait_for("v1", "ConfigMap", "a", lambda _found: False, seconds=0.2)


async def test_what_admission_forbids_is_no_missing_right(env: Env) -> None:
    async def greedy(client: Client, _env: Env) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
        with pytest.raises(Forbidden, match="quota"):
            await client.create(CONFIG_MAPS.raw, body, "default")
        await asyncio.sleep(3600)

    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": 0}},
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "greedy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "greedy"}],
    }
    async with async_plane(env=env, nodes=0, authorization="RBAC") as cluster:
        await cluster.apply([quota, role])
        await cluster.wait_for(
            "v1", "ResourceQuota", "q", lambda found: bool((found or {}).get("status", {}).get("hard"))
        )
        async with cluster.running(greedy, as_="greedy"):
            await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("settings", "as_", "error", "words"),
    [
        (
            {},
            ACCOUNT,
            ValueError,
            f'users need no rights on this plane, {ACCOUNT} neither: start it with authorization="RBAC"',
        ),
        (
            {"authorization": "RBAC"},
            "system:serviceaccount:greeter",
            ValueError,
            "system:serviceaccount:NAMESPACE:NAME, got",
        ),
        ({"authorization": "RBAC"}, "system:serviceaccount:none:greeter", NotFound, 'namespaces "none" not found'),
    ],
)
async def test_a_wrong_identity_is_rejected(
    env: Env, settings: dict[str, Any], as_: str, error: type[Exception], words: str
) -> None:
    async with async_plane(env=env, nodes=0, controllers=(), **settings) as cluster:
        with pytest.raises(error, match=words):
            async with cluster.running(greeter(), as_=as_):
                await asyncio.sleep(1)


async def test_other_arguments_are_checked(env: Env) -> None:
    async def program(_client: Client, _env: Env) -> None:
        raise AssertionError("never run")

    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(TypeError, match="settings= are of an App"):
            async with cluster.running(program, settings=Settings()):
                raise AssertionError("never entered")
    with pytest.raises(ValueError, match="authorization is AlwaysAllow or RBAC, got 'ABAC'"):
        async with async_plane(env=env, authorization="ABAC"):
            raise AssertionError("never entered")


async def test_a_wait_in_vain_shows_conditions_events_and_the_last_error(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster, cluster.running(greeter()):
        await cluster.apply([thing("ada", "nobody"), thing("eve", "never")])
        with pytest.raises(Timeout) as timeout:
            await cluster.wait_for(*THING, "ada", lambda _found: False, seconds=5)
        message = str(timeout.value)
        assert "  condition Ready=False: NobodyThere: there is nobody to greet\n" in message
        assert "  Thing ada: Waiting: for somebody\n" in message
        assert re.search(
            r"controller greet: default/ada is synced again in \d+\.\d s, its last sync failed \(\d+ in a row\): "
            "ArithmeticError: nobody to greet\n",
            message,
        )
        assert (
            "default/eve is not queued: nothing has changed since its last sync, its last sync failed for good"
            in message
        )
        assert "managedFields" not in message
        assert "why:" not in message, "the error of the last sync is the reason"
        with pytest.raises(Timeout, match=r"ConfigMap ada: .* it does not exist\n.*ArithmeticError: nobody to greet"):
            await cluster.wait_for("v1", "ConfigMap", "ada", exists, seconds=1)


async def test_a_wait_in_vain_shows_caches_that_are_not_filled(env: Env) -> None:
    faults = [Rule(conflict(), resource="secrets")]
    async with async_plane(env=env, nodes=0, controllers=()) as cluster, cluster.running(greeter(), faults=faults):
        await cluster.apply(thing("ada"))
        with pytest.raises(Timeout, match="controller greet: default/ada waits for the first list of Secret\n"):
            await cluster.wait_for(*THING, "ada", lambda _found: False, seconds=1)


def takes_nothing() -> None:
    """No program."""


def synchronous(_client: Client, _env: Env) -> None:
    """No program either."""


@cases(
    "program, options, message",
    {
        "nothing that can be called": ("greeter", {}, "takes an App, or an async function of a client and an env, got"),
        "the class": (App, {}, "running takes an instance, got class App"),
        "a function without arguments": (takes_nothing, {}, "called with .*; declare it async def takes_nothing"),
        "no async function": (synchronous, {}, "declare it async def synchronous\\(client, env\\)"),
        "faults": (greeter(), {"faults": Rule(conflict())}, "faults= is a list of rules"),
        "a fault": (greeter(), {"faults": ["conflict"]}, "faults= are rules .*, one is 'conflict'"),
        "settings": (greeter(), {"settings": {"workers": 2}}, "settings= are Settings of pilothouse.operator"),
        "a user": (greeter(), {"as_": ("jane",)}, "as_= is the name of a user"),
    },
)
async def test_arguments_in_another_form_are_rejected(program: Any, options: Any, message: str) -> None:
    async with async_plane(nodes=0, controllers=(), scheduler=False) as cluster:
        with pytest.raises(TypeError, match=message):
            async with cluster.running(program, **options):
                pass
