"""Golden files. A test compares its results with a file; ``pytest --write-golden`` rewrites the file.

Review the difference before committing it, and document in the test where the expected results are from.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Results = Mapping[str, Sequence[Any]]
"""The results (or lines of text) of each case, by its name."""


class Golden:
    """The files of one test module: ``golden/NAME.json`` beside it."""

    def __init__(self, directory: Path, *, write: bool) -> None:
        self._directory = directory
        self._write = write

    def check(self, name: str, output: Results) -> None:
        """Fail with every case that differs from the file, in the order of the file."""
        path = self._directory / f"{name}.json"
        if self._write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(_text(output), encoding="utf-8")
        expected: Results = json.loads(path.read_text(encoding="utf-8"))
        plain: Results = json.loads(json.dumps(output))
        differing = [case for case in {**expected, **plain} if expected.get(case) != plain.get(case)]
        assert not differing, "\n".join(line for case in differing for line in _difference(case, expected, plain))


def _text(text: Results) -> str:
    """JSON with one result per line, for readable differences between versions of the file."""
    cases = []
    for case, results in text.items():
        lines = ",\n".join(json.dumps(result, ensure_ascii=False) for result in results)
        cases.append(f"{json.dumps(case, ensure_ascii=False)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(cases) + "\n}\n"


def _difference(case: str, expected: Results, text: Results) -> list[str]:
    before, after = list(expected.get(case, ())), list(text.get(case, ()))
    lines = [f"{case}:"]
    for number in range(max(len(before), len(after))):
        one, other = (repr(results[number]) if number < len(results) else "nothing" for results in (before, after))
        if one != other:
            lines += [f"  {number} expected: {one}", f"  {number} found:    {other}"]
    return lines
