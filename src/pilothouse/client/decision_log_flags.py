"""``--decision-log`` and its rotation: the flags of every program that writes to an API server.

The flags for rotation have the names and meaning of kube-apiserver's for the audit log.
"""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import INT, Flag, FlagError, FlagSet, FlagType, Parsed

if TYPE_CHECKING:
    from pilothouse.client.decision_log import DecisionLog
    from pilothouse.machinery.metrics import Registry

with lazy_imports():
    from pilothouse.client import decision_log
    from pilothouse.env import log_files

_FILE = FlagType("path", str)
_SIZES = ("decision-log-maxsize", "decision-log-maxbackup", "decision-log-maxage")


def add_decision_log_flags(flags: FlagSet, *, extra: bool = False) -> None:
    """Add the flags. ``extra``: to those of a program that has upstream's flags."""
    flags.add(
        "decision log",
        Flag(
            "decision-log",
            _FILE,
            "",
            "If set, writes to the API server are recorded in this file, with the decisions that led to them, as JSON "
            "lines. '-' means standard out.",
            extra=extra,
        ),
        Flag(
            "decision-log-maxsize",
            INT,
            100,
            "The maximum size in megabytes of the decision log file before it gets rotated. 0 disables rotation.",
            extra=extra,
        ),
        Flag(
            "decision-log-maxbackup",
            INT,
            10,
            "The maximum number of old decision log files to retain. 0 means that there is no limit.",
            extra=extra,
        ),
        Flag(
            "decision-log-maxage",
            INT,
            0,
            "The maximum number of days to retain old decision log files. 0 means that there is no limit.",
            extra=extra,
        ),
    )


class DecisionLogOptions(msgspec.Struct, frozen=True):
    """The settings of the flags. Without a path there is no log."""

    path: str = ""
    max_megabytes: int = 100
    max_backups: int = 10
    max_age_days: int = 0

    def open(self, env: Env, metrics: "Registry | None" = None) -> "DecisionLog | None":
        """The log. Raises ``OSError`` if it can't be written."""
        if not self.path:
            return None
        rotation = log_files.Rotation(self.max_megabytes, self.max_age_days, self.max_backups)
        try:
            return decision_log.DecisionLog(env, self.path, rotation, metrics)
        except FileExistsError as error:
            raise OSError(
                f"--decision-log {self.path} can't be written: {error.filename} is not a directory"
            ) from error
        except OSError as error:
            raise OSError(f"--decision-log {self.path} can't be written: {error.strerror or error}") from error


def decision_log_options(parsed: Parsed) -> DecisionLogOptions:
    """The settings of the flags. Raises ``FlagError``."""
    for name in _SIZES:
        if parsed[name] < 0:
            raise FlagError(f"--{name} {parsed[name]} can't be a negative number")
        if name in parsed.given and not parsed["decision-log"]:
            raise FlagError(f"--{name} needs --decision-log")
    return DecisionLogOptions(str(parsed["decision-log"]), *(parsed[name] for name in _SIZES))
