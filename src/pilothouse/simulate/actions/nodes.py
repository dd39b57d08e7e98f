"""Actions on nodes: selection, outages, taints."""

import asyncio
import random  # noqa: TID251  # the type of a stream
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import NODES
from pilothouse.api.kinds import Kind
from pilothouse.client import json_patch, merge_patch
from pilothouse.client.errors import ApiError, Conflict
from pilothouse.machinery.labels import parse_selector
from pilothouse.nodes import NodeSimulator
from pilothouse.sim import Simulation
from pilothouse.simulate.actions.administrator import ActionError
from pilothouse.simulate.scenario import actions
from pilothouse.simulate.scenario.actions import parse_taint
from pilothouse.simulate.scenario.schema import NodeGroup

if TYPE_CHECKING:
    from pilothouse.snapshots.restoring import SavedNode

_RAW_NODES: Kind[msgspec.Raw] = NODES.raw
_TRIES = 5
_EFFECTS = {
    "silence": "goes silent",
    "vanish": "vanishes",
    "out_of_service": "is taken out of service",
    "slow": "becomes slow",
    "relieve": "has no pressure any more",
    "reboot": "reboots",
    "revive": "is revived",
}


class Nodes:
    """The nodes of a run."""

    def __init__(
        self, simulation: Simulation, groups: Sequence[NodeGroup], adopted: "Sequence[SavedNode]" = ()
    ) -> None:
        """``adopted`` are the nodes of a snapshot."""
        self._simulation = simulation
        self._zones = {f"{group.name}-{index}": group.zone for group in groups for index in range(group.count)}
        self._groups = {f"{group.name}-{index}": group.name for group in groups for index in range(group.count)}
        self._zones |= {node.name: node.zone for node in adopted}
        self._groups |= {node.name: "" for node in adopted}

    @property
    def names(self) -> list[str]:
        """The names of all nodes."""
        return list(self._groups)

    @property
    def simulator(self) -> NodeSimulator:
        """The simulator of the nodes. Raises ``ActionError`` if there are no nodes."""
        if self._simulation.plane.nodes is None:
            raise ActionError("the cluster has no nodes")
        return self._simulation.plane.nodes

    def select(self, selection: actions.NodeSelection, rng: random.Random, *, vanished: bool = False) -> list[str]:
        """The names of the selected nodes, in order. Nodes without a Node object are selected by name only, unless
        ``vanished`` is set. Raises ``ActionError`` if no node is selected."""
        named = {*selection.names, *([selection.name] if selection.name else [])}
        if missing := named - set(self._groups):
            raise ActionError(f"there is no node {sorted(missing)[0]}")
        names = [
            name
            for name, group in self._groups.items()
            if (not named or name in named)
            and selection.group in ("", group)
            and selection.zone in ("", self._zones[name])
        ]
        absent = 0
        if not named and not vanished:
            labels = self._labels()
            registered = [name for name in names if name in labels]
            absent, names = len(names) - len(registered), registered
        if selection.selector:
            labels, matches = self._labels(), parse_selector(selection.selector).matches
            names = [name for name in names if name in labels and matches(labels[name])]
        if not names:
            raise ActionError(f"no nodes match: {selection}")
        # If nodes have vanished, a count larger than the rest is no error.
        if selection.count is not None and selection.count > len(names) + absent:
            have = "1 node matches" if len(names) == 1 else f"only {len(names)} nodes match"
            raise ActionError(f"{selection}: count is {selection.count}, and {have}")
        if selection.count is not None and selection.count < len(names):
            chosen = set(rng.sample(names, selection.count))
            names = [name for name in names if name in chosen]
        return names

    def _labels(self) -> dict[str, dict[str, str]]:
        nodes = (msgspec.json.decode(record.value) for record in self._simulation.store.list("/nodes/").records)
        return {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}

    # Outages

    async def fault(self, fault: actions.NodeFault, names: Sequence[str], by: str) -> None:
        """Inject the fault; with ``for`` revert it afterwards. ``by`` is its origin in explanations."""
        apply, undo = self._effect(fault)
        description = _EFFECTS.get(fault.effect) or f"comes under {fault.pressure} pressure"
        for name in names:
            self._simulation.note_fault(name, f"{description}, {by}")
            apply(name)
        if fault.for_ is not None:
            await asyncio.sleep(fault.for_)
            for name in names:
                self._simulation.note_fault(name, f"is as before, end of {by}")
                undo(name)

    def _effect(self, fault: actions.NodeFault) -> tuple[Callable[[str], object], Callable[[str], object]]:
        nodes = self.simulator

        def revive(name: str) -> None:
            nodes.revive(name)

        match fault.effect:
            case "silence":
                return nodes.silence, revive
            case "vanish":
                return nodes.vanish, revive
            case "out_of_service":
                return nodes.take_out_of_service, revive
            case "slow":
                return (lambda name: nodes.slow(name, fault.slow or 0.0)), (lambda name: nodes.slow(name, 0.0))
            case "pressure":
                return (lambda name: nodes.press(name, fault.pressure or "memory")), nodes.relieve
            case "relieve":
                return nodes.relieve, nodes.relieve
            case "reboot":
                return (lambda name: nodes.revive(name, pods=False)), revive
            case _:
                return (lambda name: nodes.revive(name, pods=not fault.lose_disk)), revive

    # Taints

    async def cordon(self, names: Sequence[str], *, unschedulable: bool) -> None:
        """As ``kubectl cordon`` and ``uncordon``. Raises ``ActionError``."""
        for name in names:
            await self._patched(name, {"spec": {"unschedulable": True if unschedulable else None}})

    async def _patched(self, name: str, change: dict[str, Any]) -> None:
        try:
            await self._simulation.user.patch(NODES.raw, name, merge_patch(change))
        except ApiError as error:
            raise ActionError(f"node {name}: {error}") from error

    async def taint(self, names: Sequence[str], text: str) -> None:
        """Add a taint, or change its value. Raises ``ActionError``."""
        taint = parse_taint(text)
        same = (taint["key"], taint["effect"])
        for name in names:
            await self._edit(name, lambda one: (one["key"], one["effect"]) != same, [taint])

    async def untaint(self, names: Sequence[str], text: str) -> None:
        """Remove a taint. Raises ``ActionError``."""
        key, _colon, effect = text.removesuffix("-").partition(":")
        for name in names:
            await self._edit(name, lambda one: one["key"] != key or effect not in ("", one["effect"]), [])

    async def _edit(self, name: str, keeps: Callable[[dict[str, str]], bool], added: list[dict[str, str]]) -> None:
        client = self._simulation.user
        for tries in range(1, _TRIES + 1):
            try:
                raw: Any = await client.get(_RAW_NODES, name)
                node = msgspec.json.decode(raw)
                resource_version = node["metadata"]["resourceVersion"]
                version = {"op": "test", "path": "/metadata/resourceVersion", "value": resource_version}
                taints = [taint for taint in node["spec"].get("taints") or () if keeps(taint)] + added
                replace = {"op": "add", "path": "/spec/taints", "value": taints}
                await client.patch(NODES.raw, name, json_patch([version, replace]))
            except ApiError as error:
                if (not isinstance(error, Conflict) and error.code != 422) or tries == _TRIES:
                    raise ActionError(f"node {name}: {error}") from error
            else:
                return
