"""Structured log lines in klog's text form.

``Log.info("Finished syncing", key="default/web")`` prints
``I1121 03:04:05.678901   4242 replicaset] "Finished syncing" key="default/web"``. Verbosity follows klog: 0 is always
shown, ``--v=N`` shows lines with ``v <= N``.
"""

import json
import logging
import os
import sys
import time
from typing import TextIO

_ROOT = "pilothouse"


def _level(v: int) -> int:
    return max(1, logging.INFO - v)


class Log:
    """A named logger. Values are given as keywords and never interpolated into the message."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    def enabled(self, v: int) -> bool:
        """Whether lines of this verbosity are shown. Ask before computing something only for the log."""
        return self._logger.isEnabledFor(_level(v))

    def info(self, message: str, /, *, v: int = 0, **values: object) -> None:
        """Something that happened, at verbosity ``v``."""
        level = _level(v)
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={"values": values})

    def warning(self, message: str, /, **values: object) -> None:
        """Something an operator may want to change."""
        self._logger.warning(message, extra={"values": values})

    def error(self, message: str, /, *, error: BaseException | None = None, **values: object) -> None:
        """Something that failed; ``error`` is printed as ``err=``."""
        if error is not None:
            values = {"err": str(error) or type(error).__name__, **values}
        self._logger.error(message, extra={"values": values})

    def exception(self, message: str, /, error: BaseException, **values: object) -> None:
        """An unexpected exception, with its traceback."""
        self._logger.error(message, exc_info=error, extra={"values": values})


class KlogFormatter(logging.Formatter):
    """klog's text form (``--logging-format=text``)."""

    def format(self, record: logging.LogRecord) -> str:
        letter = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
        when = time.localtime(record.created)
        micros = int(record.created % 1 * 1_000_000)
        name = record.name.removeprefix(_ROOT + ".")
        parts = [
            f"{letter}{when.tm_mon:02}{when.tm_mday:02} {when.tm_hour:02}:{when.tm_min:02}:{when.tm_sec:02}.{micros:06}"
            f" {os.getpid():7} {name}] {json.dumps(record.getMessage(), ensure_ascii=False)}"
        ]
        values: dict[str, object] = getattr(record, "values", {})
        parts.extend(f"{key}={_quoted(value)}" for key, value in values.items())
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False)


def configure(*, v: int = 0, stream: TextIO | None = None) -> None:
    """Send pilothouse's log to ``stream`` (standard error by default) with verbosity ``v``."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(KlogFormatter())
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(_level(v))
    root.propagate = False
