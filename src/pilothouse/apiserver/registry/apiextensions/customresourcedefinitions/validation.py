"""Validation of CustomResourceDefinitions. After ``pkg/apis/apiextensions/validation/validation.go`` (v1.36)."""

from collections.abc import Iterator, Sequence
from typing import Any

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    repeated,
    required,
    too_many,
)
from pilothouse.apiserver.objects import Object
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.apiextensions import approval as approvals
    from pilothouse.apiserver.apiextensions import field_paths, structural
    from pilothouse.apiserver.registry.admissionregistration import webhook_validation


_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_custom_resource_definition(obj: Object) -> ErrorList:
    all_errors = _validate_custom_resource_definition_spec(obj["spec"]) + _validate_stored_versions(obj)
    return all_errors + _validate_approval(obj) + _validate_preserve_unknown_fields(obj["spec"])


def validate_custom_resource_definition_update(obj: Object, old: Object) -> ErrorList:
    errors: ErrorList = []
    if obj["spec"] != old["spec"]:
        conditions = (old.get("status") or {}).get("conditions") or ()
        established = any(
            condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions
        )
        errors = _validate_custom_resource_definition_spec(
            obj["spec"],
            _unchanged_schemas(obj, old),
            require_recognized_conversion_review_version=_has_valid_conversion_review_version_or_empty(
                old["spec"].get("conversion") or {}
            ),
            require_valid_ca_bundle=established and not ca_bundle_errors(old),
        )
        if established:
            errors += _validate_immutable(obj, old, (("scope",), ("names", "kind")))
        errors += _validate_immutable(obj, old, (("group",), ("names", "plural")))
    errors += _validate_stored_versions(obj)
    approval, old_approval = approvals.approval_of(obj), approvals.approval_of(old)
    if approval is not None and (old_approval is None or approval.reason != old_approval.reason):
        errors += _validate_approval(obj)
    if not old["spec"].get("preserveUnknownFields"):
        errors += _validate_preserve_unknown_fields(obj["spec"])
    return errors


def _validate_immutable(obj: Object, old: Object, paths: tuple[tuple[str, ...], ...]) -> ErrorList:
    errors = []
    for path in paths:
        new = _nested_field(obj["spec"], path)
        if new != _nested_field(old["spec"], path):
            bad_value = internal_value("named" if path == ("scope",) else "string", new)
            errors.append(invalid("spec." + ".".join(path), bad_value, "field is immutable"))
    return errors


def _nested_field(node: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        node = (node or {}).get(name)
    return node


def _format_versions(versions: Sequence[Object]) -> str:
    """The versions as Go prints their internal type, in which fields that are equal in all versions are unset."""
    shared = [
        field
        for field in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
        if all((version.get(field) or None) == (versions[0].get(field) or None) for version in versions)
    ]
    own_fields = [{name: value for name, value in version.items() if name not in shared} for version in versions]
    return internal_value("[]apiextensions.CustomResourceDefinitionVersion", own_fields or None)


def _validate_stored_versions(obj: Object) -> ErrorList:
    """``ValidateCustomResourceDefinitionStoredVersions``: ``storedVersions`` must include the storage version, and the
    spec must have all of them."""
    stored_versions, path = (obj.get("status") or {}).get("storedVersions") or None, "status.storedVersions"
    if stored_versions is None:
        return [invalid(path, None, "must have at least one stored version")]
    errors: ErrorList = []
    positions = {name: position for position, name in enumerate(stored_versions)}
    for version in obj["spec"].get("versions") or ():
        # As upstream, the second of two versions with the same name counts as not stored.
        name = version.get("name") or ""
        if positions.pop(name, None) is None and version.get("storage"):
            errors.append(invalid(path, stored_versions, f"must have the storage version {name}"))
    return errors + [
        invalid(
            f"{path}[{position}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions "
            f"until a storage migration ensures no data remains persisted in {name} and removes {name} from "
            "status.storedVersions",
        )
        for name, position in positions.items()
    ]


def _validate_custom_resource_definition_spec(
    spec: Object,
    unchanged: frozenset[str] = frozenset(),
    *,
    require_recognized_conversion_review_version: bool = True,
    require_valid_ca_bundle: bool = False,
) -> ErrorList:
    """The errors in the spec, in upstream's order. The schemas of the versions named in ``unchanged`` have not changed.
    The two options are upstream's ``validationOptions``; on updates each is off if the old definition violates it."""
    group, versions = spec.get("group") or "", spec.get("versions") or []
    errors: ErrorList = []
    if not group:
        errors.append(required("spec.group"))
    elif msgs := dns_subdomain_errors(group):
        errors.append(invalid("spec.group", group, ",".join(msgs)))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    if not spec.get("scope"):
        errors.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"), plain=True))
    errors += [
        required(f"spec.versions[{position}].schema.openAPIV3Schema")
        for position, version in enumerate(versions)
        if _schema(version) is None
    ]
    preserves = bool(spec.get("preserveUnknownFields"))
    if preserves and any(_has_defaults(_schema(version)) for version in versions):
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    version_fields = _VersionFields(versions)
    for position, version in enumerate(versions):
        errors += _validate_version(version, f"spec.versions[{position}]", version_fields, unchanged)
    names = [version.get("name") for version in versions]
    if len(set(names)) != len(names):
        errors.append(invalid("spec.versions", _format_versions(versions), "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", _format_versions(versions), detail))
    if names and names[0] and (msgs := dns_1035_label_errors(names[0])):
        errors.append(invalid("spec.version", names[0], ",".join(msgs)))
    errors += [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not spec["names"].get(field)
    ]
    errors += validate_names(spec["names"], "spec.names")
    if versions:
        errors += _validate_subresources_and_columns(
            versions[0], "spec", version_fields.shared, unchanged, status=version_fields.any_status
        )
    conversion = spec.get("conversion") or {}
    if preserves and conversion.get("strategy") != "None":
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", of_named_type(conversion.get("strategy") or ""), detail))
    return errors + _validate_conversion(
        conversion,
        require_recognized_conversion_review_version=require_recognized_conversion_review_version,
        require_valid_ca_bundle=require_valid_ca_bundle,
    )


def _has_defaults(node: Any) -> bool:
    if isinstance(node, list):
        return any(_has_defaults(subschema) for subschema in node)
    if not isinstance(node, dict):
        return False
    if node.get("default") is not None:
        return True
    subschemas = [node.get(keyword) for keyword in _SCHEMA_KEYWORDS]
    subschemas += [subschema for keyword in _SCHEMA_MAP_KEYWORDS for subschema in (node.get(keyword) or {}).values()]
    return any(_has_defaults(subschema) for subschema in subschemas)


_SCHEMA_KEYWORDS = ("items", "allOf", "oneOf", "anyOf", "not", "additionalProperties", "additionalItems")
_SCHEMA_MAP_KEYWORDS = ("properties", "patternProperties", "definitions", "dependencies")


def _schema(version: Object) -> Object | None:
    schema: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def validate_names(names: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    for field in ("plural", "singular"):
        errors += _validate_label(f"{path}.{field}", names.get(field))
    for field in ("kind", "listKind"):
        value: str = names.get(field) or ""
        msgs = dns_1035_label_errors(value.lower()) if value else []
        if msgs:
            detail = f"may have mixed case, but should otherwise match: {','.join(msgs)}"
            errors.append(invalid(f"{path}.{field}", value, detail))
    for position, value in enumerate(names.get("shortNames") or ()):
        errors += _validate_label(f"{path}.shortNames[{position}]", value, validate_empty=True)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"))
    for position, value in enumerate(names.get("categories") or ()):
        errors += _validate_label(f"{path}.categories[{position}]", value, validate_empty=True)
    return errors


def _validate_label(path: str, value: str | None, *, validate_empty: bool = False) -> ErrorList:
    """``empty``: whether an empty string is validated too."""
    msgs = dns_1035_label_errors(value or "") if value or validate_empty else []
    return [invalid(path, value or "", ",".join(msgs))] if msgs else []


def _validate_approval(obj: Object) -> ErrorList:
    approval, path = approvals.approval_of(obj), f"metadata.annotations[{approvals.ANNOTATION}]"
    if approval is None or not approval.invalid:
        return []
    if approval.annotation:
        return [invalid(path, approval.annotation, approval.message)]
    return [required(path, approval.message)]


def _validate_preserve_unknown_fields(spec: Object) -> ErrorList:
    if not spec.get("preserveUnknownFields"):
        return []
    reason = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [invalid("spec.preserveUnknownFields", True, reason)]


_PER_VERSION_FIELDS = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


class _VersionFields:
    """The fields of versions that are validated in the spec (``shared``: equal in all versions; the internal type has
    them there), and in each version (``per_version``)."""

    def __init__(self, versions: list[Object]) -> None:
        self.shared = [field for field in _PER_VERSION_FIELDS if _is_shared(versions, field)]
        self.per_version = [field for field in _PER_VERSION_FIELDS if field not in self.shared]
        self.any_status = any("status" in (version.get("subresources") or {}) for version in versions)


def _is_shared(versions: list[Object], field: str) -> bool:
    return all(version.get(field) and version[field] == versions[0].get(field) for version in versions)


def _unchanged_schemas(obj: Object, old: Object) -> frozenset[str]:
    """The names of the versions whose schema has not changed."""
    old_schemas = {version.get("name"): version.get("schema") for version in old["spec"].get("versions") or ()}
    return frozenset(
        version.get("name") or ""
        for version in obj["spec"].get("versions") or ()
        if version.get("name") in old_schemas and version.get("schema") == old_schemas[version.get("name")]
    )


def _validate_version(
    version: Object, path: str, version_fields: _VersionFields, unchanged: frozenset[str]
) -> ErrorList:
    errors = _validate_label(f"{path}.name", version.get("name"), validate_empty=True)
    warning = version.get("deprecationWarning")
    if warning is not None:
        errors += [
            invalid(f"{path}.deprecationWarning", warning, reason)
            for reason in _validate_warning(warning, deprecated=bool(version.get("deprecated")))
        ]
    return errors + _validate_subresources_and_columns(version, path, version_fields.per_version, unchanged)


def _validate_warning(warning: str, *, deprecated: bool) -> Iterator[str]:
    if not deprecated:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    non_printable = next((position for position, char in enumerate(warning) if not char.isprintable()), None)
    if non_printable is not None:
        index = len(warning[:non_printable].encode())
        yield f"must only contain printable UTF-8 characters; non-printable character found at index {index}"


def _validate_subresources_and_columns(
    version: Object, parent: str, fields: list[str], unchanged: frozenset[str], *, status: bool = False
) -> ErrorList:
    """The errors in these fields of a version, or of the spec (the fields that all versions share). ``status``: whether
    some version has the status subresource."""
    errors: ErrorList = []
    schema = _schema(version)
    if schema is not None and "schema" in fields:
        path = f"{parent}.{'validation' if parent == 'spec' else 'schema'}"
        if status or "status" in (version.get("subresources") or {}):
            errors += _validate_schema_root(schema, path)
        is_unchanged = version.get("name") in unchanged
        errors += structural.validate_schema(schema, f"{path}.openAPIV3Schema", is_stored=is_unchanged)
    if "subresources" in fields:
        errors += _validate_subresource_scale(version, parent)
    if "additionalPrinterColumns" in fields:
        errors += _validate_additional_printer_column(version, parent)
    if "selectableFields" not in fields or not version.get("selectableFields"):
        return errors
    if schema is None or "schema" not in fields:
        # Upstream reports this too if only one of the two is shared by all versions.
        return [*errors, invalid(f"{parent}.selectableFields", "", _NO_SCHEMA[parent == "spec"])]
    return errors + _validate_selectable_fields(version, schema, parent)


_NO_SCHEMA = (
    "may only be set when `version.schema.openAPIV3Schema` is not included",
    "may only be set when validations.schema is included",
)


_ALLOWED_AT_ROOT = (
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


_REJECTED_BEFORE_TYPE = ("id", "$schema", "$ref")


def _validate_schema_root(schema: Object, path: str) -> ErrorList:
    """With a status subresource the status is validated separately, so only some keywords are allowed at the root."""
    allowed_keywords = [keyword for _name, keyword in _ALLOWED_AT_ROOT]
    forbidden_keywords = [
        keyword
        for keyword, value in schema.items()
        if keyword not in allowed_keywords and value not in (None, False, "", [], {})
    ]
    kind = schema.get("type")
    if kind and kind != "object" and not any(keyword in _REJECTED_BEFORE_TYPE for keyword in forbidden_keywords):
        reason = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.openAPIV3Schema.type", kind, reason)]
    if forbidden_keywords:
        allowed_fields = " ".join(name for name, _keyword in _ALLOWED_AT_ROOT)
        reason = (
            f"only [{allowed_fields}] fields are allowed at the root of the schema if the status subresource is enabled"
        )
        return [invalid(f"{path}.openAPIV3Schema", internal_value("apiextensions.JSONSchemaProps", schema), reason)]
    return []


def _validate_additional_printer_column(version: Object, parent: str) -> ErrorList:
    errors: ErrorList = []
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        child_path, path = f"{parent}.additionalPrinterColumns[{position}]", column.get("jsonPath") or ""
        if not column.get("name"):
            errors.append(required(f"{child_path}.name"))
        if not column.get("type"):
            errors.append(required(f"{child_path}.type", types))
        elif column["type"] not in _COLUMN_TYPES:
            errors.append(invalid(f"{child_path}.type", column["type"], types))
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            errors.append(
                invalid(f"{child_path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
            )
        if not path:
            errors.append(required(f"{child_path}.JSONPath"))
        elif not path.startswith("."):
            errors.append(invalid(f"{child_path}.JSONPath", path, "must be a simple json path starting with ."))
    return errors


def _validate_subresource_scale(version: Object, parent: str) -> ErrorList:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors: ErrorList = []
    for field, roots in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        value = scale.get(field) or ""
        path = f"{parent}.subresources.scale.{field}"
        if not value:
            if field != "labelSelectorPath":
                errors.append(required(path))
        elif not value.startswith("."):
            errors.append(invalid(path, value, "must be a simple json path starting with ."))
        elif not value.startswith(tuple(root + "." for root in roots)):
            allowed_roots = roots[0] if len(roots) == 1 else f"either {' or '.join(roots)}"
            errors.append(invalid(path, value, f"should be a json path under {allowed_roots}"))
    return errors


def _validate_selectable_fields(version: Object, schema: Object, parent: str) -> ErrorList:
    errors: ErrorList = []
    unique_selectable_fields: set[str] = set()
    for position, field in enumerate(version.get("selectableFields") or ()):
        child_path, json_path = f"{parent}.selectableFields[{position}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            errors.append(required(child_path))
            continue
        try:
            path, field_schema = field_paths.resolve(json_path, schema, arrays=False)
        except field_paths.PathError as error:
            errors.append(invalid(child_path, json_path, f"is an invalid path: {error}"))
            continue
        if path.partition(".")[0] == "metadata":
            errors.append(invalid(child_path, json_path, "must not point to fields in metadata"))
        if field_schema.get("type") not in ("string", "boolean", "integer"):
            detail = "must point to a field of type string, boolean or integer. "
            detail += "Enum string fields and strings with formats are allowed."
            errors.append(invalid(child_path, json_path, detail))
        if path in unique_selectable_fields:
            errors.append(duplicate(child_path, json_path))
        else:
            unique_selectable_fields.add(path)
    if len(unique_selectable_fields) > 8:
        errors.append(too_many(f"{parent}.selectableFields", len(unique_selectable_fields), 8))
    return errors


def ca_bundle_errors(definition: Object) -> ErrorList:
    """The errors in the ``caBundle`` of the conversion webhook, if there is one."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    return webhook_validation.validate_ca_bundle(bundle, "spec.conversion.webhookClientConfig.caBundle")


def _has_valid_conversion_review_version_or_empty(conversion: Object) -> bool:
    """Whether ``conversionReviewVersions`` is empty or has a version that the server supports."""
    versions = (conversion.get("webhook") or {}).get("conversionReviewVersions") or []
    return not versions or any(version in _REVIEW_VERSIONS for version in versions)


_REVIEW_VERSIONS = ("v1", "v1beta1")


def _validate_conversion(
    conversion: Object, *, require_recognized_conversion_review_version: bool, require_valid_ca_bundle: bool
) -> ErrorList:
    strategy, webhook, path = conversion.get("strategy"), conversion.get("webhook") or {}, "spec.conversion"
    errors: ErrorList = []
    if not strategy:
        errors.append(required(f"{path}.strategy"))
    elif strategy not in ("None", "Webhook"):
        errors.append(not_supported(f"{path}.strategy", strategy, ("None", "Webhook"), plain=True))
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy == "Webhook":
        if config is None:
            errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
        else:
            errors += _validate_webhook_client_config(config, f"{path}.webhookClientConfig")
            if require_valid_ca_bundle:
                errors += ca_bundle_errors({"spec": {"conversion": conversion}})
        return errors + _validate_conversion_review_versions(
            versions,
            f"{path}.conversionReviewVersions",
            require_recognized=require_recognized_conversion_review_version,
        )
    detail = "should not be set when strategy is not set to Webhook"
    if config is not None:
        errors.append(forbidden(f"{path}.webhookClientConfig", detail))
    if versions:
        errors.append(forbidden(f"{path}.conversionReviewVersions", detail))
    return errors


def _validate_webhook_client_config(config: Object, path: str) -> ErrorList:
    url: str | None = config.get("url")
    service: Object | None = config.get("service")
    if url is not None and service is None:
        return webhook_validation.validate_webhook_url(url, f"{path}.url")
    if service is not None and url is None:
        return webhook_validation.validate_webhook_service(service, f"{path}.service")
    return [required(path, "exactly one of url or service is required")]


def _validate_conversion_review_versions(versions: list[str], path: str, *, require_recognized: bool) -> ErrorList:
    if not versions:
        return [required(path)]
    errors: ErrorList = []
    repeated_versions = repeated(versions)
    for position, version in enumerate(versions):
        if position in repeated_versions:
            errors.append(invalid(f"{path}[{position}]", version, "duplicate version"))
        else:
            errors += [invalid(f"{path}[{position}]", version, msg) for msg in dns_1035_label_errors(version)]
    if require_recognized and not any(version in _REVIEW_VERSIONS for version in versions):
        errors.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return errors
