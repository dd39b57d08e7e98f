"""CustomResourceDefinitions in apiextensions.k8s.io/v1beta1, their storage version in v1.36. Pure.

Fields that are equal in all versions (schema, subresources, columns, selectable fields) are at the top level there
(apiextensions-apiserver ``pkg/apis/apiextensions/v1/conversion.go``, v0.36).
"""

from typing import Any

Object = dict[str, Any]
API_VERSION = "apiextensions.k8s.io/v1beta1"
_SHARED = (
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)
"""Fields of a version, and their names at the top level."""
_ORDER = (
    "group",
    "version",
    "names",
    "scope",
    "validation",
    "subresources",
    "versions",
    "additionalPrinterColumns",
    "selectableFields",
    "conversion",
    "preserveUnknownFields",
)
"""In the order of the Go struct."""


def to_v1beta1(definition: Object) -> Object:
    """Convert a definition from v1 to v1beta1. The parts that differ are copied, the others shared."""
    spec = dict(definition["spec"])
    versions = [dict(version) for version in spec.get("versions") or ()]
    if versions:
        spec["version"] = versions[0]["name"]
        for name, spec_field in _SHARED:
            value = versions[0].get(name)
            if all(version.get(name) == value for version in versions):
                for version in versions:
                    version.pop(name, None)
                if value is not None:
                    spec[spec_field] = value
    spec["versions"] = versions
    for spec_or_version in (spec, *versions):
        if spec_or_version.get("additionalPrinterColumns"):
            spec_or_version["additionalPrinterColumns"] = [
                _column_to_v1beta1(column) for column in spec_or_version["additionalPrinterColumns"]
            ]
    if spec.get("conversion"):
        spec["conversion"] = _conversion_to_v1beta1(spec["conversion"])
    spec["preserveUnknownFields"] = bool(spec.get("preserveUnknownFields"))
    ordered = {name: spec[name] for name in _ORDER if name in spec}
    return {**definition, "apiVersion": API_VERSION, "spec": ordered}


def from_v1beta1(definition: Object) -> Object:
    """Convert a definition from v1beta1 to v1, without kind and apiVersion."""
    spec = dict(definition.get("spec") or {})
    name = spec.pop("version", None)
    versions = [dict(version) for version in spec.pop("versions", None) or ()]
    if not versions and name:
        versions = [{"name": name, "served": True, "storage": True}]
    for field, spec_field in _SHARED:
        value = spec.pop(spec_field, None)
        if value is not None:
            for version in versions:
                version[field] = value
    for version in versions:
        if version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [
                _column_from_v1beta1(column) for column in version["additionalPrinterColumns"]
            ]
    ordered: Object = {field: spec.pop(field) for field in ("group", "names", "scope") if field in spec}
    ordered["versions"] = versions
    conversion = spec.pop("conversion", None) or {"strategy": "None"}
    ordered["conversion"] = _conversion_from_v1beta1(conversion)
    if spec.pop("preserveUnknownFields", True):  # the default of v1beta1
        ordered["preserveUnknownFields"] = True
    other_fields = {field: value for field, value in definition.items() if field not in ("kind", "apiVersion")}
    return {**other_fields, "spec": {**ordered, **spec}}


def _column_to_v1beta1(column: Object) -> Object:
    return {("JSONPath" if name == "jsonPath" else name): value for name, value in column.items()}


def _column_from_v1beta1(column: Object) -> Object:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _conversion_to_v1beta1(conversion: Object) -> Object:
    converted: Object = {"strategy": conversion["strategy"]}
    webhook = conversion.get("webhook") or {}
    if webhook.get("clientConfig") is not None:
        converted["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        converted["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return converted


def _conversion_from_v1beta1(conversion: Object) -> Object:
    converted: Object = {"strategy": conversion["strategy"]}
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or reviews is not None:
        webhook = converted["webhook"] = {}
        if client is not None:
            webhook["clientConfig"] = client
        webhook["conversionReviewVersions"] = reviews
    return converted
