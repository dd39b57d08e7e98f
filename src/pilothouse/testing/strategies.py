"""Hypothesis strategies for custom resources: values that the API server accepts.

``objects(WEBSITES)`` generates whole objects, ``specs(WEBSITES)`` their specs, ``from_schema`` values of any structural
schema. Values are generated from types, bounds, formats and patterns; other keywords (CEL rules, ``anyOf``, ``not``)
filter them, by the validators of the API server itself. Hypothesis is an extra: ``pilothouse[hypothesis]``.
"""

import base64
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.apiserver.apiextensions import rules, schema
from pilothouse.apiserver.apiextensions.objects import validate_embedded
from pilothouse.env.lazy import lazy_imports
from pilothouse.testing.manifests import definitions_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pilothouse.operator import CustomResource

    Strategy = SearchStrategy[Any]

with lazy_imports():
    from hypothesis import strategies as st

    from pilothouse.operator import client_config

Schema = Mapping[str, Any]
"""A schema of a CustomResourceDefinition (``openAPIV3Schema``)."""
_MAX_ITEMS = 3
"""Maximum number of elements in lists and maps, unless a schema requires more."""
_MAX_DEPTH = 8
"""The depth from which on optional fields are omitted."""
_LARGEST = {"int32": 2**31 - 1, "int64": 2**63 - 1}
_RULES = "x-kubernetes-validations"
_IMPLIED = ("apiVersion", "kind", "metadata")
_JUNCTIONS = ("allOf", "anyOf", "oneOf")
_SAMPLES = {
    "ipv4": ("10.0.0.1", "255.255.255.255"),
    "ipv6": ("::1", "2001:db8::1"),
    "cidr": ("10.0.0.0/8", "::/0"),
    "mac": ("01:23:45:67:89:ab",),
    "email": ("ada@example.com",),
    "uri": ("https://example.com/a?b=c", "/path"),
    "hostname": ("example.com", "a"),
    "duration": ("1s", "1h30m", "0"),
    "date": ("2026-01-31",),
    "password": ("", "secret"),
    "bsonobjectid": ("0123456789abcdef01234567",),
    "creditcard": ("4111111111111111",),
    "hexcolor": ("#fff", "00ff00"),
    "isbn": ("0306406152", "9780306406157"),
    "isbn10": ("0306406152",),
    "isbn13": ("9780306406157",),
    "k8s-long-name": ("example.com", "a"),
    "k8s-short-name": ("example", "a-1"),
    "rgbcolor": ("rgb(1,2,3)",),
    "ssn": ("123-45-6789",),
    "uuid3": ("a3bb189e-8bf9-3888-9912-ace4e6543002",),
    "uuid4": ("16fd2706-8baf-433b-82eb-8c7fada847da",),
    "uuid5": ("886313e1-3b8a-5372-9b90-0c9aee199e5d",),
}


def from_schema(node: Schema) -> "Strategy":
    """Values that a structural schema (OpenAPI v3, as CustomResourceDefinitions have it) accepts.

    Raises ``ModuleNotFoundError`` without Hypothesis. If hardly any value satisfies a schema, Hypothesis raises
    ``Unsatisfiable``.
    """
    _require_hypothesis()
    return _values(node, 0)


def specs(resource: "CustomResource[Any] | Mapping[str, Any] | Path | str", version: str = "") -> "Strategy":
    """The specs of ``objects``."""
    return objects(resource, version).map(lambda obj: obj.get("spec"))


def objects(
    resource: "CustomResource[Any] | Mapping[str, Any] | Path | str", version: str = "", *, name: str = "example"
) -> "Strategy":
    """Objects of a custom resource, without status, as mappings: for ``Cluster.create``.

    ``resource`` is a ``CustomResource`` or a CustomResourceDefinition (a mapping or file), ``version`` one of its
    versions, the stored one if empty. Raises ``ValueError`` if there are several definitions, and for an unknown
    version.
    """
    _require_hypothesis()
    # Only the schemas are used; the address of the conversion webhook is a placeholder.
    placeholder = client_config.ClientConfig(url="https://conversions.invalid")
    definition, *others = definitions_of(resource, placeholder, argument="resource")
    if others:
        raise ValueError(f"expected one CustomResourceDefinition, got {len(others) + 1}")
    spec = definition["spec"]
    versions = {entry["name"]: entry for entry in spec["versions"]}
    stored = next(entry["name"] for entry in spec["versions"] if entry.get("storage"))
    selected = versions.get(version or stored)
    if selected is None:
        raise ValueError(f"{definition['metadata']['name']} has no version {version!r}; it has {', '.join(versions)}")
    root = selected["schema"]["openAPIV3Schema"]
    omitted = {*_IMPLIED, *(["status"] if "status" in (selected.get("subresources") or {}) else [])}
    fields = {field: subschema for field, subschema in root.get("properties", {}).items() if field not in omitted}
    required = [field for field in root.get("required", ()) if field not in omitted]
    plain = {key: value for key, value in root.items() if key != _RULES}
    body = _values({**plain, "properties": fields, "required": required}, 0)
    head = {"apiVersion": f"{spec['group']}/{selected['name']}", "kind": spec["names"]["kind"]}

    def complete(value: dict[str, Any]) -> dict[str, Any]:
        return {**head, "metadata": {"name": name}, **value}

    return body.map(complete).filter(_Accepted(root, root=True))


class _Accepted:
    """Whether the API server accepts a value, after it has applied defaults."""

    def __init__(self, node: Schema, *, root: bool = False) -> None:
        self._node = node if root else {"type": "object", "properties": {"value": dict(node)}}
        self._root = root
        self._tree: list[Any] = []

    def __call__(self, value: Any) -> bool:
        obj = _copied(value) if self._root else {"value": _copied(value)}
        if schema.prune(obj, self._node, root=self._root):
            return False  # with unknown fields
        schema.apply_defaults(obj, self._node)
        if schema.validate(obj, self._node) or schema.validate_list(obj, self._node):
            return False
        if self._root and validate_embedded(obj, self._node):
            return False
        if not self._tree:
            self._tree.append(rules.rule_tree(self._node))
        if self._tree[0] is None:
            return True
        evaluation = rules.RuleEvaluation()
        evaluation.validate(self._tree[0], obj)
        return not evaluation.all_errors


def _copied(value: Any) -> Any:
    match value:
        case dict():
            return {name: _copied(item) for name, item in value.items()}
        case list():
            return [_copied(item) for item in value]
        case _:
            return value


def _values(node: Schema, depth: int) -> "Strategy":
    """Values of a schema. Each part with further keywords filters its own values: filtering only at the root would
    hardly ever succeed if there are many parts."""
    strategy = _without_filter(node, depth)
    if any(junction in node for junction in (*_JUNCTIONS, "not")) or _RULES in node:
        strategy = strategy.filter(_Accepted(node))
    return st.none() | strategy if node.get("nullable") else strategy


def _without_filter(node: Schema, depth: int) -> "Strategy":
    alternatives = [_merged(node, branch) for branch in _branches(node)]
    if alternatives:
        return st.one_of([_without_filter(alternative, depth) for alternative in alternatives])
    if "enum" in node:
        return st.sampled_from([value for value in node["enum"] if value is not None])
    if node.get("x-kubernetes-int-or-string"):
        text = _strings(node)
        return text if "pattern" in node else st.integers(0, 2**31 - 1) | text
    match node.get("type"):
        case "string":
            return _strings(node)
        case "integer":
            return _integers(node)
        case "number":
            return _numbers(node)
        case "boolean":
            return st.booleans()
        case "array":
            return _lists(node, depth)
        case "object":
            return _mappings(node, depth)
    return _anything()


def _branches(node: Schema) -> list[Schema]:
    """The additional constraints of each alternative of a schema; none if it has no logical junctors."""
    common: Schema = {}
    for branch in node.get("allOf") or ():
        common = _merged(common, branch)
    chosen = [branch for junction in ("anyOf", "oneOf") for branch in node.get(junction) or ()]
    if node.get("x-kubernetes-int-or-string") and all(set(branch) == {"type"} for branch in chosen):
        chosen = []
    if not chosen:
        return [common] if common else []
    return [_merged(common, branch) for branch in chosen]


def _merged(node: Schema, branch: Schema) -> dict[str, Any]:
    """The schema merged with the constraints of one branch, without its own ``allOf``, ``anyOf`` and ``oneOf``."""
    result = {key: value for key, value in node.items() if key not in _JUNCTIONS}
    for key, value in branch.items():
        match key:
            case "required":
                result[key] = list(dict.fromkeys([*result.get(key, ()), *value]))
            case "properties":
                own = result.get(key, {})
                result[key] = own | {name: _merged(own.get(name, {}), subschema) for name, subschema in value.items()}
            case "items":
                result[key] = _merged(result.get(key, {}), value)
            case _:
                result[key] = value
    return result


# Scalars


def _strings(node: Schema) -> "Strategy":
    least, most = node.get("minLength", 0), node.get("maxLength")
    format_, pattern = node.get("format", ""), node.get("pattern")
    strategy: Strategy
    if format_ in _FORMATTED:
        strategy = _FORMATTED[format_]()
    elif format_ in _SAMPLES:
        strategy = st.sampled_from(_SAMPLES[format_])
    elif pattern is not None and _is_python(pattern):
        strategy = st.from_regex(pattern) | st.from_regex(pattern, fullmatch=True)
    else:
        characters = st.characters(codec="utf-8")
        strategy = st.text(characters, min_size=least, max_size=most if most is not None else max(least, 20))
    checks = {key: node[key] for key in ("minLength", "maxLength", "pattern", "format") if key in node}
    return strategy.filter(_Accepted({"type": "string", **checks})) if checks else strategy


def _is_python(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _date_times() -> "Strategy":
    return st.datetimes().map(lambda at: f"{at.replace(microsecond=0, year=max(at.year, 1000)).isoformat()}Z")


_FORMATTED: dict[str, Callable[[], Any]] = {
    "date-time": _date_times,
    "datetime": _date_times,
    "byte": lambda: st.binary(max_size=20).map(lambda value: base64.b64encode(value).decode()),
    "uuid": lambda: st.uuids().map(str),
}


def _integers(node: Schema) -> "Strategy":
    most = _LARGEST.get(node.get("format", ""), 2**63 - 1)
    least = -most - 1
    if "minimum" in node:
        least = max(least, _ceiling(node["minimum"]) + (1 if _is_excluded(node, "minimum") else 0))
    if "maximum" in node:
        most = min(most, int(node["maximum"] // 1) - (1 if _is_excluded(node, "maximum") else 0))
    factor = node.get("multipleOf")
    if factor and float(factor).is_integer():
        step = int(factor)
        return st.integers(-(-least // step), most // step).map(lambda count: count * step)
    return st.integers(least, most)


def _ceiling(value: float) -> int:
    return -int(-value // 1)


def _is_excluded(node: Schema, bound: str) -> bool:
    return bool(node.get(f"exclusive{bound.capitalize()}")) and float(node[bound]).is_integer()


def _numbers(node: Schema) -> "Strategy":
    factor = node.get("multipleOf")
    if factor:
        least, most = node.get("minimum", -1000 * factor), node.get("maximum", 1000 * factor)
        counted = st.integers(_ceiling(least / factor), int(most / factor // 1)).map(lambda count: count * factor)
        return counted.filter(_Accepted({**node, "nullable": False}))
    width: Literal[32, 64] = 32 if node.get("format") == "float" else 64
    strategy = st.floats(node.get("minimum"), node.get("maximum"), allow_nan=False, allow_infinity=False, width=width)
    return strategy.filter(_Accepted({key: node[key] for key in node if key not in _JUNCTIONS and key != _RULES}))


# Lists, objects, anything


def _lists(node: Schema, depth: int) -> "Strategy":
    items: Schema = node.get("items") or {"x-kubernetes-int-or-string": True}
    least = node.get("minItems", 0)
    most = min(node.get("maxItems", max(least, _MAX_ITEMS)), max(least, _MAX_ITEMS))
    if depth >= _MAX_DEPTH:
        most = least
    strategy = _values(items, depth + 1)
    keys = node.get("x-kubernetes-list-map-keys")
    if node.get("x-kubernetes-list-type") == "map" and keys:
        return st.lists(strategy, min_size=least, max_size=most, unique_by=lambda item: _key_of(item, items, keys))
    if node.get("x-kubernetes-list-type") == "set" or node.get("uniqueItems"):
        return st.lists(strategy, min_size=least, max_size=most, unique_by=repr)
    return st.lists(strategy, min_size=least, max_size=most)


def _key_of(item: Any, items: Schema, keys: list[str]) -> str:
    """The key of an element, with defaults."""
    properties = items.get("properties") or {}
    mapping = item if isinstance(item, dict) else {}
    return repr([mapping.get(key, properties.get(key, {}).get("default")) for key in keys])


def _mappings(node: Schema, depth: int) -> "Strategy":
    properties: Mapping[str, Any] = node.get("properties") or {}
    required = [name for name in node.get("required", ()) if name in properties or not node.get("additionalProperties")]
    additional = node.get("additionalProperties")
    if node.get("x-kubernetes-embedded-resource"):
        return _embedded(node, depth)
    if isinstance(additional, Mapping) and additional:
        least = node.get("minProperties", 0)
        most = min(node.get("maxProperties", max(least, _MAX_ITEMS)), max(least, _MAX_ITEMS))
        names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=10)
        return st.dictionaries(names, _values(additional, depth + 1), min_size=least, max_size=most)
    if not properties:
        is_open = additional is not None or node.get("x-kubernetes-preserve-unknown-fields")
        fixed = st.fixed_dictionaries({name: _anything() for name in required})
        return (
            fixed if required or not is_open else st.dictionaries(st.text("abc", min_size=1), _anything(), max_size=2)
        )
    required_schemas = {name: properties.get(name, {}) for name in required}
    wanted = {name: _deferred(subschema, depth) for name, subschema in required_schemas.items()}
    optional = (
        {}
        if depth >= _MAX_DEPTH
        else {
            name: _deferred(subschema, depth) for name, subschema in properties.items() if name not in required_schemas
        }
    )
    strategy = st.fixed_dictionaries(wanted, optional=optional)
    least, most = node.get("minProperties", 0), node.get("maxProperties", len(properties))
    if least or most < len(properties):
        return strategy.filter(lambda value: least <= len(value) <= most)
    return strategy


def _deferred(node: Schema, depth: int) -> "Strategy":
    """Values of a field, created at the first use: large definitions have thousands of fields."""
    return st.deferred(lambda: _values(node, depth + 1))


def _embedded(node: Schema, depth: int) -> "Strategy":
    properties = {name: subschema for name, subschema in (node.get("properties") or {}).items() if name not in _IMPLIED}
    rest = [name for name in node.get("required", ()) if name not in _IMPLIED]
    plain = {key: value for key, value in node.items() if key != "x-kubernetes-embedded-resource"}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "embedded"}}
    strategy = _mappings({**plain, "properties": properties, "required": rest}, depth)
    return strategy.map(lambda value: {**value, **head})


def _anything() -> "Strategy":
    """Values where a schema has no type. Lists have only scalars, because objects in lists would be pruned."""
    scalars = st.booleans() | st.integers(-(2**53), 2**53) | st.text("abc", max_size=5)
    names = st.text("abc", min_size=1)
    nested = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2), max_leaves=4
    )
    return scalars | st.lists(scalars, max_size=2) | st.dictionaries(names, nested, max_size=2)


def _require_hypothesis() -> None:
    if importlib.util.find_spec("hypothesis") is None:
        raise ModuleNotFoundError("strategies need Hypothesis: pip install 'pilothouse[hypothesis]'", name="hypothesis")
