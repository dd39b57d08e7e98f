"""Expressions in what is registered for admission: whether they compile, where they are written.

After kubernetes' ``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


def policy_problems(spec: Object) -> list[FieldError]:
    """What is wrong with the expressions of a policy."""
    # Strategies are made before what evaluates expressions can be imported.
    from pilothouse.apiserver.admission.dynamic.expressions import Scope

    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    problems = conditions_problems(spec.get("matchConditions") or (), "spec.matchConditions", params=params)
    known: list[Object] = []
    for position, variable in enumerate(variables):
        where, name = f"spec.variables[{position}]", variable.get("name") or ""
        if not name.strip():
            problems.append(errors.required(f"{where}.name", "name is not specified"))
        elif _IDENTIFIER.fullmatch(name) is None:
            problems.append(errors.invalid_value(f"{where}.name", name, "name is not a valid CEL identifier"))
        if any(name == other.get("name") for other in known):
            problems.append(errors.duplicate(f"{where}.name", name))
        # A variable may use those before it.
        scope = Scope(params=params, variables=list(known))
        problems += _expression_problems(scope, variable.get("expression"), f"{where}.expression", ())
        known.append(variable)
    if problems:
        return problems
    scope = Scope(params=params, variables=variables)
    quiet = Scope(params=params, variables=variables, authorizer=False)
    for position, validation in enumerate(spec.get("validations") or ()):
        where = f"spec.validations[{position}]"
        problems += _expression_problems(scope, validation.get("expression"), f"{where}.expression", ("bool",))
        problems += _message_problems(validation, where)
        if validation.get("messageExpression"):
            text = validation["messageExpression"]
            problems += _expression_problems(quiet, text, f"{where}.messageExpression", ("string",))
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            problems.append(errors.not_supported(f"{where}.reason", reason, _REASONS))
    for position, mutation in enumerate(spec.get("mutations") or ()):
        problems += _mutation_problems(scope, mutation, f"spec.mutations[{position}]")
    for position, annotation in enumerate(spec.get("auditAnnotations") or ()):
        where = f"spec.auditAnnotations[{position}].valueExpression"
        problems += _expression_problems(scope, annotation.get("valueExpression"), where, ("string", "null_type"))
    return problems


def _mutation_problems(scope: Any, mutation: Object, path: str) -> list[FieldError]:
    from pilothouse.apiserver.cel.initializers import as_maps

    kind = mutation.get("patchType") or ""
    field, other = ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
    if kind not in ("ApplyConfiguration", "JSONPatch"):
        if not kind:
            return [errors.required(f"{path}.patchType")]
        return [errors.not_supported(f"{path}.patchType", kind, ("ApplyConfiguration", "JSONPatch"))]
    if mutation.get(other) is not None:
        why = f"{other} is forbidden when patchType is {kind}"
        return [errors.not_allowed(f"{path}.{other}", why)]
    if mutation.get(field) is None:
        return [errors.required(f"{path}.{field}")]
    text = mutation[field].get("expression") or ""
    return _expression_problems(scope, text, f"{path}.{field}.expression", (), rewritten=as_maps(text))


def _message_problems(validation: Object, path: str) -> Iterable[FieldError]:
    given = validation.get("message") or ""
    text, expression = given.strip(), (validation.get("expression") or "").strip()
    if given and not text:
        yield errors.invalid_value(f"{path}.message", given, "message must be non-empty if specified")
    elif "\n" in text:
        yield errors.invalid_value(f"{path}.message", given, "message must not contain line breaks")
    elif "\n" in expression and not text:
        yield errors.required(f"{path}.message", "message must be specified if expression contains line breaks")


def conditions_problems(conditions: Iterable[Object], path: str, *, params: bool = False) -> list[FieldError]:
    """What is wrong with ``matchConditions``."""
    from pilothouse.apiserver.admission.dynamic.expressions import Scope

    problems: list[FieldError] = []
    names: list[str] = []
    scope = Scope(params=params)
    for position, condition in enumerate(conditions):
        where, name = f"{path}[{position}]", condition.get("name") or ""
        problems += _expression_problems(scope, condition.get("expression"), f"{where}.expression", ("bool",))
        if not name:
            problems.append(errors.required(f"{where}.name"))
        elif name in names:
            problems.append(errors.duplicate(f"{where}.name", name))
        names.append(name)
    return problems


def _expression_problems(
    scope: Any, text: str | None, path: str, gives: tuple[str, ...], *, rewritten: str = ""
) -> list[FieldError]:
    from pilothouse.apiserver.admission.dynamic.expressions import ExpressionError

    if not (text or "").strip():
        return [errors.required(path, "expression is not specified")]
    try:
        scope.compile(rewritten or text, gives)
    except ExpressionError as error:
        return [errors.invalid_value(path, text, str(error))]
    return []
