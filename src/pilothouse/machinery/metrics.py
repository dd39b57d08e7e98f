"""A small metrics registry with Prometheus' text exposition. Its metrics have the API of prometheus-client.

Every program has one ``Registry``; ``runtime``, the controllers and the API server register metrics in it under
upstream's names, and the manager serves ``Registry.exposition()`` at ``/metrics``. Increments are attribute additions
on plain objects: hot paths look the labeled child up once.
"""

import itertools
import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.machinery.metric_blocks import MetricBlock

with lazy_imports():
    from pilothouse.machinery import metric_blocks

MetricType = Literal["counter", "gauge", "histogram"]
"""The types in ``# TYPE`` lines."""

DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Prometheus' default histogram buckets, in seconds."""


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """``start * factor**k`` for k = 0 … count-1: the work queue uses ``exponential_buckets(1e-8, 10, 10)``."""
    return tuple(float(f"{start * factor**k:.12g}") for k in range(count))


_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*").fullmatch
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*").fullmatch
Exceptions = type[BaseException] | tuple[type[BaseException], ...]
"""Types of exceptions, as for ``isinstance``."""
UNEXPECTED = "unexpected"
"""Replaces values of a label that are not allowed."""


class Counter:
    """A number that only increases. ``value`` may be read at any time."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``. Raises ``ValueError`` if it is negative."""
        if amount < 0:
            raise ValueError(f"a counter only grows, got inc({amount}): use a gauge for what goes down")
        self.value += amount

    def count_exceptions(self, exception: Exceptions = Exception) -> "MetricBlock":
        """Count the exceptions of a block (``with``) or function (as a decorator)."""
        return metric_blocks.counting(self.inc, exception)


class Gauge:
    """A number that can increase and decrease."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Set the value. The current time is ``env.timestamp()``."""
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        """Add ``amount``, which may be negative."""
        self.value += amount

    def dec(self, amount: float = 1.0) -> None:
        """Subtract ``amount``."""
        self.value -= amount

    def track_inprogress(self) -> "MetricBlock":
        """Increment while a block (``with``) or function (as a decorator) runs."""
        return metric_blocks.tracking(self.inc)


class Histogram:
    """Counts values by bucket. An observation is one bisection and three additions."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Observe a value, once or several times. Bucket bounds are inclusive."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def observe_each(self, values: Iterable[float]) -> None:
        """Observe several values."""
        counts, bounds = self.counts, self._bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.sum += value

    def time(self) -> "MetricBlock":
        """Observe the duration of a block (``with``) or function (as a decorator) in seconds."""
        return metric_blocks.timing(self.observe)

    @property
    def count(self) -> int:
        """The number of observed values."""
        return sum(self.counts)


_M = TypeVar("_M", Counter, Gauge, Histogram)


class _Family(ABC, Generic[_M]):
    """The metrics of one name, one per combination of label values. A family without labels is used like a metric."""

    __slots__ = ("allowed", "bounds", "children", "help", "label_names", "name", "type")

    def __init__(self, name: str, kind: MetricType, help_text: str, labels: Sequence[str], bounds: tuple[float, ...]):
        self.name = name
        self.type = kind
        self.help = help_text
        self.label_names = tuple(labels)
        self.bounds = bounds
        self.children: dict[tuple[str, ...], _M] = {}
        self.allowed: Mapping[str, Collection[str]] = {}

    def labels(self, *values: object, **by_name: object) -> _M:
        """The metric with these label values, in the order of the labels or by name; created at first use.

        Raises ``ValueError`` for missing and unknown labels.
        """
        if by_name:
            values = self._ordered(values, by_name)
        # Hot paths pass strings; other values miss the lookup and are converted below.
        metric = self.children.get(values)  # type: ignore[arg-type]
        return metric if metric is not None else self._child(tuple(map(str, values)))

    def _ordered(self, values: tuple[object, ...], by_name: Mapping[str, object]) -> tuple[object, ...]:
        if values or by_name.keys() != set(self.label_names):
            raise ValueError(f"metric {self.name} has labels {self.label_names}, got {(*values, *by_name)}")
        return tuple(by_name[name] for name in self.label_names)

    def _child(self, values: tuple[str, ...]) -> _M:
        if len(values) != len(self.label_names):
            raise ValueError(f"metric {self.name} has labels {self.label_names}, got values {values}")
        if self.allowed:
            values = tuple(map(self._known, self.label_names, values))
        metric = self.children.get(values)
        if metric is None:
            metric = self.children[values] = self._new()
        return metric

    def remove(self, *values: object) -> None:
        """Remove the metric with these label values."""
        self.children.pop(tuple(map(str, values)), None)

    def clear(self) -> None:
        """Remove the metrics of all label values."""
        self.children.clear()

    @abstractmethod
    def _new(self) -> _M:
        """A new metric of the family."""

    def _known(self, label: str, value: str) -> str:
        return value if value in self.allowed.get(label, (value,)) else UNEXPECTED


class CounterFamily(_Family[Counter]):
    """Counters of one name: ``labels(a=…)`` returns one. Without labels the family is used like a counter."""

    __slots__ = ()

    def inc(self, amount: float = 1.0) -> None:
        """``Counter.inc``, if there are no labels."""
        self.labels().inc(amount)

    def count_exceptions(self, exception: Exceptions = Exception) -> "MetricBlock":
        """``Counter.count_exceptions``, if there are no labels."""
        return self.labels().count_exceptions(exception)

    def _new(self) -> Counter:
        return Counter()


class GaugeFamily(_Family[Gauge]):
    """Gauges of one name: ``labels(a=…)`` returns one. Without labels the family is used like a gauge."""

    __slots__ = ()

    def set(self, value: float) -> None:
        """``Gauge.set``, if there are no labels."""
        self.labels().set(value)

    def inc(self, amount: float = 1.0) -> None:
        """``Gauge.inc``, if there are no labels."""
        self.labels().inc(amount)

    def dec(self, amount: float = 1.0) -> None:
        """``Gauge.dec``, if there are no labels."""
        self.labels().dec(amount)

    def track_inprogress(self) -> "MetricBlock":
        """``Gauge.track_inprogress``, if there are no labels."""
        return self.labels().track_inprogress()

    def show(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Set the values to exactly these, by label values: for gauges that are computed before each exposition."""
        self.children.clear()
        for labels, value in values.items():
            self.labels(*labels).set(value)

    def _new(self) -> Gauge:
        return Gauge()


class HistogramFamily(_Family[Histogram]):
    """Histograms of one name: ``labels(a=…)`` returns one. Without labels the family is used like a histogram."""

    __slots__ = ()

    def observe(self, value: float) -> None:
        """``Histogram.observe``, if there are no labels."""
        self.labels().observe(value)

    def time(self) -> "MetricBlock":
        """``Histogram.time``, if there are no labels."""
        return self.labels().time()

    def _new(self) -> Histogram:
        return Histogram(self.bounds)


_F = TypeVar("_F", CounterFamily, GaugeFamily, HistogramFamily)


class Registry:
    """The metrics of one program.

    A family that exists is returned again, so that several controllers can share a name; another type or other labels
    are a bug and raise ``ValueError``. ``exposition`` sorts names and labels. It omits the ``disabled`` names.
    ``allowed`` has the allowed values by metric and label; others are replaced by ``unexpected`` (component-base's
    ``--allow-metric-labels``).

    Raises ``ValueError`` for invalid names and labels, and for buckets that are not ascending; ``TypeError`` for labels
    that are a string.
    """

    def __init__(
        self,
        *,
        disabled: Collection[str] = (),
        allowed: Mapping[str, Mapping[str, Collection[str]]] | None = None,
    ) -> None:
        self._disabled = frozenset(disabled)
        self._allowed = allowed or {}
        self._families: dict[str, CounterFamily | GaugeFamily | HistogramFamily] = {}
        self._collectors: dict[int, Callable[[], None]] = {}
        self._next_collector = 0
        self._included: list[Callable[[], str | bytes]] = []

    def counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> CounterFamily:
        """The counter family of that name, which should end with ``_total``: nothing is added to it."""
        return self._family(CounterFamily, name, "counter", help_text, labels)

    def gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> GaugeFamily:
        """The gauge family of that name."""
        return self._family(GaugeFamily, name, "gauge", help_text, labels)

    def histogram(
        self, name: str, help_text: str, labels: Sequence[str] = (), buckets: tuple[float, ...] = DEFAULT_BUCKETS
    ) -> HistogramFamily:
        """The histogram family of that name. ``buckets`` are upper bounds, ascending; +Inf is added."""
        bounds = tuple(bound for bound in buckets if bound != math.inf)
        return self._family(HistogramFamily, name, "histogram", help_text, labels, bounds)

    def _family(
        self,
        of: type[_F],
        name: str,
        kind: MetricType,
        help_text: str,
        labels: Sequence[str],
        buckets: tuple[float, ...] = (),
    ) -> _F:
        family = self._families.get(name)
        if family is None:
            _check(name, labels, buckets)
            family = self._families[name] = of(name, kind, help_text, labels, buckets)
            family.allowed = self._allowed.get(name, {})
            if not labels:
                family.labels()  # exposed as 0 from the start, so that rates include the first increment
        return _checked(family, of, labels)

    def on_collect(self, refresh: Callable[[], None]) -> Callable[[], None]:
        """Call ``refresh`` before every exposition, for computed gauges.

        Returns a function that removes the registration.
        """
        number = self._next_collector
        self._next_collector += 1
        self._collectors[number] = refresh

        def unregister() -> None:
            self._collectors.pop(number, None)

        return unregister

    def include(self, exposition: Callable[[], str | bytes]) -> None:
        """Append the result of ``exposition``, in the same format, to the page: metrics of another library, such as
        ``lambda: prometheus_client.generate_latest()``. Names that both have would be duplicated."""
        self._included.append(exposition)

    def value(self, name: str, *labels: str) -> float:
        """The current value of one counter or gauge, 0 if it does not exist; for tests and health checks."""
        self.refresh()
        family = self._families.get(name)
        child = family.children.get(labels) if family is not None else None
        if isinstance(child, Histogram):
            return float(child.count)
        return child.value if child is not None else 0.0

    def refresh(self) -> None:
        """Update the computed gauges."""
        for refresh in list(self._collectors.values()):
            refresh()

    def children(self, name: str) -> Mapping[tuple[str, ...], Counter | Gauge | Histogram]:
        """The metrics of that name by their label values, as of the last ``refresh``; none for an unknown name."""
        family = self._families.get(name)
        return {} if family is None else family.children

    def exposition(self) -> str:
        """Everything in Prometheus' text format 0.0.4."""
        self.refresh()
        lines: list[str] = []
        for name in sorted(self._families):
            family = self._families[name]
            if family.children and name not in self._disabled:
                lines.extend(_exposed(family))
        texts = ["\n".join(lines) + "\n" if lines else ""]
        for exposition in self._included:
            text = exposition()
            texts.append(text.decode() if isinstance(text, bytes) else text)
        return "".join(texts)


def _check(name: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
    if _NAME(name) is None:
        raise ValueError(f"a metric's name has letters, digits, _ and :, and begins with no digit, got {name!r}")
    if isinstance(labels, str):
        raise TypeError(f"labels of metric {name} are a sequence of names, such as ({labels!r},), got {labels!r}")
    for label in labels:
        if _LABEL(label) is None or (label == "le" and buckets):
            raise ValueError(f"metric {name} cannot have a label {label!r}")
    if any(lower >= upper for lower, upper in itertools.pairwise(buckets)):
        raise ValueError(f"buckets of metric {name} ascend, got {tuple(buckets)}")


def _checked(family: _Family[Any], kind: type[_F], labels: Sequence[str]) -> _F:
    if not isinstance(family, kind) or family.label_names != tuple(labels):
        labels = family.label_names
        raise ValueError(f"metric {family.name} is already registered as a {family.type} with labels {labels}")
    return family


def _exposed(family: _Family[Any]) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped_help(family.help)}"
    yield f"# TYPE {family.name} {family.type}"
    for values in sorted(family.children):
        child = family.children[values]
        labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in zip(family.label_names, values, strict=True))
        if isinstance(child, Histogram):
            total = 0
            comma = "," if labels else ""
            for bound, count in zip((*family.bounds, float("inf")), child.counts, strict=True):
                total += count
                yield f'{family.name}_bucket{{{labels}{comma}le="{_number(bound)}"}} {total}'
            braces = f"{{{labels}}}" if labels else ""
            yield f"{family.name}_sum{braces} {_number(child.sum)}"
            yield f"{family.name}_count{braces} {total}"
        else:
            braces = f"{{{labels}}}" if labels else ""
            yield f"{family.name}{braces} {_number(child.value)}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    # Go prints 1e-08 as Python; both agree for the values that occur here.
    return repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
