"""Variants of a scenario: every combination of the values that ``--vary`` gives, and what they come to."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.simulate.result import Result
from pilothouse.simulate.scenario.overrides import parse_setting, parse_variation

MAX_VARIANTS = 200


class Variant(msgspec.Struct, frozen=True):
    """One combination."""

    overrides: tuple[tuple[str, Any], ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """``PATH=VALUE`` of each."""
        return tuple(f"{path}={_shown(value)}" for path, value in self.overrides)

    @property
    def title(self) -> str:
        """As short as it can be understood: ``node-monitor-grace-period=20s``."""
        return ", ".join(f"{short_name(path)}={_shown(value)}" for path, value in self.overrides)


def variants_of(variations: Sequence[str]) -> list[Variant]:
    """All combinations, the last one varied first; one without any if nothing is varied. Raises ``ValueError``."""
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
    """As YAML that is read as the same value again."""
    if isinstance(value, str) and parse_setting(f"a={value}")[1] == value:
        return value
    return msgspec.json.encode(value).decode()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of one variant over its seeds."""

    median: float
    least: float
    most: float
    runs: int


def summary(results: Sequence[Result], measure: str) -> Summary | None:
    """None if no run has the measure. Runs that ended early do not count."""
    values = [result.measures[measure] for result in results if result.is_whole and measure in result.measures]
    if not values:
        return None
    return Summary(median=statistics.median(values), least=min(values), most=max(values), runs=len(values))


def measures_of(results: Sequence[Result]) -> Iterator[str]:
    """All measures, in the order of their appearance."""
    return iter(dict.fromkeys(name for result in results for name in result.measures))
