"""The simulation that a scenario describes."""

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
    """The parts of the cluster."""
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
        **behaviour,  # type: ignore[arg-type]  # one field, or none
    )


def scheduler_rate(scheduler: schema.SchedulerSettings) -> tuple[float, int]:
    """Requests a second, and at once."""
    return (scheduler.kube_api_qps, scheduler.kube_api_burst) if scheduler.kube_api_qps else (0.0, 0)


def latency(scenario: Scenario) -> Rule | None:
    """What makes each request of the manager, and of the program, take its time. Opening a watch takes none."""
    spread = scenario.spec.cluster.api_server.latency
    if spread is None:
        return None
    return Rule(
        DrawnDelay(lambda chance: drawn_seconds(chance, spread)), when=lambda call, _request: call.verb != "watch"
    )


def restored_options(restored: "Restored") -> dict[str, Any]:
    """What a simulation of a snapshot's cluster begins with. Nodes that were not ready are not there any more."""
    return {
        "records": restored.records,
        "adopted_nodes": tuple(node.name for node in restored.nodes if node.ready),
        "profile": PROFILES["lifelike"],
        **({"service_range": restored.service_range} if restored.service_range else {}),
    }


def restored_manager(restored: "Restored", manager: Options) -> Options:
    """The manager of a snapshot's cluster: it publishes the authority that the cluster publishes."""
    return with_ca_bundle(manager, restored.root_ca.encode()) if restored.root_ca else manager


def node_group(group: schema.NodeGroup) -> NodeGroup:
    """The nodes of a group."""
    return NodeGroup(group.name, group.count, node_profile(group))


def node_profile(group: schema.NodeGroup) -> Profile:
    """What the nodes of a group are like."""
    labels = {**({schema.ZONE_LABEL: group.zone} if group.zone else {}), **group.labels}
    return msgspec.structs.replace(
        _PROFILES[group.profile],
        cpu=str(group.capacity.cpu),
        memory=str(group.capacity.memory),
        ephemeral_storage=str(group.capacity.ephemeral_storage),
        pods=group.capacity.pods,
        labels=labels,
        taints=tuple(msgspec.convert(parse_taint(taint), Taint) for taint in group.taints),
        # The node lifecycle controller does it where it runs.
        clears_start_taint=True,
    )


def start_of(scenario: Scenario) -> datetime.datetime:
    """What the clock shows at the start."""
    return parse_time(scenario.spec.cluster.start)
