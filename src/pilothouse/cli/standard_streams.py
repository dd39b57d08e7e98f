"""Standard input, output and error of this program: closed ones, full disks, closed pipes and other encodings."""

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NAMES = ("stdin", "stdout", "stderr")
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_ESCAPED = "pilothouse.escaped"


class OutputFailed(BaseException):
    """Standard output can't be written: its reader has exited, or the disk is full.

    No ``OSError``: commands catch those of the files and connections that they use, around code that prints, too. No
    ``SystemExit``, at which event loops stop before other tasks have ended.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Output(io.FileIO):
    """Standard output, whose errors end the program."""

    is_log = False
    """Whether it is a log. What can't be logged must not end a program."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.is_log or not (isinstance(error, BrokenPipeError) or error.errno in _FULL):
                raise
            raise OutputFailed(error) from None


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
    if isinstance(sys.stdout, io.TextIOWrapper) and _fails(sys.stdout):
        # Escapes of JSON, so that `-o json` is still the same value.
        codecs.register_error(_ESCAPED, _escape)
        sys.stdout.reconfigure(errors=_ESCAPED)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.platform != "win32":
        _end_program_on_errors(sys.stdout)


def _fails(stdout: io.TextIOWrapper) -> bool:
    """Whether characters that the encoding lacks are errors. In the C locale undecodable bytes of names are written
    unchanged (``surrogateescape``), and other characters fail unless Python takes the locale for UTF-8."""
    return stdout.errors == "strict" or (stdout.errors == "surrogateescape" and not takes_unicode())


def _end_program_on_errors(stdout: io.TextIOWrapper) -> None:
    stdout.flush()
    try:
        number = stdout.fileno()
    except io.UnsupportedOperation:
        return  # a program that calls this one reads its output from memory
    output = _Output(number, "w", closefd=False)
    is_buffered = isinstance(stdout.buffer, io.BufferedWriter)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output) if is_buffered else output,  # as `python -u` does
        encoding=stdout.encoding,
        errors=stdout.errors,
        newline="\n",
        line_buffering=stdout.line_buffering,
        write_through=stdout.write_through,
    )


def for_logs() -> TextIO:
    """Standard output for the lines of a log: every text can be written, and errors do not end the program."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error is: no text may keep a line from being written.
        sys.stdout.reconfigure(errors="backslashreplace")
        raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        if isinstance(raw, _Output):
            raw.is_log = True
    return sys.stdout


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
    except OutputFailed as failed:
        return _failed(failed.error)
    except OSError as error:  # of standard error, or of a replaced standard output
        if not isinstance(error, BrokenPipeError) and error.errno not in _FULL:
            raise
        return _failed(error)


def _failed(error: OSError) -> int:
    _discard_output()
    if isinstance(error, BrokenPipeError):
        return 141
    with contextlib.suppress(OSError):  # that is full, too
        print(f"Error: unable to write the output: {error.strerror}", file=sys.stderr)
    return 1


def _discard_output() -> None:
    """Discard what is still buffered: the interpreter must not report the same at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, OutputFailed):
            with contextlib.suppress(OSError, ValueError):  # a replacement without a descriptor
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
