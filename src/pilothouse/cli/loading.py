"""Ctrl-C while the modules of a command are loaded."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def interrupted_while_loading() -> Iterator[None]:
    """End the program on Ctrl-C within the block as a command does, without a traceback.

    The user does not know how far the command was: the message says that it had not begun.
    """
    try:
        yield
    except KeyboardInterrupt:
        print("\nInterrupted: nothing was done", file=sys.stderr)
        raise SystemExit(130) from None
