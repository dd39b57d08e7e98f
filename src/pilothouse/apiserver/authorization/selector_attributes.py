"""Field and label selectors of access reviews (AuthorizeWithSelectors).

After kubernetes' ``pkg/apis/authorization/validation`` and ``pkg/registry/authorization/util`` (v1.36). Only the node
authorizer uses field selectors, and label selectors are not used; both are validated and parse errors are reported.
"""

from typing import Any

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.machinery.fields import FieldSelectorError, parse_field_selector
from pilothouse.machinery.labels import SelectorError, parse_selector
from pilothouse.machinery.names import label_value_errors, qualified_name_errors

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def validate_selector_attribute(resource: dict[str, Any], path: str) -> ErrorList:
    """The errors in ``fieldSelector`` and ``labelSelector`` of ``resourceAttributes``."""
    errors: ErrorList = []
    for field in ("fieldSelector", "labelSelector"):
        selector = resource.get(field)
        if selector is None:
            continue
        selector_path, raw, requirements = f"{path}.{field}", selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            text = "may not specified at the same time as requirements"
            errors.append(field_errors.invalid(f"{selector_path}.rawSelector", raw, text))
        if not raw and not requirements:
            text = f"when {selector_path} is specified, requirements or rawSelector is required"
            errors.append(field_errors.required(f"{selector_path}.requirements", text))
        for position, requirement in enumerate(requirements or ()):
            requirement_path = f"{selector_path}.requirements[{position}]"
            errors += _validate_requirement(requirement, requirement_path, is_label=field == "labelSelector")
    return errors


def _validate_requirement(requirement: dict[str, Any], path: str, *, is_label: bool) -> ErrorList:
    key, operator, values = requirement.get("key") or "", requirement.get("operator"), requirement.get("values")
    errors: ErrorList = []
    if not is_label and not key:
        errors.append(field_errors.required(f"{path}.key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        text = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(field_errors.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(field_errors.forbidden(f"{path}.values", text))
    if is_label:
        errors += [field_errors.invalid(f"{path}.key", key, text) for text in qualified_name_errors(key)]
        errors += [
            field_errors.invalid(f"{path}.values[{position}]", value, text)
            for position, value in enumerate(values or ())
            for text in label_value_errors(value)
        ]
    return errors


def build_evaluation_error(resource: dict[str, Any]) -> str:
    """The evaluation error about selectors that could not be parsed and are ignored (``BuildEvaluationError``)."""
    detail: list[str] = []
    for field, parse in (("fieldSelector", parse_field_selector), ("labelSelector", parse_selector)):
        selector = resource.get(field) or {}
        raw, requirements = selector.get("rawSelector"), selector.get("requirements") or ()
        invalid = sum(requirement.get("operator") not in _OPERATORS for requirement in requirements)
        if raw:
            try:
                parse(raw)
            except (FieldSelectorError, SelectorError):
                detail.append(f"spec.resourceAttributes.{field} ignored due to parse error")
        elif invalid:
            extent = "partially ignored" if invalid < len(requirements) else "ignored"
            detail.append(f"spec.resourceAttributes.{field} {extent} due to parse error")
    return "; ".join(detail)


def field_selector_text(resource: dict[str, Any]) -> str:
    """The field selector as in a list request; requirements other than ``In`` with one value are omitted."""
    selector = resource.get("fieldSelector") or {}
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    return ",".join(
        f"{requirement.get('key')}={requirement['values'][0]}"
        for requirement in selector.get("requirements") or ()
        if requirement.get("operator") == "In" and len(requirement.get("values") or ()) == 1
    )
