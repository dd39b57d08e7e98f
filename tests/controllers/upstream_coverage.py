"""Coverage of upstream's test cases: which test here mirrors which case of an upstream test file.

A mapping has for each upstream case the test function, or ``NOT`` and the reason why it does not apply.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

NOT = "does not apply: "

Cases = Mapping[str, str]
"""Test function or reason by upstream case: ``TestName`` or ``TestName: case``."""


def functions_in(directory: Path) -> set[str]:
    """The test functions in the modules of a directory."""
    result: set[str] = set()
    for path in sorted(directory.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                result.add(node.name)
    return result


def missing(cases: Cases, directory: Path) -> list[str]:
    """Cases whose function does not exist, and empty reasons."""
    functions = functions_in(directory)
    return [
        f"{case}: {target}"
        for case, target in cases.items()
        if (target not in functions if not target.startswith(NOT) else len(target) < len(NOT) + 10)
    ]
