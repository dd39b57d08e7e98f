"""Writes ``src/pilothouse/api/data/omitted.json``: which plain values are left out when they are zero.

Go leaves out a string, number or boolean that is empty, 0 or false where its field is marked ``omitempty`` and is no
pointer. The JSON schema does not say which those are; the Go sources do. Give it checkouts of k8s.io/api,
apimachinery, apiextensions-apiserver and kube-aggregator of the followed release, bare ones too:

    python scripts/generate_omitted.py path/to/api path/to/apimachinery path/to/apiextensions-apiserver \\
        path/to/kube-aggregator
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from pilothouse.api.schema import load

TARGET = Path(__file__).parent.parent / "src/pilothouse/api/data/omitted.json"
PLAIN = ("string", "bool", "int32", "int64", "number", "bytes")
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'^\s+\w+\s+(\S+)\s+`.*?json:"([\w$-]+),omitempty"', re.MULTILINE)


def structs(checkout: str) -> dict[str, set[str]]:
    """By ``package.version.Type`` as the last parts of a definition's name: fields that are left out when zero."""
    listed = subprocess.run(
        ["git", "-C", checkout, "ls-tree", "-r", "--name-only", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.split()
    found = {}
    for path in listed:
        if not re.search(r"(^|/)v\d\w*/[a-z_]*types[a-z_]*\.go$", path) or "zz_generated" in path:
            continue
        text = subprocess.run(
            ["git", "-C", checkout, "show", f"HEAD:{path}"], capture_output=True, text=True, check=True
        ).stdout
        place = ".".join(path.split("/")[-3:-1])
        for name, body in STRUCT.findall(text):
            found[f"{place}.{name}"] = {field for kind, field in FIELD.findall(body) if not kind.startswith("*")}
    return found


def main() -> None:
    known: dict[str, set[str]] = {}
    for checkout in sys.argv[1:]:
        known |= structs(checkout)
    schema = load()
    table = {}
    for name in schema.names:
        fields = known.get(".".join(name.split(".")[-3:]), set())
        omitted = sorted(
            field.name
            for field in schema.definition(name).fields.values()
            if field.name in fields and field.type.name in PLAIN
        )
        if omitted:
            table[name] = omitted
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table.items())
    TARGET.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
