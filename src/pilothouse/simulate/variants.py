"""Variants of a scenario, one for each combination of the values of ``--vary``, and summaries of their measures."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.simulate.result import Result
from pilothouse.simulate.scenario.overrides import parse_setting, parse_variation

MAX_VARIANTS = 200


class Variant(msgspec.Struct, frozen=True):
    """One combination of values."""

    overrides: tuple[tuple[str, Any], ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings as ``PATH=VALUE``."""
        return tuple(f"{path}={_shown(value)}" for path, value in self.overrides)

    @property
    def title(self) -> str:
        """A short title: ``node-monitor-grace-period=20s``."""
        return ", ".join(f"{short_name(path)}={_shown(value)}" for path, value in self.overrides)


def variants_of(variations: Sequence[str]) -> list[Variant]:
    """All combinations, with the last variation changing fastest; a single empty one without variations. Raises
    ``ValueError``."""
    parsed = [parse_variation(variation) for variation in variations]
    total = 1
    for path, values in parsed:
        if not values:
            raise ValueError(f"--vary {path}: give at least one value")
        total *= len(values)
    if total > MAX_VARIANTS:
        raise ValueError(f"--vary: at most {MAX_VARIANTS} combinations, got {total}")
    choices = [[(path, value) for value in values] for path, values in parsed]
    return [Variant(tuple(combination)) for combination in itertools.product(*choices)]


def short_name(path: str) -> str:
    """The last field of a path."""
    return path.rstrip("]\"'").rpartition('["')[2].rpartition(".")[2]


def _shown(value: Any) -> str:
    """As YAML that parses to the same value."""
    if isinstance(value, str) and parse_setting(f"a={value}")[1] == value:
        return value
    return msgspec.json.encode(value).decode()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of one variant over its seeds."""

    median: float
    least: float
    most: float
    runs: int


def summary(results: Sequence[Result], measure: str) -> Summary | None:
    """Summarize a measure; None if no run has it. Runs that ended early are excluded."""
    values = [result.measures[measure] for result in results if result.is_complete and measure in result.measures]
    if not values:
        return None
    return Summary(median=statistics.median(values), least=min(values), most=max(values), runs=len(values))


def measures_of(results: Sequence[Result]) -> Iterator[str]:
    """The names of all measures, in the order of first appearance."""
    return iter(dict.fromkeys(name for result in results for name in result.measures))
