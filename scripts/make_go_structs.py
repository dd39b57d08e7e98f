"""Make ``src/pilothouse/machinery/data/go_structs.json``: the Go types that a pod template is made of.

    python scripts/make_go_structs.py TAG API_GIT APIMACHINERY_GIT > src/pilothouse/machinery/data/go_structs.json

Source are the Go types of a release (TAG, such as v0.36.2), read from bare clones of kubernetes/api and
kubernetes/apimachinery. The table has, per struct, its fields in the order in which Go declares them, each as
``[Go name, JSON name, type]`` (an empty JSON name: the fields of the embedded struct are the parent's own in JSON), and
per named type what it is. ``machinery.go_dump`` prints values by it.
"""

import json
import re
import subprocess
import sys

_LINE_COMMENT = re.compile(r"//.*")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.S | re.M)
_FIELD = re.compile(r"^(?:(\w+)\s+)?([\w.*\[\]]+)\s*(?:`(.*)`)?$")
_NAMED = re.compile(r"^type (\w+) (string|int32|int64|int|map\[ResourceName\]resource\.Quantity)\s*$", re.M)
_JSON = re.compile(r'json:"([^",]*)')
_SCALARS = frozenset({"string", "bool", "int32", "int64", "int"})
_TIMES = frozenset({"Time", "MicroTime", "FieldsV1"})


class Table:
    """Everything that the root leads to."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.structs: dict[str, list[list[str]]] = {}
        self.named: dict[str, str] = {}
        self._structs: dict[tuple[str, str], str] = {}
        self._named: dict[tuple[str, str], str] = {}
        for package, source in sources.items():
            text = _BLOCK_COMMENT.sub("", _LINE_COMMENT.sub("", source))
            self._structs |= {(package, name): body for name, body in _STRUCT.findall(text)}
            self._named |= {(package, name): base for name, base in _NAMED.findall(text)}

    def add(self, package: str, type_: str) -> str:
        """The type as Go prints it; what it is made of is in the table then."""
        for prefix in ("*", "[]"):
            if type_.startswith(prefix):
                return prefix + self.add(package, type_.removeprefix(prefix))
        if type_.startswith("map["):
            key, value = type_.removeprefix("map[").split("]", 1)
            return f"map[{self.add(package, key)}]{self.add(package, value)}"
        if type_ in _SCALARS:
            return type_
        outside, dot, name = type_.partition(".")
        if dot:
            if outside == "metav1":
                return self.add("meta", name)
            if type_ == "types.UID":
                self.named[type_] = "string"
            return type_
        printed = f"v1.{type_}"
        base = self._named.get((package, type_))
        if base is not None:
            self.named[printed] = self.add(package, base) if base.startswith("map[") else base
        elif type_ not in _TIMES and printed not in self.structs:
            fields = self.structs[printed] = []
            for line in self._structs[package, type_].splitlines():
                if line.strip():
                    fields.append(self._field(package, line.strip()))
        return printed

    def _field(self, package: str, line: str) -> list[str]:
        match = _FIELD.match(line)
        if match is None:
            raise ValueError(f"cannot read the field {line!r}")
        name, type_, tag = match.groups()
        json_name = _JSON.search(tag or "")
        return [
            name or type_.rpartition(".")[2].lstrip("*"),
            json_name[1] if json_name else "",
            self.add(package, type_),
        ]


def main(tag: str, api: str, apimachinery: str) -> None:
    """Print the table."""

    def read(repository: str, path: str) -> str:
        command = ["git", "-C", repository, "show", f"{tag}:{path}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    table = Table({"v1": read(api, "core/v1/types.go"), "meta": read(apimachinery, "pkg/apis/meta/v1/types.go")})
    table.add("v1", "PodTemplateSpec")
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(table.structs.items())]
    named = json.dumps(dict(sorted(table.named.items())))
    print("{" + f'"release": "{tag}",\n"structs": {{\n' + ",\n".join(lines) + f'\n}},\n"named": {named}' + "}")


if __name__ == "__main__":
    main(*sys.argv[1:])
