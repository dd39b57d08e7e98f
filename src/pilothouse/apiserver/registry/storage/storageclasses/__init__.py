"""StorageClasses."""

from collections.abc import Iterable, Mapping, Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, not_supported, repeated, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import set_default_fields, validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import qualified_name_errors

with lazy_imports():
    from pilothouse.apiserver.registry.core.nodes import warnings as node_warnings


_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS = 512
_MAX_PARAMETERS_BYTES = 256 * 1024


def encoded_size(strings: Mapping[str, str]) -> int:
    return sum(len(name.encode()) + len(value.encode()) for name, value in strings.items())


def validate_provisioner_and_parameters(obj: Object, driver_field: str) -> ErrorList:
    """``validateProvisioner`` and ``validateParameters``; ``driver_field`` has the name of the driver."""
    driver, parameters = (obj.get(driver_field) or "").lower(), obj.get("parameters") or {}
    errors = [] if driver else [required(driver_field)]
    if driver:
        errors += [invalid(driver_field, driver, msg) for msg in qualified_name_errors(driver)]
    if len(parameters) > _MAX_PARAMETERS:
        return [*errors, too_long("parameters", _MAX_PARAMETERS)]
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if encoded_size(parameters) > _MAX_PARAMETERS_BYTES:
        errors.append(too_long("parameters", _MAX_PARAMETERS_BYTES))
    return errors


_MAX_ERRORS = 10_000
"""There may be one for each pair of equal terms."""


def validate_allowed_topologies(terms: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    # Upstream's list starts with an empty term per term, of which every term without expressions is a duplicate.
    raw_topologies: dict[frozenset[tuple[str, frozenset[str]]], int] = {frozenset(): len(terms)}
    """The number of terms with these expressions."""
    for position, term in enumerate(terms):
        child_path = f"{path}[{position}].matchLabelExpressions"
        expressions: dict[str, frozenset[str]] = {}
        for expression_position, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key") or "", expression.get("values") or ()
            if not values:
                errors.append(required(f"{child_path}[{expression_position}].values"))
            errors += [
                duplicate(f"{child_path}[{expression_position}].values[{index}]", values[index])
                for index in sorted(repeated(values))
            ]
            errors += [
                invalid(f"{child_path}[{expression_position}].key", key, msg) for msg in qualified_name_errors(key)
            ]
            if key in expressions:
                errors.append(duplicate(f"{child_path}[{expression_position}].key", key))
            expressions[key] = frozenset(values)
        topology = frozenset(expressions.items())
        errors += [duplicate(child_path, "")] * raw_topologies.get(topology, 0)
        raw_topologies[topology] = raw_topologies.get(topology, 0) + 1
        if len(errors) > _MAX_ERRORS:
            break
    return errors


_IMMUTABLE_FIELDS = {
    "parameters": "{}string",
    "provisioner": "string",
    "reclaimPolicy": "*string",
    "volumeBindingMode": "*string",
}


class StorageClassStrategy(Strategy):
    """``storage.k8s.io`` StorageClasses. Provisioner, parameters, reclaim policy and binding mode are immutable."""

    return_deleted_object = True
    update_steps = ("object meta", "object", "object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        set_default_fields(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        for position, term in enumerate(obj.get("allowedTopologies") or ()):
            for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
                key, path = expression.get("key"), f"allowedTopologies[{position}].matchLabelExpressions[{index}].key"
                if key in node_warnings.DEPRECATED_NODE_LABELS:
                    yield f"{path}: {node_warnings.DEPRECATED_NODE_LABELS[key]}"

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        errors = validate_provisioner_and_parameters(obj, "provisioner")
        if obj["reclaimPolicy"] not in ("Delete", "Retain"):
            errors.append(not_supported("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain")))
        if obj["volumeBindingMode"] not in _BINDING_MODES:
            errors.append(not_supported("volumeBindingMode", obj["volumeBindingMode"], _BINDING_MODES))
        return errors + validate_allowed_topologies(obj.get("allowedTopologies") or (), "allowedTopologies")

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", _IMMUTABLE_FIELDS)


def print_storage_class(value: Doc, now: Now) -> Row:
    return [
        value.get("provisioner", ""),
        value.get("reclaimPolicy") or "Delete",
        value.get("volumeBindingMode") or "Immediate",
        bool(value.get("allowVolumeExpansion")),
    ]


REGISTRATION = Registration(
    StorageClassStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"), AGE),
        print_storage_class,
        default_annotations=(
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ),
    ),
)
