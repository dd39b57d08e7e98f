"""Loads Stages from files: parses and validates them, and compiles their selectors and templates.

The format is KWOK's ``Stage`` (``kwok.x-k8s.io/v1alpha1``, ``pkg/apis/v1alpha1/stage_types.go``), for Nodes and Pods.
Unsupported features are rejected with file, stage and field: CEL, ``apply`` steps, impersonation, other kinds, and
unknown fields. Errors in selectors and templates are reported here, not when a stage is applied.
"""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import yaml

from pilothouse.machinery.yaml_loader import BoundedLoader, yaml_error_text
from pilothouse.nodes.stages.expressions import ExpressionError, Results, compile_expression
from pilothouse.nodes.stages.template import Template
from pilothouse.nodes.stages.template_syntax import TemplateError

API_VERSION = "kwok.x-k8s.io/v1alpha1"
KINDS = ("Node", "Pod")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
PATCH_TYPES = ("", "json", "merge", "strategic")

Query = Callable[[Any], Results | None]


class StageError(ValueError):
    """An invalid stage. The message has file, stage, field and reason."""


class Requirement(msgspec.Struct, frozen=True):
    """One of ``matchExpressions``."""

    query: Query
    operator: str
    values: frozenset[str]


class ValueFrom(msgspec.Struct, frozen=True):
    """A number (milliseconds, or a weight). ``query``, if set and if it finds a value in the object, takes
    precedence."""

    value: int | None
    query: Query | None = None


class SendEvent(msgspec.Struct, frozen=True):
    """Send an event about the object."""

    type: str
    reason: str
    message: str


class ChangeFinalizers(msgspec.Struct, frozen=True):
    """Change ``metadata.finalizers``."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    empty: bool = False


class Delete(msgspec.Struct, frozen=True):
    """Delete the object, without a grace period."""


class ApplyPatch(msgspec.Struct, frozen=True):
    """Patch the object with the rendered template, as the value of the field ``root`` if that is set."""

    template: Template
    location: str
    root: str = ""
    subresource: str = ""
    type: str = ""


Step = SendEvent | ChangeFinalizers | Delete | ApplyPatch


class Stage(msgspec.Struct, frozen=True):
    """One stage: selector, weight, delay and jitter, and the steps to apply."""

    source: str
    name: str
    kind: str
    labels: dict[str, str]
    annotations: dict[str, str]
    requirements: tuple[Requirement, ...]
    weight: ValueFrom
    delay: ValueFrom | None
    jitter: ValueFrom | None
    steps: tuple[Step, ...]
    immediate: bool

    def __str__(self) -> str:
        return f"{self.source}: stage {self.name!r}"


def load_stages(paths: Sequence[str]) -> tuple[Stage, ...]:
    """Load the stages of files and of directories (all ``*.yaml`` and ``*.yml`` except ``kustomization.yaml``). Raises
    ``StageError``."""
    stages: list[Stage] = []
    for path in paths:
        for file in _files(pathlib.Path(os.path.expanduser(path))):
            stages += _read(file)
    by_name: dict[tuple[str, str], Stage] = {}
    for stage in stages:
        existing = by_name.setdefault((stage.kind, stage.name), stage)
        if existing is not stage:
            raise StageError(f"{stage}: {existing.source} has a stage of this name for {stage.kind}s too")
    return tuple(stages)


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    files = [file for file in files if file.name != "kustomization.yaml"]
    if not files:
        raise StageError(f"{path}: there are no YAML files in this folder")
    return files


def _read(file: pathlib.Path) -> list[Stage]:
    try:
        documents = list(parse_yaml_documents(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise StageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StageError(f"{file}: it is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise StageError(f"{file}: not valid YAML: {yaml_error_text(error)}") from error
    stages = [stage_from(document, str(file)) for document in documents if document is not None]
    if not stages:
        raise StageError(f"{file}: there are no stages in it")
    return [stage for stage in stages if stage is not None]


class _Loader(BoundedLoader):
    """YAML as Kubernetes reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for letter, rows in _Loader.yaml_implicit_resolvers.items()
}


def parse_yaml_documents(text: str) -> list[Any]:
    """Parse a text with any number of documents."""
    return list(yaml.load_all(text, Loader=_Loader))


def parse_yaml(text: str) -> Any:
    """Parse a text with one document."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506  # _Loader is a safe loader


# From YAML to stages


class _Node:
    """An object in a document with its path, for error messages. ``check_unknown_fields`` rejects fields that were not
    read before."""

    def __init__(self, value: Any, location: str) -> None:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise StageError(f"{location}: expected an object, got {type(value).__name__}")
        self.value = value
        self.location = location
        self._read_fields: set[str] = set()

    def child(self, name: str) -> "_Node":
        self._read_fields.add(name)
        return _Node(self.value.get(name), f"{self.location}.{name}")

    def has(self, name: str) -> bool:
        self._read_fields.add(name)
        return self.value.get(name) is not None

    def text(self, name: str) -> str:
        return str(self._of(name, str, ""))

    def flag(self, name: str) -> bool:
        return bool(self._of(name, bool, False))

    def number(self, name: str) -> int | None:
        value: int | None = self._of(name, int, None)
        if value is not None and value < 0:
            raise StageError(f"{self.location}.{name}: must not be negative, got {value}")
        return value

    def items(self, name: str) -> list[Any]:
        return list(self._of(name, list, []))

    def texts(self, name: str) -> dict[str, str]:
        values = self._of(name, dict, {})
        for key, value in values.items():
            if not isinstance(value, str):
                raise StageError(f"{self.location}.{name}[{key!r}]: expected a string, got {type(value).__name__}")
        return dict(values)

    def reject(self, name: str, reason: str) -> None:
        if self.has(name):
            raise StageError(f"{self.location}.{name}: {reason}")

    def check_unknown_fields(self) -> None:
        unknown = sorted(set(self.value) - self._read_fields)
        if unknown:
            raise StageError(f"{self.location}.{unknown[0]}: no such field")

    def _of(self, name: str, kind: type, default: Any) -> Any:
        self._read_fields.add(name)
        value = self.value.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise StageError(f"{self.location}.{name}: expected {kind.__name__}, got {type(value).__name__}")
        return value


def stage_from(document: Any, source: str) -> Stage | None:
    """The stage in a document; None if it has no selector, which matches nothing. Raises ``StageError``."""
    root = _Node(document, source)
    if (root.text("apiVersion"), root.text("kind")) != (API_VERSION, "Stage"):
        raise StageError(
            f"{source}: expected a Stage of {API_VERSION}, got {root.text('kind')} of {root.text('apiVersion')}"
        )
    name = root.child("metadata").text("name")
    if not name:
        raise StageError(f"{source}: a stage has no metadata.name")
    root.location = f"{source}: stage {name!r}: "
    root.child("status")
    spec = root.child("spec")
    root.check_unknown_fields()
    spec.location = f"{source}: stage {name!r}: spec"
    reference = spec.child("resourceRef")
    group, kind = reference.text("apiGroup") or "v1", reference.text("kind")
    if group != "v1" or kind not in KINDS:
        raise StageError(
            f"{reference.location}: {kind or 'no kind'} of {group} is not supported, only Node and Pod of v1"
        )
    reference.check_unknown_fields()
    selected = spec.has("selector") or "selector" in spec.value
    selector = spec.child("selector")
    delay = spec.child("delay")
    stage = Stage(
        source=source,
        name=name,
        kind=kind,
        labels=selector.texts("matchLabels"),
        annotations=selector.texts("matchAnnotations"),
        requirements=tuple(
            _requirement(_Node(item, f"{selector.location}.matchExpressions[{number}]"))
            for number, item in enumerate(selector.items("matchExpressions"))
        ),
        weight=_value(spec, "weight", "weightFrom") or ValueFrom(0),
        delay=_delay(delay) if spec.has("delay") else None,
        jitter=_value(delay, "jitterDurationMilliseconds", "jitterDurationFrom"),
        steps=tuple(_steps(spec)),
        immediate=spec.flag("immediateNextStage"),
    )
    for node in (selector, delay, spec):
        node.check_unknown_fields()
    return stage if selected else None


def _requirement(node: _Node) -> Requirement:
    node.reject("cel", "CEL is not supported; write the selector in jq")
    if node.has("jq"):
        jq = node.child("jq")
        node.check_unknown_fields()
        node = jq
    operator, values = node.text("operator"), node.items("values")
    if operator not in OPERATORS:
        raise StageError(f"{node.location}.operator: {operator!r} is none of {', '.join(OPERATORS)}")
    if (operator in ("In", "NotIn")) != bool(values):
        need = "needs values" if operator in ("In", "NotIn") else "takes no values"
        raise StageError(f"{node.location}.values: {operator} {need}")
    query = _query(node.text("key"), f"{node.location}.key")
    node.check_unknown_fields()
    return Requirement(query, operator, frozenset(str(value) for value in values))


def _query(text: str, location: str) -> Query:
    try:
        return compile_expression(text)
    except ExpressionError as error:
        raise StageError(f"{location}: {error}") from error


def _delay(delay: _Node) -> ValueFrom:
    return _value(delay, "durationMilliseconds", "durationFrom") or ValueFrom(0)


def _value(node: _Node, constant: str, source: str) -> ValueFrom | None:
    value = node.number(constant)
    if not node.has(source):
        return None if value is None else ValueFrom(value)
    value_from = node.child(source)
    value_from.reject("cel", "CEL is not supported; write the expression in jq")
    if value_from.has("jq"):
        jq = value_from.child("jq")
        query = _query(jq.text("expression"), f"{jq.location}.expression")
        jq.check_unknown_fields()
    else:
        query = _query(value_from.text("expressionFrom"), f"{value_from.location}.expressionFrom")
    value_from.check_unknown_fields()
    # Without a constant, delay and weight are 0; without a constant there is no jitter unless the expression finds one.
    return ValueFrom(0 if value is None and not constant.startswith("jitter") else value, query)


def _steps(spec: _Node) -> list[Step]:
    if spec.has("steps"):
        steps: list[Step] = []
        for number, item in enumerate(spec.items("steps")):
            node = _Node(item, f"{spec.location}.steps[{number}]")
            node.reject("apply", "is not supported")
            steps += _event_and_finalizers(node)
            if node.flag("delete"):
                steps.append(Delete())
            if node.has("patch"):
                steps.append(_patch(node.child("patch")))
            node.check_unknown_fields()
        spec.has("next")
        return steps
    # The order of KWOK's conversion (``pkg/apis/internalversion/conversion.go``).
    node = spec.child("next")
    steps = _event_and_finalizers(node)
    patches = node.items("patches")
    template = node.text("statusTemplate")
    subresource = node.text("statusSubresource") or "status"
    node.reject("statusPatchAs", "impersonation is not supported: nodes write as themselves")
    if patches:
        steps += [_patch(_Node(item, f"{node.location}.patches[{n}]")) for n, item in enumerate(patches)]
    elif template:
        location = f"{node.location}.statusTemplate"
        steps.append(ApplyPatch(_template(template, location), location, "status", subresource))
    if node.flag("delete"):
        steps.append(Delete())
    node.check_unknown_fields()
    return steps


def _event_and_finalizers(node: _Node) -> list[Step]:
    steps: list[Step] = []
    if node.has("event"):
        event = node.child("event")
        steps.append(SendEvent(event.text("type") or "Normal", event.text("reason"), event.text("message")))
        event.check_unknown_fields()
    if node.has("finalizers"):
        finalizers = node.child("finalizers")
        add, remove = (
            tuple(
                _Node(item, f"{finalizers.location}.{field}[{n}]").text("value")
                for n, item in enumerate(finalizers.items(field))
            )
            for field in ("add", "remove")
        )
        steps.append(ChangeFinalizers(add, remove, finalizers.flag("empty")))
        finalizers.check_unknown_fields()
    return steps


def _patch(node: _Node) -> ApplyPatch:
    node.reject("impersonation", "is not supported: nodes write as themselves")
    kind = node.text("type")
    if kind not in PATCH_TYPES:
        raise StageError(f"{node.location}.type: {kind!r} is none of {', '.join(PATCH_TYPES[1:])}")
    location = f"{node.location}.template"
    patch = ApplyPatch(
        _template(node.text("template"), location), location, node.text("root"), node.text("subresource"), kind
    )
    node.check_unknown_fields()
    return patch


def _template(text: str, location: str) -> Template:
    try:
        return Template(text)
    except TemplateError as error:
        raise StageError(f"{location}, {error}") from error
