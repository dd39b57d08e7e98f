"""Descriptions of the fields of scenarios, from their docstrings, for the JSON Schema and the reference.

Docstrings of fields are not available at run time, so they are parsed from the source.
"""

import ast
import functools
import inspect
import textwrap

import msgspec


@functools.cache
def field_descriptions(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The descriptions by encoded field name, including inherited fields."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    descriptions: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            for name, text in _of_class(base).items():
                descriptions[names[name]] = text
    return descriptions


@functools.cache
def _of_class(kind: type) -> dict[str, str]:
    parsed = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(parsed, ast.ClassDef), "the source is a class definition"
    descriptions: dict[str, str] = {}
    field = ""
    for statement in parsed.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            field = statement.target.id
            continue
        if field and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            text = statement.value.value
            if isinstance(text, str):
                descriptions[field] = " ".join(text.split())
        field = ""
    return descriptions


def class_description(kind: type) -> str:
    """The docstring, in one line."""
    return " ".join((kind.__doc__ or "").split())
