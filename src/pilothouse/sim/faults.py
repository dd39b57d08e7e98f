"""Faults as data, which can be printed and drawn from a seed.

``Simulation`` executes a plan.
"""

import random  # noqa: TID251  # the type of a stream
from typing import Literal

import msgspec

WriteFailure = Literal["conflict", "internal error", "refused", "request lost", "answer lost", "timed out"]
ReadFailure = Literal["internal error", "refused", "request lost"]
WebhookFailure = Literal["refused", "timed out", "answer lost", "internal error"]
WEBHOOK_FAILURES: tuple[WebhookFailure, ...] = ("refused", "timed out", "answer lost", "internal error")
WRITE_FAILURES: tuple[WriteFailure, ...] = (
    "conflict",
    "internal error",
    "refused",
    "request lost",
    "answer lost",
    "timed out",
    "timed out",
)
READ_FAILURES: tuple[ReadFailure, ...] = ("internal error", "refused", "request lost")


class _Fault(msgspec.Struct, frozen=True, kw_only=True):
    at: float
    """Seconds after the start of the plan."""


class DropWatches(_Fault, frozen=True, kw_only=True):
    """The open watches of a resource end: normally, with their connection, or with 410. An empty resource means all."""

    resource: str = ""
    failure: Literal["ended", "lost", "gone"]


class SlowWatches(_Fault, frozen=True, kw_only=True):
    """For some time each watch event of a resource is delayed by up to ``longest`` seconds."""

    resource: str = ""
    longest: float
    seconds: float


class HoldWatches(_Fault, frozen=True, kw_only=True):
    """For some time no watch event of a resource is delivered."""

    resource: str = ""
    seconds: float


class FailWrites(_Fault, frozen=True, kw_only=True):
    """For some time writes fail with this probability. With ``answer lost`` and ``timed out`` they are executed
    nevertheless."""

    failure: WriteFailure
    resource: str = ""
    probability: float
    seconds: float


class FailWrite(_Fault, frozen=True, kw_only=True):
    """The ``nth`` write from then on fails, not counting Events and Leases."""

    failure: WriteFailure
    resource: str = ""
    nth: int = 1


class FailReads(_Fault, frozen=True, kw_only=True):
    """For some time reads fail with this probability."""

    failure: ReadFailure
    probability: float
    seconds: float


class SlowRequests(_Fault, frozen=True, kw_only=True):
    """For some time each request reaches the server with a delay of up to ``longest`` seconds."""

    longest: float
    seconds: float


class Crash(_Fault, frozen=True, kw_only=True):
    """The program is killed before or after its ``nth`` write from then on, not counting Events and Leases, and started
    again after ``down`` seconds.

    ``stale``: the next process starts with lists from the second API server, which has stopped at the state of ``at``;
    if the write does not come within a minute, the server continues, and the process starts with current lists.
    """

    nth: int
    when: Literal["before", "after"]
    down: float
    stale: bool


class SecondProcess(_Fault, frozen=True, kw_only=True):
    """For some time a second process of the same program runs in parallel, then it is killed."""

    seconds: float


class Lag(_Fault, frozen=True, kw_only=True):
    """For some time the second API server lags by ``lag`` seconds; None stops it."""

    lag: float | None
    seconds: float


class Move(_Fault, frozen=True, kw_only=True):
    """The program's watches break, and are opened again at the other API server: with ``behind`` at the second one,
    which may lag, else at the first."""

    behind: bool


class JumpClock(_Fault, frozen=True, kw_only=True):
    """The wall clock jumps, forwards or back."""

    seconds: float


class FailWebhook(_Fault, frozen=True, kw_only=True):
    """The ``nth`` call of an admission or conversion webhook from then on fails. With ``answer lost`` the webhook has
    processed it nevertheless."""

    failure: WebhookFailure
    nth: int = 1


class SlowWebhooks(_Fault, frozen=True, kw_only=True):
    """For some time each call of an admission or conversion webhook is delayed by up to ``longest`` seconds."""

    longest: float
    seconds: float


class Compact(_Fault, frozen=True, kw_only=True):
    """The servers compact their history, so watches cannot be resumed."""


class _AtChange(_Fault, frozen=True, kw_only=True):
    """Starts with a change instead of at a time: the ``nth`` change of the object with this storage key, counted from
    ``at``. Until then the run equals one with the same seed without the fault."""

    at: float = 0.0
    key: str
    nth: int = 1

    @property
    def resource(self) -> str:
        """``replicasets.apps``, or ``pods`` for the core group."""
        group, resource, _name = self.key.split("/", 2)
        return f"{resource}.{group}" if group else resource


class StaleCache(_AtChange, frozen=True, kw_only=True):
    """This change and later ones of the resource are delivered to the program with a delay: its cache is stale."""

    seconds: float


class StaleRestart(_AtChange, frozen=True, kw_only=True):
    """The second API server stops just before the change. ``seconds`` later the process is killed, and the next one
    starts with lists from that server: it goes back to a state before that of its predecessor."""

    seconds: float


class MissedChange(_AtChange, frozen=True, kw_only=True):
    """The change is never observed: watches of its resource are held until change ``until`` of the same object, and
    then the resource is listed again."""

    until: int


class DownDuringChange(_AtChange, frozen=True, kw_only=True):
    """The process is killed just before it would observe the change, and restarted after ``down`` seconds."""

    down: float


Fault = (
    DropWatches
    | SlowWatches
    | HoldWatches
    | FailWrites
    | FailWrite
    | FailReads
    | SlowRequests
    | Crash
    | SecondProcess
    | Lag
    | Move
    | JumpClock
    | FailWebhook
    | SlowWebhooks
    | Compact
    | StaleCache
    | StaleRestart
    | MissedChange
    | DownDuringChange
)


def is_counted(fault: Fault) -> bool:
    """Whether the fault happens with a write, a call of a webhook or a change that it counts, and not at its time."""
    return isinstance(fault, Crash | FailWrite | FailWebhook | _AtChange)


class FaultPlan(msgspec.Struct, frozen=True):
    """Faults, in the order of their times."""

    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in self.faults) or "  no faults"


def draw(
    rng: random.Random, seconds: float, *, count: int, resources: tuple[str, ...], restarts: bool = True
) -> FaultPlan:
    """Draw a plan with ``count`` faults within ``seconds``, for these resources. The same random stream gives the same
    plan."""
    faults: list[Fault] = []
    for at in sorted(round(rng.uniform(0, seconds), 3) for _ in range(count)):
        resource = rng.choice((*resources, ""))
        kinds = [
            "drop",
            "drop",
            "slow",
            "hold",
            "write",
            "write",
            "read",
            "slow requests",
            "lag",
            "move",
            "clock",
            "compact",
        ]
        match rng.choice(kinds + ["crash"] * (4 if restarts else 0)):
            case "drop":
                faults.append(DropWatches(at=at, resource=resource, failure=rng.choice(("ended", "lost", "gone"))))
            case "slow":
                longest = rng.choice((0.05, 0.5, 5.0))
                faults.append(SlowWatches(at=at, resource=resource, longest=longest, seconds=_duration(rng)))
            case "hold":
                faults.append(HoldWatches(at=at, resource=resource, seconds=_duration(rng)))
            case "write":
                failure = rng.choice(WRITE_FAILURES)
                probability = rng.choice((0.1, 0.5, 1.0))
                faults.append(
                    FailWrites(
                        at=at, failure=failure, resource=resource, probability=probability, seconds=_duration(rng)
                    )
                )
            case "read":
                read = rng.choice(READ_FAILURES)
                faults.append(
                    FailReads(
                        at=at,
                        failure=read,
                        probability=rng.choice((0.1, 0.5, 1.0)),
                        seconds=_duration(rng),
                    )
                )
            case "slow requests":
                longest = rng.choice((0.02, 0.5, 3.0))
                faults.append(SlowRequests(at=at, longest=longest, seconds=_duration(rng)))
            case "lag":
                faults.append(Lag(at=at, lag=rng.choice((0.1, 2.0, 20.0, None)), seconds=_duration(rng)))
            case "move":
                faults.append(Move(at=at, behind=rng.random() < 0.7))
            case "clock":
                jump = rng.choice((-86400.0, -60.0, -1.5, 1.5, 60.0, 86400.0))
                faults.append(JumpClock(at=at, seconds=jump))
            case "compact":
                faults.append(Compact(at=at))
            case _:
                faults.append(_crash(rng, at, (0.0, 0.5, 5.0)))
    return FaultPlan(tuple(faults))


def _crash(rng: random.Random, at: float, down: tuple[float, ...]) -> Crash:
    return Crash(
        at=at,
        nth=rng.choice((1, 1, 2, 3, 5, 8)),
        when=rng.choice(("before", "after")),
        down=rng.choice(down),
        stale=rng.random() < 0.5,
    )


def draw_for_program(
    rng: random.Random, seconds: float, *, count: int, resources: tuple[str, ...], webhooks: bool = False
) -> FaultPlan:
    """As ``draw``, for a program that is not the manager: single writes fail instead of a share of them, a second
    process runs for some time, and the clock does not jump. ``webhooks``: calls of the program's webhooks fail, too."""
    faults = [
        _drawn_for_program(rng, at, rng.choice((*resources, "")), webhooks=webhooks)
        for at in sorted(round(rng.uniform(0, seconds), 3) for _ in range(count))
    ]
    return FaultPlan(tuple(faults))


def _drawn_for_program(rng: random.Random, at: float, resource: str, *, webhooks: bool) -> Fault:
    kinds = ("write",) * 4 + ("crash",) * 4 + ("second", "drop", "slow", "hold", "read", "lag", "move")
    match rng.choice((*kinds, "webhook", "webhook", "webhook", "slow webhooks") if webhooks else kinds):
        case "write":
            nth = rng.choice((1, 1, 2, 3))
            return FailWrite(at=at, failure=rng.choice(WRITE_FAILURES), resource=resource, nth=nth)
        case "crash":
            return _crash(rng, at, (0.5, 30.0))
        case "webhook":
            return FailWebhook(at=at, failure=rng.choice(WEBHOOK_FAILURES), nth=rng.choice((1, 1, 2, 3)))
        case "slow webhooks":
            return SlowWebhooks(at=at, longest=rng.choice((0.5, 5.0, 40.0)), seconds=_duration(rng))
        case "second":
            return SecondProcess(at=at, seconds=_duration(rng))
        case "drop":
            return DropWatches(at=at, resource=resource, failure=rng.choice(("ended", "lost", "gone")))
        case "slow":
            longest = rng.choice((0.05, 0.5, 5.0))
            return SlowWatches(at=at, resource=resource, longest=longest, seconds=_duration(rng))
        case "hold":
            return HoldWatches(at=at, resource=resource, seconds=_duration(rng))
        case "read":
            return FailReads(at=at, failure=rng.choice(READ_FAILURES), probability=1.0, seconds=_duration(rng))
        case "lag":
            return Lag(at=at, lag=rng.choice((0.1, 2.0, 20.0, None)), seconds=_duration(rng))
        case _:
            return Move(at=at, behind=rng.random() < 0.7)


def stretched(plan: FaultPlan, factor: float) -> FaultPlan:
    """The same faults with times and durations multiplied, for controllers that sync rarely.

    The delays of requests and events stay the same, because clients don't wait longer for them.
    """
    return FaultPlan(tuple(_stretch(fault, factor) for fault in plan.faults))


def _stretch(fault: Fault, factor: float) -> Fault:
    times = ["at", "down", "lag"] if isinstance(fault, JumpClock) else ["at", "down", "lag", "seconds"]
    longer = {name: getattr(fault, name, None) for name in times}
    return msgspec.structs.replace(
        fault, **{name: round(value * factor, 3) for name, value in longer.items() if value is not None}
    )


def _duration(rng: random.Random) -> float:
    return round(rng.choice((0.2, 2.0, 10.0, 40.0)) * (0.5 + rng.random()), 3)
