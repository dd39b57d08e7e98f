"""Cron schedules, as far as a server has to judge them: whether the text is one.

The grammar and the words are those of robfig/cron v3's standard parser (``parser.go``), which kubernetes uses.
"""

from pilothouse.machinery.durations import DurationError, parse_nanoseconds

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class CronError(ValueError):
    """The text is no schedule; the message says why, in the parser's words."""


def check_schedule(text: str) -> None:
    """Raise ``CronError`` unless the text is a schedule: five fields, ``@every 1h`` or a name such as ``@daily``."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        _check_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            _check_range(part, low, high, names)


def _check_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if text.startswith("@every "):
        try:
            parse_nanoseconds(text.removeprefix("@every "))
        except DurationError as error:
            raise CronError(f"failed to parse duration {text}: {error}") from None
        return
    raise CronError(f"unrecognized descriptor: {text}")


def _check_range(part: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = part.split("/")
    bounds = span.split("-")
    if bounds[0] in ("*", "?"):
        start, end = low, high
    else:
        start = end = _number(bounds[0], names)
        if len(bounds) == 2:
            end = _number(bounds[1], names)
        elif len(bounds) > 2:
            raise CronError(f"too many hyphens: {part}")
    if len(steps) > 1:
        raise CronError(f"too many slashes: {part}")
    step = 1
    if steps:
        step = _integer(steps[0])
        if len(bounds) == 1:
            end = high
    if start < low:
        raise CronError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise CronError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {part}")


def _number(text: str, names: dict[str, int]) -> int:
    known = names.get(text.lower())
    return _integer(text) if known is None else known


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number
