"""The simulation that a scenario describes."""

import datetime

import msgspec

from pilothouse.api.core import Taint
from pilothouse.env import Env
from pilothouse.machinery.times import parse_time
from pilothouse.nodes.profile import PROFILES, Profile
from pilothouse.plane import NodeGroup
from pilothouse.sim import SimulationOptions
from pilothouse.simulate.behaviour import PodBehaviour
from pilothouse.simulate.scenario import Scenario, schema
from pilothouse.simulate.scenario.actions import parse_taint

_CALM = msgspec.structs.replace(PROFILES["lifelike"], lease_period=40.0, status_period=1800.0)
_PROFILES = {**PROFILES, "calm": _CALM}


def simulation_options(scenario: Scenario, env: Env) -> SimulationOptions:
    """The parts of the cluster."""
    cluster = scenario.spec.cluster
    behaviour = {"derive_behaviour": PodBehaviour(env, cluster.pods)} if cluster.pods else {}
    return SimulationOptions(
        nodes=0,
        groups=tuple(node_group(group) for group in cluster.node_groups),
        stages=scenario.stages,
        storage=cluster.storage,
        gates=tuple(name for name, on in cluster.feature_gates.items() if on),
        manager=scenario.manager,
        replicas=scenario.spec.manager.replicas,
        **behaviour,  # type: ignore[arg-type]  # one field, or none
    )


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
