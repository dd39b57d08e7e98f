"""ServiceAccounts, their token Secrets, and bootstrap tokens, under faults: no credential outlives its account."""

import asyncio
import base64
import datetime
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.users import RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR as TOKENS
from pilothouse.controllers.identity.serviceaccount_token import TokenOptions
from pilothouse.controllers.identity.serviceaccount_token.controller import TokenController
from pilothouse.machinery.jws import Signer, new_key
from pilothouse.machinery.times import format_time
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, SECRET_TYPE
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.tokens import Tokens

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"
SYSTEM = "/api/v1/namespaces/kube-system/secrets"
INFO = "/api/v1/namespaces/kube-public/configmaps"
OPTIONS = SimulationOptions(
    nodes=1,
    controllers=("serviceaccount", "token-cleaner-controller", "bootstrapsigner"),
    controller_options={TOKENS.name: TokenOptions(signer=Signer(new_key()), authority="CA")},
)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (Tokens(),))
RESOURCES = ("serviceaccounts", "secrets", "configmaps")
SECONDS = 90.0


class Owner(RandomUser):
    """Creates and deletes ServiceAccounts and tokens in any order."""

    PAUSES = (0.0, 0.0, 0.05, 0.5, 3.0, 8.0)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._env = simulation.env

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.account, self.secret, self.delete_account, self.create_bootstrap_token]
        return [
            *often,
            *often,
            self.secret,
            self.delete_secret,
            self.remove_data,
            self.change_kubeconfig,
            self.delete_bootstrap_token,
        ]

    async def account(self) -> None:
        """Create an account with one of a few names, so that names are reused."""
        listed = self._rng.choice(([], [{"name": "s0"}], [{"name": "s1"}, {"name": "s2"}]))
        await self.request("POST", ACCOUNTS, {"metadata": {"name": self._name()}, "secrets": listed})

    async def secret(self) -> None:
        """Create a token Secret for one of those, sometimes with a uid."""
        name = self._name()
        annotations = {ACCOUNT_NAME: name}
        obj = await self.get(f"{ACCOUNTS}/{name}")
        if obj is not None and self._rng.random() < 0.3:
            annotations[ACCOUNT_UID] = obj["metadata"]["uid"]
        meta = {"name": f"s{self._rng.randrange(5)}", "annotations": annotations}
        await self.request("POST", SECRETS, {"metadata": meta, "type": SECRET_TYPE})

    async def delete_account(self) -> None:
        """Delete an account; sometimes recreate it immediately."""
        name = self._name()
        await self.request("DELETE", f"{ACCOUNTS}/{name}")
        if self._rng.random() < 0.4:
            await self.request("POST", ACCOUNTS, {"metadata": {"name": name}})

    async def delete_secret(self) -> None:
        """Delete a Secret."""
        await self._any(SECRETS, lambda path: self.request("DELETE", path))

    async def remove_data(self) -> None:
        """Remove a key of a Secret's data."""
        key = self._rng.choice(("token", "ca.crt", "namespace"))
        await self._any(SECRETS, lambda path: self.merge(path, {"data": {key: None}}))

    async def create_bootstrap_token(self) -> None:
        """Create a bootstrap token, usually with an expiration."""
        number = f"abcde{self._rng.randrange(4)}"
        data = {"token-id": number, "token-secret": f"{self._rng.randrange(10**16):016}"}
        data["usage-bootstrap-signing"] = self._rng.choice(("true", "true", "false"))
        if self._rng.random() < 0.8:
            ends = self._env.now() + datetime.timedelta(seconds=self._rng.choice((-5, 20, 60, 200)))
            data["expiration"] = format_time(ends)
        meta = {"name": f"bootstrap-token-{number}"}
        body = {"metadata": meta, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        await self.request("POST", SYSTEM, body)

    async def delete_bootstrap_token(self) -> None:
        """Delete a bootstrap token."""
        await self.request("DELETE", f"{SYSTEM}/bootstrap-token-abcde{self._rng.randrange(4)}")

    async def change_kubeconfig(self) -> None:
        """Change the kubeconfig in cluster-info, which is signed."""
        text = f"payload {self._rng.randrange(1000)}"
        if await self.get(f"{INFO}/cluster-info") is None:
            await self.request("POST", INFO, {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": text}})
        else:
            await self.merge(f"{INFO}/cluster-info", {"data": {"kubeconfig": text}})

    async def touch_secrets(self) -> None:
        """Change every Secret, so that abandoned keys are enqueued again."""
        for item in await self.items(SECRETS):
            await self.merge(f"{SECRETS}/{item['metadata']['name']}", {"metadata": {"labels": {"seen": "yes"}}})

    def _name(self) -> str:
        return f"bot{self._rng.randrange(3)}"

    async def _any(self, path: str, act: Callable[[str], Awaitable[Any]]) -> None:
        items = await self.items(path)
        if items:
            await act(f"{path}/{self._rng.choice(items)['metadata']['name']}")


async def check(simulation: Simulation, user: Owner) -> None:
    """Every remaining Secret is filled, and every signature is of a valid token."""
    for item in await user.items(SECRETS):
        if item.get("type") == SECRET_TYPE:
            assert set(item["data"]) >= {"token", "ca.crt", "namespace"}, item["metadata"]["name"]
            assert ACCOUNT_UID in item["metadata"]["annotations"]
    info = await user.get(f"{INFO}/cluster-info")
    now = format_time(simulation.env.now())
    wanted = {}
    for item in await user.items(SYSTEM):
        data = {key: base64.b64decode(value).decode() for key, value in item["data"].items()}
        if item["type"] == "bootstrap.kubernetes.io/token":
            assert data.get("expiration", "9") > now, "it should be gone"
            if data["usage-bootstrap-signing"] == "true":
                wanted[f"jws-kubeconfig-{data['token-id']}"] = data["token-secret"]
    if info is not None:
        text = info["data"].pop("kubeconfig")
        assert set(info["data"]) == set(wanted)
        payload = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for key, signature in info["data"].items():
            head, _nothing, mac = signature.split(".")
            computed = hmac.new(wanted[key].encode(), f"{head}.{payload}".encode(), hashlib.sha256).digest()
            assert mac == base64.urlsafe_b64encode(computed).decode().rstrip("=")


async def delete_accounts(simulation: Simulation, user: Owner) -> None:
    """After the faults and another sync all tokens are valid. Then delete the accounts; no token may remain."""
    simulation.end_faults()
    await asyncio.sleep(300.0)
    await user.touch_secrets()
    await simulation.run_until_idle()
    await check(simulation, user)
    await user.delete_all(ACCOUNTS)
    await simulation.run_until_idle()
    remaining = [item["metadata"] for item in await user.items(SECRETS)]
    assert [meta for meta in remaining if meta["annotations"][ACCOUNT_NAME] != "default"] == []
    for path in (ACCOUNTS, SECRETS, SYSTEM):
        assert not any(item["metadata"].get("finalizers") for item in await user.items(path))


async def test_tokens_are_deleted_with_their_account_only(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    await delete_accounts(simulation, user)


async def account_unobserved(simulation: Simulation) -> None:
    """A Secret of an existing account that the manager has not observed."""
    user = Owner(simulation)
    with simulation.held_watches("serviceaccounts"):
        await user.request("POST", ACCOUNTS, {"metadata": {"name": "bot0"}})
        for _ in range(40):  # much happens
            await user.request("POST", ACCOUNTS, {"metadata": {"generateName": "other-"}})
        meta = {"name": "s0", "annotations": {ACCOUNT_NAME: "bot0"}}
        await user.request("POST", SECRETS, {"metadata": meta, "type": SECRET_TYPE})
        await asyncio.sleep(30.0)
    await simulation.run_until_idle()


async def no_account(*_args: object) -> None:
    return None


@broken_without((TokenController, "_get_service_account", no_account), fails="its account exists")
async def test_account_is_read_live_before_a_token_is_deleted(simulation: Simulation) -> None:
    await account_unobserved(simulation)


@pytest.mark.simulation(fails="exists without its account", options=SimulationOptions(nodes=1, controllers=("ttl",)))
async def test_invariant_detects_a_token_without_an_account(simulation: Simulation) -> None:
    user = Owner(simulation)
    meta = {"name": "s0", "annotations": {ACCOUNT_NAME: "nobody"}}
    await user.request("POST", SECRETS, {"metadata": meta, "type": SECRET_TYPE})
    await asyncio.sleep(20.0)
    await simulation.run_until_idle()
