"""Random faults at random times, derived from the seed of a run."""

import random  # noqa: TID251  # the type of a stream
from collections.abc import Sequence
from typing import Literal

import msgspec

from pilothouse.env.random_streams import RandomStreams
from pilothouse.sim import faults
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.simulate.scenario.schema import Faults

RESOURCES = ("pods", "nodes", "replicasets", "deployments", "statefulsets", "daemonsets", "jobs")


class NodeOutage(msgspec.Struct, frozen=True):
    """A temporary outage of a node."""

    at: float
    node: str
    failure: Literal["silent", "slow", "vanished", "rebooted"]
    seconds: float

    def __str__(self) -> str:
        lasts = "" if self.failure == "rebooted" else f" for {shown_seconds(self.seconds)}"
        return f"node {self.node} {self.failure}{lasts}"


class PodCrash(msgspec.Struct, frozen=True):
    """The containers of a running pod terminate; ``share`` (from 0 to 1) selects the pod."""

    at: float
    share: float

    def __str__(self) -> str:
        return f"a pod crashes ({self.share})"


Drawn = faults.Fault | NodeOutage | PodCrash


def draw(wanted: Faults | None, seed: int, nodes: Sequence[str], *, program: bool) -> tuple[Drawn, ...]:
    """The random faults of a seed, in order. Pure."""
    if wanted is None:
        return ()
    rng = RandomStreams(seed).stream("faults")
    first, last = float(wanted.after), float(wanted.after + wanted.within)
    times = sorted(round(rng.uniform(first, last), 3) for _ in range(wanted.number))
    resources = (*(wanted.resources or RESOURCES), "")
    drawn: list[Drawn] = []
    for at in times:
        match rng.choice(wanted.of):
            case "nodes" if nodes:
                drawn.append(_node_outage(rng, at, nodes))
            case "pods":
                drawn.append(PodCrash(at, round(rng.random(), 4)))
            case _:
                drawn.append(_manager_fault(rng, at, rng.choice(resources), program=program))
    return tuple(drawn)


def _node_outage(rng: random.Random, at: float, nodes: Sequence[str]) -> NodeOutage:
    mode: Literal["silent", "slow", "vanished", "rebooted"] = rng.choice(
        ("silent", "silent", "slow", "vanished", "rebooted")
    )
    return NodeOutage(at, rng.choice(nodes), mode, round(rng.choice((20.0, 120.0, 600.0)) * (0.5 + rng.random()), 1))


def _manager_fault(rng: random.Random, at: float, resource: str, *, program: bool) -> faults.Fault:
    """Faults of single writes, not of a percentage: they stay the same when other faults are omitted (shrinking)."""
    kinds = ("write",) * 4 + ("crash",) * 4 + ("drop", "slow", "hold", "read", "requests", "lag", "move", "compact")
    lasts = round(rng.choice((0.2, 2.0, 10.0, 40.0)) * (0.5 + rng.random()), 3)
    match rng.choice((*kinds, "second") if program else kinds):
        case "write":
            failure = rng.choice(faults.WRITE_FAILURES)
            return faults.FailWrite(at=at, failure=failure, resource=resource, nth=rng.choice((1, 1, 2, 3)))
        case "crash":
            return faults.Crash(
                at=at,
                nth=rng.choice((1, 1, 2, 3, 5, 8)),
                when=rng.choice(("before", "after")),
                down=rng.choice((0.5, 5.0, 30.0)),
                stale=rng.random() < 0.5,
            )
        case "second":
            return faults.SecondProcess(at=at, seconds=lasts)
        case "drop":
            return faults.DropWatches(at=at, resource=resource, failure=rng.choice(("ended", "lost", "gone")))
        case "slow":
            longest = rng.choice((0.05, 0.5, 5.0))
            return faults.SlowWatches(at=at, resource=resource, longest=longest, seconds=lasts)
        case "hold":
            return faults.HoldWatches(at=at, resource=resource, seconds=lasts)
        case "read":
            return faults.FailReads(at=at, failure=rng.choice(faults.READ_FAILURES), probability=1.0, seconds=lasts)
        case "requests":
            return faults.SlowRequests(at=at, longest=rng.choice((0.02, 0.5, 3.0)), seconds=lasts)
        case "lag":
            return faults.Lag(at=at, lag=rng.choice((0.1, 2.0, 20.0, None)), seconds=lasts)
        case "compact":
            return faults.Compact(at=at)
        case _:
            return faults.Move(at=at, behind=rng.random() < 0.7)
