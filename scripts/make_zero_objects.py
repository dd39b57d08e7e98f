"""Make ``src/pilothouse/apiserver/data/zero_objects.json``: what Go prints for an object of each kind with nothing set.

    python scripts/make_zero_objects.py TAG API_GIT APIMACHINERY_GIT > src/pilothouse/apiserver/data/zero_objects.json

A create is compared with such an object to find the fields that its client owns: a struct that is no pointer is there
before anything is set in it, and so belongs to nobody. Source are the Go types of a release (TAG, such as v0.36.2),
read from bare clones of kubernetes/api and kubernetes/apimachinery. CustomResourceDefinition and APIService live in
repositories of their own, TokenRequest is no resource, and are written down below.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

RESOURCES = Path(__file__).parent.parent / "src/pilothouse/apiserver/data/resources.json"
_LINE_COMMENT = re.compile(r"//.*")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.S | re.M)
_NAMED = re.compile(r"^type (\w+) =?\s*([\w.\[\]*]+)\s*$", re.M)
_FIELD = re.compile(r"^(?:(\w+)\s+)?([\w.*\[\]{}]+)\s*(?:`(.*)`)?$")
_JSON = re.compile(r'json:"([^"]*)"')
_IMPORT = re.compile(r'^\s*(\w+)\s+"k8s.io/api/([\w/]+)"', re.M)
_NUMBERS = frozenset({"int", "int32", "int64", "uint16", "float64"})
_OMITTED = object()
BEHIND_GATES = (
    ("resource/v1alpha3", "ResourcePoolStatusRequest"),
    ("scheduling/v1alpha2", "PodGroup"),
    ("scheduling/v1alpha2", "Workload"),
    ("storagemigration/v1beta1", "StorageVersionMigration"),
)
OTHERS = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": {
        "metadata": {},
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None},
    },
    "authentication.k8s.io/v1/TokenRequest": {
        "metadata": {},
        "spec": {"audiences": None, "expirationSeconds": None, "boundObjectRef": None},
        "status": {"token": "", "expirationTimestamp": None},
    },
    "apiregistration.k8s.io/v1/APIService": {
        "metadata": {},
        "spec": {"groupPriorityMinimum": 0, "versionPriority": 0},
        "status": {},
    },
}


class Sources:
    """Structs and named types by (package, name)."""

    def __init__(self, tag: str, api: str, apimachinery: str) -> None:
        self._tag, self._api = tag, api
        self._structs: dict[tuple[str, str], str] = {}
        self._named: dict[tuple[str, str], str] = {}
        self._imports: dict[str, dict[str, str]] = {}
        for name in ("types", "group_version"):
            self._add("meta", self._read(apimachinery, f"pkg/apis/meta/v1/{name}.go"))

    def _read(self, repository: str, path: str) -> str:
        command = ["git", "-C", repository, "show", f"{self._tag}:{path}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _add(self, package: str, source: str) -> None:
        text = _BLOCK_COMMENT.sub("", _LINE_COMMENT.sub("", source))
        self._structs |= {(package, name): body for name, body in _STRUCT.findall(text)}
        self._named |= {(package, name): base for name, base in _NAMED.findall(text)}
        self._imports[package] = dict(_IMPORT.findall(source))

    def zero(self, package: str, type_: str, omit: str) -> Any:
        """What an unset value is printed as; ``_OMITTED`` when it is not printed."""
        if package not in self._imports:
            self._add(package, self._read(self._api, f"{package}/types.go"))
        if type_.startswith(("*", "[", "map[")):
            return _OMITTED if omit else None
        if type_ in _NUMBERS or type_ in ("string", "bool"):
            return _OMITTED if omit else {"string": "", "bool": False}.get(type_, 0)
        outside, dot, name = type_.partition(".")
        if dot:
            match outside, name:
                case "metav1", _:
                    return self.zero("meta", name, omit)
                case "resource", "Quantity":
                    return _OMITTED if omit == "omitzero" else "0"
                case "intstr", "IntOrString":
                    return 0
                case "runtime", "RawExtension":
                    return _OMITTED if omit == "omitzero" else None
                case "types", _:
                    return _OMITTED if omit else ""
                case _:
                    return self.zero(self._imports[package][outside], name, omit)
        if type_ in ("Time", "MicroTime"):
            return _OMITTED if omit == "omitzero" else None
        base = self._named.get((package, type_))
        if base is not None:
            return self.zero(package, base, omit)
        return _OMITTED if omit == "omitzero" else self.struct(package, type_)

    def struct(self, package: str, name: str) -> dict[str, Any]:
        """An empty struct, field by field."""
        found: dict[str, Any] = {}
        for line in self._structs[package, name].splitlines():
            if not line.strip() or line.strip().startswith("_ "):
                continue
            match = _FIELD.match(line.strip())
            if match is None:
                raise ValueError(f"cannot read the field {line!r}")
            _go_name, type_, tag = match.groups()
            json_tag = _JSON.search(tag or "")
            json_name, *flags = (json_tag[1] if json_tag else "").split(",")
            if "inline" in flags or not json_name:
                if type_ != "metav1.TypeMeta" and not type_.startswith("*"):
                    found |= self.zero(package, type_, "")
                continue
            omit = "omitzero" if "omitzero" in flags else "omitempty" if "omitempty" in flags else ""
            value = self.zero(package, type_, omit)
            if value is not _OMITTED:
                found[json_name] = value
        return found


def main(tag: str, api: str, apimachinery: str) -> None:
    """Print the table, a line for each kind."""
    sources = Sources(tag, api, apimachinery)
    found: dict[str, Any] = {}
    for row in json.loads(RESOURCES.read_text()):
        group, version, kind = row["group"], row["version"], row["kind"]
        key = f"{group}/{version}/{kind}"
        if key in OTHERS:
            found[key] = OTHERS[key]
            continue
        package = f"{group.partition('.')[0] or 'core'}/{version}"
        found[key] = sources.zero(package, kind, "")
    for package, kind in BEHIND_GATES:
        group, _, version = package.partition("/")
        found[f"{group}.k8s.io/{version}/{kind}"] = sources.zero(package, kind, "")
    found["autoscaling/v1/Scale"] = sources.zero("autoscaling/v1", "Scale", "")
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(found.items())]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main(*sys.argv[1:])
