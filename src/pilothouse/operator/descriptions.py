"""Descriptions of the fields of a view: the docstring below a field, as in this package.

Python only keeps the docstrings of classes; those of fields are read from the source of the module. Without source (in
an interactive session) fields have no descriptions.
"""

import ast
import functools
import inspect
import sys
from typing import Any


def class_description(cls: type[Any]) -> str:
    """The first paragraph of the docstring, in one line."""
    # Not getdoc: that of a base class does not describe this one.
    return _first_paragraph(cls.__dict__.get("__doc__") or "")


def field_descriptions(cls: type[Any]) -> dict[str, str]:
    """The first paragraph of each field's docstring, including inherited fields."""
    descriptions: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        descriptions |= _by_class(base.__module__).get(base.__qualname__, {})
    return descriptions


@functools.cache
def _by_class(module: str) -> dict[str, dict[str, str]]:
    """By the qualified name of a class, of all classes of a module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return {}
    descriptions: dict[str, dict[str, str]] = {}
    _collect(tree, "", descriptions)
    return descriptions


def _collect(node: ast.AST, prefix: str, descriptions: dict[str, dict[str, str]]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            descriptions[f"{prefix}{child.name}"] = dict(_fields(child))
            _collect(child, f"{prefix}{child.name}.", descriptions)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            _collect(child, f"{prefix}{child.name}.<locals>.", descriptions)
        else:
            _collect(child, prefix, descriptions)


def _fields(node: ast.ClassDef) -> "list[tuple[str, str]]":
    return [
        (statement.target.id, _first_paragraph(below.value.value))
        for statement, below in zip(node.body, node.body[1:], strict=False)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    ]


def _first_paragraph(text: str) -> str:
    return inspect.cleandoc(text).split("\n\n")[0].replace("\n", " ")
