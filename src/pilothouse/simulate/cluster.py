"""Builds the simulation of a scenario."""

import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import Taint
from pilothouse.client.interceptor import DrawnDelay, Rule
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.root_authority import with_ca_bundle
from pilothouse.env import Env
from pilothouse.machinery.times import parse_time
from pilothouse.nodes.profile import PROFILES, Profile
from pilothouse.plane import NodeGroup
from pilothouse.sim import SimulationOptions
from pilothouse.simulate.behaviour import PodBehaviour, drawn_seconds
from pilothouse.simulate.scenario import Scenario, schema
from pilothouse.simulate.scenario.actions import parse_taint

if TYPE_CHECKING:
    from pilothouse.snapshots.restoring import Restored

_CALM = msgspec.structs.replace(PROFILES["lifelike"], lease_period=40.0, status_period=1800.0)
_PROFILES = {**PROFILES, "calm": _CALM}


def simulation_options(scenario: Scenario, env: Env) -> SimulationOptions:
    """The options of the simulation."""
    cluster, restored = scenario.spec.cluster, scenario.snapshot
    behaviour = {"derive_behaviour": PodBehaviour(env, cluster.pods)} if cluster.pods else {}
    return SimulationOptions(
        **({} if restored is None else restored_options(restored)),
        nodes=0,
        groups=tuple(node_group(group) for group in cluster.node_groups),
        stages=scenario.stages,
        storage=cluster.storage,
        gates=tuple(name for name, on in cluster.feature_gates.items() if on),
        throttled=True,
        scheduler_rate=scheduler_rate(cluster.scheduler),
        manager=scenario.manager if restored is None else restored_manager(restored, scenario.manager),
        replicas=scenario.spec.manager.replicas,
        **behaviour,  # type: ignore[arg-type] # at most one field
    )


def scheduler_rate(scheduler: schema.SchedulerSettings) -> tuple[float, int]:
    """The scheduler's client rate limit: queries per second and burst."""
    return (scheduler.kube_api_qps, scheduler.kube_api_burst) if scheduler.kube_api_qps else (0.0, 0)


def latency(scenario: Scenario) -> Rule | None:
    """The delay rule for requests of the manager and the program; opening a watch is not delayed."""
    spread = scenario.spec.cluster.api_server.latency
    if spread is None:
        return None
    return Rule(DrawnDelay(lambda rng: drawn_seconds(rng, spread)), when=lambda call, _request: call.verb != "watch")


def restored_options(restored: "Restored") -> dict[str, Any]:
    """Options to restore the cluster of a snapshot. Nodes that were not ready are not started."""
    return {
        "records": restored.records,
        "adopted_nodes": tuple(node.name for node in restored.nodes if node.ready),
        "profile": PROFILES["lifelike"],
        **({"service_range": restored.service_range} if restored.service_range else {}),
    }


def restored_manager(restored: "Restored", manager: Options) -> Options:
    """The options of the manager for a snapshot's cluster: it publishes the root CA of that cluster."""
    return with_ca_bundle(manager, restored.root_ca.encode()) if restored.root_ca else manager


def node_group(group: schema.NodeGroup) -> NodeGroup:
    """The node group of the plane."""
    return NodeGroup(group.name, group.count, node_profile(group))


def node_profile(group: schema.NodeGroup) -> Profile:
    """The node profile of a group."""
    labels = {**({schema.ZONE_LABEL: group.zone} if group.zone else {}), **group.labels}
    return msgspec.structs.replace(
        _PROFILES[group.profile],
        cpu=str(group.capacity.cpu),
        memory=str(group.capacity.memory),
        ephemeral_storage=str(group.capacity.ephemeral_storage),
        pods=group.capacity.pods,
        labels=labels,
        taints=tuple(msgspec.convert(parse_taint(taint), Taint) for taint in group.taints),
        # Otherwise the node lifecycle controller removes it.
        clears_start_taint=True,
    )


def start_of(scenario: Scenario) -> datetime.datetime:
    """The virtual time at the start."""
    return parse_time(scenario.spec.cluster.start)
