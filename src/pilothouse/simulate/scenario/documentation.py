"""``docs/scenario-reference.md``, from the types: ``python -m pilothouse.simulate.scenario.documentation``."""

import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from pilothouse.simulate.named_invariants import factories_by_name
from pilothouse.simulate.scenario import actions, scalars, schema
from pilothouse.simulate.scenario.descriptions import class_description, field_descriptions
from pilothouse.simulate.scenario.json_schema import kinds

_HEAD = """# Scenario reference

<!-- Written by `python -m pilothouse.simulate.scenario.documentation`; a test keeps it up to date. -->

Every field of a scenario. [Simulations](simulate.md) explains how to write one, and `pilothouse simulate --schema`
prints the same as JSON Schema ([simulate.schema.json](simulate.schema.json)).

A *duration* is written as `90s`, `10m`, `1h30m`, `1d12h` or `2w`, a *quantity* as Kubernetes' (`500m`, `8`, `32Gi`), a
*share* as a number or a percentage (`1`, `25%`). Files are named relative to the scenario. Unknown fields are errors.
"""
_SCALARS = {scalars.Duration: "duration", scalars.Quantity: "quantity", scalars.Share: "share"}
_WORDS = {str: "text", int: "number", float: "number", bool: "true or false", dict: "mapping", list: "list"}
_BASES: tuple[type[msgspec.Struct], ...] = (actions.Target, actions.NodeSelection, actions.PodSelection, schema.Rule)
_FIRST = ("ScenarioFile", "Metadata", "Spec")
_ACTION_FIELDS = frozenset(actions.ACTIONS)


def page() -> str:
    """The text of the page."""
    by_name = {kind.__name__: kind for kind in kinds()}
    used = _used(by_name)
    first = [by_name[name] for name in _FIRST]
    of_actions = {struct.__name__ for struct in by_name.values() if struct.__module__ == actions.__name__}
    rest = [kind for name, kind in by_name.items() if name in used and kind not in first and name not in of_actions]
    lines = [_HEAD, "## The file"]
    for kind in [*first, *rest]:
        lines += _section(kind)
    lines += ["", "## The timeline", ""]
    lines += [*_section(actions.Entry, "An entry")][1:]
    for name, kind in by_name.items():
        if name in of_actions and (name in used or kind in _BASES) and kind is not actions.Entry:
            lines += _section(kind)
    lines += ["", "## Invariants", "", "Names for `expect.invariants`, and what is checked:", ""]
    lines += [f"* `{name}`: {_checked(invariant)}" for name, invariant in factories_by_name().items()]
    return "\n".join(lines).rstrip() + "\n"


def _checked(create: Any) -> str:
    """What an invariant checks, which is in the docstring of its module, and where, if the class restricts that."""
    kind = create if isinstance(create, type) else type(create())
    subject = _first_sentence(inspect.getdoc(sys.modules[kind.__module__]) or "").removeprefix("Invariants of ")
    scope = _first_sentence(class_description(kind))
    is_restricted = any(word in scope for word in (" if ", " in which ", "Without ", "namespace default"))
    if scope.startswith(("All ", "One ")):
        scope = f"Applies to {scope[:1].lower()}{scope[1:]}"
    return _escaped(f"{subject[:1].upper()}{subject[1:]}{f' {scope}' if is_restricted else ''}")


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _used(by_name: dict[str, type[msgspec.Struct]]) -> set[str]:
    """The names of the types that a scenario file contains, at any depth."""
    used: set[str] = set()
    todo: list[Any] = [schema.ScenarioFile]
    while todo:
        kind = todo.pop()
        name = kind.__name__ if isinstance(kind, type) else ""
        if by_name.get(name) is kind:
            if name not in used:
                used.add(name)
                todo += typing.get_type_hints(kind).values()
        else:
            todo += typing.get_args(kind)
    return used


def _section(kind: type[msgspec.Struct], title: str = "") -> Iterator[str]:
    yield ""
    yield f"### {title or kind.__name__}"
    yield ""
    base = next((ancestor for ancestor in kind.__mro__[1:] if ancestor in _BASES), None)
    more = "" if base is None else f" Besides these fields it has those of {_shown(base)}."
    yield _escaped(class_description(kind)) + more
    own = [field for field in msgspec.structs.fields(kind) if base is None or field.name not in _names(base)]
    if not own:
        return
    yield ""
    yield "| Field | Value | Meaning |"
    yield "|---|---|---|"
    hints, texts = typing.get_type_hints(kind), field_descriptions(kind)
    for field in own:
        meaning = texts.get(field.encode_name, "")
        hint = hints[field.name]
        target = _only_struct(hint)
        if not meaning and target is not None:
            meaning = class_description(target)
        if kind is actions.Entry and field.name in _ACTION_FIELDS:
            meaning = f"*action.* {meaning}"
        default = _default(field)
        yield f"| `{field.encode_name}` | {_shown(hint)}{default} | {_escaped(meaning)} |"


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def _only_struct(hint: Any) -> type[msgspec.Struct] | None:
    classes = [alternative for alternative in (hint, *typing.get_args(hint)) if isinstance(alternative, type)]
    structs = [alternative for alternative in classes if issubclass(alternative, msgspec.Struct)]
    return structs[0] if len(structs) == 1 else None


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ", required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value in (None, "", (), {}, False, 0) or isinstance(value, msgspec.Struct | tuple):
        return ""
    default_text = scalars.shown_seconds(value) if isinstance(value, scalars.Duration) else value
    return f", default `{str(default_text).lower() if isinstance(default_text, bool) else default_text}`"


def _shown(hint: Any) -> str:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{'an-entry' if hint is actions.Entry else hint.__name__.lower()})"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_shown(argument) for argument in arguments if argument is not type(None)))
    if origin in (tuple, list):
        return f"list of {_shown(arguments[0])}"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping of {_shown(arguments[1])}"
    return _WORDS.get(hint, "any value")


def _escaped(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
