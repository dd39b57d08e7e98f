"""Answers kept in files. A test compares what it found with its file; ``pytest --write-golden`` writes the file anew.

Whoever writes one reads the difference before committing it, and says in the test where the answers come from.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Answers = Mapping[str, Sequence[Any]]
"""By the name of a case, its answers (or lines of text) one after the other."""


class Golden:
    """The files of one test module: ``golden/NAME.json`` beside it."""

    def __init__(self, directory: Path, *, write: bool) -> None:
        self._directory = directory
        self._write = write

    def check(self, name: str, found: Answers) -> None:
        """Fail with every case that differs, the kept answers first."""
        path = self._directory / f"{name}.json"
        if self._write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(_text(found), encoding="utf-8")
        kept: Answers = json.loads(path.read_text(encoding="utf-8"))
        plain: Answers = json.loads(json.dumps(found))
        differing = [case for case in {**kept, **plain} if kept.get(case) != plain.get(case)]
        assert not differing, "\n".join(line for case in differing for line in _difference(case, kept, plain))


def _text(found: Answers) -> str:
    """An answer to a line, so that a difference between two versions of the file is read at once."""
    cases = []
    for case, answers in found.items():
        lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
        cases.append(f"{json.dumps(case, ensure_ascii=False)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(cases) + "\n}\n"


def _difference(case: str, kept: Answers, found: Answers) -> list[str]:
    before, after = list(kept.get(case, ())), list(found.get(case, ()))
    lines = [f"{case}:"]
    for number in range(max(len(before), len(after))):
        one, other = (repr(answers[number]) if number < len(answers) else "nothing" for answers in (before, after))
        if one != other:
            lines += [f"  {number} kept:  {one}", f"  {number} found: {other}"]
    return lines
