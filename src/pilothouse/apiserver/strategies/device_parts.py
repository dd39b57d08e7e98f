"""What claims for devices, their classes and what is said of devices have in common: names, configuration, taints.

After kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.drivers import driver_problems
from pilothouse.machinery.go_text import compact_json
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
    regex_error,
)

Problems = list[FieldError]
Item = TypeVar("Item")

LARGEST_JSON = 10 * 1024
_LONGEST_POOL = 253
_LONGEST_ID = 32
_LONGEST_KEY = 63 + 1 + _LONGEST_ID
_MOST_CONDITIONS = 4
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_identifier = re.compile(_IDENTIFIER)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_'"
)
_uid = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UID_LENGTHS = {32: re.compile(r"[0-9a-fA-F]{32}"), 38: re.compile(r"\{.*\}"), 45: re.compile(r"urn:uuid:.*")}


# Lists and maps ------------------------------------------------------------------------------------------------------


def items_problems(
    items: Sequence[Item], most: int, path: str, judge: Callable[[Item, str], Iterable[FieldError]]
) -> Problems:
    """What is wrong with each item; only their number when there are too many."""
    if len(items) > most:
        return [errors.too_many(path, len(items), most)]
    return [problem for position, item in enumerate(items) for problem in judge(item, f"{path}[{position}]")]


def set_problems(
    items: Sequence[Item],
    most: int,
    path: str,
    judge: Callable[[Item, str], Iterable[FieldError]],
    key: Callable[[Item], Hashable],
) -> Problems:
    """The same of items that are told apart by a key. A key that is a tuple of pairs is shown as an object."""
    problems = items_problems(items, most, path, judge)
    if len(items) > most:
        return problems
    seen = set[Hashable]()
    for position, item in enumerate(items):
        found = key(item)
        if found in seen:
            shown = dict(found) if isinstance(found, tuple) else found
            problems.append(errors.duplicate(f"{path}[{position}]", shown))
        seen.add(found)
    return problems


def map_problems(
    members: Mapping[str, Any],
    path: str,
    judge_key: Callable[[str, str], Problems],
    judge: Callable[[Any, str], Problems] | None = None,
    *,
    most: int | None = None,
    longest: int = _LONGEST_KEY,
) -> Problems:
    """What is wrong with keys, which is told of the map, and with members."""
    if most is not None and len(members) > most:
        return [errors.too_many(path, len(members), most)]
    problems: Problems = []
    for name, member in members.items():
        problems += judge_key(name, path)
        if judge is not None:
            problems += judge(member, f"{path}[{_cut(name, longest)}]")
    return problems


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    rest = longest - 3
    return f"{text[: (rest + 1) // 2]}...{text[len(text) - rest // 2 :]}"


# Names ---------------------------------------------------------------------------------------------------------------


def label_problems(name: str, path: str) -> Problems:
    """Names of devices, requests and counters."""
    return [errors.invalid_value(path, name, text) for text in _label_errors(name)]


@lru_cache(maxsize=4096)
def _label_errors(name: str) -> tuple[str, ...]:
    return tuple(dns_label_errors(name))


def pool_problems(name: str, path: str) -> Problems:
    """Names of pools: subdomains with slashes between them."""
    if not name:
        return [errors.required(path)]
    problems = [errors.too_long(path, _LONGEST_POOL)] if len(name.encode()) > _LONGEST_POOL else []
    return problems + [
        errors.invalid_value(path, part, text) for part in name.split("/") for text in dns_subdomain_errors(part)
    ]


def qualified_problems(name: str, path: str) -> Problems:
    """Names of attributes and capacities, in the domain of the driver or in another one."""
    return [FieldError(path, reason, text) for reason, text in _qualified_faults(name)]


@lru_cache(maxsize=4096)
def _qualified_faults(name: str) -> tuple[tuple[str, str], ...]:
    domain, slash, own = name.partition("/")
    problems: Problems = []
    if not slash:
        problems = _identifier_problems(domain, "")
    elif "/" not in own:  # of more slashes upstream says nothing
        empty = "the domain must not be empty"
        problems += driver_problems(domain, "") if domain else [errors.invalid_value("", "", empty)]
        empty = "the name must not be empty"
        problems += _identifier_problems(own, "") if own else [errors.invalid_value("", "", empty)]
    return tuple((problem.reason, problem.text) for problem in problems)


def full_name_problems(name: str, path: str) -> Problems:
    """Names of attributes that constraints are about: the domain is a part of them."""
    problems = qualified_problems(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        problems.append(errors.invalid_value(path, name, text))
    return problems


def _identifier_problems(name: str, path: str) -> Problems:
    problems = [errors.too_long(path, _LONGEST_ID)] if len(name.encode()) > _LONGEST_ID else []
    if _identifier.fullmatch(name) is None:
        told = regex_error(_IDENTIFIER_TEXT, _IDENTIFIER, ("my_name", "MY_NAME", "MyName"))
        problems.append(errors.invalid_value(path, name, told))
    return problems


def uid_problems(uid: str, path: str) -> Problems:
    """What is wrong with the id of a share of a device."""
    if _uid.fullmatch(uid) is None:
        form = _UID_LENGTHS.get(len(uid))
        if len(uid) != 36 and form is None:
            return [errors.invalid_value(path, uid, f"error validating uid: invalid UUID length: {len(uid)}")]
        if form is None or form.fullmatch(uid) is None:
            return [errors.invalid_value(path, uid, "error validating uid: invalid UUID format")]
    elif uid == uid.lower():
        return []
    text = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
        "characters"
    )
    return [errors.invalid_value(path, uid, text)]


# Configuration, taints and conditions --------------------------------------------------------------------------------


def configuration_problems(configuration: Object, path: str) -> Problems:
    """What a driver is told of how to set devices up."""
    opaque = configuration.get("opaque")
    if opaque is None:
        return [errors.required(f"{path}.opaque")]
    problems = driver_problems(opaque.get("driver") or "", f"{path}.opaque.driver")
    return problems + json_problems(opaque.get("parameters"), f"{path}.opaque.parameters")


def json_problems(value: Any, path: str) -> Problems:
    """What is wrong with an object that nobody knows the type of."""
    if value is None:
        return [errors.required(path)]
    if len(compact_json(value).encode()) > LARGEST_JSON:
        return [errors.too_long(path, LARGEST_JSON)]
    if not isinstance(value, dict):
        return [errors.invalid_value(path, "<value omitted>", "must be a valid JSON object")]
    return []


def taint_problems(taint: Object, path: str) -> Problems:
    """What is wrong with a taint of a device."""
    key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
    problems = condition_name_problems(key, f"{path}.key")
    problems += [errors.invalid_value(f"{path}.value", value, text) for text in label_value_errors(value)]
    if not effect:
        problems.append(errors.required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        problems.append(errors.not_supported(f"{path}.effect", effect, _EFFECTS))
    return problems


def device_toleration_problems(toleration: Object, path: str) -> Problems:
    """What is wrong with a toleration of such taints."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    problems = condition_name_problems(key, f"{path}.key") if key else []
    if not operator:
        problems.append(errors.required(f"{path}.operator"))
    elif operator not in _OPERATORS:
        problems.append(errors.not_supported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Equal":
        problems += [errors.invalid_value(f"{path}.value", value, text) for text in label_value_errors(value)]
    elif value:
        problems.append(errors.invalid_value(f"{path}.value", value, "must be empty for operator `Exists`"))
    if effect and effect not in _EFFECTS:
        problems.append(errors.not_supported(f"{path}.effect", effect, _EFFECTS))
    return problems


def condition_name_problems(name: str, path: str) -> Problems:
    """What is wrong with the name of a label, as conditions have them."""
    return [errors.invalid_value(path, name, text) for text in qualified_name_errors(name)]


def binding_problems(holder: Object, path: str) -> Problems:
    """Conditions that must be met before a pod is bound to a node, and those that tell that it cannot be."""
    given = {name: holder.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions")}
    problems: Problems = []
    for name, conditions in given.items():
        problems += items_problems(conditions, _MOST_CONDITIONS, f"{path}.{name}", condition_name_problems)
    wanted, failures = given.values()
    for name, conditions in given.items():
        for position, condition in enumerate(conditions):
            where = f"{path}.{name}[{position}]"
            if condition in conditions[:position]:
                problems.append(errors.duplicate(where, condition))
            if conditions is failures and condition in wanted:
                text = "bindingFailureConditions must not overlap with bindingConditions"
                problems.append(errors.invalid_value(where, condition, text))
    for name, conditions, other in (
        ("bindingConditions", wanted, "bindingFailureConditions"),
        ("bindingFailureConditions", failures, "bindingConditions"),
    ):
        if not conditions and given[other]:
            # Upstream shows the list that is not there.
            problems.append(errors.invalid_value(f"{path}.{name}", None, f"{name} are required to use {other}"))
    return problems
