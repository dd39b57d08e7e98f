"""Make ``src/pilothouse/apiserver/data/internal_types.json``: the Go types in which kube-apiserver holds objects.

    python scripts/make_internal_types.py KUBERNETES > src/pilothouse/apiserver/data/internal_types.json

Source is a checkout of kubernetes/kubernetes of the release that we follow. Errors about fields show values of internal
types (``pkg/apis/GROUP/types.go``), most of which have no names for JSON, so that Go's names are printed; and what is
empty is printed, too. Clients send the types of a version (``staging/src/k8s.io/api/GROUP/VERSION/types.go``), whose
fields mostly have the same names in Go: that is how a field of one is found in the other.

The table has, per struct, its fields in the order in which Go declares them, as one text. Each field is

    PRINTED[=SOURCE][?][:TYPE]

where PRINTED is the name that Go prints, SOURCE the name in the version's JSON if that is not PRINTED with a small
first letter, ``?`` says that nothing is printed when it is empty, and TYPE is ``string`` if it is left out.
``+SOURCE:TYPE`` is an embedded struct, whose fields are printed among those of its parent; its source may be "", which
is the parent itself. Types are ``*`` (pointer), ``[]`` (list) or ``{}`` (map) of others, scalars, and structs by their
package and name. ``apiserver.internal_types`` prints values by it.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_API = "staging/src/k8s.io/api"
_META = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1"
_EXTENSIONS = "staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
_REGISTRATION = "staging/src/k8s.io/kube-aggregator/pkg/apis/apiregistration"
_VERSIONS = {
    "admissionregistration": ("v1",),
    "apps": ("v1",),
    "authentication": ("v1",),
    "authorization": ("v1",),
    "autoscaling": ("v2", "v1"),
    "batch": ("v1",),
    "certificates": ("v1",),
    "coordination": ("v1",),
    "core": ("v1",),
    "discovery": ("v1",),
    "flowcontrol": ("v1",),
    "networking": ("v1",),
    "node": ("v1",),
    "policy": ("v1",),
    "rbac": ("v1",),
    "resource": ("v1", "v1alpha3"),
    "scheduling": ("v1", "v1alpha2"),
    "storage": ("v1",),
    "storagemigration": ("v1beta1",),
}
"""The versions that are served, the one that has more of a type's fields first."""
_ELSEWHERE = {"apiextensions": (_EXTENSIONS, ("v1",)), "apiregistration": (_REGISTRATION, ("v1",))}
UNVERSIONED = {
    # Of the pod's spec in its version, which ``apiserver.internal_types`` puts here.
    "core.PodSecurityContext": ("HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers"),
    # Of versions that are no longer served.
    "apps.DeploymentSpec": ("RollbackTo",),
    "apps.RollbackConfig": ("Revision",),
    # An annotation.
    "apps.DaemonSetSpec": ("TemplateGeneration",),
    # What all versions of a definition share, and one level deeper in the version.
    "apiextensions.CustomResourceDefinitionSpec": (
        *("Version", "Validation", "Subresources", "AdditionalPrinterColumns", "SelectableFields"),
    ),
    "apiextensions.CustomResourceConversion": ("WebhookClientConfig", "ConversionReviewVersions"),
}
"""The fields that the version's Go type does not have: they are read under the name that would be expected."""
BEHIND_GATES = (
    ("resource", "ResourcePoolStatusRequest"),
    ("scheduling", "PodGroup"),
    ("scheduling", "Workload"),
    ("storagemigration", "StorageVersionMigration"),
)
RESOURCES = Path(__file__).parent.parent / "src/pilothouse/apiserver/data/resources.json"

_LINE_COMMENT = re.compile(r"//.*")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.S | re.M)
_NAMED = re.compile(r"^type (\w+) =?\s*([\w.\[\]*{}]+)\s*$", re.M)
_FIELD = re.compile(r"^(?:(\w+)\s+)?([\w.*\[\]{}]+)\s*(?:`(.*)`)?$")
_JSON = re.compile(r'json:"([^"]*)"')
_IMPORT = re.compile(r'^(?:import)?\s*(\w+)?\s*"([\w./-]+)"', re.M)
_PRINTED_ITSELF = {
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intstr",
    "runtime.RawExtension": "raw",
    "runtime.Object": "raw",
    "interface{}": "any",
    "string": "string",
    "bool": "bool",
    "float64": "float",
    "byte": "byte",
    **dict.fromkeys(("int", "int32", "int64", "uint16", "uint32", "uint8"), "int"),
    **dict.fromkeys(("types.UID", "types.NodeName", "types.NamespacedName"), "string"),
}
_PLAIN = frozenset({"string", "bool", "int", "float", "bytes"})
_TIMES = {"Time": "time", "MicroTime": "microtime", "FieldsV1": "raw", "Duration": "duration"}


class Field(NamedTuple):
    """One field as Go declares it. ``name`` is "" for an embedded struct."""

    name: str
    type: str
    tag: str
    flags: tuple[str, ...]


class Package:
    """Structs and other named types of one package."""

    def __init__(self, folder: Path) -> None:
        self.structs: dict[str, list[Field]] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        for path in sorted(folder.glob("*.go")):
            if path.name.startswith("zz_") or path.name.endswith(("_test.go", ".pb.go")):
                continue
            source = path.read_text()
            text = _BLOCK_COMMENT.sub("", _LINE_COMMENT.sub("", source))
            self.structs |= {name: list(_fields(body)) for name, body in _STRUCT.findall(text)}
            named = dict(_NAMED.findall(text))
            self.structs |= {name: [] for name, base in named.items() if base == "struct{}"}
            self.named |= {name: base for name, base in named.items() if base != "struct{}"}
            if path.name.startswith("types"):
                self.imports |= {alias or where.rpartition("/")[2]: where for alias, where in _IMPORT.findall(source)}


def _fields(body: str) -> Iterator[Field]:
    for line in body.splitlines():
        if not line.strip():
            continue
        match = _FIELD.match(line.strip())
        if match is None:
            raise ValueError(f"cannot read the field {line!r}")
        name, type_, tags = match.groups()
        tag = _JSON.search(tags or "")
        json_name, *flags = (tag[1] if tag else "").split(",")
        if json_name != "-":
            yield Field(name or "", type_, json_name, tuple(flags))


class Table:
    """Every internal type, and what its fields are called in the versions."""

    def __init__(self, root: Path) -> None:
        self.structs: dict[str, str] = {}
        folders = {group: (f"pkg/apis/{group}", versions) for group, versions in _VERSIONS.items()} | _ELSEWHERE
        self._packages = {"meta": Package(root / _META)}
        self._groups = {"k8s.io/apimachinery/pkg/apis/meta/v1": "meta"}
        self._versions: dict[str, list[Package]] = {"meta": [self._packages["meta"]]}
        for group, (folder, versions) in folders.items():
            self._packages[group] = Package(root / folder)
            self._groups[f"k8s.io/kubernetes/pkg/apis/{group}"] = group
            below = root / (folder if group in _ELSEWHERE else f"{_API}/{group}")
            self._versions[group] = [Package(below / version) for version in versions]

    def add(self, group: str, type_: str) -> str:
        """The type as the table writes it; what it is made of is in the table then."""
        for prefix in ("*", "[]"):
            if type_.startswith(prefix):
                inner = self.add(group, type_.removeprefix(prefix))
                return "bytes" if (prefix, inner) == ("[]", "byte") else prefix + inner
        if type_.startswith("map["):
            return "{}" + self.add(group, type_.partition("]")[2])
        if type_ in _PRINTED_ITSELF:
            return _PRINTED_ITSELF[type_]
        outside, dot, name = type_.partition(".")
        package = self._packages[group]
        if dot:
            return self.add(self._groups[package.imports[outside]], name)
        if group == "meta" and type_ in _TIMES:
            return _TIMES[type_]
        if type_ in package.named:
            return self.add(group, package.named[type_])
        printed = f"{group}.{type_}"
        if printed not in self.structs:
            self.structs[printed] = ""
            self.structs[printed] = " ".join(self._field(group, type_, field) for field in package.structs[type_])
        return printed

    def _field(self, group: str, owner: str, field: Field) -> str:
        type_ = self.add(group, field.type)
        name = field.name or field.type.rpartition(".")[2].lstrip("*")
        source = self._source(group, owner, name)
        if not field.name and not field.tag:
            return f"+{source}:{type_}"
        printed = field.tag or field.name
        text = printed if source == _expected(printed) else f"{printed}={source}"
        # Go leaves out no struct for being empty but with ``omitzero``.
        may_be_empty = type_[0] in "*[{" or type_ in _PLAIN
        if "omitzero" in field.flags or ("omitempty" in field.flags and may_be_empty):
            text += "?"
        return text if type_ == "string" else f"{text}:{type_}"

    def _source(self, group: str, owner: str, name: str) -> str:
        """What the field is called in the version's JSON, "" for one that is embedded."""
        for package in self._versions[group]:
            found = dict(self._named_fields(package, owner))
            if name in found:
                return found[name]
        if name not in UNVERSIONED.get(f"{group}.{owner}", ()):
            raise ValueError(f"no version has {group}.{owner}.{name}")
        return _expected(name)

    def _named_fields(self, package: Package, owner: str) -> Iterator[tuple[str, str]]:
        for field in package.structs.get(owner, ()):
            if field.name:
                # Those without a tag belong to types that write themselves.
                yield field.name, field.tag or _expected(field.name)
                continue
            name = field.type.rpartition(".")[2].lstrip("*")
            yield name, field.tag
            if not field.tag:
                yield from self._named_fields(package, name)


def _expected(name: str) -> str:
    return name[0].lower() + name[1:]


def main(root: str) -> None:
    """Print the table, a line for each struct."""
    table = Table(Path(root))
    for row in json.loads(RESOURCES.read_text()):
        group = row["group"].partition(".")[0] or "core"
        table.add("core" if group == "events" else group, row["kind"])
    for group, kind in BEHIND_GATES:
        table.add(group, kind)
    lines = [f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(table.structs.items())]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main(*sys.argv[1:])
