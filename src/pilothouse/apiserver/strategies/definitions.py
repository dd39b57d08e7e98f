"""CustomResourceDefinitions: defaults and validation.

After apiextensions-apiserver's ``pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`` and
``pkg/registry/customresourcedefinition`` (v0.36). Rules in CEL are taken as they are.
"""

import re
from typing import Any, Literal

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.machinery.names import dns_1035_label_errors, dns_label_errors, dns_subdomain_errors

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SIMPLE_PATH = re.compile(r"\.[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")
_APPROVAL = "api-approved.kubernetes.io"


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
            problems.append(errors.invalid_value("spec.versions", versions, "must contain unique version names"))
        if sum(bool(version.get("storage")) for version in versions) != 1:
            problems.append(
                errors.invalid_value(
                    "spec.versions",
                    [_shown_version(version) for version in versions],
                    "must have exactly one version marked as storage version",
                )
            )
        for position, version in enumerate(versions):
            problems += _version_problems(version, f"spec.versions[{position}]", single=len(versions) == 1)
        return problems + _conversion_problems(spec.get("conversion") or {})

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if obj["spec"] == old["spec"]:
            return []
        problems = self.validate(obj)
        conditions = (old.get("status") or {}).get("conditions") or ()
        if any(found.get("type") == "Established" and found.get("status") == "True" for found in conditions):
            for path in (("scope",), ("group",), ("names", "plural"), ("names", "kind")):
                new, before = _at(obj["spec"], path), _at(old["spec"], path)
                if new != before:
                    problems.append(errors.invalid_value("spec." + ".".join(path), new, "field is immutable"))
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


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        node = (node or {}).get(part)
    return node


def _shown_version(version: Object) -> Object:
    """A version as the internal type prints: Go's names."""
    return {"Name": version.get("name"), "Served": version.get("served"), "Storage": version.get("storage")}


def _name_problems(obj: Object, spec: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    group, names, name = spec.get("group") or "", spec["names"], obj["metadata"].get("name") or ""
    plural = names.get("plural") or ""
    if name != f"{plural}.{group}":
        problems.append(errors.invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
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
                errors.invalid_value(f"spec.names.{field}[{position}]", value, text) for text in dns_label_errors(value)
            ]
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")
    if protected and not (obj["metadata"].get("annotations") or {}).get(_APPROVAL):
        problems.append(
            errors.required(
                f"metadata.annotations[{_APPROVAL}]",
                f'protected groups must have approval annotation "{_APPROVAL}", see '
                "https://github.com/kubernetes/enhancements/pull/1111",
            )
        )
    return problems


def _version_problems(version: Object, path: str, *, single: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    name = version.get("name") or ""
    problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_1035_label_errors(name)]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        problems.append(errors.required(f"{path}.schema.openAPIV3Schema"))
    else:
        # With one version the internal object keeps the schema outside of the list of versions.
        where = "spec.validation.openAPIV3Schema" if single else f"{path}.schema.openAPIV3Schema"
        problems += _structural_problems(schema, where, root=True)
    columns = "spec" if single else path
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{columns}.additionalPrinterColumns[{position}]"
        if not column.get("name"):
            problems.append(errors.required(f"{where}.name"))
        if not column.get("type"):
            problems.append(errors.required(f"{where}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
        elif column["type"] not in _COLUMN_TYPES:
            problems.append(
                errors.invalid_value(f"{where}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
            )
        if not column.get("jsonPath"):
            problems.append(errors.required(f"{where}.JSONPath"))
        elif not column["jsonPath"].startswith("."):
            problems.append(
                errors.invalid_value(
                    f"{where}.JSONPath", column["jsonPath"], "must be a simple json path starting with ."
                )
            )
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for field, roots in (
            ("specReplicasPath", (".spec",)),
            ("statusReplicasPath", (".status",)),
            ("labelSelectorPath", (".spec", ".status")),
        ):
            value = scale.get(field) or ""
            where = f"{columns}.subresources.scale.{field}"
            if not value:
                if field != "labelSelectorPath":
                    problems.append(errors.required(where))
            elif not _SIMPLE_PATH.fullmatch(value) or not value.startswith(tuple(root + "." for root in roots)):
                problems.append(errors.invalid_value(where, value, f"should be a json path under {' or '.join(roots)}"))
    fields = version.get("selectableFields") or ()
    if len(fields) > 8:
        problems.append(errors.too_many(f"{columns}.selectableFields", len(fields), 8))
    for position, field in enumerate(fields):
        found = _at_path(schema or {}, field.get("jsonPath") or "")
        if found is None or found.get("type") not in ("string", "boolean", "integer"):
            problems.append(
                errors.invalid_value(
                    f"{columns}.selectableFields[{position}].jsonPath",
                    field.get("jsonPath"),
                    "must point to a field of type string, boolean or integer. "
                    "Enum string fields and strings with formats are allowed.",
                )
            )
    return problems


def _at_path(schema: Object, path: str) -> Object | None:
    node: Object | None = schema
    for part in path.lstrip(".").split("."):
        node = ((node or {}).get("properties") or {}).get(part)
    return node


def _conversion_problems(conversion: Object) -> list[FieldError]:
    strategy = conversion.get("strategy")
    if strategy not in ("None", "Webhook"):
        return [errors.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))]
    webhook = conversion.get("webhook") or {}
    if strategy == "Webhook" and not webhook.get("clientConfig"):
        return [errors.required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")]
    return []


_FORBIDDEN = ("$ref", "id", "definitions", "dependencies", "patternProperties", "additionalItems")


def _structural_problems(node: Any, path: str, *, root: bool = False) -> list[FieldError]:
    """What keeps a schema from being structural."""
    if not isinstance(node, dict):
        return []
    problems = [
        errors.not_allowed(f"{path}.{word}", f"{word} is not supported") for word in _FORBIDDEN if node.get(word)
    ]
    free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    kind = node.get("type")
    if not kind and not free:
        problems.append(
            errors.required(
                f"{path}.type",
                "must not be empty at the root" if root else "must not be empty for specified object fields",
            )
        )
    if root and kind and kind != "object":
        problems.append(errors.invalid_value(f"{path}.type", kind, "must be object at the root"))
    if kind == "array" and not node.get("items"):
        problems.append(errors.required(f"{path}.items", "must be specified"))
    if node.get("uniqueItems"):
        problems.append(
            errors.not_allowed(
                f"{path}.uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )
        )
    if node.get("properties") and node.get("additionalProperties"):
        problems.append(
            errors.not_allowed(
                f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
            )
        )
    for name, below in (node.get("properties") or {}).items():
        if root and name == "metadata":
            extra = [word for word in below if word not in ("type", "properties", "description")]
            if extra or any(name not in ("name", "generateName") for name in below.get("properties") or ()):
                problems.append(
                    errors.not_allowed(
                        f"{path}.properties[metadata]",
                        "must not specify anything other than name and generateName, but metadata is implicitly "
                        "specified",
                    )
                )
            continue
        problems += _structural_problems(below, f"{path}.properties[{name}]")
    if isinstance(node.get("items"), dict):
        problems += _structural_problems(node["items"], f"{path}.items")
    if isinstance(node.get("additionalProperties"), dict):
        problems += _structural_problems(node["additionalProperties"], f"{path}.additionalProperties")
    return problems
