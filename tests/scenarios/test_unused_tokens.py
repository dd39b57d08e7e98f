"""Legacy tokens under faults, for many days: used, mounted, relabeled and recreated, while the cleaner deletes unused
ones.

Here a day takes an hour. Every few minutes the clock leaps to the next full hour, and the cleaner checks every hour.
"""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.scenarios.users import NAMESPACE, Doc, RandomUser
from tests.scenarios.variants import WITHOUT, broken_without
from tests.tables import cases

from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Replace, Rule
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import (
    DESCRIPTOR,
    LegacyTokenCleanerOptions,
    controller,
    decide,
)
from pilothouse.env import Env, TaskGroup
from pilothouse.env.virtual import VirtualClock
from pilothouse.semantics.service_accounts import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    INVALID_SINCE,
    LAST_USED,
    SECRET_TYPE,
    TRACKING,
)
from pilothouse.sim import Simulation, SimulationOptions, draw, stretched
from pilothouse.sim.invariants.clocks import latest
from pilothouse.sim.invariants.unused_tokens import UnusedTokens

ACCOUNTS, SECRETS, PODS = f"{NAMESPACE}/serviceaccounts", f"{NAMESPACE}/secrets", f"{NAMESPACE}/pods"
MAP = f"/api/v1/namespaces/kube-system/configmaps/{TRACKING}"
HOUR, DAY = 3600.0, 86400.0
DAY_TAKES = 3600.0
OPTIONS = SimulationOptions(
    nodes=0,
    controllers=(DESCRIPTOR.name,),
    controller_options={DESCRIPTOR.name: LegacyTokenCleanerOptions(period=DAY)},
)
RESOURCES = ("secrets", "serviceaccounts", "pods")
SECONDS, FACTOR = 90.0, 8 * DAY_TAKES / 90.0
"""Faults of a minute and a half, stretched to eight days."""


@pytest.fixture(autouse=True)
def check_every_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "SECONDS", DAY_TAKES)


class Owner(RandomUser):
    """Accounts, pods and tokens, and the API server, which tracks the use of tokens."""

    PAUSES = (0.0, 1.0, DAY_TAKES / 24, DAY_TAKES / 6, DAY_TAKES / 3)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._simulation = simulation
        self.env: Env = simulation.env

    async def prepare(self) -> None:
        """Create old accounts and tokens, whose use has been tracked for long."""
        await self.set_tracked_since("2000-01-01")
        for number in range(6):
            await self.create(f"a{number}")
        await self.secret("a0-own", "a0")
        await asyncio.sleep(3 * DAY_TAKES)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [
            self.authenticate,
            self.remove_mark,
            self.create_pod,
            self.delete_pod,
            self.delete_pod,
            self.restart,
            self.recreate,
        ]
        return [
            *often,
            *often,
            *often,
            self.create_account,
            self.delete_account,
            self.write_invalid_date,
            self.change_secrets,
            self.reset_tracking,
        ]

    def _name(self) -> str:
        return f"a{self._rng.randrange(6)}"

    def _token(self) -> str:
        return self._rng.choice((f"{self._name()}-token", f"{self._name()}-token", "a0-own"))

    async def set_tracked_since(self, since: str) -> None:
        """Set the date since which token use is tracked."""
        await self.merge(MAP, {"data": {"since": since}})

    async def create(self, name: str) -> None:
        """Create an account and its token, as releases before v1.24 did."""
        await self.request("POST", ACCOUNTS, {"metadata": {"name": name}, "secrets": [{"name": f"{name}-token"}]})
        await self.secret(f"{name}-token", name)

    async def secret(self, name: str, account: str) -> None:
        """Create a token, usually with the account's uid."""
        annotations = {ACCOUNT_NAME: account}
        obj = await self.get(f"{ACCOUNTS}/{account}")
        if obj is not None and self._rng.random() < 0.7:
            annotations[ACCOUNT_UID] = obj["metadata"]["uid"]
        meta = {"name": name, "annotations": annotations}
        await self.request("POST", SECRETS, {"metadata": meta, "type": SECRET_TYPE, "stringData": {"token": "x"}})

    async def create_account(self) -> None:
        """Create an account with one of a few names."""
        await self.create(self._name())

    async def delete_account(self) -> None:
        """Delete an account; its token remains, since the token controller does not run."""
        await self.request("DELETE", f"{ACCOUNTS}/{self._name()}")

    async def authenticate(self, name: str = "") -> None:
        """Authenticate with a token. A marked one is not accepted."""
        path = f"{SECRETS}/{name or self._token()}"
        meta = (await self.request("GET", path))["metadata"]
        if INVALID_SINCE not in meta.get("labels", {}):
            labels = {LAST_USED: self.env.now().date().isoformat()}
            await self.merge(path, {"metadata": {"uid": meta["uid"], "labels": labels}})

    async def remove_mark(self) -> None:
        """Remove the mark of a token, and use it or not."""
        name = self._token()
        await self.merge(f"{SECRETS}/{name}", {"metadata": {"labels": {INVALID_SINCE: None}}})
        if self._rng.random() < 0.5:
            await self.authenticate(name)

    async def create_pod(self, name: str = "") -> None:
        """Create a pod that uses a token."""
        token = name or self._token()
        use: Doc = self._rng.choice(
            (
                {"volumes": [{"name": "v", "secret": {"secretName": token}}]},
                {"imagePullSecrets": [{"name": token}]},
            )
        )
        # Somewhere, so that no scheduler tries for days to find a node.
        spec = {"nodeName": "far-away", "containers": [{"name": "main", "image": "pause:1"}], **use}
        await self.request("POST", PODS, {"metadata": {"generateName": "p-"}, "spec": spec})

    async def delete_pod(self) -> None:
        """Delete a pod."""
        pods = await self.items(PODS)
        if pods:
            path = f"{PODS}/{self._rng.choice(pods)['metadata']['name']}"
            await self.request("DELETE", path, {"gracePeriodSeconds": 0})

    async def write_invalid_date(self) -> None:
        """Write an invalid last-used date."""
        label = self._rng.choice((LAST_USED, INVALID_SINCE))
        await self.merge(f"{SECRETS}/{self._token()}", {"metadata": {"labels": {label: "soon"}}})

    async def change_secrets(self) -> None:
        """Set the account's secrets to its token, or to none."""
        name = self._name()
        listed = self._rng.choice(([], [{"name": f"{name}-token"}]))
        await self.merge(f"{ACCOUNTS}/{name}", {"secrets": listed})

    async def recreate(self) -> None:
        """Recreate a token, or its account."""
        name = self._name()
        if self._rng.random() < 0.7:
            with contextlib.suppress(NotFound):
                await self.request("DELETE", f"{SECRETS}/{name}-token")
            await self.secret(f"{name}-token", name)
        else:
            await self.request("DELETE", f"{ACCOUNTS}/{name}")
            await self.request("POST", ACCOUNTS, {"metadata": {"name": name}, "secrets": [{"name": f"{name}-token"}]})

    async def reset_tracking(self) -> None:
        """Set the date since which token use is tracked to an old, the current, or an invalid one."""
        today = self.env.now().date().isoformat()
        await self.set_tracked_since(self._rng.choice((*["2000-01-01"] * 5, today, "soon")))

    async def restart(self) -> None:
        """Restart the manager."""
        self._simulation.kill(down=self._rng.choice((0.0, 60.0)), stale=self._rng.random() < 0.3)

    async def labels(self) -> dict[str, Doc]:
        """The labels of all existing tokens."""
        return {
            item["metadata"]["name"]: item["metadata"].get("labels", {})
            for item in await self.items(SECRETS)
            if item["type"] == SECRET_TYPE
        }


async def advance_clock(env: Env) -> None:
    """Advance the wall clock faster than time."""
    clock = env.clock
    assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
    while True:
        await asyncio.sleep(DAY_TAKES / 24)
        clock.jump(HOUR - DAY_TAKES / 24)


async def reasons(user: Owner) -> dict[str, list[str]]:
    """Why each existing token is kept."""
    accounts = {item["metadata"]["name"]: item for item in await user.items(ACCOUNTS)}
    pods = str([item["spec"] for item in await user.items(PODS)])
    lately = (user.env.now() - datetime.timedelta(days=1)).date().isoformat()
    result = {}
    for secret in await user.items(SECRETS):
        meta = secret["metadata"]
        account = accounts.get(meta["annotations"][ACCOUNT_NAME], {"metadata": {"uid": "none"}})
        why = {
            "used": meta.get("labels", {}).get(LAST_USED, "") >= lately,
            "used by a pod": f"'{meta['name']}'" in pods,
            "not listed": {"name": meta["name"]} not in account.get("secrets", []),
            "of another account": meta["annotations"].get(ACCOUNT_UID, "") not in ("", account["metadata"]["uid"]),
        }
        result[meta["name"]] = [reason for reason, holds in why.items() if holds]
    return result


async def check_final_state(simulation: Simulation, user: Owner) -> None:
    """After the faults, some days later: a token exists exactly if it has a reason."""
    await simulation.run_until_idle()
    await user.set_tracked_since("2000-01-01")
    for name in ("idle", "used", "mounted", "missed"):
        await user.create(name)
    await user.secret("own", "idle")
    await user.create_pod("mounted-token")
    ahead = latest(simulation.env, 1000 * DAY) - simulation.env.now()
    for day in range(6 + ahead.days):
        await asyncio.sleep(DAY_TAKES)
        await user.authenticate("used-token")
        if day > 1 + ahead.days:
            await user.merge(f"{SECRETS}/missed-token", {"metadata": {"labels": {INVALID_SINCE: None}}})
            await user.authenticate("missed-token")
    remaining = await reasons(user)
    assert [name for name, why in remaining.items() if not why] == []
    assert [remaining.get(name) for name in ("used-token", "missed-token")] == [["used"], ["used"]]
    assert [remaining.get(name) for name in ("mounted-token", "own")] == [["used by a pod"], ["not listed"]]
    assert "idle-token" not in remaining


pytestmark = pytest.mark.simulation(
    options=OPTIONS, invariants=lambda: (UnusedTokens(datetime.timedelta(seconds=DAY)),)
)


@contextlib.asynccontextmanager
async def with_advancing_clock(simulation: Simulation) -> AsyncIterator[Owner]:
    """Old accounts, while the clock advances in jumps."""
    user = Owner(simulation)
    async with TaskGroup("leaps") as group:
        group.start(advance_clock(simulation.env), name="leaps")
        await user.prepare()
        yield user
        group.cancel()


async def test_only_unused_tokens_are_invalidated_and_deleted(simulation: Simulation, seed: int) -> None:
    async with with_advancing_clock(simulation) as user:
        plan = draw(simulation.env.stream("plan"), SECONDS, count=16, resources=RESOURCES, restarts=True)
        await asyncio.gather(simulation.follow(stretched(plan, FACTOR)), user.run_actions(120))
        await check_final_state(simulation, user)


async def mark_removal_unobserved(simulation: Simulation, user: Owner) -> None:
    """Marks are removed, which the manager does not observe before the period ends."""
    assert all(INVALID_SINCE in labels_of for name, labels_of in (await user.labels()).items() if name != "a0-own")
    names = await user.labels()
    with simulation.held_watches("secrets"):
        for name in names:
            await user.merge(f"{SECRETS}/{name}", {"metadata": {"labels": {INVALID_SINCE: None}}})
        await asyncio.sleep(4 * DAY_TAKES)
        assert names.keys() == (await user.labels()).keys()
    await asyncio.sleep(DAY_TAKES)


async def recreation_unobserved(simulation: Simulation, user: Owner) -> None:
    """A token is recreated, which the manager does not observe."""
    await user.create("late")
    await asyncio.sleep(60.0)
    with simulation.held_watches("secrets"):
        await user.request("DELETE", f"{SECRETS}/late-token")
        await user.secret("late-token", "late")
        await asyncio.sleep(3 * DAY_TAKES)
        assert (await user.labels())["late-token"] == {}
    await asyncio.sleep(DAY_TAKES)


def changed(change: Callable[[Doc], Any]) -> Any:
    """An interceptor action: changes the request."""

    def change_it(request: Any) -> Any:
        body = msgspec.json.decode(request.body)
        change(body)
        return replace(request, body=msgspec.json.encode(body))

    return Replace(change_it)


@cases(
    "scenario, verb, careless",
    {
        "a deletion names the version": (mark_removal_unobserved, "delete", lambda body: body.pop("preconditions")),
        "a mark names the uid": (recreation_unobserved, "patch", lambda body: body["metadata"].pop("uid")),
    },
)
@broken_without(fails=r"was (marked|deleted), and")
async def test_token_used_without_the_caches_knowledge_is_kept(
    simulation: Simulation, scenario: Any, verb: str, careless: Any, variant: str
) -> None:
    async with with_advancing_clock(simulation) as user:
        if variant == WITHOUT:
            simulation.add_rule(Rule(changed(careless), verb=verb, resource="secrets"))
        await scenario(simulation, user)


async def tokens_in_use(user: Owner) -> None:
    """Tokens that are kept, each for a different reason; then all, after tracking is reset."""
    await user.create("late")
    await user.create_pod("late-token")
    for _ in range(3):
        await user.authenticate("a0-own")
        await asyncio.sleep(DAY_TAKES)
    await asyncio.sleep(0.7 * DAY_TAKES)
    await user.create("later")
    await asyncio.sleep(0.5 * DAY_TAKES)
    await user.set_tracked_since(user.env.now().date().isoformat())
    await asyncio.sleep(1.7 * DAY_TAKES)


@cases(
    "change, instead, complaint",
    {
        "pods": ("secrets_of", lambda _pod: frozenset(), "used by a pod"),
        "created by a user": ("is_auto_generated", lambda *_all: True, "was created by a user|was used"),
        "recently created or used": ("is_unused", lambda *_all: True, "was created 20"),
        "tracked recently": ("is_tracked_long_enough", lambda *_all: True, "is tracked only since"),
    },
)
@pytest.mark.simulation(
    patches=[
        lambda change, instead: [
            (module, change, instead) for module in (controller, decide) if hasattr(module, change)
        ]
    ],
    fails=lambda complaint: complaint,
)
async def test_invariant_detects_a_missing_check(
    simulation: Simulation, change: str, instead: Any, complaint: str
) -> None:
    async with with_advancing_clock(simulation) as user:
        await tokens_in_use(user)


async def test_invariant_observed_deletions(simulation: Simulation) -> None:
    async with with_advancing_clock(simulation) as user:
        await tokens_in_use(user)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, UnusedTokens)
    assert (invariant.marked, invariant.deleted) == (6, 6)
