"""CustomResourceDefinitions: defaults and validation.

After apiextensions-apiserver's ``pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`` and
``pkg/registry/customresourcedefinition`` (v0.36). What a schema must be like is
``customresources.structural``'s.
"""

from typing import TYPE_CHECKING, Any, Literal

from pilothouse.apiserver import errors
from pilothouse.apiserver.customresources.approval import ANNOTATION, approval_of
from pilothouse.apiserver.customresources.field_paths import PathError, resolve
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.env.later import later
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

if TYPE_CHECKING:
    from pilothouse.apiserver.customresources import structural
else:
    structural = later("pilothouse.apiserver.customresources.structural")

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
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
        if not spec.get("conversion"):
            spec["conversion"] = {"strategy": "None"}
        if not spec.get("preserveUnknownFields"):
            spec.pop("preserveUnknownFields", None)
        for version in spec.get("versions") or ():
            version.setdefault("served", False)
            version.setdefault("storage", False)

    def prepare_create(self, obj: Object, now: str) -> None:
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": [
                version.get("name") for version in obj["spec"].get("versions") or () if version.get("storage")
            ][:1],
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

    def begin_delete(self, obj: Object, now: str) -> Literal["", "mark", "wait"]:
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            return "wait"
        meta["deletionTimestamp"] = now
        if FINALIZER not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
        return "mark"

    def validate(self, obj: Object) -> list[FieldError]:
        names, meta = obj["spec"]["names"], obj["metadata"]
        problems: list[FieldError] = []
        if meta.get("name") != f"{names.get('plural') or ''}.{obj['spec'].get('group') or ''}":
            told = 'must be spec.names.plural+"."+spec.group'
            problems.append(errors.invalid_value("metadata.name", meta.get("name") or "", told))
        return problems + self._spec_problems(obj) + _stored_problems(obj)

    def _spec_problems(self, obj: Object, unchanged: frozenset[str] = frozenset()) -> list[FieldError]:
        spec = obj["spec"]
        problems = _name_problems(obj, spec)
        if spec.get("scope") not in ("Cluster", "Namespaced"):
            if not spec.get("scope"):
                problems.append(errors.required("spec.scope"))
            else:
                problems.append(errors.not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
        if spec.get("preserveUnknownFields"):
            problems.append(
                errors.invalid_value(
                    "spec.preserveUnknownFields",
                    True,
                    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                    "spec.versions[*].schema instead",
                )
            )
        versions = spec.get("versions") or []
        names = [version.get("name") for version in versions]
        if len(set(names)) != len(names):
            shown = [_shown_version(version) for version in versions]
            problems.append(errors.invalid_value("spec.versions", shown, "must contain unique version names"))
        if sum(bool(version.get("storage")) for version in versions) != 1:
            problems.append(
                errors.invalid_value(
                    "spec.versions",
                    [_shown_version(version) for version in versions],
                    "must have exactly one version marked as storage version",
                )
            )
        for position, version in enumerate(versions):
            problems += _version_problems(version, _Places(versions, position), unchanged)
        return problems + _conversion_problems(spec.get("conversion") or {})

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if obj["spec"] == old["spec"]:
            return []
        problems = self._spec_problems(obj, _unchanged_schemas(obj, old))
        conditions = (old.get("status") or {}).get("conditions") or ()
        if any(found.get("type") == "Established" and found.get("status") == "True" for found in conditions):
            problems += _immutable_problems(obj, old, (("scope",), ("names", "kind")))
        problems += _immutable_problems(obj, old, (("group",), ("names", "plural")))
        served = [version.get("name") for version in obj["spec"].get("versions") or ()]
        for position, name in enumerate((old.get("status") or {}).get("storedVersions") or ()):
            if name not in served:
                problems.append(
                    FieldError(
                        f"status.storedVersions[{position}]",
                        "FieldValueInvalid",
                        f'Invalid value: "{name}": missing from spec.versions; {name} was previously a storage '
                        "version, and must remain in spec.versions until a storage migration ensures no data remains "
                        f"persisted in {name} and removes {name} from status.storedVersions",
                    )
                )
        return problems


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
    """The storage version must be among those that objects are stored in."""
    stored, where = (obj.get("status") or {}).get("storedVersions") or None, "status.storedVersions"
    if stored is None:
        return [errors.invalid_value(where, None, "must have at least one stored version")]
    return [
        errors.invalid_value(where, stored, f"must have the storage version {version['name']}")
        for version in obj["spec"].get("versions") or ()
        if version.get("storage") and version.get("name") not in stored
    ]


def _name_problems(obj: Object, spec: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    group, names = spec.get("group") or "", spec["names"]
    if not group:
        problems.append(errors.required("spec.group"))
    else:
        problems += [errors.invalid_value("spec.group", group, text) for text in dns_subdomain_errors(group)]
        if "." not in group:
            problems.append(errors.invalid_value("spec.group", group, "should be a domain with at least one dot"))
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            problems.append(errors.required(f"spec.names.{field}"))
            continue
        mixed = field in ("kind", "listKind")
        problems += [
            errors.invalid_value(
                f"spec.names.{field}",
                value,
                f"may have mixed case, but should otherwise match: {text}" if mixed else text,
            )
            for text in dns_1035_label_errors(value.lower() if mixed else value)
        ]
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        problems.append(
            errors.invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
        )
    for field in ("shortNames", "categories"):
        for position, value in enumerate(names.get(field) or ()):
            problems += [
                errors.invalid_value(f"spec.names.{field}[{position}]", value, text)
                for text in dns_1035_label_errors(value)
            ]
    approval = approval_of(obj)
    if approval is not None and approval.refuses:
        where = f"metadata.annotations[{ANNOTATION}]"
        if approval.given:
            problems.append(errors.invalid_value(where, approval.given, approval.message))
        else:
            problems.append(errors.required(where, approval.message))
    return problems


class _Places:
    """Where errors about a version are: the internal object keeps outside of the versions what all of them share."""

    def __init__(self, versions: list[Object], position: int) -> None:
        self.version = f"spec.versions[{position}]"
        self.first = position == 0
        self.schema_is_shared = _is_shared(versions, "schema")
        self.columns_are_shared = _is_shared(versions, "additionalPrinterColumns")
        self.subresources_are_shared = _is_shared(versions, "subresources")
        self.fields_are_shared = _is_shared(versions, "selectableFields")

    def parent(self, shared: bool) -> str:
        """Of a part of the version."""
        return "spec" if shared else self.version


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


def _version_problems(version: Object, places: _Places, unchanged: frozenset[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    name = version.get("name") or ""
    problems += [errors.invalid_value(f"{places.version}.name", name, text) for text in dns_1035_label_errors(name)]
    warning, where = version.get("deprecationWarning"), f"{places.version}.deprecationWarning"
    if warning is not None:
        if not version.get("deprecated"):
            problems.append(errors.invalid_value(where, warning, "can only be set for deprecated versions"))
        elif not warning:
            problems.append(errors.invalid_value(where, warning, "must not be an empty string"))
        elif len(warning.encode()) > 256:
            problems.append(errors.invalid_value(where, warning, "must be <= 256 bytes long"))
        elif any(not letter.isprintable() for letter in warning):
            problems.append(errors.invalid_value(where, warning, "must only contain printable UTF-8 characters"))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        problems.append(errors.required(f"{places.version}.schema.openAPIV3Schema", "schemas are required"))
    elif places.first or not places.schema_is_shared:
        where = "spec.validation" if places.schema_is_shared else f"{places.version}.schema"
        if "status" in (version.get("subresources") or {}):
            problems += _root_problems(schema, where)
        problems += structural.schema_problems(schema, f"{where}.openAPIV3Schema", known=name in unchanged)
    if places.first or not places.columns_are_shared:
        problems += _column_problems(version, places.parent(places.columns_are_shared))
    if places.first or not places.subresources_are_shared:
        problems += _scale_problems(version, places.parent(places.subresources_are_shared))
    if places.first or not places.fields_are_shared:
        problems += _selectable_problems(version, schema or {}, places.parent(places.fields_are_shared))
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


def _root_problems(schema: Object, path: str) -> list[FieldError]:
    """With a status subresource the status is validated alone, so nothing at the root may be about it."""
    known = [word for _name, word in _AT_ROOT]
    if any(word not in known for word, value in schema.items() if value not in (None, False, "", [], {})):
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
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    if not strategy:
        return [errors.required("spec.conversion.strategy")]
    if strategy not in ("None", "Webhook"):
        return [errors.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    versions = webhook.get("conversionReviewVersions") or ()
    where = "spec.conversion"
    if strategy == "Webhook":
        problems = []
        if not webhook.get("clientConfig"):
            problems.append(errors.required(f"{where}.webhookClientConfig", "required when strategy is set to Webhook"))
        if not versions:
            problems.append(errors.required(f"{where}.conversionReviewVersions"))
        elif not any(version in ("v1", "v1beta1") for version in versions):
            told = "must include at least one of v1, v1beta1"
            problems.append(errors.invalid_value(f"{where}.conversionReviewVersions", list(versions), told))
        return problems
    problems = []
    if webhook.get("clientConfig"):
        told = "should not be set when strategy is not set to Webhook"
        problems.append(errors.not_allowed(f"{where}.webhookClientConfig", told))
    if versions:
        told = "should not be set when strategy is not set to Webhook"
        problems.append(errors.not_allowed(f"{where}.conversionReviewVersions", told))
    return problems
