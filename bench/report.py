"""``Figure``: one measured number with its budget and aim, and the table and JSON of many figures."""

import json
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row. With ``other``, what counts is the ratio pilothouse / other; without, the value itself.

    ``value`` and ``other`` are medians, ``best`` and ``other_best`` the best runs; what counts is that of the medians,
    and with ``by_best`` that of the best runs (for times on a machine whose pace others have a say in).
    """

    name: str
    unit: str
    value: float
    best: float | None = None
    other: float | None = None
    other_best: float | None = None
    other_name: str = ""
    runs: int = 1
    budget: float | None = None
    aim: float | None = None
    more_is_better: bool = False
    by_best: bool = False
    note: str = ""
    series: str = ""
    size: int = 0
    """The same figure at several sizes is one series: ``growth`` compares its ends."""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the other's."""
        if self.other is None:
            return None
        if self.by_best and self.best is not None and self.other_best is not None:
            return self.best / self.other_best
        return self.value / self.other

    @property
    def verdict(self) -> str:
        """``aim``, ``budget`` or ``MISSED``; empty where nothing was promised."""
        if self.budget is None:
            return ""
        alone = self.best if self.by_best and self.best is not None else self.value
        held = self.ratio if self.ratio is not None else alone
        if self.aim is not None and self._reaches(held, self.aim):
            return "aim"
        return "budget" if self._reaches(held, self.budget) else "MISSED"

    def _reaches(self, value: float, limit: float) -> bool:
        return value >= limit if self.more_is_better else value <= limit


def figure(
    name: str,
    unit: str,
    runs: Sequence[float],
    others: Sequence[float] = (),
    *,
    other_name: str = "",
    budget: float | None = None,
    aim: float | None = None,
    more_is_better: bool = False,
    by_best: bool = False,
    note: str = "",
    series: str = "",
    size: int = 0,
) -> Figure:
    """The figure of several runs, and of as many of somebody else's."""
    best = max if more_is_better else min
    return Figure(
        name=name,
        unit=unit,
        value=statistics.median(runs),
        best=best(runs),
        other=statistics.median(others) if others else None,
        other_best=best(others) if others else None,
        other_name=other_name,
        runs=len(runs),
        budget=budget,
        aim=aim,
        more_is_better=more_is_better,
        by_best=by_best,
        note=note,
        series=series,
        size=size,
    )


def growth(figures: Sequence[Figure]) -> list[Figure]:
    """Whether a cost per object is flat: every series of microseconds, at its largest size divided by its smallest.

    1 is flat. By the best runs, with pilothouse as the value and the other beside it. Series with one size are
    not included.
    """
    by_series: dict[str, dict[int, Figure]] = {}
    for one in figures:
        if one.series and one.unit == "µs":
            by_series.setdefault(one.series, {})[one.size] = one
    return [_grown(name, sizes[min(sizes)], sizes[max(sizes)]) for name, sizes in by_series.items() if len(sizes) > 1]


def _grown(name: str, small: Figure, large: Figure) -> Figure:
    others = small.other_best and large.other_best and large.other_best / small.other_best
    return Figure(
        name=f"{name}, {large.size:,} beside {small.size:,}",
        unit="×",
        value=(large.best or large.value) / (small.best or small.value),
        other=others or None,
        other_name=large.other_name,
        runs=min(small.runs, large.runs),
        note="1 is flat",
    )


_HEADER = ("", "unit", "median", "best", "other", "ratio", "budget", "aim", "")


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns."""
    rows = [_HEADER, *(_row(one) for one in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column in (0, 1, 8) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(one: Figure) -> tuple[str, ...]:
    other = f"{_short(one.other)} {one.other_name}".rstrip() if one.other is not None else ""
    verdict = f"{one.verdict} ({one.note})" if one.verdict and one.note else one.verdict or one.note
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    return (
        one.name,
        one.unit,
        _short(one.value),
        _short(one.best),
        other,
        ratio,
        _short(one.budget),
        _short(one.aim),
        verdict,
    )


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_json(path: Path, figures: Sequence[Figure]) -> None:
    """Machine and figures, for whoever wants to compare runs."""
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.platform()}
    rows = [{**msgspec.to_builtins(one), "ratio": one.ratio, "verdict": one.verdict} for one in figures]
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2, ensure_ascii=False) + "\n")
