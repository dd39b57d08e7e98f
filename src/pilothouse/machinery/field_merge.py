"""Merges a configuration into an object, and removes sets of fields from objects.

Independent of managers; ``apply`` decides what is merged and removed. The given objects are not changed; results may
share parts with them. After structured-merge-diff ``typed/{merge,remove}.go`` (v6).
"""

from typing import Any

from pilothouse.machinery.field_sets import NOTHING, FieldSet, has_element, is_empty_below
from pilothouse.machinery.field_walks import ItemError, item_element
from pilothouse.machinery.merge_types import ListType, MapType, MergeType

_ABSENT: Any = object()


def merge(live: dict[str, Any], config: dict[str, Any], type_: MergeType) -> dict[str, Any]:
    """The object with the configuration merged into it. Nothing is removed; where both have a value the configuration's
    is used.

    List items stay in the order of the object, new ones are inserted as in the configuration.
    """
    result = _merge(live, config, type_)
    return result if isinstance(result, dict) else {}


def _merge(live: Any, config: Any, type_: MergeType) -> Any:
    if config is _ABSENT:
        return live
    if live is _ABSENT:
        return config
    # Null is treated as an empty map or list like the other side: merging it changes nothing.
    form = type(live) if config is None else type(config)
    if form is dict and type_.map is not None:
        mine = live if type(live) is dict else {}
        theirs = config if type(config) is dict else {}
        if type_.map.atomic or not (mine or theirs):
            return config
        return _merge_maps(mine, theirs, type_.map)
    if form is list and type_.list is not None and not (config is None and type_.map is not None):
        items = live if type(live) is list else []
        others = config if type(config) is list else []
        if not type_.list.associative or not (items or others):
            return config
        return _merge_lists(items, others, type_.list)
    return config


def _merge_maps(live: dict[str, Any], config: dict[str, Any], shape: MapType) -> Any:
    fields, element = shape.fields, shape.element
    result: dict[str, Any] = {}
    for name in {**live, **config}:
        type_ = fields.get(name, element)
        if type_ is None:
            # Only an object that was validated by an older schema has such a field.
            value = live.get(name, _ABSENT)
        else:
            value = _merge(live.get(name, _ABSENT), config.get(name, _ABSENT), type_)
        if value is not _ABSENT:
            result[name] = value
    return result


def _merge_lists(live: list[Any], config: list[Any], shape: ListType) -> Any:
    """Interleaves both lists in the order of ``visitListItems`` (structured-merge-diff ``typed/merge.go``, v6)."""
    mine, mine_by_element = _indexed(live, shape)
    others, theirs_by_element = _indexed(config, shape)
    theirs = [element for element, _item in others]
    shared = [element for element in theirs if element in mine_by_element]
    next_shared = shared.pop(0) if shared else None
    merged: set[str] = set()
    out: list[Any] = []
    left = right = 0
    while left < len(mine) or right < len(theirs):
        if left < len(mine) and right < len(theirs):
            element = mine[left][0]
            if element == theirs[right]:
                merged.add(element)
                out.append(_merge(mine_by_element[element], theirs_by_element[element], shape.element))
                left, right = left + 1, right + 1
                next_shared = shared.pop(0) if shared else None
                continue
            if element in theirs_by_element and next_shared is not None and next_shared != element:
                # Both have it, but its position in the configuration's order has not been reached.
                left += 1
                continue
        if left < len(mine):
            element, item = mine[left]
            if element not in theirs_by_element:
                out.append(item)
                left += 1
                continue
            if element in merged:
                left += 1
        if right < len(theirs):
            element = theirs[right]
            merged.add(element)
            out.append(_merge(mine_by_element.get(element, _ABSENT), theirs_by_element[element], shape.element))
            right += 1
            if next_shared == element:
                next_shared = shared.pop(0) if shared else None
    return out


def _indexed(items: list[Any], shape: ListType) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """The items in order with their path elements, and by them. Duplicate items are not merged."""
    ordered: list[tuple[str, Any]] = []
    found: dict[str, Any] = {}
    for item in items:
        try:
            element = item_element(item, shape)
        except ItemError:
            continue
        found[element] = _ABSENT if element in found else item
        ordered.append((element, item))
    return ordered, found


def remove_fields(value: Any, fields: FieldSet, type_: MergeType) -> Any:
    """The value without these fields and everything below them."""
    if type(value) is dict and type_.map is not None:
        return _remove_from_map(value, fields, type_.map) if value else None
    if type(value) is list and type_.list is not None:
        return _remove_from_list(value, fields, type_.list) if value else None
    return value


def _remove_from_map(value: dict[str, Any], fields: FieldSet, shape: MapType) -> Any:
    if shape.atomic:
        return None
    result: dict[str, Any] = {}
    for name, inner in value.items():
        element = "f:" + name
        if has_element(fields, element):
            continue
        below = fields.get(element, NOTHING)
        type_ = shape.member(name)
        if is_empty_below(below) or type_ is None:
            result[name] = inner
        else:
            result[name] = remove_fields(inner, below, type_)
    return result or None


def _remove_from_list(value: list[Any], fields: FieldSet, shape: ListType) -> Any:
    if not shape.associative:
        return None
    result: list[Any] = []
    for item in value:
        try:
            element = item_element(item, shape)
        except ItemError:
            result.append(item)
            continue
        if has_element(fields, element):
            continue
        below = fields.get(element, NOTHING)
        result.append(item if is_empty_below(below) else remove_fields(item, below, shape.element))
    return result or None


def with_named_fields(fields: FieldSet, type_: MergeType) -> FieldSet:
    """The set with every struct field that has descendants in the set."""
    shape, items = type_.map, type_.list
    result: FieldSet = {}
    for element, node in fields.items():
        if element == ".":
            result["."] = node
            continue
        below: MergeType | None = None
        named = False
        if element.startswith("f:") and shape is not None:
            name = element[2:]
            named = name in shape.fields
            below = shape.member(name)
        elif element.startswith("k:") and items is not None:
            below = items.element
        if not node:
            result[element] = node
            continue
        inner = with_named_fields(node, below) if below is not None else node
        result[element] = {".": NOTHING, **inner} if named and "." not in inner else inner
    return result


def reconciled(fields: FieldSet, type_: MergeType) -> FieldSet:
    """The set for a type that has become atomic where it was granular: the whole instead of its parts."""
    shape, items = type_.map, type_.list
    result: FieldSet = {}
    changed = False
    for element, node in fields.items():
        below: MergeType | None = None
        if element.startswith("f:") and shape is not None:
            below = shape.member(element[2:])
        elif items is not None and items.associative and element != ".":
            below = items.element
        if not node or below is None:
            result[element] = node
            continue
        inner = NOTHING if _is_atomic(below) else reconciled(node, below)
        changed = changed or inner is not node
        result[element] = inner
    return result if changed else fields


def _is_atomic(type_: MergeType) -> bool:
    if type_.map is not None:
        # A map whose members have no type is only merged by its value.
        return type_.map.atomic and not type_.scalar
    return type_.list is not None and not type_.list.associative
