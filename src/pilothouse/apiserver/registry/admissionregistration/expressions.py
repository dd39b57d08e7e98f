"""Validation of the CEL expressions in policies and webhook configurations.

After kubernetes' ``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    internal_value,
    invalid,
    not_supported,
    required,
    too_many,
)
from pilothouse.apiserver.objects import Object
from pilothouse.cel.schemas import RESERVED
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import qualified_name_errors

with lazy_imports():
    from pilothouse.cel import checked, initializers, scopes


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_VARIABLE = re.compile(r"\bvariables\s*\.(?:\s|//[^\n]*\n)*(\w+)")
_MISSING_EXPRESSION = "expression is not specified"
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_VALUE_LENGTH = 5 * 1024


def _is_identifier(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and name not in RESERVED


VariableTypes = Mapping[str, Any]
"""The types of variables by name; ``dyn`` for those whose expressions do not compile."""


def validate_variables(spec: Object) -> tuple[ErrorList, VariableTypes]:
    """The errors of match conditions and variables, and the types of the variables."""
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    errors = validate_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
    declared: dict[str, Object] = {}
    types: dict[str, Any] = {}
    scope_without_variables = _scope(params, (), {})
    for position, variable in enumerate(variables):
        path, name = f"spec.variables[{position}]", variable.get("name") or ""
        if not name.strip():
            errors.append(required(f"{path}.name", "name is not specified"))
        elif not _is_identifier(name):
            errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        # A variable may use the variables before it. Only those that it uses are declared: there may be thousands.
        expression = variable.get("expression") or ""
        used_variables = [
            declared[used_name] for used_name in dict.fromkeys(_VARIABLE.findall(expression)) if used_name in declared
        ]
        scope = _scope(params, used_variables, types) if used_variables else scope_without_variables
        typed, types[name] = _typed_expression(scope, expression, f"{path}.expression")
        errors += typed
        declared[name] = variable
    return errors, types


def _typed_expression(scope: Any, expression: str, path: str) -> tuple[ErrorList, Any]:
    """The errors of a variable's expression, and the type of its values."""
    if not expression.strip():
        return [required(path, _MISSING_EXPRESSION)], "dyn"
    try:
        return [], scopes.declared_type(scope.compile(expression, ()).output_type)
    except scopes.ExpressionError as error:
        return [invalid(path, expression, str(error))], "dyn"


def _scope(params: bool, variables: Sequence[Object] | None, types: VariableTypes, *, authorizer: bool = True) -> Any:
    """Without a list of variables, even an empty one, ``variables`` is not declared."""
    valid_variables = None
    if variables is not None:
        valid_variables = [variable for variable in variables if _is_identifier(variable.get("name") or "")]
    return scopes.Scope(
        params=params, variables=valid_variables, variable_types=types, authorizer=authorizer, exact=True
    )


def validate_validations(spec: Object, name: str, types: VariableTypes) -> ErrorList:
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or None
    scope, message_scope = _scope(params, variables, types), _scope(params, variables, types, authorizer=False)
    errors: ErrorList = []
    for position, validation in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{position}]"
        errors += _validate_expression(scope, validation.get("expression"), f"{path}.expression", ("bool",))
        message_expression = validation.get("messageExpression") or ""
        if message_expression and not message_expression.strip():
            errors.append(invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified"))
        elif message_expression:
            errors += _validate_expression(message_scope, message_expression, f"{path}.messageExpression", ("string",))
        message = validation.get("message") or ""
        if message and not message.strip():
            errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", message.strip()):
            errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    return errors + _validate_audit_annotations(spec.get("auditAnnotations") or [], scope, name)


def _validate_audit_annotations(annotations: list[Object], scope: Any, policy: str) -> ErrorList:
    path = "spec.auditAnnotations"
    errors: ErrorList = []
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        errors.append(invalid(path, internal_value("[]admissionregistration.AuditAnnotation", annotations), detail))
    keys: set[str] = set()
    for position, annotation in enumerate(annotations):
        child_path, key = f"{path}[{position}]", annotation.get("key") or ""
        value = annotation.get("valueExpression") or ""
        if policy:
            qualified_key = f"{policy}/{key}"
            errors += [invalid(f"{child_path}.key", qualified_key, msg) for msg in qualified_name_errors(qualified_key)]
        else:
            errors.append(invalid(f"{child_path}.key", key, "requires metadata.name be non-empty"))
        value_path = f"{child_path}.valueExpression"
        if not value.strip():
            errors.append(required(value_path, "valueExpression is not specified"))
        elif len(value.strip().encode()) > _MAX_VALUE_LENGTH:
            errors.append(required(value_path, f"must not exceed {_MAX_VALUE_LENGTH} bytes in length"))
        else:
            errors += _validate_expression(scope, value, value_path, ("string", "null_type"), compiled=value.strip())
        if key in keys:
            errors.append(duplicate(f"{child_path}.key", key))
        keys.add(key)
    return errors


def validate_mutations(spec: Object, types: VariableTypes) -> ErrorList:
    scope = _scope(spec.get("paramKind") is not None, spec.get("variables") or [], types)
    errors: ErrorList = []
    for position, mutation in enumerate(spec.get("mutations") or ()):
        errors += _validate_mutation(scope, mutation, f"spec.mutations[{position}]")
    return errors


def _validate_mutation(scope: Any, mutation: Object, path: str) -> ErrorList:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported(f"{path}.patchType", kind, _PATCH_TYPES)]
    field, other_field = (
        ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
    )
    errors: ErrorList = []
    if mutation.get(field) is None:
        errors.append(required(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    else:
        child_path, expression = f"{path}.{field}.expression", (mutation[field].get("expression") or "").strip()
        compiled = initializers.initializers_as_maps(expression).text
        errors += _validate_expression(
            scope, expression, child_path, (), compiled=compiled, required_detail="", uniform=False
        ) or _validate_result_of_mutation(scope, expression, child_path, compiled, kind)
    if mutation.get(other_field) is not None:
        errors.append(
            invalid(f"{path}.{other_field}", f"{{{other_field}}}", f"must not be specified when patchType is {kind}")
        )
    return errors


def _validate_result_of_mutation(scope: Any, expression: str, path: str, compiled: str, kind: str) -> ErrorList:
    """Reject an expression whose type is known not to be that of a mutation; in ``compiled`` objects are maps. Only
    initializers in the expression itself have such a type: variables must not have any."""
    result = checked.format_type(scope.compile(compiled, (), uniform=False).output_type)
    if kind == "JSONPatch":
        expected, allowed = "list(JSONPatch)", result == "list(dyn)" or result.startswith("list(map(")
    else:
        expected, allowed = "Object", result.startswith("map(")
    allowed = (allowed or result == "dyn") and compiled != expression
    return [] if allowed else [invalid(path, expression, f"must evaluate to {expected} but got {result}")]


def validate_match_conditions(conditions: Sequence[Object], path: str, *, params: bool = False) -> ErrorList:
    errors: ErrorList = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    names: set[str] = set()
    scope = scopes.Scope(params=params, exact=True)
    for position, condition in enumerate(conditions):
        child_path, name = f"{path}[{position}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        errors += _validate_expression(scope, expression, f"{child_path}.expression", ("bool",), required_detail="")
        if not name:
            errors.append(required(f"{child_path}.name"))
        else:
            errors += [invalid(f"{child_path}.name", name, msg) for msg in qualified_name_errors(name)]
            errors += [duplicate(f"{child_path}.name", name)] if name in names else []
        names.add(name)
    return errors


def _validate_expression(
    scope: Any,
    expression: str | None,
    path: str,
    return_types: Iterable[str],
    *,
    compiled: str = "",
    required_detail: str = _MISSING_EXPRESSION,
    uniform: bool = True,
) -> ErrorList:
    """``compiled`` is compiled instead of ``expression`` if it is set. ``required_detail``: the detail of the error for
    an empty expression."""
    if not (expression or "").strip():
        return [required(path, required_detail)]
    try:
        scope.compile(compiled or expression, return_types, uniform=uniform)
    except scopes.ExpressionError as error:
        return [invalid(path, expression, str(error))]
    return []
