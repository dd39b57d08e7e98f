"""CustomResourceDefinitions: defaults and validation.

After apiextensions-apiserver's ``pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`` and
``pkg/registry/customresourcedefinition`` (v0.36). What a schema must be like is
``customresources.structural``'s.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.apiserver import errors
from pilothouse.apiserver.conditions import set_condition
from pilothouse.apiserver.customresources.approval import ANNOTATION, approval_of
from pilothouse.apiserver.customresources.field_paths import PathError, resolve
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import fill
from pilothouse.env.later import later
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

if TYPE_CHECKING:
    from pilothouse.apiserver.customresources import structural
    from pilothouse.apiserver.strategies import registrations
else:
    structural = later("pilothouse.apiserver.customresources.structural")
    registrations = later("pilothouse.apiserver.strategies.registrations")

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


class DefinitionStrategy(Strategy):
    """``apiextensions.k8s.io/v1`` CustomResourceDefinitions."""

    raises_generation_on_delete = False

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        names: Object = spec.setdefault("names", {})
        kind = names.get("kind") or ""
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = kind + "List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        if not spec.get("preserveUnknownFields"):
            spec.pop("preserveUnknownFields", None)
        service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            fill(service, {"port": 443})
        for version in spec.get("versions") or ():
            version.setdefault("served", False)
            version.setdefault("storage", False)
        status: Object = obj.get("status") or {}
        obj["status"] = {**status, "storedVersions": status.get("storedVersions") or _storage_version(spec)}

    def prepare_create(self, obj: Object, now: str) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_version(obj["spec"]),
        }

    def prepare_update(self, obj: Object, old: Object) -> None:
        status: Object = {**(old.get("status") or {})}
        stored = list(status.get("storedVersions") or ())
        for version in obj["spec"].get("versions") or ():
            if version.get("storage") and version.get("name") not in stored:
                stored.append(version.get("name"))
        status["storedVersions"] = stored
        obj["status"] = status

    def finish(self, obj: Object) -> None:
        status: Object = obj.setdefault("status", {})
        status.setdefault("conditions", None)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})

    def begin_delete(self, obj: Object, now: str) -> Literal["", "mark only"]:
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            return ""
        meta["deletionTimestamp"] = now
        if FINALIZER not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
        status = obj["status"] = {**(obj.get("status") or {})}
        set_condition(status, now, "Terminating", True, "InstanceDeletionPending", _PENDING)
        return "mark only"

    def validate(self, obj: Object) -> list[FieldError]:
        names, meta = obj["spec"]["names"], obj["metadata"]
        only = f"{names.get('plural') or ''}.{obj['spec'].get('group') or ''}"
        problems = [
            errors.invalid_value(f"metadata.{field}", meta[field], 'must be spec.names.plural+"."+spec.group')
            for field in ("generateName", "name")
            if meta.get(field) and meta[field] != only
        ]
        problems += _spec_problems(obj["spec"]) + _stored_problems(obj)
        return problems + _approval_problems(obj) + _preserve_problems(obj["spec"])

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        if obj["spec"] != old["spec"]:
            problems = _spec_problems(obj["spec"], _unchanged_schemas(obj, old))
            conditions = (old.get("status") or {}).get("conditions") or ()
            if any(found.get("type") == "Established" and found.get("status") == "True" for found in conditions):
                problems += _immutable_problems(obj, old, (("scope",), ("names", "kind")))
            problems += _immutable_problems(obj, old, (("group",), ("names", "plural")))
        problems += _stored_problems(obj)
        approval, before = approval_of(obj), approval_of(old)
        if approval is not None and (before is None or approval.reason != before.reason):
            problems += _approval_problems(obj)
        if not old["spec"].get("preserveUnknownFields"):
            problems += _preserve_problems(obj["spec"])
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _name_problems((obj.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _storage_version(spec: Object) -> list[str]:
    return [version.get("name") or "" for version in spec.get("versions") or () if version.get("storage")][:1]


def _immutable_problems(obj: Object, old: Object, paths: tuple[tuple[str, ...], ...]) -> list[FieldError]:
    problems = []
    for path in paths:
        new = _at(obj["spec"], path)
        if new != _at(old["spec"], path):
            problems.append(errors.invalid_value("spec." + ".".join(path), new, "field is immutable"))
    return problems


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        node = (node or {}).get(part)
    return node


def _shown_version(version: Object) -> Object:
    """A version as the internal type prints: Go's names. What all versions share is kept outside of them."""
    return {
        "Name": version.get("name"),
        "Served": version.get("served"),
        "Storage": version.get("storage"),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


def _stored_problems(obj: Object) -> list[FieldError]:
    """The storage version must be among those that objects are stored in, and all of these must be there."""
    stored, where = (obj.get("status") or {}).get("storedVersions") or None, "status.storedVersions"
    if stored is None:
        return [errors.invalid_value(where, None, "must have at least one stored version")]
    problems: list[FieldError] = []
    left = {name: position for position, name in enumerate(stored)}
    for version in obj["spec"].get("versions") or ():
        # One that is there twice is there no more for the second.
        name = version.get("name") or ""
        if left.pop(name, None) is None and version.get("storage"):
            problems.append(errors.invalid_value(where, stored, f"must have the storage version {name}"))
    return problems + [
        errors.invalid_value(
            f"{where}[{position}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions",
        )
        for name, position in left.items()
    ]


def _spec_problems(spec: Object, unchanged: frozenset[str] = frozenset()) -> list[FieldError]:
    """What is wrong with the spec, in upstream's order. The versions named in ``unchanged`` have the schema that they
    had."""
    group, versions = spec.get("group") or "", spec.get("versions") or []
    problems: list[FieldError] = []
    if not group:
        problems.append(errors.required("spec.group"))
    elif found := dns_subdomain_errors(group):
        problems.append(errors.invalid_value("spec.group", group, ",".join(found)))
    elif "." not in group:
        problems.append(errors.invalid_value("spec.group", group, "should be a domain with at least one dot"))
    if not spec.get("scope"):
        problems.append(errors.required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        problems.append(errors.not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    problems += [
        errors.required(f"spec.versions[{position}].schema.openAPIV3Schema", "schemas are required")
        for position, version in enumerate(versions)
        if _schema(version) is None
    ]
    places = _Places(versions)
    for position, version in enumerate(versions):
        problems += _version_problems(version, f"spec.versions[{position}]", places, unchanged)
    names = [version.get("name") for version in versions]
    shown = [_shown_version(version) for version in versions]
    if len(set(names)) != len(names):
        problems.append(errors.invalid_value("spec.versions", shown, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        told = "must have exactly one version marked as storage version"
        problems.append(errors.invalid_value("spec.versions", shown, told))
    if names and names[0] and (found := dns_1035_label_errors(names[0])):
        problems.append(errors.invalid_value("spec.version", names[0], ",".join(found)))
    problems += [
        errors.required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not spec["names"].get(field)
    ]
    problems += _name_problems(spec["names"], "spec.names")
    if versions:
        problems += _part_problems(versions[0], "spec", places.shared, unchanged, status=places.status_anywhere)
    return problems + _conversion_problems(spec.get("conversion") or {})


def _schema(version: Object) -> Object | None:
    schema: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _name_problems(names: Object, path: str) -> list[FieldError]:
    """What is wrong with the names that are there."""
    problems: list[FieldError] = []
    for field in ("plural", "singular"):
        problems += _label_problems(f"{path}.{field}", names.get(field))
    for field in ("kind", "listKind"):
        value: str = names.get(field) or ""
        found = dns_1035_label_errors(value.lower()) if value else []
        if found:
            told = f"may have mixed case, but should otherwise match: {','.join(found)}"
            problems.append(errors.invalid_value(f"{path}.{field}", value, told))
    for position, value in enumerate(names.get("shortNames") or ()):
        problems += _label_problems(f"{path}.shortNames[{position}]", value, empty=True)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        problems.append(
            errors.invalid_value(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
        )
    for position, value in enumerate(names.get("categories") or ()):
        problems += _label_problems(f"{path}.categories[{position}]", value, empty=True)
    return problems


def _label_problems(path: str, value: str | None, *, empty: bool = False) -> list[FieldError]:
    """``empty``: whether an empty text is looked at, too."""
    found = dns_1035_label_errors(value or "") if value or empty else []
    return [errors.invalid_value(path, value or "", ",".join(found))] if found else []


def _approval_problems(obj: Object) -> list[FieldError]:
    approval, where = approval_of(obj), f"metadata.annotations[{ANNOTATION}]"
    if approval is None or not approval.refuses:
        return []
    if approval.given:
        return [errors.invalid_value(where, approval.given, approval.message)]
    return [errors.required(where, approval.message)]


def _preserve_problems(spec: Object) -> list[FieldError]:
    if not spec.get("preserveUnknownFields"):
        return []
    why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [errors.invalid_value("spec.preserveUnknownFields", True, why)]


_PARTS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


class _Places:
    """Where errors about versions are: the internal object keeps outside of them what is the same in all."""

    def __init__(self, versions: list[Object]) -> None:
        self.shared = [part for part in _PARTS if _is_shared(versions, part)]
        self.own = [part for part in _PARTS if part not in self.shared]
        self.status_anywhere = any("status" in (version.get("subresources") or {}) for version in versions)


def _is_shared(versions: list[Object], part: str) -> bool:
    return all(version.get(part) and version[part] == versions[0].get(part) for version in versions)


def _unchanged_schemas(obj: Object, old: Object) -> frozenset[str]:
    """The versions whose schema is as it was."""
    known = {version.get("name"): version.get("schema") for version in old["spec"].get("versions") or ()}
    return frozenset(
        version.get("name") or ""
        for version in obj["spec"].get("versions") or ()
        if version.get("name") in known and version.get("schema") == known[version.get("name")]
    )


def _version_problems(version: Object, path: str, places: _Places, unchanged: frozenset[str]) -> list[FieldError]:
    problems = _label_problems(f"{path}.name", version.get("name"), empty=True)
    warning = version.get("deprecationWarning")
    if warning is not None:
        problems += [
            errors.invalid_value(f"{path}.deprecationWarning", warning, why)
            for why in _warning_problems(warning, deprecated=bool(version.get("deprecated")))
        ]
    return problems + _part_problems(version, path, places.own, unchanged)


def _warning_problems(warning: str, *, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    strange = next((position for position, letter in enumerate(warning) if not letter.isprintable()), None)
    if strange is not None:
        at = len(warning[:strange].encode())
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {at}"


def _part_problems(
    version: Object, parent: str, parts: list[str], unchanged: frozenset[str], *, status: bool = False
) -> list[FieldError]:
    """What is wrong with some parts of a version, or, at the spec, with those that all versions share. ``status``: some
    version has it as a subresource."""
    problems: list[FieldError] = []
    schema = _schema(version)
    if schema is not None and "schema" in parts:
        where = f"{parent}.{'validation' if parent == 'spec' else 'schema'}"
        if status or "status" in (version.get("subresources") or {}):
            problems += _root_problems(schema, where)
        known = version.get("name") in unchanged
        problems += structural.schema_problems(schema, f"{where}.openAPIV3Schema", known=known)
    if "subresources" in parts:
        problems += _scale_problems(version, parent)
    if "additionalPrinterColumns" in parts:
        problems += _column_problems(version, parent)
    if "selectableFields" in parts:
        problems += _selectable_problems(version, schema or {}, parent)
    return problems


_AT_ROOT = (
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
)


_BEFORE_TYPE = ("id", "$schema", "$ref")


def _root_problems(schema: Object, path: str) -> list[FieldError]:
    """With a status subresource the status is validated alone, so nothing at the root may be about it."""
    known = [word for _name, word in _AT_ROOT]
    strange = [word for word, value in schema.items() if word not in known and value not in (None, False, "", [], {})]
    kind = schema.get("type")
    if kind and kind != "object" and not any(word in _BEFORE_TYPE for word in strange):
        why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [errors.invalid_value(f"{path}.openAPIV3Schema.type", kind, why)]
    if strange:
        listed = " ".join(name for name, _word in _AT_ROOT)
        why = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
        return [errors.invalid_value(f"{path}.openAPIV3Schema", schema, why)]
    return []


def _column_problems(version: Object, parent: str) -> list[FieldError]:
    problems: list[FieldError] = []
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, path = f"{parent}.additionalPrinterColumns[{position}]", column.get("jsonPath") or ""
        if not column.get("name"):
            problems.append(errors.required(f"{where}.name"))
        if not column.get("type"):
            problems.append(errors.required(f"{where}.type", types))
        elif column["type"] not in _COLUMN_TYPES:
            problems.append(errors.invalid_value(f"{where}.type", column["type"], types))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            told = f"must be one of {','.join(_COLUMN_FORMATS)}"
            problems.append(errors.invalid_value(f"{where}.format", column["format"], told))
        if not path:
            problems.append(errors.required(f"{where}.JSONPath"))
        elif not path.startswith("."):
            told = "must be a simple json path starting with ."
            problems.append(errors.invalid_value(f"{where}.JSONPath", path, told))
    return problems


def _scale_problems(version: Object, parent: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    problems: list[FieldError] = []
    for field, roots in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        value = scale.get(field) or ""
        where = f"{parent}.subresources.scale.{field}"
        if not value:
            if field != "labelSelectorPath":
                problems.append(errors.required(where))
        elif not value.startswith("."):
            problems.append(errors.invalid_value(where, value, "must be a simple json path starting with ."))
        elif not value.startswith(tuple(root + "." for root in roots)):
            under = roots[0] if len(roots) == 1 else f"either {' or '.join(roots)}"
            problems.append(errors.invalid_value(where, value, f"should be a json path under {under}"))
    return problems


def _selectable_problems(version: Object, schema: Object, parent: str) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: list[str] = []
    for position, field in enumerate(version.get("selectableFields") or ()):
        where, given = f"{parent}.selectableFields[{position}].jsonPath", field.get("jsonPath") or ""
        if not given:
            problems.append(errors.required(where))
            continue
        try:
            path, found = resolve(given, schema, arrays=False)
        except PathError as error:
            problems.append(errors.invalid_value(where, given, f"is an invalid path: {error}"))
            continue
        if path.partition(".")[0] == "metadata":
            problems.append(errors.invalid_value(where, given, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            told = "must point to a field of type string, boolean or integer. "
            told += "Enum string fields and strings with formats are allowed."
            problems.append(errors.invalid_value(where, given, told))
        if path in seen:
            problems.append(errors.duplicate(where, given))
        else:
            seen.append(path)
    if len(seen) > 8:
        problems.append(errors.too_many(f"{parent}.selectableFields", len(seen), 8))
    return problems


def _conversion_problems(conversion: Object) -> list[FieldError]:
    strategy, webhook, where = conversion.get("strategy"), conversion.get("webhook") or {}, "spec.conversion"
    problems: list[FieldError] = []
    if not strategy:
        problems.append(errors.required(f"{where}.strategy"))
    elif strategy not in ("None", "Webhook"):
        problems.append(errors.not_supported(f"{where}.strategy", strategy, ("None", "Webhook")))
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        if config is None:
            problems.append(errors.required(f"{where}.webhookClientConfig", "required when strategy is set to Webhook"))
        else:
            problems += _client_problems(config, f"{where}.webhookClientConfig")
        return problems + _review_problems(versions, f"{where}.conversionReviewVersions")
    told = "should not be set when strategy is not set to Webhook"
    if config is not None:
        problems.append(errors.not_allowed(f"{where}.webhookClientConfig", told))
    if versions:
        problems.append(errors.not_allowed(f"{where}.conversionReviewVersions", told))
    return problems


def _client_problems(config: Object, path: str) -> list[FieldError]:
    url: str | None = config.get("url")
    service: Object | None = config.get("service")
    if url is not None and service is None:
        return registrations.url_problems(url, f"{path}.url")
    if service is not None and url is None:
        return registrations.service_problems(service, f"{path}.service")
    return [errors.required(path, "exactly one of url or service is required")]


def _review_problems(versions: list[str], path: str) -> list[FieldError]:
    if not versions:
        return [errors.required(path)]
    problems: list[FieldError] = []
    for position, version in enumerate(versions):
        if version in versions[:position]:
            problems.append(errors.invalid_value(f"{path}[{position}]", version, "duplicate version"))
        else:
            problems += [
                errors.invalid_value(f"{path}[{position}]", version, text) for text in dns_1035_label_errors(version)
            ]
    if not any(version in ("v1", "v1beta1") for version in versions):
        problems.append(errors.invalid_value(path, versions, "must include at least one of v1, v1beta1"))
    return problems
