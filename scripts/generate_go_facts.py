"""Writes two tables about the Go types of the API, from their sources.

``src/pilothouse/api/data/printed.json`` has what is printed although nobody has set it.

Go prints a field that is not marked ``omitempty`` also when it is unset: a string as "", a number as 0, a boolean as
false, a list, map or pointer as null. A time that is no pointer is a struct, which ``omitempty`` does not leave out,
and is printed as null unless it is marked ``omitzero``. Other structs are printed in the same way, with what is printed
of their fields.

``src/pilothouse/machinery/data/go_names.json`` has what errors of Go's JSON decoder say of fields: the names of string
types, and of the structs that are embedded where a field stands.

Give it ``staging/src/k8s.io`` of the followed release:

    python scripts/generate_go_facts.py path/to/kubernetes/staging/src/k8s.io
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pilothouse.api.schema import Definition, Field, load

SOURCES = Path(__file__).parent.parent / "src/pilothouse"
MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator")
ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "list": None, "map": None, "bytes": None}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r'^(?:import)?\s+(\w+ )?"([\w./-]+)"', re.MULTILINE)
Structs = dict[str, list[tuple[str, str]]]
NOT_PRINTED = object()
PLAIN = frozenset({"string", "byte", "rune"})
FIELD = re.compile(r'^\s+(?:\w+\s+)?(\S+)\s+`.*?json:"([^"]*)"', re.MULTILINE)


def structs(root: Path) -> Structs:
    """By ``package.version.Type``: Go type, with the name of its package, and JSON tag of each field."""
    found = {}
    for path in (each for module in MODULES for each in (root / module).rglob("v*/*types*.go")):
        if "zz_generated" in path.name or path.name.endswith("_test.go"):
            continue
        place = ".".join(path.parts[-3:-1])
        text = path.read_text()
        packages = {alias.strip() or source.rpartition("/")[2]: source for alias, source in IMPORT.findall(text)}
        for name, body in STRUCT.findall(text):
            found[f"{place}.{name}"] = [(_named(kind, place, packages), tag) for kind, tag in FIELD.findall(body)]
    return found


def _named(kind: str, place: str, packages: dict[str, str]) -> str:
    """``[]core.v1.Protocol`` for ``[]v1.Protocol`` and, in its own package, for ``[]Protocol``."""
    mark = re.match(r"[*\[\]]*(map\[[\w.]+\])?[*\[\]]*", kind)
    assert mark is not None, "matches the empty text"
    package, _dot, name = kind[mark.end() :].rpartition(".")
    where = ".".join(packages[package].split("/")[-2:]) if package else place
    return f"{mark[0]}{where}.{name}" if package or name[:1].isupper() else kind


def fields(known: Structs, name: str, within: str = "") -> Iterator[tuple[str, str, list[str], str]]:
    """JSON name, Go type, options and embedded structs (``A.B``) of each field, those of inlined structs among them."""
    for kind, tag in known.get(name, ()):
        json_name, *options = tag.split(",")
        if "inline" in options:
            struct = kind.rpartition(".")[2]
            yield from fields(known, kind.lstrip("*"), f"{within}.{struct}" if within else struct)
        elif json_name:
            yield json_name, kind, options, within


def zero(known: Structs, field: Field, kind: str, options: list[str]) -> Any:
    """What is printed of the field when it is unset, or ``NOT_PRINTED``. Structs with nothing in them are left out."""
    if "omitzero" in options or (kind.startswith("*") and "omitempty" in options):
        return NOT_PRINTED
    if kind.startswith("*") or field.type.name in ("time", "micro-time"):
        return None
    if field.type.name == "object":
        return zeros_of(known, field.type.definition) or NOT_PRINTED
    return ZEROS[field.type.name] if field.type.name in ZEROS and "omitempty" not in options else NOT_PRINTED


def zeros_of(known: Structs, definition: Definition) -> dict[str, Any]:
    """What is printed of an object of which nothing is set."""
    found = {
        json_name: zero(known, definition.fields[json_name], kind, options)
        for json_name, kind, options, _within in rows_of(known, definition)
    }
    return {name: value for name, value in found.items() if value is not NOT_PRINTED}


def rows_of(known: Structs, definition: Definition) -> list[tuple[str, str, list[str], str]]:
    """The fields of a definition as their Go struct has them."""
    name = ".".join(definition.name.split(".")[-3:])
    return [row for row in fields(known, name) if row[0] in definition.fields]


def main() -> None:
    known = structs(Path(sys.argv[1]))
    schema = load()
    zeros, names = {}, {}
    for name in schema.names:
        definition = schema.definition(name)
        zeros[name] = zeros_of(known, definition)
        names[name] = {
            json_name: said
            for json_name, kind, _options, within in rows_of(known, definition)
            if any(said := [string_type(definition.fields[json_name], kind), within])
        }
    write("api/data/printed.json", zeros)
    write("machinery/data/go_names.json", names)


def string_type(field: Field, kind: str) -> str:
    """The name of the string type in a field, "" where it is ``string`` or none."""
    innermost = field.type
    while innermost.element is not None:
        innermost = innermost.element
    name = kind.rpartition("]")[2].lstrip("*")
    return ".".join(name.split(".")[-2:]) if innermost.name == "string" and name not in PLAIN else ""


def write(path: str, table: dict[str, Any]) -> None:
    """One line for each definition that has something to say."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in table.items() if found)
    (SOURCES / path).write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
