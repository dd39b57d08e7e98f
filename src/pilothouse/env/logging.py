"""Structured log lines in klog's text form, or as JSON.

``Log.info("Finished syncing", key="default/web")`` prints ``I1121 03:04:05.678901 4242 replicaset] "Finished syncing"
key="default/web"``. Verbosity follows klog: 0 is always shown, ``--v=N`` shows lines with ``v <= N``, ``--vmodule``
raises that for some loggers.

A line has the wall time of its event loop: in virtual time, and after a test has moved its clock, it is consistent with
the timestamps of objects and events.

Values often come from objects of users. They cannot forge lines or send terminal escape sequences: characters that are
not printable are escaped, and long values are truncated.
"""

import asyncio
import datetime
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol, TextIO, runtime_checkable

from pilothouse.env.clock import LoopClock

_ROOT = "pilothouse"
_LARGEST_BUFFER = 2 * 1024**3
_LONGEST = 8192
"""The maximum length of one value in characters."""


def _level(v: int) -> int:
    return logging.INFO - v if v < logging.INFO else 1


class _Verbosity:
    """The verbosity: ``v`` for all loggers, higher for those whose name matches one of the patterns."""

    def __init__(self) -> None:
        self.v = 0
        self.patterns: tuple[tuple[str, int], ...] = ()
        self.loggers: dict[str, logging.Logger] = {}

    def add(self, name: str, logger: logging.Logger) -> None:
        if name not in self.loggers:
            self.loggers[name] = logger
            self._apply(name, logger)

    def set(self, v: int, patterns: Sequence[tuple[str, int]] | None = None) -> None:
        self.v = v
        if patterns is not None:
            self.patterns = tuple(patterns)
        logging.getLogger(_ROOT).setLevel(_level(v))
        for name, logger in self.loggers.items():
            self._apply(name, logger)

    def _apply(self, name: str, logger: logging.Logger) -> None:
        fitting = [v for pattern, v in self.patterns if fnmatchcase(name, pattern)]
        # The first matching pattern applies; it never lowers the global verbosity (klog ``--vmodule``).
        logger.setLevel(_level(fitting[0]) if fitting and fitting[0] > self.v else logging.NOTSET)


_verbosity = _Verbosity()


class _LoopTime(logging.Filter):
    """Sets the time of a record to that of its loop, if that has its own clock (``env.virtual``, ``env.movable``)."""

    def filter(self, record: logging.LogRecord) -> bool:
        clock = getattr(asyncio._get_running_loop(), "clock", None)
        if isinstance(clock, LoopClock):
            now = clock.now()
            record.created, record.msecs = now.timestamp(), now.microsecond // 1000
            record.zone = clock.zone
        return True


_loop_time = _LoopTime()


class _LogLine:
    """A message and its values. Handlers without structured values, such as pytest's, append them to the message."""

    __slots__ = ("message", "values")

    def __init__(self, message: str, values: Mapping[str, object]) -> None:
        self.message = message
        self.values = values

    def __str__(self) -> str:
        return " ".join((self.message, *_pairs(self.values)))

    __repr__ = __str__


class Log:
    """A named logger. Values are keyword arguments and never interpolated into the message."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")
        self._logger.addFilter(_loop_time)
        _verbosity.add(name, self._logger)

    def enabled(self, v: int) -> bool:
        """Whether lines of this verbosity are shown. Check it before computing something only for the log."""
        return self._logger.isEnabledFor(_level(v))

    def info(self, message: str, /, *, v: int = 0, **values: object) -> None:
        """Log an event, at verbosity ``v``."""
        level = _level(v)
        if self._logger.isEnabledFor(level):
            self._logger.log(level, _LogLine(message, values), extra={"values": values}, stacklevel=2)

    def warning(self, message: str, /, **values: object) -> None:
        """Log something that an operator may want to change."""
        self._logger.warning(_LogLine(message, values), extra={"values": values}, stacklevel=2)

    def error(self, message: str, /, *, error: BaseException | None = None, **values: object) -> None:
        """Log a failure; ``error`` is printed as ``err=``."""
        if error is not None:
            values = {"err": str(error) or type(error).__name__, **values}
        self._logger.error(_LogLine(message, values), extra={"values": values}, stacklevel=2)

    def exception(self, message: str, /, error: BaseException, **values: object) -> None:
        """Log an unexpected exception, with its traceback."""
        self._logger.error(_LogLine(message, values), exc_info=error, extra={"values": values}, stacklevel=2)


class KlogFormatter(logging.Formatter):
    """klog's text form (``--logging-format=text``)."""

    def format(self, record: logging.LogRecord) -> str:
        letter = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
        when = datetime.datetime.fromtimestamp(record.created, getattr(record, "zone", None))
        name = record.name.removeprefix(_ROOT + ".")
        values: dict[str, object] = getattr(record, "values", {})
        head = f"{letter}{when:%m%d %H:%M:%S.%f} {os.getpid():7} {name}] {_quoted(_message(record))}"
        line = " ".join((head, *_pairs(values)))
        # Indented, so that the text of an exception cannot forge a line.
        return f"{line}\n{_indented(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line (``--logging-format=json``; component-base ``logs/json``, v0.36): ``ts`` in milliseconds
    since the epoch, ``v`` unless it is an error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": round(record.created * 1000, 3),
            "logger": record.name.removeprefix(_ROOT + "."),
            "msg": _cut(_message(record)),
        }
        if record.levelno < logging.WARNING:
            line["v"] = max(0, logging.INFO - record.levelno)
        elif record.levelno < logging.ERROR:
            line["severity"] = "warning"
        for key, value in getattr(record, "values", {}).items():
            # Most readers of JSON drop one of two members with the same name.
            line[key if key not in line else f"{key}_"] = _plain(value)
        if record.exc_info:
            line["stacktrace"] = _cut(self.formatException(record.exc_info))
        return json.dumps(line)


def _message(record: logging.LogRecord) -> str:
    line: object = record.msg
    return line.message if isinstance(line, _LogLine) else record.getMessage()


def _pairs(values: Mapping[str, object]) -> Iterator[str]:
    return (f"{key}={_quoted(value)}" for key, value in values.items())


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no infinity
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value[:100]]
    if isinstance(value, _LogMarshaler):
        return {name: _plain(part) for name, part in value.marshal_log().items()}
    return _cut(str(value))


@runtime_checkable
class _LogMarshaler(Protocol):
    """Logged as a JSON object, and as ``str`` of it in text (logr's ``Marshaler``)."""

    def marshal_log(self) -> Mapping[str, object]: ...


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more)"


_UNPRINTABLE = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


def _escaped(text: str) -> str:
    return re.sub(_UNPRINTABLE, lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)


def _indented(text: str) -> str:
    return "\n".join(f"  {_escaped(line)}" for line in _cut(text).split("\n"))


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if value is None or isinstance(value, list | tuple):
        # As klog for values that are neither strings nor ``Stringer`` (``internal/serialize``, v2.130).
        return _escaped(_cut(json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))))
    return _escaped(json.dumps(_cut(str(value)), ensure_ascii=False))


class Streams(NamedTuple):
    """The streams of a program's log, for ``configure`` and ``flush``."""

    split: bool = False
    """Whether lines that are no errors are written to standard output."""
    info_buffer: int = 0
    """The buffer size of that stream in bytes; only used with split streams."""
    flush_seconds: float = 5.0


ONE_STREAM = Streams()
"""Everything to standard error, unbuffered."""


class _Buffered:
    """Buffers whole lines until the buffer is full or flushed (``logs/api/v1/text.go``, v0.36)."""

    def __init__(self, stream: TextIO, size: int) -> None:
        self._stream = stream
        self._size = min(size, _LARGEST_BUFFER)
        self._lines: list[str] = []
        self._length = 0

    def write(self, line: str) -> None:
        length = len(line.encode("utf-8", "backslashreplace")) if self._size else 0
        if self._length + length > self._size:
            self.flush()
        if length <= self._size and self._size > 0:
            self._lines.append(line)
            self._length += length
        else:
            self._put(line)

    def flush(self) -> None:
        if self._lines:
            text = "".join(self._lines)
            self._lines, self._length = [], 0
            self._put(text)

    def _put(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class _SplitHandler(logging.Handler):
    """Errors to one stream, unbuffered; everything else to another, possibly buffered."""

    def __init__(self, info: _Buffered, error: TextIO, error_level: int) -> None:
        super().__init__()
        self._info = info
        self._error = error
        self._error_level = error_level

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n"
            if record.levelno < self._error_level:
                self._info.write(line)
            else:
                self._error.write(line)
                self._error.flush()
        except Exception:  # noqa: BLE001  # as in every handler: what can't be logged must not end the program
            self.handleError(record)

    def flush(self) -> None:
        with self.lock or nullcontext():
            self._info.flush()


def configure(
    *,
    v: int = 0,
    vmodule: Sequence[tuple[str, int]] = (),
    json_lines: bool = False,
    stream: TextIO | None = None,
    info_stream: TextIO | None = None,
    info_buffer: int = 0,
) -> None:
    """Send pilothouse's log to ``stream`` (standard error by default) with verbosity ``v``.

    ``vmodule`` sets the verbosity of loggers whose name matches a pattern (``replicaset*``), if it is higher. With
    ``info_stream`` lines that are no errors go there, and up to ``info_buffer`` bytes of them are buffered until
    ``flush``. In text format warnings count as errors, in JSON they do not: as in upstream's two formats.
    """
    handler: logging.Handler
    if info_stream is None:
        handler = logging.StreamHandler(stream or sys.stderr)
    else:
        level = logging.ERROR if json_lines else logging.WARNING
        handler = _SplitHandler(_Buffered(info_stream, info_buffer), stream or sys.stderr, level)
    handler.setFormatter(JsonFormatter() if json_lines else KlogFormatter())
    root = logging.getLogger(_ROOT)
    flush()
    root.handlers[:] = [handler]
    root.propagate = False
    _verbosity.set(v, vmodule)


def flush() -> None:
    """Write the buffered lines. Call it before the process is ended without cleanup."""
    for handler in logging.getLogger(_ROOT).handlers:
        if not getattr(getattr(handler, "stream", None), "closed", False):
            handler.flush()


def set_verbosity(v: int) -> None:
    """Change the verbosity of all loggers."""
    _verbosity.set(v)


@contextmanager
def info_log() -> Iterator[None]:
    """Enable the package's log from INFO on in a block. It is written to standard error if nothing handles it."""
    logger = logging.getLogger(_ROOT)
    old_level, handler = logger.level, None
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(KlogFormatter())
        logger.addHandler(handler)
    logger.setLevel(min(logging.INFO, logger.getEffectiveLevel()))
    try:
        yield
    finally:
        logger.setLevel(old_level)
        if handler is not None:
            logger.removeHandler(handler)


@contextmanager
def without_log() -> Iterator[None]:
    """Disable the package's log in a block: with faults there are thousands of expected lines."""
    logger = logging.getLogger("pilothouse")
    old_level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(old_level)
