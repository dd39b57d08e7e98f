"""The load of workloads over time, as annotations that simulated nodes report as usage to autoscalers."""

import asyncio
import datetime
import math
from collections.abc import Iterator

from pilothouse.client import merge_patch
from pilothouse.env import Env
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.simulate.actions.administrator import Administrator
from pilothouse.simulate.scenario import actions

_DAY = 86400.0


async def follow(administrator: Administrator, env: Env, load: actions.Load) -> None:
    """Update the load until its curve ends, or until the run ends. Raises ``ActionError``."""
    began, last = env.monotonic(), None
    while True:
        elapsed = env.monotonic() - began
        amounts = dict(amounts_at(load, elapsed, env.now()))
        if amounts != last:
            last = amounts
            annotations = {f"{PREFIX}{resource}-load": text for resource, text in amounts.items()}
            await administrator.patch(load, merge_patch({"metadata": {"annotations": annotations}}))
        if load.daily_cpu is None and not load.period and (not load.points or elapsed >= load.points[-1].at):
            return
        await asyncio.sleep(load.step)


def amounts_at(load: actions.Load, elapsed: float, now: datetime.datetime) -> Iterator[tuple[str, str]]:
    """The quantity of each resource at that time. Pure."""
    if load.daily_cpu is not None:
        yield "cpu", f"{_daily(load.daily_cpu, now)}m"
        return
    if not load.points:
        if load.cpu is not None:
            yield "cpu", str(load.cpu)
        if load.memory is not None:
            yield "memory", str(load.memory)
        return
    at = elapsed % load.period if load.period else elapsed
    for resource, unit in (("cpu", "m"), ("memory", "")):
        points = [
            (float(point.at), _units(str(text), resource))
            for point in load.points
            if (text := getattr(point, resource)) is not None
        ]
        if points:
            yield resource, f"{round(_interpolate(points, at))}{unit}"


def _daily(curve: actions.Daily, now: datetime.datetime) -> int:
    """In millicores."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    share = (1 + math.cos(2 * math.pi * ((now - midnight).total_seconds() - curve.peak) / _DAY)) / 2
    low, high = _units(str(curve.low), "cpu"), _units(str(curve.high), "cpu")
    return round(low + (high - low) * share)


def _units(text: str, resource: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if resource == "cpu" else quantity.value


def _interpolate(points: list[tuple[float, int]], at: float) -> float:
    previous = points[0]
    for point in points:
        if point[0] >= at:
            if point[0] == previous[0]:
                return point[1]
            return previous[1] + (point[1] - previous[1]) * (at - previous[0]) / (point[0] - previous[0])
        previous = point
    return previous[1]
