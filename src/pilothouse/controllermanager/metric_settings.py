"""``--disabled-metrics`` and ``--allow-metric-labels``: which metrics are hidden, and which values of a label
are exposed. After component-base v0.36 ``metrics/options.go``. ``options`` parses them, ``app`` applies them to the
registry.
"""

from collections.abc import Mapping

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import FlagError, Parsed

with lazy_imports():
    from pilothouse.controllermanager import yaml_file

AllowedLabelValues = dict[str, dict[str, frozenset[str]]]


class MetricSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Names that are not exposed, and by metric and label the values that are."""

    disabled: tuple[str, ...] = ()
    allowed: AllowedLabelValues = {}


def metric_settings(parsed: Parsed) -> MetricSettings:
    """The settings of a command line; where flag and manifest name the same label, the flag counts.

    Raises ``FlagError``.
    """
    allowed: AllowedLabelValues = {}
    path = parsed["allow-metric-labels-manifest"]
    if path:
        _add(allowed, _manifest(path), f"--allow-metric-labels-manifest {path}")
    _add(allowed, parsed["allow-metric-labels"], "--allow-metric-labels")
    return MetricSettings(disabled=parsed["disabled-metrics"], allowed=allowed)


def _add(allowed: AllowedLabelValues, settings: Mapping[str, str], source: str) -> None:
    for key, values in settings.items():
        metric, comma, label = key.partition(",")
        if not metric or not comma or not label or "," in label:
            raise FlagError(f'{source}: "{key}" must have the format metricName,labelName')
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))


def _manifest(path: str) -> Mapping[str, str]:
    try:
        return msgspec.convert(yaml_file.read_mapping(path), dict[str, str])
    except (OSError, ValueError) as error:
        raise FlagError(f"--allow-metric-labels-manifest {path}: {error}") from error
