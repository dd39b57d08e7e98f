"""Expressions in what is registered for admission: whether they compile, where they are written.

After kubernetes' ``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.cel.schemas import RESERVED
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import go_named
from pilothouse.machinery.names import qualified_name_errors

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCHES = ("ApplyConfiguration", "JSONPatch")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_MISSING = "expression is not specified"
_MOST_CONDITIONS = 64
_MOST_ANNOTATIONS = 20
_LONGEST_VALUE = 5 * 1024


def _is_identifier(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None and name not in RESERVED


def variable_problems(spec: Object) -> list[FieldError]:
    """What is wrong with the conditions and variables of a policy."""
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    problems = conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
    for position, variable in enumerate(variables):
        where, name = f"spec.variables[{position}]", variable.get("name") or ""
        if not name.strip():
            problems.append(errors.required(f"{where}.name", "name is not specified"))
        elif not _is_identifier(name):
            problems.append(errors.invalid_value(f"{where}.name", name, "must be a valid CEL identifier"))
        # A variable may use those before it.
        scope = _scope(params, variables[:position])
        problems += _expression_problems(scope, variable.get("expression"), f"{where}.expression", ())
    return problems


def _scope(params: bool, variables: Sequence[Object], *, authorizer: bool = True) -> Any:
    # Strategies are made before what evaluates expressions can be imported.
    from pilothouse.apiserver.admission.dynamic.expressions import Scope

    named = [one for one in variables if _is_identifier(one.get("name") or "")]
    return Scope(params=params, variables=named, authorizer=authorizer)


def validation_problems(spec: Object, name: str) -> list[FieldError]:
    """What is wrong with what a validating policy of this name asks and tells."""
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    scope, quiet = _scope(params, variables), _scope(params, variables, authorizer=False)
    problems: list[FieldError] = []
    for position, validation in enumerate(spec.get("validations") or ()):
        where = f"spec.validations[{position}]"
        problems += _expression_problems(scope, validation.get("expression"), f"{where}.expression", ("bool",))
        text = validation.get("messageExpression") or ""
        if text and not text.strip():
            problems.append(errors.invalid_value(f"{where}.messageExpression", text, "must be non-empty if specified"))
        elif text:
            problems += _expression_problems(quiet, text, f"{where}.messageExpression", ("string",))
        message = validation.get("message") or ""
        if message and not message.strip():
            problems.append(errors.invalid_value(f"{where}.message", message, "must be non-empty if specified"))
        elif re.search(r"[\n\r]", message.strip()):
            problems.append(errors.invalid_value(f"{where}.message", message, "must not contain line breaks"))
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            problems.append(errors.not_supported(f"{where}.reason", reason, _REASONS))
    return problems + _annotation_problems(spec.get("auditAnnotations") or [], scope, name)


def _annotation_problems(annotations: list[Object], scope: Any, policy: str) -> list[FieldError]:
    path = "spec.auditAnnotations"
    problems: list[FieldError] = []
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        problems.append(errors.invalid_value(path, go_named(annotations), text))
    keys: list[str] = []
    for position, annotation in enumerate(annotations):
        where, key = f"{path}[{position}]", annotation.get("key") or ""
        whole, value = f"{policy}/{key}", annotation.get("valueExpression") or ""
        problems += [errors.invalid_value(f"{where}.key", whole, text) for text in qualified_name_errors(whole)]
        here = f"{where}.valueExpression"
        if not value.strip():
            problems.append(errors.required(here, "valueExpression is not specified"))
        elif len(value.strip().encode()) > _LONGEST_VALUE:
            problems.append(errors.required(here, f"must not exceed {_LONGEST_VALUE} bytes in length"))
        else:
            problems += _expression_problems(scope, value, here, ("string", "null_type"), compiled=value.strip())
        if key in keys:
            problems.append(errors.duplicate(f"{where}.key", key))
        keys.append(key)
    return problems


def mutation_problems(spec: Object) -> list[FieldError]:
    """What is wrong with what a mutating policy does."""
    scope = _scope(spec.get("paramKind") is not None, spec.get("variables") or [])
    problems: list[FieldError] = []
    for position, mutation in enumerate(spec.get("mutations") or ()):
        problems += _mutation_problems(scope, mutation, f"spec.mutations[{position}]")
    return problems


def _mutation_problems(scope: Any, mutation: Object, path: str) -> list[FieldError]:
    from pilothouse.apiserver.cel.initializers import as_maps

    kind = mutation.get("patchType") or ""
    if not kind:
        return [errors.required(f"{path}.patchType")]
    if kind not in _PATCHES:
        return [errors.not_supported(f"{path}.patchType", kind, _PATCHES)]
    field, other = ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
    problems: list[FieldError] = []
    if mutation.get(field) is None:
        problems.append(errors.required(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    else:
        where, text = f"{path}.{field}.expression", (mutation[field].get("expression") or "").strip()
        problems += _expression_problems(scope, text, where, (), compiled=as_maps(text), missing="")
    if mutation.get(other) is not None:
        text = f"must not be specified when patchType is {kind}"
        problems.append(errors.invalid_value(f"{path}.{other}", f"{{{other}}}", text))
    return problems


def conditions_problems(conditions: Sequence[Object], path: str, *, params: bool = False) -> list[FieldError]:
    """What is wrong with ``matchConditions``."""
    from pilothouse.apiserver.admission.dynamic.expressions import Scope

    problems: list[FieldError] = []
    if len(conditions) > _MOST_CONDITIONS:
        problems.append(errors.too_many(path, len(conditions), _MOST_CONDITIONS))
    names: list[str] = []
    scope = Scope(params=params)
    for position, condition in enumerate(conditions):
        where, name = f"{path}[{position}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        problems += _expression_problems(scope, text, f"{where}.expression", ("bool",), missing="")
        if not name:
            problems.append(errors.required(f"{where}.name"))
        else:
            problems += [errors.invalid_value(f"{where}.name", name, told) for told in qualified_name_errors(name)]
            problems += [errors.duplicate(f"{where}.name", name)] if name in names else []
        names.append(name)
    return problems


def _expression_problems(
    scope: Any, text: str | None, path: str, gives: Iterable[str], *, compiled: str = "", missing: str = _MISSING
) -> list[FieldError]:
    """``compiled`` is what is compiled in its stead, ``missing`` what is told of none."""
    from pilothouse.apiserver.admission.dynamic.expressions import ExpressionError

    if not (text or "").strip():
        return [errors.required(path, missing)]
    try:
        scope.compile(compiled or text, gives)
    except ExpressionError as error:
        return [errors.invalid_value(path, text, str(error))]
    return []
