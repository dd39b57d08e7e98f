"""Upstream's metrics as data, and a parser of exposed metrics."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Metric(NamedTuple):
    """A metric family. ``buckets`` is "first..last/count"."""

    name: str
    type: str
    labels: frozenset[str]
    buckets: str


class Series(NamedTuple):
    """A line of the exposition."""

    name: str
    labels: dict[str, str]
    value: float


SOMETIMES: set[str] = set()
"""Metrics without series before an error occurs."""

SLIS = "kubernetes_health"
"""The name prefixes of metrics at ``/metrics/slis``."""


def read_table(path: Path) -> list[Metric]:
    """The rows of a table of families."""
    metrics = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, kind, labels, buckets, *mark = line.split()
        if mark:
            SOMETIMES.add(name)
        metrics.append(Metric(name, kind, frozenset(labels.split(",")) - {"-"}, buckets.strip("-")))
    return metrics


METRICS = read_table(Path(__file__).parent / "upstream_metrics.txt")


def summary(bounds: Iterable[float]) -> str:
    """Buckets in the table's form."""
    inner = sorted({bound for bound in bounds if bound != float("inf")})
    return f"{inner[0]:.10g}..{inner[-1]:.10g}/{len(inner)}" if inner else ""


def parsed(page: str) -> list[Series]:
    """The samples of an exposition, histograms by their parts."""
    result = []
    for line in page.splitlines():
        if line and not line.startswith("#"):
            head, _, value = line.rpartition(" ")
            name, _, labels = head.partition("{")
            pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            result.append(Series(name, pairs, float(value)))
    return result


def families(page: str) -> dict[str, Metric]:
    """The families of an exposition, in the table's form. All series of a family must have the same labels."""
    types = dict(re.findall(r"^# TYPE (\S+) (counter|gauge|histogram)$", page, re.MULTILINE))
    labels: dict[str, frozenset[str]] = {}
    bounds: dict[str, set[float]] = {name: set() for name in types}
    for series in parsed(page):
        base = re.sub(r"_(bucket|sum|count)$", "", series.name)
        name = series.name if series.name in types else base
        if name not in types:
            continue  # a summary of Go's
        present = frozenset(series.labels) - ({"le"} if types[name] == "histogram" else set())
        assert labels.setdefault(name, present) == present, series
        if series.name.endswith("_bucket") and "le" in series.labels:
            bounds[name].add(float(series.labels["le"]))
    return {name: Metric(name, types[name], labels[name], summary(bounds[name])) for name in types}


def total(page: str, name: str, /, **labels: str) -> float:
    """The sum of all samples with this name and these labels."""
    return sum(s.value for s in parsed(page) if s.name == name and labels.items() <= s.labels.items())
