"""The ClusterTrustBundle of the API server under faults: users change, delete and add bundles, and the manager restarts
with another CA."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.certificate_kinds import GROUP, allow_any_name, definition
from tests.scenarios.served import serve
from tests.scenarios.users import RandomUser
from tests.tables import cases

from pilothouse.api.certificates import KUBE_APISERVER_SERVING_SIGNER
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR,
    TrustBundleOptions,
    controller,
)
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher.controller import (
    TrustBundlePublisher,
    new_bundle,
)
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.trust_bundles import TrustBundles, name_of

BUNDLES = f"/apis/{GROUP}/v1beta1/clustertrustbundles"
KIND = definition(
    "clustertrustbundles", "ClusterTrustBundle", namespaced=False, selectable=(".spec.signerName", ".spec.trustBundle")
)
RESOURCES = ("clustertrustbundles",)
SECONDS = 180.0
OTHERS = {"example.com:own:a": "example.com/own", "example.com:own:b": "example.com/own", "plain": ""}
OF_SIGNER = tuple(f"kubernetes.io:kube-apiserver-serving:{word}" for word in ("old", "mine"))


def authority(number: int) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{number}\n-----END CERTIFICATE-----\n"


class Authorities:
    """The CA file, and all its previous contents."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.contents: list[str] = []
        self.write(authority(0))

    def write(self, content: str) -> None:
        """Replace the content."""
        self.contents.append(content)
        self.file.write_text(content)


class Administrator(RandomUser):
    """Creates, changes and deletes ClusterTrustBundles."""

    PAUSES = (0.0, 0.0, 0.05, 0.5, 3.0, 8.0)

    def __init__(self, simulation: Simulation, authorities: Authorities) -> None:
        super().__init__(simulation)
        self._simulation = simulation
        self._authorities = authorities

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.add,
            self.add,
            self.add,
            self.delete,
            self.delete,
            self.change_content,
            self.change_content,
            self.label,
            self.rotate,
        ]

    def _name(self) -> str:
        rights = [name_of(content) for content in dict.fromkeys(self._authorities.contents)]
        return self._rng.choice([*OTHERS, *OF_SIGNER, *rights, name_of(self._authorities.contents[-1])])

    async def add(self) -> None:
        """Create a bundle of this signer, another one, or none, with any content."""
        name = self._name()
        await self.create(name, OTHERS.get(name, KUBE_APISERVER_SERVING_SIGNER), self._content())

    async def create(self, name: str, signer: str, content: str) -> None:
        """Create a bundle."""
        head = {"apiVersion": f"{GROUP}/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name}}
        await self.request("POST", BUNDLES, {**head, "spec": {"signerName": signer, "trustBundle": content}})

    def _content(self) -> str:
        return authority(self._rng.randrange(4))

    async def delete(self) -> None:
        """Delete a bundle."""
        await self.request("DELETE", f"{BUNDLES}/{self._name()}")

    async def change_content(self) -> None:
        """Change the content of a bundle."""
        await self.merge(f"{BUNDLES}/{self._name()}", {"spec": {"trustBundle": self._content()}})

    async def label(self) -> None:
        """Change a label of a bundle."""
        labels = {"seen": self._rng.choice(("yes", "no"))}
        await self.merge(f"{BUNDLES}/{self._name()}", {"metadata": {"labels": labels}})

    async def rotate(self) -> None:
        """Rotate the CA, and restart the manager with current or stale lists."""
        self.restart_with_new_certificate(
            self._content(), down=self._rng.choice((0.0, 2.0)), stale=self._rng.random() < 0.3
        )

    def restart_with_new_certificate(self, content: str, *, down: float = 0.0, stale: bool = False) -> None:
        """The API server has a new certificate; the manager is restarted to load it."""
        self._authorities.write(content)
        self._simulation.kill(down=down, stale=stale)


@pytest.fixture
def authorities(tmp_path: Path) -> Authorities:
    return Authorities(tmp_path / "ca.crt")


def options(authorities: Authorities) -> SimulationOptions:
    return SimulationOptions(
        nodes=0,
        controllers=(DESCRIPTOR.name,),
        gates=DESCRIPTOR.gates,
        controller_options={DESCRIPTOR.name: TrustBundleOptions(root_ca_file=str(authorities.file))},
    )


pytestmark = pytest.mark.simulation(
    options=options, invariants=lambda authorities: (TrustBundles(authorities.contents),)
)


@pytest.fixture(autouse=True)
def any_name_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_any_name(monkeypatch)


async def test_own_bundle_converges_and_others_are_unchanged(
    simulation: Simulation, authorities: Authorities, seed: int
) -> None:
    await serve(simulation, KIND)
    user = Administrator(simulation, authorities)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=14, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(100))
    await simulation.run_until_idle()
    await user.delete_all(BUNDLES)
    await simulation.run_until_idle()
    assert len(await user.items(BUNDLES)) == 1
    (invariant,) = simulation.invariants
    assert isinstance(invariant, TrustBundles)
    assert invariant.written


async def rotated(simulation: Simulation, authorities: Authorities) -> None:
    """The CA is rotated, and creates of its bundle fail for a while."""
    await serve(simulation, KIND)
    user = Administrator(simulation, authorities)
    await user.create("plain", "", authority(0))
    await user.create(OF_SIGNER[0], KUBE_APISERVER_SERVING_SIGNER, authority(3))
    await asyncio.sleep(5.0)
    rule = simulation.add_rule(Rule(fail(403, "Forbidden"), verb="create", resource="clustertrustbundles"))
    user.restart_with_new_certificate(authority(1))
    await asyncio.sleep(20.0)
    assert name_of(authority(0)) in {item["metadata"]["name"] for item in await user.items(BUNDLES)}
    simulation.remove_rule(rule)
    await simulation.run_until_idle()
    assert len(await user.items(BUNDLES)) == 2


async def test_old_bundle_is_kept_until_the_new_one_exists(simulation: Simulation, authorities: Authorities) -> None:
    await rotated(simulation, authorities)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, TrustBundles)
    assert (invariant.written, invariant.removed) == (2, 2)


async def do_nothing(_self: TrustBundlePublisher) -> None:
    """No action."""


async def delete_others_first(self: TrustBundlePublisher, key: str) -> Any:
    """Delete other bundles before creating the current one."""
    await self._delete_other_bundles()
    await self._ensure_bundle()


def old_bundle(_bundle: str) -> dict[str, Any]:
    """Outdated content."""
    return new_bundle(authority(2))


@cases(
    "patch, complaint",
    {
        "removed first": ((TrustBundlePublisher, "reconcile", delete_others_first), "before the current one existed"),
        "other bundles not deleted": ((TrustBundlePublisher, "_delete_other_bundles", do_nothing), "exist, expected"),
        "no bundle created": ((TrustBundlePublisher, "_ensure_bundle", do_nothing), "before the current one existed"),
        "outdated content": ((controller, "new_bundle", old_bundle), "no publisher has written"),
        "bundle of another signer deleted": (
            (controller, "other_bundle_names", lambda *_all: ["plain"]),
            "is of another signer",
        ),
    },
)
@pytest.mark.simulation(patches=[lambda patch: [patch]], fails=lambda complaint: complaint)
async def test_invariant_detects_violations(
    simulation: Simulation, authorities: Authorities, patch: Any, complaint: str
) -> None:
    await rotated(simulation, authorities)
