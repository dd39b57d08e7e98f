"""PodGroups deleted while pods belong to them, under faults: kept exactly that long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.users import NAMESPACE, Doc, RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.podgroup_protection.controller import PodGroupProtectionController
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.pod_groups import PodGroups

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
PODS = f"{NAMESPACE}/pods"
OPTIONS = SimulationOptions(controllers=("podgroup-protection-controller",), gates=("GenericWorkload",))
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (PodGroups(),))
RESOURCES = ("podgroups.scheduling.k8s.io", "pods")
SECONDS = 90.0


class GroupUser(RandomUser):
    """Creates and deletes PodGroups and their pods in any order."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.group, self.group, self.pod, self.pod, self.pod, self.pod]
        return [
            *often,
            self.delete_group,
            self.delete_group,
            self.delete_pod,
            self.delete_pod,
            self.remove_finalizer,
            self.label_group,
        ]

    async def group(self) -> None:
        """Create a group with one of a few names, with a field that this release's types lack."""
        spec = {"schedulingPolicy": {"gang": {"minCount": self._rng.randrange(1, 9)}}}
        await self.request("POST", GROUPS, {"metadata": {"name": f"g{self._rng.randrange(3)}"}, "spec": spec})

    async def pod(self) -> None:
        """Create a pod with one of a few names; some complete by themselves, some have a missing group."""
        annotations = self._rng.choice(({}, {"simulated.pilothouse.dev/run-time": "5s"}))
        await self.request("POST", PODS, pod(f"p{self._rng.randrange(6)}", f"g{self._rng.randrange(3)}", annotations))

    async def delete_group(self) -> None:
        """Delete a group."""
        await self._delete(GROUPS)

    async def delete_pod(self) -> None:
        """Delete a pod, sometimes without grace period."""
        await self._delete(PODS, self._rng.choice((None, {"gracePeriodSeconds": 0})))

    async def remove_finalizer(self) -> None:
        """Remove the finalizer of a group that is not terminating."""
        active = [item["metadata"] for item in await self.items(GROUPS) if "deletionTimestamp" not in item["metadata"]]
        if active:
            meta = self._rng.choice(active)
            changes = {"finalizers": None, "resourceVersion": meta["resourceVersion"]}
            await self.merge(f"{GROUPS}/{meta['name']}", {"metadata": changes})

    async def label_group(self) -> None:
        """Change a label of a group."""
        name = f"g{self._rng.randrange(3)}"
        await self.merge(f"{GROUPS}/{name}", {"metadata": {"labels": {"note": str(self._rng.random())}}})

    async def _delete(self, path: str, body: dict[str, int] | None = None) -> None:
        await self.delete_any(path, body)


def pod(name: str, group: str, annotations: dict[str, str] | None = None) -> Doc:
    """A pod of the group."""
    containers = [{"name": "main", "image": "pause:1"}]
    spec: Doc = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": containers}
    spec["schedulingGroup"] = {"podGroupName": group}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


async def delete_everything(simulation: Simulation, user: GroupUser) -> None:
    """Delete everything, the pods last; nothing may remain."""
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    for path in (GROUPS, PODS):
        await user.delete_all(path)
        await asyncio.sleep(60.0)
        await simulation.run_until_idle()
    for path in (PODS, GROUPS):
        assert await user.items(path) == [], path


async def test_group_is_kept_while_in_use_and_deleted_afterwards(simulation: Simulation, seed: int) -> None:
    user = GroupUser(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    simulation.end_faults()
    await delete_everything(simulation, user)


async def delete_group_in_use(simulation: Simulation) -> None:
    """A group with a pod is deleted."""
    user = GroupUser(simulation)
    await user.request("POST", PODS, pod("p", "g0"))
    await user.request("POST", PODS, pod("q", "g1"))
    await asyncio.sleep(20.0)
    for name in ("g0", "g1"):
        await user.request("POST", GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}}})
    await asyncio.sleep(5.0)
    await user.request("DELETE", f"{GROUPS}/g0")
    await asyncio.sleep(5.0)
    await delete_everything(simulation, user)


async def no_user(*_args: object) -> bool:
    return False


@broken_without((PodGroupProtectionController, "is_being_used", no_user), fails="was released while")
async def test_invariant_detects_a_group_released_too_early(simulation: Simulation) -> None:
    await delete_group_in_use(simulation)


def pod_unobserved(_self: object, _old: Pod | None, _new: Pod | None) -> None:
    return


@pytest.mark.simulation(
    fails="being deleted and has no pods, and still exists",
    patches=[(PodGroupProtectionController, "_enqueue_groups_of_pod", pod_unobserved)],
)
async def test_invariant_detects_a_group_that_is_never_released(simulation: Simulation) -> None:
    """With a manager that does not observe the deletion of pods."""
    await delete_group_in_use(simulation)
