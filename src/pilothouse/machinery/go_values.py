"""Decoded JSON as Go prints it: ``%v``, ``%#v`` and ``%T`` of ``map[string]interface{}`` and its contents.

Messages of server-side apply show invalid values this way (``field_walks``).
"""

from typing import Any

from pilothouse.machinery.field_sets import json_text


def type_name(value: Any) -> str:
    """``%T``: the Go type."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case _:
            return "<nil>"


def plain(value: Any) -> str:
    """``%v``."""
    match value:
        case dict():
            return "map[" + " ".join(f"{name}:{plain(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(plain, value)) + "]"
        case str():
            return value
        case None:
            return "<nil>"
        case _:
            return json_text(value)


def source(value: Any) -> str:
    """``%#v``."""
    match value:
        case dict():
            inside = ", ".join(f"{json_text(name)}:{source(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inside}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(source, value)) + "}"
        case None:
            return "interface {}(nil)"
        case _:
            return json_text(value)


def pointed(value: Any) -> str:
    """``%v`` of a pointer to a struct that contains the value."""
    return f"&{{{plain(value)}}}"
