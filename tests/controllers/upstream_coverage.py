"""Which test of ours mirrors which case of an upstream test file, so that none is missing.

A map says for each upstream case the function of ours that has it, or ``NOT`` and why it can't apply.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

NOT = "does not apply: "

Cases = Mapping[str, str]
"""Function of ours, or reason, by upstream case: ``TestName`` or ``TestName: case``."""


def functions_in(directory: Path) -> set[str]:
    """Every test function in the modules of a folder."""
    found: set[str] = set()
    for path in sorted(directory.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found.add(node.name)
    return found


def missing(cases: Cases, directory: Path) -> list[str]:
    """Cases whose function does not exist, and reasons that are empty."""
    known = functions_in(directory)
    return [
        f"{case}: {target}"
        for case, target in cases.items()
        if (target not in known if not target.startswith(NOT) else len(target) < len(NOT) + 10)
    ]
