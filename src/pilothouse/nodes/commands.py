"""Faults of a simulated node that annotations of its Node request. Pure; ``heartbeats`` applies them.

``simulated.pilothouse.dev/fault``: ``silent``, ``slow=5s``, ``gone``, ``out-of-service``; ``…/pressure``: ``memory``,
``disk``, ``pids``, each optionally with the amount to free (``memory=1Gi``); several are separated by commas.
``…/boot``: any text; a new one reboots the node.
"""

from collections.abc import Mapping

import msgspec

from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.nodes.eviction_manager import CONDITIONS

_SLOW_SECONDS = 5.0


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """The requested faults of one node."""

    silent: bool = False
    gone: bool = False
    out_of_service: bool = False
    slow_seconds: float = 0.0
    pressures: Mapping[str, int | None] = {}
    boot: str = ""
    invalid_annotations: tuple[str, ...] = ()
    """Error messages."""

    @property
    def faults(self) -> frozenset[str]:
        """The faults with which the node sends nothing."""
        faults = {"silent": self.silent, "gone": self.gone, "out-of-service": self.out_of_service}
        return frozenset(name for name, enabled in faults.items() if enabled)


def commands_of(annotations: Mapping[str, str]) -> Commands:
    """Read the annotations of a Node."""
    own = {key[len(PREFIX) :]: text for key, text in annotations.items() if key.startswith(PREFIX)}
    if not own:
        return _NONE
    wrong = [
        f"annotation {PREFIX}{key}: no such key" for key in sorted(own) if key not in ("fault", "pressure", "boot")
    ]
    words: set[str] = set()
    slow = 0.0
    for part in _parts(own.get("fault", "")):
        word, _equals, value = part.partition("=")
        if word == "slow":
            try:
                slow = parse_duration(value) if value else _SLOW_SECONDS
            except DurationError as error:
                wrong.append(f"annotation {PREFIX}fault: {error}")
        elif part in ("silent", "gone", "out-of-service"):
            words.add(part)
        else:
            wrong.append(f"annotation {PREFIX}fault: {part!r} is none of silent, slow, gone, out-of-service")
    pressures: dict[str, int | None] = {}
    for part in _parts(own.get("pressure", "")):
        word, _equals, value = part.partition("=")
        if word not in CONDITIONS:
            wrong.append(f"annotation {PREFIX}pressure: {word!r} is none of {', '.join(CONDITIONS)}")
            continue
        try:
            pressures[word] = parse_quantity(value).value if value else None
        except QuantityError as error:
            wrong.append(f"annotation {PREFIX}pressure: {error}")
    return Commands(
        silent="silent" in words,
        gone="gone" in words,
        out_of_service="out-of-service" in words,
        slow_seconds=slow,
        pressures=pressures,
        boot=own.get("boot", ""),
        invalid_annotations=tuple(wrong),
    )


_NONE = Commands()


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
