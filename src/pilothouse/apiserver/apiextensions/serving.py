"""Creates the rows of the resource table for a CustomResourceDefinition."""

from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.apiserver.apiextensions import schema
from pilothouse.apiserver.apiextensions.objects import (
    ScalePaths,
    check_metadata,
    prune_embedded,
    validate_embedded,
    validate_scale,
)
from pilothouse.apiserver.apiextensions.rules import ABSENT, RuleEvaluation, RuleNode, rule_tree
from pilothouse.apiserver.apiextensions.strategy import CustomStrategy
from pilothouse.apiserver.endpoints.discovery import version_rank
from pilothouse.apiserver.field_errors import ErrorList, FieldError
from pilothouse.apiserver.objects import Object, decode, encode
from pilothouse.apiserver.registry.generic.managed_fields import without_managed_fields
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo, Subresource

if TYPE_CHECKING:
    from pilothouse.apiserver.apiextensions.conversion.converter import Converter


_BLOCKING = (
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTypeInvalid",
    "FieldValueTooLong",
    "FieldValueTooMany",
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_RECENT_BYTES, _ENTRY_OVERHEAD = 8 * 1024 * 1024, 200
_READ_WRITE = ("get", "patch", "update")


class RecentConversions:
    """Stored bytes → the object pruned and defaulted by the current schema, up to ``_RECENT_BYTES``."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._size = 0
        self.get = self._entries.get

    def add(self, value: bytes, converted: bytes) -> None:
        """Add a conversion; if the size exceeds the limit, all others are removed."""
        size = len(value) + len(converted) + _ENTRY_OVERHEAD
        if self._size + size > _RECENT_BYTES:
            self._entries.clear()
            self._size = 0
        self._entries[value] = converted
        self._size += size


class CustomVersion(msgspec.Struct, frozen=True, eq=False):
    """One version of a definition: schema, rules and conversion.

    ``versions`` are all versions of the definition by API version, including this one, served or not. ``converter``
    converts between them; None for the strategy ``None``, which only changes apiVersion.
    """

    definition: str
    storage_version: str
    openapi: dict[str, Any]
    printer_columns: tuple[dict[str, Any], ...]
    scale: ScalePaths | None
    strategy: Strategy
    terminating: bool
    api_version: str = ""
    versions: dict[str, ResourceInfo] = {}
    converter: Any = None
    """The ``Converter`` of the definition."""
    recent: "RecentConversions" = msgspec.field(default_factory=lambda: RecentConversions())

    def from_stored(self, value: bytes) -> bytes:
        """A stored object in this version, if no webhook is needed to convert it.

        It is pruned and defaulted by the current schema, because it may have been stored under an older one. Defaults
        are those of the version that it is stored in (apiextensions ``pkg/apiserver/customresource_handler.go``, the
        codec of the storage, v0.36).
        """
        converted = self.recent.get(value)
        if converted is None:
            obj = decode(value)
            stored_as = self.versions.get(obj["apiVersion"])
            if stored_as is None or stored_as.custom is self:
                self.prune_and_default(obj)
            else:
                stored_as.custom.prune_and_default(obj)
                schema.prune(obj, self.openapi)
            obj["apiVersion"] = self.api_version
            text = encode(obj)
            converted = value if text == value else text
            self.recent.add(value, converted)
        return converted

    def prune_and_default(self, obj: Object) -> None:
        """Prune and default an object that was stored in this version, in place."""
        schema.prune(obj, self.openapi)
        schema.apply_defaults(obj, self.openapi)

    def prune_converted(self, obj: Object) -> None:
        """Prune an object that was converted to this version. Its metadata has been validated. Raises ``DecodeError``
        for invalid embedded resources."""
        schema.prune(obj, self.openapi)
        schema.prune_nulls(obj, self.openapi)
        prune_embedded(obj, self.openapi, "")

    def prune(self, obj: Object) -> list[str]:
        """Remove fields that the schema does not specify; returns them as errors of strict decoding.

        Raises ``DecodeError`` for invalid metadata, apiVersion or kind.
        """
        unknown_fields = check_metadata(obj) + sorted(schema.prune(obj, self.openapi))
        return unknown_fields + prune_embedded(obj, self.openapi, "")


def is_crd_condition_true(definition: Object, condition: str) -> bool:
    """Whether the definition has the condition with status True."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(existing.get("type") == condition and existing.get("status") == "True" for existing in conditions)


def resource_infos(definition: Object, converter: "Converter | None" = None) -> tuple[ResourceInfo, ...]:
    """The rows of the served versions of a definition, in its order; none before its names are accepted.

    ``converter`` is that of its webhook, if it has one.
    """
    if not is_crd_condition_true(definition, "NamesAccepted") and not is_crd_condition_true(definition, "Established"):
        return ()
    spec = definition["spec"]
    storage = next(version for version in spec["versions"] if version.get("storage"))
    versions: dict[str, ResourceInfo] = {} if converter is None else converter.versions
    stored_as = _resource_info(definition, storage, None, versions, converter)
    rows = [
        stored_as if version is storage else _resource_info(definition, version, stored_as, versions, converter)
        for version in spec["versions"]
    ]
    return tuple(row for row, version in zip(rows, spec["versions"], strict=True) if version.get("served"))


def _resource_info(
    definition: Object,
    version: Object,
    stored_as: ResourceInfo | None,
    versions: dict[str, ResourceInfo],
    converter: "Converter | None",
) -> ResourceInfo:
    spec = definition["spec"]
    # Plural and kind cannot change once they are accepted; other names may not be accepted.
    accepted: Object = (definition.get("status") or {}).get("acceptedNames") or spec["names"]
    names = {**accepted, "plural": spec["names"]["plural"], "kind": spec["names"]["kind"]}
    openapi: dict[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    declared = version.get("subresources") or {}
    subresources: dict[str, Subresource] = {}
    if "status" in declared:
        subresources["status"] = Subresource(names["kind"])
    scale = None
    if declared.get("scale"):
        paths = declared["scale"]
        scale = ScalePaths(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath") or "")
        subresources["scale"] = Subresource("Scale", "autoscaling", "v1")
    selectable = {
        field["jsonPath"].lstrip("."): tuple(field["jsonPath"].lstrip(".").split("."))
        for field in version.get("selectableFields") or ()
    }

    trees: list[RuleNode | None] = []
    """The compiled rules, set by the first validation; None if the schema has none."""

    def validate(obj: Object, old: Object | None, warnings: list[str], status_only: bool) -> ErrorList:
        if not trees:
            trees.append(rule_tree(openapi))
        tree = trees[0]
        validate_fields = _validate_status if status_only else _validate_schema
        errors = validate_fields(obj, openapi, old) + validate_scale(obj, scale) + validate_embedded(obj, openapi)
        if old is None or not schema.validate_list(old, openapi):
            errors += schema.validate_list(obj, openapi)
        if tree is None:
            return errors
        if any(error.reason in _BLOCKING for error in errors):
            # Rules rely on a valid schema.
            return [*errors, FieldError("<nil>", "FieldValueInvalid", f"Invalid value: null: {_UNCHECKED}")]
        run = RuleEvaluation()
        run.validate(tree, without_managed_fields(obj), ABSENT if old is None else without_managed_fields(old))
        warnings += run.warnings
        return errors + run.all_errors

    def default(obj: Object) -> None:
        schema.apply_defaults(obj, openapi)

    strategy = CustomStrategy(
        status="status" in subresources,
        selectable=selectable,
        validate=validate,
        default=default,
        terminating=bool(definition["metadata"].get("deletionTimestamp")),
    )
    if version.get("deprecated"):
        strategy.deprecation_warnings = (version.get("deprecationWarning") or _deprecation(spec, version["name"]),)
    custom = CustomVersion(
        definition["metadata"]["name"],
        stored_as.version if stored_as is not None else version["name"],
        openapi,
        tuple(version.get("additionalPrinterColumns") or ()),
        scale,
        strategy,
        strategy.terminating,
        f"{spec['group']}/{version['name']}",
        versions,
        converter,
    )
    info = ResourceInfo(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=subresources,
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        custom=custom,
    )
    strategy.storage = stored_as or info
    versions[info.api_version] = info
    return info


def _deprecation(spec: Object, name: str) -> str:
    """The warning of a deprecated version; the default names a newer version if there is one."""
    newer = [
        version["name"]
        for version in spec["versions"]
        if version.get("served")
        and not version.get("deprecated")
        and version_rank(version["name"]) < version_rank(name)
    ]
    text = f"{spec['group']}/{name} {spec['names']['kind']} is deprecated"
    return f"{text}; use {spec['group']}/{min(newer, key=version_rank)} {spec['names']['kind']}" if newer else text


def _validate_schema(obj: Object, openapi: dict[str, Any], old: Object | None) -> ErrorList:
    if old is None:
        return schema.validate(obj, openapi)
    # Metadata is excluded from the comparison, as its changes do not change the generation.
    old_with_type_meta = {**old, "kind": obj.get("kind"), "apiVersion": obj.get("apiVersion")}
    return schema.validate(obj, openapi, "", old_with_type_meta)


def _validate_status(obj: Object, openapi: dict[str, Any], old: Object | None) -> ErrorList:
    """The errors of an update of the status, of which upstream validates nothing else. Texts have the paths inside of
    it."""
    node = (openapi.get("properties") or {}).get("status")
    if node is None or "status" not in obj:
        return []
    errors = schema.validate(obj["status"], node, "", (old or {}).get("status"))
    return [FieldError(_below_status(error.field), error.reason, error.text) for error in errors]


def _below_status(path: str) -> str:
    if path in ("", "<nil>"):
        return "status"
    return f"status{path}" if path.startswith("[") else f"status.{path}"
