"""The API types as data: fields, their types and merge rules, for every built-in kind of the followed release.

The table is generated (``scripts/generate_schema.py``). Type checks of bodies, strategic merge, server-side apply and
OpenAPI use it; ``load()`` takes about a millisecond, because definitions are decoded when they are requested.

The JSON schema, and so the table, lacks: defaults (except those of list map keys), the values that Go omits when they
are empty (``omitted.json``), the order in which Go declares fields, and the names of Go's string types.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from pilothouse.api.packaged import packaged

TypeName = Literal[
    "string",
    "int32",
    "int64",
    "bool",
    "number",
    "quantity",
    "int-or-string",
    "time",
    "micro-time",
    "bytes",
    "any",
    "list",
    "map",
    "object",
]


class Type:
    """The type of a value.

    ``element`` is set for ``list`` and ``map`` (whose keys are strings), ``definition`` for ``object``. Types are
    shared and immutable; two types are equal if they are one object, or if their parts are equal.
    """

    __slots__ = ("_definition", "element", "name")

    def __init__(
        self,
        name: TypeName,
        element: "Type | None" = None,
        definition: "Definition | Callable[[], Definition] | None" = None,
    ) -> None:
        self.name = name
        self.element = element
        self._definition = definition

    @property
    def definition(self) -> "Definition":
        """The fields of an ``object``. Definitions refer to each other, so it is resolved when first needed."""
        found = self._definition
        assert found is not None, f"a {self.name} has no definition"
        if not isinstance(found, Definition):
            found = self._definition = found()
        return found

    def __repr__(self) -> str:
        if self.name == "object":
            return self.definition.name
        return f"{self.name} of {self.element!r}" if self.element else self.name


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of an object.

    ``list_type`` is "atomic", "set", "map" or "" (as atomic); ``map_keys`` are the keys of a list of type "map".
    ``map_type`` is "atomic" or "" (granular). Strategic merge uses ``patch_strategies`` (``merge``, ``retainKeys``,
    ``replace``) and ``merge_key``. ``default`` is only set for list map keys.
    """

    name: str
    type: Type
    required: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategies: tuple[str, ...] = ()
    merge_key: str = ""
    default: Any = None


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Definition:
    """One object type. ``kinds`` are its (group, version, kind), if it is a kind.

    The API server also creates definitions, for custom resources.
    """

    __slots__ = ("fields", "kinds", "map_type", "name", "printed")

    def __init__(
        self,
        name: str,
        fields: Mapping[str, Field],
        *,
        kinds: tuple[tuple[str, str, str], ...] = (),
        map_type: str = "",
        printed: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.name = name
        self.fields = fields
        self.printed = printed
        """What Go prints for fields that are unset, where it prints them: "", 0, false, null, and objects of these."""
        self.kinds = kinds
        self.map_type = map_type

    @property
    def go_name(self) -> str:
        """The name of the Go struct: ``PodSpec``."""
        return self.name.rpartition(".")[2]

    @property
    def go_type(self) -> str:
        """The name with its Go package, as in error texts: ``v1.PodSpec``."""
        return ".".join(self.name.split(".")[-2:])

    def __repr__(self) -> str:
        return f"Definition({self.name})"


class Schema:
    """Every built-in type of one release. Definitions are decoded when they are requested, and kept."""

    def __init__(self, release: str, kinds: Mapping[str, str], definitions: Mapping[str, msgspec.Raw]) -> None:
        self.release = release
        self._kinds = kinds
        self._raw = definitions
        self._definitions: dict[str, Definition] = {}
        self._types: dict[str, Type] = {}

    def definition(self, name: str) -> Definition:
        """The definition of this name, as in OpenAPI: ``io.k8s.api.core.v1.Pod``. Raises ``KeyError``."""
        decoder = self._definitions.get(name)
        if decoder is None:
            entry: dict[str, Any] = msgspec.json.decode(self._raw[name])
            decoder = self._definitions[name] = Definition(
                name,
                {field: self._field(field, value) for field, value in entry["fields"].items()},
                kinds=tuple(_split_kind(kind) for kind in entry.get("kinds", ())),
                map_type=entry.get("map_type", ""),
                printed=_printed().get(name, _NOTHING),
            )
        return decoder

    def for_kind(self, group: str, version: str, kind: str) -> Definition | None:
        """The definition of a built-in kind, or ``None`` if there is none; the core group is ""."""
        name = self._kinds.get(f"{group}/{version}/{kind}")
        return None if name is None else self.definition(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all definitions, sorted."""
        return tuple(self._raw)

    @property
    def kinds(self) -> tuple[tuple[str, str, str], ...]:
        """All (group, version, kind) that have a definition, sorted."""
        return tuple(_split_kind(kind) for kind in self._kinds)

    def _field(self, name: str, value: Any) -> Field:
        wire, more = (value, {}) if isinstance(value, str) else value
        return Field(
            name=name,
            type=self._type(wire),
            required=more.get("required", False),
            list_type=more.get("list_type", ""),
            map_keys=tuple(more.get("map_keys", ())),
            map_type=more.get("map_type", ""),
            patch_strategies=tuple(more.get("patch_strategies", ())),
            merge_key=more.get("merge_key", ""),
            default=more.get("default"),
        )

    def _type(self, wire: str) -> Type:
        found = self._types.get(wire)
        if found is None:
            match wire[0]:
                case "[":
                    found = Type("list", element=self._type(wire[1:]))
                case "{":
                    found = Type("map", element=self._type(wire[1:]))
                case "#":
                    name = wire[1:]
                    found = Type("object", definition=lambda: self.definition(name))
                case _:
                    found = Type(wire)  # type: ignore[arg-type]
            self._types[wire] = found
        return found


def _split_kind(text: str) -> tuple[str, str, str]:
    group, version, kind = text.split("/")
    return group, version, kind


class _Table(msgspec.Struct):
    kubernetes: str
    kinds: dict[str, str]
    definitions: dict[str, msgspec.Raw]


@cache
def _printed() -> dict[str, dict[str, Any]]:
    return msgspec.json.decode(packaged("api/data/printed.json"), type=dict[str, dict[str, Any]])


@cache
def load() -> Schema:
    """The schema of the followed release, loaded once in a process."""
    data = packaged("api/data/schema.json")
    table = msgspec.json.decode(data, type=_Table)
    return Schema(table.kubernetes, table.kinds, table.definitions)


@lru_cache(maxsize=1024)
def definition_of(group: str, version: str, kind: str) -> Definition:
    definition = load().for_kind(group, version, kind)
    assert definition is not None, f"every built-in kind has a definition, {group}/{version} {kind} has none"
    return definition
