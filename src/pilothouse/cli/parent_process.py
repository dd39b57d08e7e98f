"""Programs that end with the process that has started them, such as a test suite, also when that is killed.

``end_with_standard_input``: the parent holds the other end of a pipe. That works on every platform and from every
language, and the kernel closes it. Tor's pluggable transports (``TOR_PT_EXIT_ON_STDIN_CLOSE``) and esbuild do the same.
Linux's ``PR_SET_PDEATHSIG`` is about the thread that has started the process, which may end before the suite does.

``end_with_parent``: nobody passes a pipe or a flag to programs with another's name, so they compare their parent's id.

Both end as after SIGTERM.
"""

import contextlib
import os
import signal
import stat
import sys
import threading
import time  # noqa: TID251  # waits for a real process
from collections.abc import Callable
from pathlib import Path

_STDIN = 0
_POLL_SECONDS = 0.5
"""Between two checks of the parent's id."""


def has_pipe() -> bool:
    """Whether standard input is a pipe, or a socket, which Node.js uses instead."""
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def end_with_standard_input(message: str) -> None:
    """Print the message and end when everybody who could write to the pipe has closed it. Data is ignored."""

    def wait() -> None:
        with contextlib.suppress(ConnectionError):  # a socket that was closed with unread data
            while os.read(_STDIN, 65536):
                pass
        with contextlib.suppress(OSError):  # not print: nobody may read it any more
            os.write(2, f"{message}\n".encode())

    _end_after(wait)


def end_with_parent(number: int) -> None:
    """End when the parent has ended, if it is a test suite. ``number`` is its id, read as early as possible: if it has
    ended since, another process is the parent."""

    def wait() -> None:
        while os.getppid() == number and not is_orphan:
            time.sleep(_POLL_SECONDS)

    if number > 0 and _is_of_suite(number):
        is_orphan = not _is_in_this_session(number)
        _end_after(wait)


def _is_in_this_session(parent: int) -> bool:
    """A session is inherited. A parent in another one has adopted this process, whose own parent ended before."""
    try:
        return os.getsid(parent) == os.getsid(0)
    except ProcessLookupError:
        return False
    except PermissionError:  # some systems do not tell, POSIX allows that
        return True


def _is_of_suite(parent: int) -> bool:
    """Whether this process was started with a process group of its own, as by Go's envtest, or with a pipe as standard
    input, as by Java's ``ProcessBuilder``.

    What ``nohup``, ``setsid``, a script with ``&`` (there the shell ignores SIGINT) or a person in a terminal has
    started is meant to continue without its parent.
    """
    if os.getsid(0) == os.getpid():
        return False
    if any(_is_ignored_here(number, parent) for number in (signal.SIGINT, signal.SIGHUP)):
        return False
    return has_pipe() or (os.getpgrp() == os.getpid() and not sys.stdin.isatty())


def _is_ignored_here(number: signal.Signals, parent: int) -> bool:
    """Whether the signal is ignored, and the parent does not ignore it, too: a CI service that was itself started with
    ``nohup`` passes that on to all processes of its jobs."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        return False
    try:
        status = Path(f"/proc/{parent}/status").read_text()
    except OSError:  # no Linux, or it has just ended
        return True
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:")]
    return not any(mask >> number - 1 & 1 for mask in masks)


def _end_after(wait: Callable[[], None]) -> None:
    def run() -> None:
        wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="parent process", daemon=True).start()
