"""``CustomResource``: a ``Kind`` and its CustomResourceDefinition from one class.

The class is a ``View``: the fields that the operator reads. Its annotations give the structural schema: types,
defaults, ``msgspec.Meta`` bounds (``ge``, ``le``, ``min_length``, ``max_length``, ``pattern``), ``Literal`` for
enumerations; the texts below classes and fields are descriptions. Fields without a default are required.

One of several versions is the hub, which controllers use; the others have functions to convert to and from it, as the
types of controller-runtime's ``pkg/conversion`` have ``ConvertTo`` and ``ConvertFrom``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors
from pilothouse.operator.arguments import Items, keys_of, shown
from pilothouse.operator.client_config import ClientConfig
from pilothouse.operator.schema import agree, object_schema
from pilothouse.operator.schema_defaults import Defaults, defaults_of
from pilothouse.operator.zero_defaults import add_zero_defaults

T = TypeVar("T")
V = TypeVar("V")
CONVERT_PATH = "/convert"
"""Where conversions are served, as in controller-runtime."""
_VALIDATIONS = "x-kubernetes-validations"


class Column(msgspec.Struct, frozen=True):
    """A printer column of ``kubectl get``; ``type`` as in ``additionalPrinterColumns``."""

    name: str
    path: str
    """A JSONPath below the object, such as ``.spec.replicas``."""
    type: Literal["integer", "number", "string", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A CEL rule (``x-kubernetes-validations``), such as ``self.spec.low <= self.spec.high``: about the object in
    ``CustomResource(rules=)``, about a field with ``validations``."""

    rule: str
    message: str = ""
    message_expression: str = ""
    """A CEL expression for the message, which replaces ``message``."""
    reason: Literal["", "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"] = ""
    """The reason of the cause for clients; ``FieldValueInvalid`` if empty."""
    field_path: str = ""
    """The field that the message is about, such as ``.spec.high``; the one with the rule if empty."""
    optional_old_self: bool | None = None
    """Whether the rule is checked in a create, too, with ``oldSelf`` as an optional value."""


def validations(*rules: Rule) -> msgspec.Meta:
    """Rules about a field: ``spec: Annotated[RangeSpec, validations(Rule("self.low <= self.high"))]``."""
    return msgspec.Meta(extra_json_schema={_VALIDATIONS: [msgspec.to_builtins(rule) for rule in rules]})


class Version(msgspec.Struct, Generic[T, V], frozen=True):
    """A further version of a custom resource, whose objects are read as ``view``.

    ``convert_to`` converts an object of this version to the hub, ``convert_from`` the reverse. They get and return
    views, are called for every read and write of an object that is stored in another version, and must be lossless:
    what one version cannot express is kept in an annotation. Without both, the schemas of this version and of the hub
    must be equal. ``deprecated`` is the warning for clients; True for Kubernetes' default one.
    """

    name: str
    view: type[V]
    convert_to: Callable[[V], T] | None = None
    convert_from: Callable[[T], V] | None = None
    served: bool = True
    deprecated: bool | str = False
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: Mapping[str, str] | None = None
    selectable_fields: tuple[str, ...] = ()


class CustomResource(Generic[T]):
    """The definition of a custom resource, whose objects controllers read as ``view``, in the version ``api_version``
    (``GROUP/VERSION``). With further ``versions`` this one is the hub; objects are stored in it, or in ``stored``.

    ``kind`` and ``plural`` default to the name of the class and its lower case with an ``s``. A view with a field
    ``status`` has the status subresource; ``scale`` names the paths of the scale subresource (``specReplicasPath``,
    ``statusReplicasPath``, ``labelSelectorPath``). ``selectable_fields`` are paths, such as ``.spec.color``, that field
    selectors of clients may name.

    Defaults of the views are defaults in the schema, zero values (``0``, ``""``, ``False``, ``()``, ``{}``)
    and nested views (``{}``) unless ``zero_defaults`` is False; None never is one.

    Raises ``ValueError`` for an ``api_version`` without a group, for names that the API server does not take, for
    versions that cannot be converted or whose selectable fields the API server does not take, for unknown and missing
    paths of ``scale``, and for a stored version that there is not; ``TypeError`` for a field that no structural schema
    can express, and for arguments of other types. The error names the argument, version or field.
    """

    def __init__(
        self,
        api_version: str,
        view: type[T],
        *,
        kind: str = "",
        plural: str = "",
        namespaced: bool = True,
        short_names: Iterable[str] = (),
        categories: Iterable[str] = (),
        columns: Iterable[Column] = (),
        rules: Iterable[Rule] = (),
        scale: Mapping[str, str] | None = None,
        selectable_fields: Iterable[str] = (),
        deprecated: bool | str = False,
        versions: Iterable[Version[T, Any]] = (),
        stored: str = "",
        zero_defaults: bool = True,
    ) -> None:
        if not isinstance(api_version, str) or not isinstance(view, type):  # type: ignore[redundant-expr]  # untyped
            raise TypeError(
                "CustomResource('example.com/v1', Thing) takes the API version and the class, got "
                f"{shown(api_version)} and {shown(view)}"
            )
        group, slash, version = api_version.partition("/")
        if not slash or not group or not version:
            raise ValueError(f"api_version of a custom resource is GROUP/VERSION, got {api_version!r}")
        name = kind or view.__name__
        self.kind: Kind[T] = Kind(group, version, plural or f"{name.lower()}s", name, namespaced, view)
        """The kind in the version of the hub, for ``ctx.client``."""
        short_names = _NAMES.of(f"short_names= of {self.name}", short_names)
        categories = _NAMES.of(f"categories= of {self.name}", categories)
        _check_names(self.kind, short_names, categories)
        self._names = {
            "kind": name,
            "listKind": f"{name}List",
            "plural": self.kind.resource,
            "singular": name.lower(),
            **({"shortNames": list(short_names)} if short_names else {}),
            **({"categories": list(categories)} if categories else {}),
        }
        hub: Version[T, T] = Version(
            version,
            view,
            deprecated=deprecated,
            columns=_COLUMNS.of(f"columns= of {self.name}", columns),
            rules=_RULES.of(f"rules= of {self.name}", rules),
            scale=scale,
            selectable_fields=_PATHS.of(f"selectable_fields= of {self.name}", selectable_fields),
        )
        self.versions: dict[str, Version[T, Any]] = {}
        """By name, the hub first."""
        for served in (hub, *_VERSIONS.of(f"versions= of {self.name}", versions)):
            if errors := dns_1035_label_errors(served.name):
                raise ValueError(f"version {served.name!r} of {self.name} is invalid: {errors[0]}")
            if served.name in self.versions:
                raise ValueError(f"{self.name} has two versions {served.name}")
            _check_scale(self.name, served.scale)
            self.versions[served.name] = served
        self.stored: str = stored or version
        """The version that objects are stored in."""
        if self.stored not in self.versions:
            raise ValueError(f"{self.name} is stored={stored!r}, and has the versions {', '.join(self.versions)}")
        self._schemas = {served.name: _checked_schema(served.view, zero_defaults) for served in self.versions.values()}
        self.defaults: dict[str, Defaults] = {name: defaults_of(schema) for name, schema in self._schemas.items()}
        """Those of the schemas, by version."""
        for served in self.versions.values():
            self._check_conversion(served)
        self._check_selectable_fields()

    def __repr__(self) -> str:
        return f"CustomResource({self.kind.api_version!r}, {self.kind.view.__name__})"

    @property
    def name(self) -> str:
        """``websites.example.com``."""
        return self.kind.group_resource

    @property
    def status_fields(self) -> frozenset[str] | None:
        """The JSON names of the fields of a status; None if any are allowed."""
        properties = self._schemas[self.kind.version]["properties"]
        fields = properties.get("status", {"properties": ()}).get("properties")
        return None if fields is None else frozenset(fields)

    @property
    def has_conversion(self) -> bool:
        """Whether a version has functions for conversion, which the API server calls through a webhook."""
        return any(version.convert_to is not None for version in self.versions.values())

    def definition(self, webhooks: ClientConfig | None = None) -> dict[str, Any]:
        """The CustomResourceDefinition (``apiextensions.k8s.io/v1``), as a new dict.

        ``webhooks`` is the address of conversions. Raises ``ValueError`` if there are any and it is missing.
        """
        spec: dict[str, Any] = {
            "group": self.kind.group,
            "names": dict(self._names),
            "scope": "Namespaced" if self.kind.namespaced else "Cluster",
            "versions": [self._version(version) for version in self.versions.values()],
        }
        if self.has_conversion:
            if webhooks is None:
                raise ValueError(
                    f"{self.name} has functions for conversion, which the API server calls: give definition() a "
                    "ClientConfig that says where they are served"
                )
            called = {"clientConfig": webhooks.of(CONVERT_PATH), "conversionReviewVersions": ["v1"]}
            spec["conversion"] = {"strategy": "Webhook", "webhook": called}
        elif len(self.versions) > 1:
            spec["conversion"] = {"strategy": "None"}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": spec,
        }

    def _version(self, version: Version[T, Any]) -> dict[str, Any]:
        schema = self._full_schema(version)
        version_entry: dict[str, Any] = {
            "name": version.name,
            "served": version.served,
            "storage": version.name == self.stored,
            "schema": {"openAPIV3Schema": schema},
        }
        if version.deprecated:
            version_entry["deprecated"] = True
        if isinstance(version.deprecated, str) and version.deprecated:
            version_entry["deprecationWarning"] = version.deprecated
        subresources: dict[str, Any] = {}
        if "status" in schema["properties"]:
            subresources["status"] = {}
        if version.scale:
            subresources["scale"] = dict(version.scale)
        if subresources:
            version_entry["subresources"] = subresources
        if version.selectable_fields:
            version_entry["selectableFields"] = [{"jsonPath": path} for path in version.selectable_fields]
        if version.columns:
            version_entry["additionalPrinterColumns"] = [_column(column) for column in version.columns]
        return version_entry

    def _full_schema(self, version: Version[T, Any]) -> dict[str, Any]:
        """The schema with the rules, as a copy."""
        schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._schemas[version.name]))
        if version.rules:
            schema[_VALIDATIONS] = [msgspec.to_builtins(rule) for rule in version.rules]
        return schema

    def _check_conversion(self, version: Version[T, Any]) -> None:
        hub = self.kind.version
        if (version.convert_to is None) != (version.convert_from is None):
            raise ValueError(f"version {version.name} of {self.name} needs both convert_to= and convert_from=")
        if version.name != hub and version.convert_to is None:
            different = agree(self._schemas[version.name], self._schemas[hub])
            if different:
                raise ValueError(
                    f"versions {version.name} and {hub} of {self.name} differ in {different}: give {version.name} "
                    "convert_to= and convert_from="
                )

    def _check_selectable_fields(self) -> None:
        """The API server stores properties that all versions share separately, and then finds no schema for the fields,
        or no fields for the schema (apiextensions-apiserver ``pkg/apis/apiextensions/validation/validation.go``,
        v0.36)."""
        fields = [version.selectable_fields for version in self.versions.values()]
        if not any(fields):
            return
        hub = self._full_schema(self.versions[self.kind.version])
        same_schema = all(self._full_schema(version) == hub for version in self.versions.values())
        same_fields = all(name == fields[0] for name in fields)
        if same_schema != same_fields:
            schemas = "the same schema" if same_schema else "different schemas"
            way = "the same selectable_fields=" if same_schema else "selectable_fields= that are not the same in all"
            raise ValueError(f"the versions of {self.name} have {schemas}: the API server takes only {way}")


_NAMES = Items("names", "NAME", (str,))
_PATHS = Items("paths", "PATH", (str,))
_COLUMNS = Items("Columns", "COLUMN", (Column,), "write Column(NAME, PATH)")
_RULES = Items("Rules", "RULE", (Rule,), "write Rule(CEL)")
_VERSIONS = Items("Versions", "VERSION", (Version,), "write Version(NAME, CLASS)")


_SCALE_PATHS = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")


def _check_scale(name: str, scale: Any) -> None:
    """Raise ``TypeError`` and ``ValueError`` for a scale subresource that the API server does not take."""
    if scale is None:
        return
    if not isinstance(scale, Mapping):
        example = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        raise TypeError(f"scale= of {name} is a dict of paths, such as {example}, got {shown(scale)}")
    keys_of(f"scale= of {name}", scale, _SCALE_PATHS, "path", needed=_SCALE_PATHS[:2])


def _check_names(kind: Kind[Any], short_names: Iterable[str], categories: Iterable[str]) -> None:
    """Raise ``ValueError`` for names that the API server does not take (apiextensions-apiserver
    ``pkg/apis/apiextensions/validation/validation.go``, v0.36)."""
    if errors := dns_1035_label_errors(kind.kind.lower()):
        raise ValueError(f"kind {kind.kind!r} is invalid: {errors[0]}")
    errors = dns_subdomain_errors(kind.group)
    if not errors and "." not in kind.group:
        errors = ["should be a domain with at least one dot"]
    if errors:
        raise ValueError(f"group {kind.group!r} of the kind {kind.kind} is invalid: {errors[0]}")
    for noun, names in (("plural", (kind.resource,)), ("short name", short_names), ("category", categories)):
        for name in names:
            if errors := dns_1035_label_errors(name):
                raise ValueError(f"{noun} {name!r} of the kind {kind.kind} is invalid: {errors[0]}")


def _checked_schema(view: type[Any], zero_defaults: bool) -> dict[str, Any]:
    schema = object_schema(view)
    if "metadata" not in view.__struct_fields__:
        raise TypeError(f"{view.__name__} needs the field: metadata: ObjectMeta = ObjectMeta()")
    if zero_defaults:
        add_zero_defaults(view, schema)
    return schema


Resource = Kind[T] | CustomResource[T]


A_KIND = "a kind is a Kind, such as pilothouse.api.core.CONFIG_MAPS, or a CustomResource"


def kind_of(resource: Resource[T]) -> Kind[T]:
    """The kind, also of a custom resource. Raises ``TypeError`` for anything else."""
    if isinstance(resource, CustomResource):
        return resource.kind
    if not isinstance(resource, Kind):
        raise TypeError(f"{A_KIND}, got {shown(resource)}")
    return resource


def _column(column: Column) -> dict[str, Any]:
    column_entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        column_entry["description"] = column.description
    if column.priority:
        column_entry["priority"] = column.priority
    return column_entry
