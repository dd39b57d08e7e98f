"""The command line that repeats a run."""

import shlex
from collections.abc import Sequence

import msgspec

from pilothouse.simulate.seeds import shown_parts


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command besides the seeds."""

    program: str
    path: str
    settings: tuple[str, ...] = ()
    """``PATH=VALUE``, for every run."""

    def command(self, seed: int, parts: Sequence[int] | None, settings: Sequence[str] = ()) -> str:
        """The quoted command line. ``parts`` None selects all parts; ``settings`` are those of the variant."""
        words = [*self.program.split(), self.path, "--seeds", str(seed)]
        if parts is not None:
            words += ["--only", shown_parts(parts)]
        for setting in (*self.settings, *settings):
            words += ["--set", setting]
        return shlex.join(words)
