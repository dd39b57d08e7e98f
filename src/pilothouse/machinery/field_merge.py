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
    kind = type(live) if config is None else type(config)
    if kind is dict and type_.map is not None:
        live_map = live if type(live) is dict else {}
        config_map = config if type(config) is dict else {}
        if type_.map.atomic or not (live_map or config_map):
            return config
        return _merge_maps(live_map, config_map, type_.map)
    if kind is list and type_.list is not None and not (config is None and type_.map is not None):
        live_items = live if type(live) is list else []
        config_items = config if type(config) is list else []
        if not type_.list.associative or not (live_items or config_items):
            return config
        return _merge_lists(live_items, config_items, type_.list)
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
    lhs_order, observed_lhs = _index_list_path_elements(live, shape)
    rhs_items, observed_rhs = _index_list_path_elements(config, shape)
    rhs_order = [element for element, _item in rhs_items]
    shared_order = [element for element in rhs_order if element in observed_lhs]
    next_shared = shared_order.pop(0) if shared_order else None
    merged: set[str] = set()
    out: list[Any] = []
    lhs_index = rhs_index = 0
    while lhs_index < len(lhs_order) or rhs_index < len(rhs_order):
        if lhs_index < len(lhs_order) and rhs_index < len(rhs_order):
            element = lhs_order[lhs_index][0]
            if element == rhs_order[rhs_index]:
                merged.add(element)
                out.append(_merge(observed_lhs[element], observed_rhs[element], shape.element))
                lhs_index, rhs_index = lhs_index + 1, rhs_index + 1
                next_shared = shared_order.pop(0) if shared_order else None
                continue
            if element in observed_rhs and next_shared is not None and next_shared != element:
                # Both have it, but its position in the configuration's order has not been reached.
                lhs_index += 1
                continue
        if lhs_index < len(lhs_order):
            element, item = lhs_order[lhs_index]
            if element not in observed_rhs:
                out.append(item)
                lhs_index += 1
                continue
            if element in merged:
                lhs_index += 1
        if rhs_index < len(rhs_order):
            element = rhs_order[rhs_index]
            merged.add(element)
            out.append(_merge(observed_lhs.get(element, _ABSENT), observed_rhs[element], shape.element))
            rhs_index += 1
            if next_shared == element:
                next_shared = shared_order.pop(0) if shared_order else None
    return out


def _index_list_path_elements(items: list[Any], shape: ListType) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """The items in order with their path elements, and by them. Duplicate items are not merged."""
    ordered: list[tuple[str, Any]] = []
    observed: dict[str, Any] = {}
    for item in items:
        try:
            element = item_element(item, shape)
        except ItemError:
            continue
        observed[element] = _ABSENT if element in observed else item
        ordered.append((element, item))
    return ordered, observed


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


def ensure_named_fields_are_members(fields: FieldSet, type_: MergeType) -> FieldSet:
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
        inner = ensure_named_fields_are_members(node, below) if below is not None else node
        result[element] = {".": NOTHING, **inner} if named and "." not in inner else inner
    return result


def reconcile_field_set_with_schema(fields: FieldSet, type_: MergeType) -> FieldSet:
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
        inner = NOTHING if _is_atomic(below) else reconcile_field_set_with_schema(node, below)
        changed = changed or inner is not node
        result[element] = inner
    return result if changed else fields


def _is_atomic(type_: MergeType) -> bool:
    if type_.map is not None:
        # A map whose members have no type is only merged by its value.
        return type_.map.atomic and not type_.scalar
    return type_.list is not None and not type_.list.associative
