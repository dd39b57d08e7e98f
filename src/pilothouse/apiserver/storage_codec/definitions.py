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
        for name, above in _SHARED:
            value = versions[0].get(name)
            if all(version.get(name) == value for version in versions):
                for version in versions:
                    version.pop(name, None)
                if value is not None:
                    spec[above] = value
    spec["versions"] = versions
    for holder in (spec, *versions):
        if holder.get("additionalPrinterColumns"):
            holder["additionalPrinterColumns"] = [
                _column_to_v1beta1(each) for each in holder["additionalPrinterColumns"]
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
    for field, above in _SHARED:
        value = spec.pop(above, None)
        if value is not None:
            for version in versions:
                version[field] = value
    for version in versions:
        if version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [
                _column_from_v1beta1(each) for each in version["additionalPrinterColumns"]
            ]
    ordered: Object = {field: spec.pop(field) for field in ("group", "names", "scope") if field in spec}
    ordered["versions"] = versions
    conversion = spec.pop("conversion", None) or {"strategy": "None"}
    ordered["conversion"] = _conversion_from_v1beta1(conversion)
    if spec.pop("preserveUnknownFields", True):  # the default of v1beta1
        ordered["preserveUnknownFields"] = True
    left = {field: value for field, value in definition.items() if field not in ("kind", "apiVersion")}
    return {**left, "spec": {**ordered, **spec}}


def _column_to_v1beta1(column: Object) -> Object:
    return {("JSONPath" if name == "jsonPath" else name): value for name, value in column.items()}


def _column_from_v1beta1(column: Object) -> Object:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _conversion_to_v1beta1(conversion: Object) -> Object:
    found: Object = {"strategy": conversion["strategy"]}
    webhook = conversion.get("webhook") or {}
    if webhook.get("clientConfig") is not None:
        found["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        found["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return found


def _conversion_from_v1beta1(conversion: Object) -> Object:
    found: Object = {"strategy": conversion["strategy"]}
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or reviews is not None:
        webhook = found["webhook"] = {}
        if client is not None:
            webhook["clientConfig"] = client
        webhook["conversionReviewVersions"] = reviews
    return found
