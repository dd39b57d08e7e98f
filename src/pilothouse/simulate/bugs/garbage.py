"""Known bugs of the garbage collector of owned objects."""

import asyncio
from collections.abc import Sequence

from pilothouse.controllers.cleanup.garbage_collector import graph
from pilothouse.controllers.cleanup.garbage_collector.attempts import AbsentOwnerCache
from pilothouse.sim import Invariant, Simulation, SimulationOptions
from pilothouse.sim.invariants.garbage import Garbage
from pilothouse.simulate.bugs.declaration import Bug, Patch, Pattern, Unguarded, check
from pilothouse.simulate.bugs.user import Doc, User

OPTIONS = SimulationOptions(nodes=1, controllers=("garbagecollector",))
KINDS: dict[tuple[str, str], tuple[str, bool]] = {
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "Secret"): ("secrets", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("clusterroles", False),
}
"""The kinds that have owners in these scenarios: with its resource, and whether it is namespaced."""
HERE, THERE = "/api/v1/namespaces/default", "/api/v1/namespaces/kube-public"


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (Garbage(KINDS),)


WRONG_OWNER = Bug(
    "kubernetes#65200 kubernetes#92743 kubernetes#72192 kubernetes#88097 kubernetes#98471",
    "Dependents of an existing owner are deleted, because another object has a wrong reference to the owner",
    controller="garbage-collector-controller",
    patterns=(Pattern.STALE, Pattern.COLLISION),
    upstream="fixed in 1.20",
    mechanism="An owner was identified by its uid alone. A dependent that referred to it in another namespace, or "
    "with another kind, caused a lookup in the wrong place; the owner was considered absent, for all its dependents. "
    "The result depended on the order of events, and on restarts.",
    protection="Owners are identified by uid and coordinates: a reference with other coordinates is another node of "
    "the graph, and only its own dependent is collected.",
)


def by_uid_only() -> Sequence[Patch]:
    """An owner that is absent at some coordinates is absent at all."""
    absent: dict[str, None] = {}
    return (
        (graph, "partition_dependents", lambda dependents, _owner: (list(dependents), [])),
        (AbsentOwnerCache, "add", lambda _self, owner: absent.update({owner.uid: None})),
        (AbsentOwnerCache, "__contains__", lambda _self, owner: owner.uid in absent),
    )


def owned_by(owner: Doc, name: str, *, kind: str = "Secret") -> Doc:
    """The ConfigMap ``name`` with this owner."""
    reference = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": owner["metadata"]["uid"]}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


@WRONG_OWNER.scenario(
    "an owner in another namespace",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "configmaps/kube-public/good is deleted by the garbage collector; its existing owners", by_uid_only
    ),
)
async def owner_in_another_namespace(simulation: Simulation) -> None:
    """A dependent in another namespace is observed before its owner. It is garbage, the owner's other dependent is
    not."""
    user = User(simulation.user)
    simulation.kill(down=5.0)
    owner = await user.request("POST", f"{THERE}/secrets", {"metadata": {"name": "owner"}})
    await user.request("POST", f"{HERE}/configmaps", owned_by(owner, "bad"))
    await user.request("POST", f"{THERE}/configmaps", owned_by(owner, "good"))
    with simulation.held_watches("secrets"):
        await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    check(await user.get(f"{HERE}/configmaps/bad") is None, "the child in the other namespace is still there")
    check(await user.get(f"{THERE}/configmaps/good") is not None, "the child of the living owner is gone")


@WRONG_OWNER.scenario(
    "an owner of another kind",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "configmaps/default/good is deleted by the garbage collector; its existing owners", by_uid_only
    ),
)
async def owner_of_another_kind(simulation: Simulation) -> None:
    """One dependent refers to its owner, a Secret, as a ConfigMap. It is garbage, the owner's other dependent is
    not."""
    user = User(simulation.user)
    simulation.kill(down=5.0)
    owner = await user.request("POST", f"{HERE}/secrets", {"metadata": {"name": "owner"}})
    await user.request("POST", f"{HERE}/configmaps", owned_by(owner, "bad", kind="ConfigMap"))
    await user.request("POST", f"{HERE}/configmaps", owned_by(owner, "good"))
    with simulation.held_watches("secrets"):
        await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    check(await user.get(f"{HERE}/configmaps/bad") is None, "the child that names a wrong kind is still there")
    check(await user.get(f"{HERE}/configmaps/good") is not None, "the child of the living owner is gone")


BUGS = (WRONG_OWNER,)
