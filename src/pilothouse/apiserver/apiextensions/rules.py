"""``x-kubernetes-validations``: compiled once per schema, evaluated on every write.

After apiextensions-apiserver's ``pkg/apiserver/schema/cel/{compilation,validation}.go`` (v0.36). A rule that uses
``oldSelf`` is a transition rule: it only runs where the old value can be correlated. A failed rule is a warning if its
value is unchanged by the write (ratcheting), unless it is a transition rule.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.apiextensions.field_paths import PathError, resolve
from pilothouse.apiserver.field_errors import ErrorList, FieldError
from pilothouse.cel.limits import COST_EXCEEDED, Budget, EvaluationError, OutOfBudget, blocking_evaluator, evaluate
from pilothouse.cel.source_text import without_strings
from pilothouse.cel.work import Extent, measure
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import quote

with lazy_imports():
    from pilothouse.cel import environment as cel_environment
    from pilothouse.cel import schemas

Node = Mapping[str, Any]
_RULES = "x-kubernetes-validations"
_OLD_SELF = re.compile(r"(?<![.\w])oldSelf(?!\w)")
_MAX_MESSAGE = 5 * 1024
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_MESSAGE_EXCEEDED = "no further validation rules will be run due to call cost exceeds limit for messageExpression"


class Absent:
    """The type of ``ABSENT``: no value, as opposed to a null."""


ABSENT = Absent()


class Rule(msgspec.Struct):
    """A compiled rule, or its compilation error."""

    source: Mapping[str, Any]
    uses_old_self: bool
    field_path: str = ""
    program: Any = None
    message: Any = None
    rule_error: str = ""
    """The error of the compilation, with upstream's message."""
    message_error: str = ""

    @property
    def text(self) -> str:
        """The text for the rule in messages: its message, or the rule."""
        return str(self.source.get("message") or self.source.get("rule") or "").strip()


class RuleNode(msgspec.Struct):
    """The rules of a schema node and of its descendants; nodes without rules are left out."""

    node: Node
    rules: tuple[Rule, ...] = ()
    convert: Any = None
    properties: dict[str, "RuleNode"] = {}
    additional: "RuleNode | None" = None
    items: "RuleNode | None" = None
    all_of: tuple["RuleNode", ...] = ()


def has_rules(node: Any) -> bool:
    """Whether the schema has rules, at any depth."""
    if isinstance(node, dict):
        return bool(node.get(_RULES)) or any(has_rules(child) for child in node.values())
    return isinstance(node, list) and any(has_rules(child) for child in node)


def rule_tree(schema: Node) -> RuleNode | None:
    """The compiled rules of a schema; None if it has none. Raises ``WouldBlock`` on the event loop."""
    if not has_rules(schema):
        return None
    encoded = msgspec.json.encode(schema)
    evaluator = blocking_evaluator.get()
    if evaluator is not None:
        evaluator.compiles_inline(len(encoded) // 32)  # CEL types are derived from the whole schema
    return _compiled_tree(encoded)


@lru_cache(maxsize=128)
def _compiled_tree(schema: bytes) -> RuleNode | None:
    return _build_tree(msgspec.json.decode(schema), root=True)


def _build_tree(node: Node, *, root: bool, rules: Node | None = None) -> RuleNode | None:
    """The tree of a node; ``rules`` are given if they are not the node's own (allOf)."""
    rules_node = node if rules is None else rules
    result = RuleNode(node)
    if rules_node.get(_RULES):
        result.rules = tuple(compile_rules(node, rules_node[_RULES], root=root))
        result.convert = schemas.converter(node, root=root)
    for name, child_rules in (rules_node.get("properties") or {}).items():
        child_schema = (node.get("properties") or {}).get(name)
        if child_schema is not None and (child := _build_child(child_schema, child_rules)) is not None:
            result.properties[name] = child
    for keyword in ("additionalProperties", "items"):
        child_rules, child_schema = rules_node.get(keyword), node.get(keyword)
        if (
            isinstance(child_rules, dict)
            and isinstance(child_schema, dict)
            and (child := _build_child(child_schema, child_rules)) is not None
        ):
            if keyword == "items":
                result.items = child
            else:
                result.additional = child
    branches = [
        _build_tree(node, root=root, rules=branch) for branch in rules_node.get("allOf") or () if has_rules(branch)
    ]
    result.all_of = tuple(branch for branch in branches if branch is not None)
    return result if result.rules or result.properties or result.additional or result.items or result.all_of else None


def _build_child(schema: Node, rules: Node) -> RuleNode | None:
    if not has_rules(rules):
        return None
    return _build_tree(schema, root=bool(schema.get("x-kubernetes-embedded-resource")), rules=rules)


def compile_rules(node: Node, rules: Any, *, root: bool) -> list[Rule]:
    """Compile the rules of a node, in order."""
    types = schemas.Types()
    kind = types.of(node, root=root)
    if kind is None:
        raise UntypedNode
    environment = cel_environment.Environment({"self": kind, "oldSelf": kind}, types.serialized(), optional="oldSelf")
    return [_compile_rule(environment, node, rule) for rule in rules]


class UntypedNode(ValueError):
    """A rule at a node without a type."""


def _compile_rule(environment: Any, node: Node, source: Mapping[str, Any]) -> Rule:
    text, message = source.get("rule") or "", source.get("messageExpression") or ""
    old = _OLD_SELF.search(without_strings(text)) is not None
    rule = Rule(source, old)
    if not text.strip():
        return rule
    optional_variable = "oldSelf" if source.get("optionalOldSelf") else ""
    try:
        rule.program = environment.compile(text, return_types=("bool",), optional_variable=optional_variable)
    except cel_environment.CompileError as error:
        rule.rule_error = _rule_error("compilation failed: ", str(error), "cel expression must evaluate to a bool")
        return rule
    if source.get("fieldPath"):
        try:
            rule.field_path = resolve(source["fieldPath"].strip(), node)[0]
        except PathError as error:
            rule.rule_error = f"failed to parse fieldPath: {error}"
    if message.strip():
        try:
            rule.message = environment.compile(message, return_types=("string",), optional_variable=optional_variable)
        except cel_environment.CompileError as error:
            rule.message_error = _rule_error(
                "messageExpression compilation failed: ", str(error), "messageExpression must evaluate to a string"
            )
    return rule


def _rule_error(prefix: str, text: str, wrong_type: str) -> str:
    return prefix + text if text.startswith("ERROR: ") else wrong_type


class RuleEvaluation:
    """One validation of an object by the rules: ``all_errors`` reject the object, ``warnings`` do not. Stops when a
    cost limit is exceeded."""

    def __init__(self) -> None:
        self.all_errors: ErrorList = []
        self.warnings: list[str] = []
        self._stopped = False
        self._budget = Budget()

    def validate(self, tree: RuleNode, value: Any, old: Any = ABSENT, path: str = "") -> None:
        """Validate a whole object, against the old one if it is an update."""
        self._visit(tree, value, old, path, unchanged=not isinstance(old, Absent) and old == value)

    def _visit(self, tree: RuleNode, value: Any, old: Any, path: str, *, unchanged: bool) -> None:
        """``old`` is ``ABSENT`` where it cannot be correlated; ``unchanged`` refers to the nearest ancestor that could
        be."""
        if value is None or self._stopped:
            return
        if not isinstance(old, Absent):
            unchanged = old == value
        if tree.rules:
            self._evaluate_rules(tree, value, old, path, unchanged=unchanged)
        for branch in tree.all_of:
            self._visit(branch, value, old, path, unchanged=False)
        if isinstance(value, list) and tree.items is not None:
            old_items = _items_by_key(tree.node, old)
            for position, item in enumerate(value):
                old_item = old_items.get(_identity(tree.node, item), ABSENT)
                correlated_by_key = old_items or tree.node.get("x-kubernetes-list-type") == "map"
                self._visit(
                    tree.items,
                    item,
                    old_item,
                    f"{path}[{position}]",
                    unchanged=unchanged if not correlated_by_key else False,
                )
        elif isinstance(value, dict):
            old_members = old if isinstance(old, dict) else {}
            for name, member in value.items():
                child = tree.properties.get(name) or tree.additional
                if child is None:
                    continue
                member_path = f"{path}[{name}]" if name not in tree.properties else f"{path}.{name}" if path else name
                self._visit(
                    child,
                    member,
                    old_members.get(name, ABSENT),
                    member_path,
                    unchanged=False,
                )

    def _evaluate_rules(self, tree: RuleNode, value: Any, old: Any, path: str, *, unchanged: bool) -> None:
        def to_cel(value: Any) -> Any:
            return value if tree.convert is None or value is None else tree.convert(value)

        has_old = not isinstance(old, Absent) and old is not None
        values = {"self": to_cel(value)}
        extent = measure([value, old]) if has_old else measure(value)
        for rule in tree.rules:
            if rule.program is None and rule.rule_error:
                detail = f"rule compile error: {rule.rule_error}"
                self.all_errors.append(field_errors.invalid(path or "<nil>", tree.node.get("type") or "", detail))
            if rule.program is None or (rule.uses_old_self and not has_old and not rule.source.get("optionalOldSelf")):
                continue
            variables = {**values, "oldSelf": to_cel(old)} if rule.uses_old_self and has_old else values
            try:
                if evaluate(rule.program, variables, extent, self._budget) is True:
                    continue
            except OutOfBudget as error:
                self._stop(tree, path, str(error))
                return
            except EvaluationError as error:
                self._handle_evaluation_error(tree, rule, str(error), path)
                if self._stopped:
                    return
                continue
            error_path = path
            if rule.field_path:
                error_path = _join_path(path, rule.field_path)
            detail = self._message(tree, rule, variables, extent, path)
            if self._stopped:
                return
            reason = rule.source.get("reason")
            if tree.node.get("type") in ("object", "array"):
                rule_error = _failed_rule_error(error_path or "<nil>", detail, reason)
            else:
                rule_error = _failed_rule_error(error_path or "<nil>", detail, reason, field_errors.format_value(value))
            if unchanged and not rule.uses_old_self:
                self.warnings.append(str(rule_error))
            else:
                self.all_errors.append(rule_error)

    def _stop(self, tree: RuleNode, path: str, detail: str) -> None:
        self._stopped = True
        self.all_errors.append(field_errors.invalid(path or "<nil>", tree.node.get("type") or "", detail))

    def _handle_evaluation_error(self, tree: RuleNode, rule: Rule, error: str, path: str) -> None:
        if error.startswith("no such overload"):
            text = (
                f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
            )
        elif error.startswith("operation cancelled: actual cost limit exceeded"):
            text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
            self._stopped = True
        else:
            text = f"{error} evaluating rule: "
        self.all_errors.append(field_errors.invalid(path or "<nil>", tree.node.get("type") or "", text + rule.text))

    def _message(self, tree: RuleNode, rule: Rule, values: Mapping[str, Any], extent: Extent, path: str) -> str:
        """The message of a failed rule: the result of its message expression if that is valid, else its message."""
        if rule.message is not None:
            try:
                text = evaluate(rule.message, values, extent, self._budget).strip()
            except OutOfBudget:
                self._stop(tree, path, _MESSAGE_OUT_OF_BUDGET)
                text = ""
            except EvaluationError as error:
                if str(error) == COST_EXCEEDED:
                    source = quote(str(rule.source.get("messageExpression") or ""))
                    self._stop(tree, path, f"{_MESSAGE_EXCEEDED}: {source}")
                text = ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                return str(text)
        if rule.source.get("message"):
            return rule.text
        return f"failed rule: {rule.text}"


def _failed_rule_error(path: str, detail: str, reason: str | None, value: str = "") -> FieldError:
    """The error of a failed rule, by its ``reason``. Objects and arrays are not shown (since 1.34)."""
    match reason:
        case "FieldValueForbidden":
            return field_errors.forbidden(path, detail)
        case "FieldValueRequired":
            return field_errors.required(path, detail)
        case "FieldValueDuplicate":
            return FieldError(path, "FieldValueDuplicate", f"Duplicate value: {value}" if value else "Duplicate value")
        case _:
            return FieldError(
                path, "FieldValueInvalid", f"Invalid value: {value}: {detail}" if value else f"Invalid value: {detail}"
            )


def _join_path(path: str, field_path: str) -> str:
    if not path:
        return field_path
    return f"{path}{field_path}" if field_path.startswith("[") else f"{path}.{field_path}"


def _identity(node: Node, item: Any) -> str:
    keys = node.get("x-kubernetes-list-map-keys") or ()
    return field_errors.format_value([item.get(key) for key in keys]) if isinstance(item, dict) else ""


def _items_by_key(node: Node, old: Any) -> dict[str, Any]:
    """The old items by their keys; empty for lists that are not of type map."""
    if node.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_identity(node, item): item for item in old if isinstance(item, dict)}
