"""Standard input, output and error of this program: closed ones, full disks, closed pipes and other encodings."""

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable

_NAMES = ("stdin", "stdout", "stderr")
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_ESCAPED = "pilothouse.escaped"


def prepare() -> None:
    """Open ``/dev/null`` for closed streams, and let standard output escape the characters that its encoding lacks.

    As Go's runtime does (``runtime/fds_unix.go``): otherwise the next files that are opened are numbered 0 to 2, and
    are written to, replaced in child processes, or rejected by libuv.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # Escapes of JSON, so that `-o json` is still the same value.
        codecs.register_error(_ESCAPED, _escape)
        sys.stdout.reconfigure(errors=_ESCAPED)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


def takes_unicode() -> bool:
    """Whether standard output can show every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def written(command: Callable[[], int]) -> int:
    """Run a command, and return its exit code: 141, as after SIGPIPE, if the reader of its output has exited, and 1
    with an error on a full disk."""
    try:
        code = command()
        sys.stdout.flush()  # buffered output must fail here, not at exit
        return code
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard_output()
        with contextlib.suppress(OSError):  # that is full, too
            print(f"Error: unable to write the output: {error.strerror}", file=sys.stderr)
        return 1


def _discard_output() -> None:
    """Discard what is still buffered: the interpreter must not report the same at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):  # a replacement without a descriptor
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
