"""Pods with SELinux labels that share volumes, under faults: every warning is correct, and in the end the metric is
exact."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from itertools import permutations
from typing import Any

import pytest
from tests.scenarios.test_volumes import CLAIMS, PODS, claim
from tests.scenarios.users import Doc, RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.client.errors import ApiError
from pilothouse.controllers.volumes.selinux_warning.volume_cache import VolumeCache
from pilothouse.nodes.provisioner import PROVISIONER
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.labels import LabelWarnings

DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
EVENTS = "/api/v1/namespaces/default/events"
METRIC = "selinux_warning_controller_selinux_volume_conflict"
CONTROLLERS = ("persistentvolume-binder", "pvc-protection", "pv-protection", "selinux-warning-controller")
OPTIONS = SimulationOptions(controllers=CONTROLLERS, storage=True)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (LabelWarnings(),))
RESOURCES = ("pods", "persistentvolumeclaims", "persistentvolumes", "csidrivers.storage.k8s.io")
SECONDS = 90.0
Pair = tuple[str, str, str, str, str]


def pod(name: str, claim_name: str, level: str, policy: str | None) -> Doc:
    context: Doc = {"seLinuxOptions": {"level": level}} if level else {}
    if policy is not None:
        context["seLinuxChangePolicy"] = policy
    mount = {"name": "v", "mountPath": "/v"}
    return {
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "securityContext": context,
            "containers": [{"name": "main", "image": "pause:1", "volumeMounts": [mount]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}],
        },
    }


class Owner(RandomUser):
    """Creates pods with SELinux labels that share volumes, and changes the CSI driver."""

    PAUSES = (0.0, 0.05, 0.5, 3.0)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.claim, self.create_pod, self.create_pod, self.create_pod, self.create_pod, self.toggle_driver]
        return [
            *often,
            *often,
            self.delete_pod,
            self.delete_pod,
            self.complete_pod,
            self.delete_driver,
            self.delete_claim,
        ]

    async def create_driver(self, mount: bool) -> None:
        """Create the CSIDriver, with or without seLinuxMount."""
        await self.request("POST", DRIVERS, {"metadata": {"name": PROVISIONER}, "spec": _spec(mount)})

    async def claim(self) -> None:
        """Create a claim with one of a few names, so that names are reused."""
        await self.request("POST", CLAIMS, claim(f"c{self._rng.randrange(2)}", 1, "standard"))

    async def create_pod(self) -> None:
        """Create a pod with one of a few names, replacing a completed one."""
        name, of = f"p{self._rng.randrange(6)}", f"c{self._rng.randrange(2)}"
        before = await self.get(f"{PODS}/{name}")
        if before is not None and before["status"]["phase"] in ("Succeeded", "Failed"):
            await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        level = self._rng.choice(("", "s0:c1,c2", "s0:c3,c4"))
        await self.request(
            "POST", PODS, pod(name, of, level, self._rng.choice((None, None, "MountOption", "Recursive")))
        )

    async def delete_pod(self) -> None:
        """Delete a pod, sometimes without grace period."""
        body = self._rng.choice((None, {"gracePeriodSeconds": 0}))
        await self._any(PODS, lambda path: self.request("DELETE", path, body))

    async def complete_pod(self) -> None:
        """A pod completes."""
        phase = self._rng.choice(("Succeeded", "Failed"))
        await self._any(PODS, lambda path: self.merge(f"{path}/status", {"status": {"phase": phase}}))

    async def delete_claim(self) -> None:
        """Delete a claim, even in use."""
        await self._any(CLAIMS, lambda path: self.request("DELETE", path))

    async def toggle_driver(self) -> None:
        """Change the driver's seLinuxMount."""
        mount = self._rng.random() < 0.7
        if await self.get(f"{DRIVERS}/{PROVISIONER}") is None:
            await self.create_driver(mount)
        else:
            await self.merge(f"{DRIVERS}/{PROVISIONER}", {"spec": _spec(mount)})

    async def delete_driver(self) -> None:
        """Delete the CSIDriver."""
        await self.request("DELETE", f"{DRIVERS}/{PROVISIONER}")

    async def _any(self, path: str, act: Callable[[str], Awaitable[Any]]) -> None:
        items = await self.items(path)
        if items:
            await act(f"{path}/{self._rng.choice(items)['metadata']['name']}")


def _spec(mount: bool) -> Doc:
    return {"attachRequired": False, "seLinuxMount": mount}


async def expected_conflicts(user: Owner) -> tuple[set[Pair], set[str]]:
    """The existing conflicts: property, one pod and its value, the other pod and its value. And the pods whose claims
    are no longer bound, so that their conflicts are unknown."""
    driver = await user.get(f"{DRIVERS}/{PROVISIONER}")
    mounts = driver is not None and driver["spec"].get("seLinuxMount") is True
    claims = {item["metadata"]["name"]: item for item in await user.items(CLAIMS)}
    uses: dict[str, tuple[str, str, str]] = {}
    waiting: set[str] = set()
    for pod_object in await user.items(PODS):
        pod_name = pod_object["metadata"]["name"]
        name = pod_object["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        if pod_object["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        if name not in claims or claims[name]["status"]["phase"] != "Bound":
            waiting.add(pod_name)
            continue
        context = pod_object["spec"]["securityContext"]
        level = context.get("seLinuxOptions", {}).get("level", "")
        recursive = not mounts or not level or context.get("seLinuxChangePolicy") == "Recursive"
        use = ("", "Recursive") if recursive else (f":::{level}", "MountOption")
        uses[pod_name] = (claims[name]["spec"]["volumeName"], *use)
    pairs: set[Pair] = set()
    for (one, (pair, label, policy)), (other, (there, other_label, other_policy)) in permutations(uses.items(), 2):
        if pair == there and label != other_label:
            pairs.add(("SELinuxLabel", one, label, other, other_label))
        if pair == there and policy != other_policy:
            pairs.add(("SELinuxChangePolicy", one, policy, other, other_policy))
    return pairs, waiting


async def compare(simulation: Simulation, user: Owner) -> set[Pair]:
    """The metric has exactly the existing conflicts."""
    pairs, waiting = await expected_conflicts(user)
    assert {pair for pair in reported_conflicts(simulation) if not waiting.intersection((pair[1], pair[3]))} == pairs
    return pairs


def reported_conflicts(simulation: Simulation) -> set[Pair]:
    """The conflicts in the metric of the running manager."""
    assert simulation.process is not None, "nobody kills it any more"
    assert simulation.process.manager is not None, "a process has a manager"
    pairs: set[Pair] = set()
    for line in simulation.process.manager.metrics.exposition().splitlines():
        if line.startswith(f"{METRIC}{{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            one, other = ((labels[f"pod{number}_name"], labels[f"pod{number}_value"]) for number in (1, 2))
            pairs.add((labels["property"], *one, *other))
    return pairs


async def check(simulation: Simulation, user: Owner) -> None:
    """The metric is exact, and two new conflicting pods get their events after the faults."""
    await compare(simulation, user)
    with contextlib.suppress(ApiError):
        await user.delete_driver()
    await user.create_driver(mount=True)
    await asyncio.sleep(20.0)
    await compare(simulation, user)
    await user.request("POST", CLAIMS, claim("last", 1, "standard"))
    await user.request("POST", PODS, pod("x", "last", "s0:c1,c2", None))
    await user.request("POST", PODS, pod("y", "last", "s0:c3,c4", None))
    await asyncio.sleep(60.0)
    reported = {item["involvedObject"]["name"] for item in await user.items(EVENTS) if "Conflict" in item["reason"]}
    assert {"x", "y"} <= reported
    assert ("SELinuxLabel", "x", ":::s0:c1,c2", "y", ":::s0:c3,c4") in await compare(simulation, user)


async def test_warnings_are_correct_and_the_metric_converges(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    await user.create_driver(mount=True)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(60))
    simulation.end_faults()
    await asyncio.sleep(120.0)
    await check(simulation, user)


async def recreated(simulation: Simulation) -> None:
    """A pod is recreated, which the manager observes as one update."""
    user = Owner(simulation)
    await user.create_driver(mount=True)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await user.request("POST", CLAIMS, claim("c1", 1, "standard"))
    await user.request("POST", PODS, pod("p0", "c0", "s0:c1,c2", None))
    await asyncio.sleep(20.0)
    with simulation.held_watches("pods"):
        await user.request("DELETE", f"{PODS}/p0", {"gracePeriodSeconds": 0})
        await user.request("POST", PODS, pod("p0", "c1", "s0:c1,c2", None))
        await asyncio.sleep(5.0)
    await user.request("POST", PODS, pod("p1", "c0", "s0:c3,c4", None))
    await asyncio.sleep(20.0)


whole = VolumeCache.add_volumes


def without_update(books: VolumeCache, name: str, uid: str, uses: Any, *, complete: bool) -> Any:
    _before, known = books._of_pod.get(name, (uid, {}))
    books._of_pod[name] = (uid, known)
    return whole(books, name, uid, uses, complete=complete and not known)


@broken_without((VolumeCache, "add_volumes", without_update), fails="with which it has no conflict")
async def test_recreated_pod_does_not_inherit_labels(simulation: Simulation) -> None:
    """Without the live read the volume of the predecessor stays with the name, until the claims of the new pod are
    cached."""
    await recreated(simulation)


@pytest.mark.simulation(fails="with which it has no conflict", options=SimulationOptions(controllers=("ttl",)))
async def test_invariant_detects_a_wrong_warning(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", PODS, pod("p0", "c0", "s0:c1,c2", None))
    obj = await user.get(f"{PODS}/p0")
    assert obj is not None
    about = {"kind": "Pod", "namespace": "default", "name": "p0", "uid": obj["metadata"]["uid"]}
    same = "uses the same volume as this pod with"
    text = f'SELinuxLabel ":::s0:c1,c2" conflicts with pod p1 that {same} SELinuxLabel ":::s0:c3,c4". '
    end = "If both pods land on the same node, only one of them may access the volume."
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "reason": "SELinuxLabelConflict",
        "message": text + end,
        "source": {"component": "selinux_warning"},
        "type": "Normal",
    }
    await user.request("POST", EVENTS, event)
