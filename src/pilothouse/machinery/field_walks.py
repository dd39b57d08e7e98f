"""Field sets of objects: the fields of an object, and the differences of two.

``compare`` is used for every write (which fields were changed), ``field_set`` for apply (which fields are in a
configuration); ``all_errors`` validates an applied configuration. They traverse objects by ``merge_types``. After
structured-merge-diff ``typed/{compare,tofieldset,validate}.go`` (v6).
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from pilothouse.machinery import go_values
from pilothouse.machinery.field_sets import LEAF, NOTHING, FieldSet, element_text, key, member, union
from pilothouse.machinery.merge_types import ListType, MapType, MergeType

_ABSENT: Any = object()


class ItemError(ValueError):
    """A list item has no path element, because it lacks its keys or is of the wrong type."""


# Path elements of list items ----------------------------------------------------------------------------------------


def item_element(item: Any, shape: ListType) -> str:
    """The path element of an item of an associative list. Raises ``ItemError``."""
    keys = shape.keys
    if type(item) is dict and len(keys) == 1:
        value = item.get(keys[0])
        if type(value) is str:
            element = shape.elements.get(value)
            return element if element is not None else _remember(shape, value, key({keys[0]: value}))
    elif type(item) is dict and len(keys) == 2:
        first, second = item.get(keys[0]), item.get(keys[1])
        if type(first) in _SIMPLE and type(second) in _SIMPLE:
            element = shape.elements.get((first, second))
            return (
                element
                if element is not None
                else _remember(shape, (first, second), key({keys[0]: first, keys[1]: second}))
            )
    if not keys:
        if type(item) is str or item is True or item is False or isinstance(item, int | float):
            return member(item)
        if item is None:
            raise ItemError("associative list without keys has an element that's an explicit null")
        if isinstance(item, dict):
            raise ItemError("associative list without keys has an element that's a map type")
        raise ItemError("not supported: associative list with lists as elements")
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise ItemError(f"associative list with keys may not have {kind}")
    if len(keys) == 1 and keys[0] in item:
        return key({keys[0]: item[keys[0]]})
    defaults = shape.defaults
    values = {}
    for name in keys:
        if name in item:
            values[name] = item[name]
        elif name in defaults:
            values[name] = defaults[name]
    if not values:
        names = " ".join(f'"{name}"' for name in keys)
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key(values)


_SIMPLE = frozenset({str, int})
_MAX_REMEMBERED = 1024


def _remember(shape: ListType, values: Any, element: str) -> str:
    if len(shape.elements) >= _MAX_REMEMBERED:
        shape.elements.clear()
    shape.elements[values] = element
    return element


# Comparison ----------------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """The fields that only the old object has, that both have with different values, and that only the new one has."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def is_same(self) -> bool:
        return not (self.removed or self.modified or self.added)


def compare(old: dict[str, Any], new: dict[str, Any], type_: MergeType, skip: Collection[str] = ()) -> Comparison:
    """Compare two objects of a type. Raises ``ItemError`` for list items without a path element.

    ``skip`` are names of members that are not compared.
    """
    shape = type_.map
    assert shape is not None, "objects are maps"
    removed: FieldSet = {}
    modified: FieldSet = {}
    added: FieldSet = {}
    _compare_maps(old, new, shape, removed, modified, added, skip)
    return Comparison(removed, modified, added)


def added_or_modified(
    zero: dict[str, Any], new: dict[str, Any], shape: MapType, skip: Collection[str] = ()
) -> FieldSet:
    """What ``compare`` finds modified or added in ``new``, as one set; fast if ``zero`` is nearly empty.

    ``skip`` are names of members that are not compared.
    """
    path_elements, element = shape.path_elements, shape.element
    node: FieldSet = {}
    for name, value in new.items():
        if name in skip:
            continue
        path_element, type_ = path_elements.get(name) or ("f:" + name, element)
        if type_ is None:
            continue
        old = zero.get(name, _ABSENT)
        if old is _ABSENT:
            node[path_element] = subtree(value, type_) if type(value) in _CONTAINERS else LEAF
        elif type(old) is dict and type(value) is dict and type_.map is not None and not type_.map.atomic:
            below = added_or_modified(old, value, type_.map)
            if below:
                node[path_element] = below
        elif old != value or (type(old) is bool) is not (type(value) is bool):
            modified: FieldSet = {}
            added: FieldSet = {}
            _compare_values(old, value, type_, path_element, {}, modified, added)
            below = union(modified, added)
            if below:
                node[path_element] = below[path_element]
    return node


def _compare_maps(
    old: dict[str, Any],
    new: dict[str, Any],
    shape: MapType,
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
    skip: Collection[str] = (),
) -> None:
    path_elements, element = shape.path_elements, shape.element
    common = 0
    for name, value in new.items():
        previous = old.get(name, _ABSENT)
        if previous is _ABSENT:
            path_element, type_ = path_elements.get(name) or ("f:" + name, element)
            if type_ is not None and name not in skip:
                added[path_element] = subtree(value, type_) if type(value) in _CONTAINERS else LEAF
            continue
        common += 1
        if previous != value and name not in skip:
            path_element, type_ = path_elements.get(name) or ("f:" + name, element)
            if type_ is None:
                continue
            if type(value) not in _CONTAINERS and type(previous) not in _CONTAINERS:
                modified[path_element] = LEAF
            else:
                _compare_values(previous, value, type_, path_element, removed, modified, added)
    if common < len(old):
        for name, value in old.items():
            if name not in new and name not in skip:
                path_element, type_ = path_elements.get(name) or ("f:" + name, element)
                if type_ is not None:
                    removed[path_element] = subtree(value, type_)


def _compare_values(
    old: Any,
    new: Any,
    type_: MergeType,
    element: str,
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
) -> None:
    """Compare two different values."""
    old_type, new_type = type(old), type(new)
    if old_type not in _CONTAINERS and new_type not in _CONTAINERS:
        modified[element] = LEAF
        return
    removed_below: FieldSet = {}
    modified_below: FieldSet = {}
    added_below: FieldSet = {}
    if old_type is new_type:
        # The usual case: two of a kind.
        shape, items_of = type_.map, type_.list
        if old_type is dict and shape is not None and not shape.atomic:
            _compare_maps(old, new, shape, removed_below, modified_below, added_below)
        elif old_type is list and items_of is not None and items_of.associative:
            _compare_lists(old, new, items_of, removed_below, modified_below, added_below)
        else:
            modified[element] = LEAF
            return
        if removed_below:
            removed[element] = removed_below
        if added_below:
            added[element] = added_below
        if modified_below:
            modified[element] = modified_below
        return
    leaf = False
    if old is None or new is None:
        kinds: tuple[Any, ...] = (new_type if old is None else old_type,)
    else:
        # Values of different kinds, such as an object and a string: each is traversed by its own.
        kinds = (old_type, new_type)
    for kind in kinds:
        if kind is dict and type_.map is not None:
            lhs, rhs = old if old_type is dict else {}, new if new_type is dict else {}
            if type_.map.atomic or not (lhs or rhs):
                leaf = True
            else:
                _compare_maps(lhs, rhs, type_.map, removed_below, modified_below, added_below)
        elif kind is list and type_.list is not None:
            lhs_items, rhs_items = old if old_type is list else [], new if new_type is list else []
            if not type_.list.associative or not (lhs_items or rhs_items):
                leaf = True
            else:
                _compare_lists(lhs_items, rhs_items, type_.list, removed_below, modified_below, added_below)
        else:
            leaf = True
    if removed_below:
        removed[element] = removed_below
    if added_below:
        added[element] = added_below
    if modified_below:
        modified[element] = {".": LEAF, **modified_below} if leaf else modified_below
    elif leaf:
        modified[element] = LEAF


def _compare_lists(
    old: list[Any],
    new: list[Any],
    shape: ListType,
    removed: FieldSet,
    modified: FieldSet,
    added: FieldSet,
) -> None:
    lhs, rhs = _by_element(old, shape), _by_element(new, shape)
    type_ = shape.element
    for element, items in rhs.items():
        previous = lhs.get(element)
        if previous is None:
            added[element] = subtree(items[0], type_) if len(items) == 1 else LEAF
        elif previous == items:
            continue
        elif len(previous) == 1 and len(items) == 1:
            _compare_values(previous[0], items[0], type_, element, removed, modified, added)
        elif len(previous) > 1 and len(items) > 1:
            modified[element] = LEAF
        elif len(previous) > 1:
            added[element] = subtree(items[0], type_)
            removed[element] = LEAF
        else:
            removed[element] = subtree(previous[0], type_)
            added[element] = LEAF
    for element, items in lhs.items():
        if element not in rhs:
            removed[element] = subtree(items[0], type_) if len(items) == 1 else LEAF


def _by_element(items: list[Any], shape: ListType) -> dict[str, list[Any]]:
    by_element: dict[str, list[Any]] = {}
    for item in items:
        by_element.setdefault(item_element(item, shape), []).append(item)
    return by_element


def subtree(value: Any, type_: MergeType) -> FieldSet:
    """A value that only one object has: the children of its path element."""
    if type(value) is dict:
        shape = type_.map
        if not value or shape is None or shape.atomic:
            return LEAF
        path_elements, element = shape.path_elements, shape.element
        node: FieldSet = {".": LEAF}
        for name, inner in value.items():
            field = path_elements.get(name)
            # Most values are scalars, which need no type.
            if field is not None:
                node[field[0]] = subtree(inner, field[1]) if type(inner) in _CONTAINERS else LEAF
            elif element is not None:
                node["f:" + name] = subtree(inner, element) if type(inner) in _CONTAINERS else LEAF
        return node
    if type(value) is list:
        items = type_.list
        if not value or items is None or not items.associative:
            return LEAF
        node = {".": LEAF}
        for item in value:
            path_element = item_element(item, items)
            node[path_element] = LEAF if path_element in node else subtree(item, items.element)
        return node
    return LEAF


_CONTAINERS = frozenset({dict, list})


# Field sets of objects ------------------------------------------------------------------------------------------------


def field_set(value: Any, type_: MergeType) -> FieldSet:
    """Every leaf of an object, and the items of its lists and maps; not its structs, which are never members
    themselves."""
    if type(value) is dict and type_.map is not None:
        return _map_set(value, type_.map)
    if type(value) is list and type_.list is not None and type_.list.associative:
        return _list_set(value, type_.list)
    return NOTHING


def _is_leaf(value: Any, type_: MergeType) -> bool:
    """Whether a value is a member by itself, without children."""
    if type(value) is dict:
        return not value or type_.map is None or type_.map.atomic
    if type(value) is list:
        return type_.list is None or not type_.list.associative
    return True


def _map_set(value: dict[str, Any], shape: MapType) -> FieldSet:
    fields, element = shape.fields, shape.element
    result: FieldSet = {}
    for name, inner in value.items():
        type_ = fields.get(name)
        is_field = type_ is not None
        if type_ is None:
            type_ = element
            if type_ is None:
                continue
        if _is_leaf(inner, type_):
            result["f:" + name] = LEAF
            continue
        below = field_set(inner, type_)
        if not is_field:
            result["f:" + name] = {".": LEAF, **below} if below else LEAF
        elif below:
            result["f:" + name] = below
    return result


def _list_set(value: list[Any], shape: ListType) -> FieldSet:
    result: FieldSet = {}
    for element, items in _by_element(value, shape).items():
        has_children = len(items) == 1 and not _is_leaf(items[0], shape.element)
        below = field_set(items[0], shape.element) if has_children else NOTHING
        result[element] = {".": LEAF, **below} if below else LEAF
    return result


# Validation ----------------------------------------------------------------------------------------------------------


def all_errors(value: Any, type_: MergeType, *, duplicates: bool = False) -> list[tuple[str, str]]:
    """Where a value does not conform to its type: paths and errors. ``duplicates``: lists may have duplicate items."""
    errors: list[tuple[str, str]] = []
    _check(value, type_, "", duplicates, errors)
    return errors


def error_text(errors: list[tuple[str, str]]) -> str:
    """Several errors in one text."""
    texts = [f"{path}: {error}" if path else error for path, error in errors]
    return texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {text}" for text in texts)])


def _check(value: Any, type_: MergeType, path: str, duplicates: bool, errors: list[tuple[str, str]]) -> None:
    shape, items, scalar = type_.map, type_.list, type_.scalar
    if type(value) is dict and shape is not None:
        _check_map(value, shape, path, duplicates, errors)
    elif type(value) is list and items is not None:
        _check_list(value, items, path, duplicates, errors)
    elif value is None or (scalar and _is_scalar(value, scalar)):
        return
    elif shape is not None and not scalar:
        errors.append((path, f"expected map, got {go_values.pointed(value)}"))
    elif scalar:
        errors.append((path, _scalar_error(value, scalar)))
    else:
        errors.append((path, f"expected list, got {go_values.pointed(value)}"))


def _is_scalar(value: Any, scalar: str) -> bool:
    match scalar:
        case "string":
            return isinstance(value, str)
        case "numeric":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return not isinstance(value, dict | list)


def _scalar_error(value: Any, scalar: str) -> str:
    match scalar:
        case "numeric":
            return f"expected numeric (int or float), got {go_values.type_name(value)}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{go_values.source(value)}}}"
        case "boolean":
            return f"expected boolean, got {go_values.pointed(value)}"
        case _:
            return f"expected any scalar, got {go_values.pointed(value)}"


def _check_map(
    value: dict[str, Any], shape: MapType, path: str, duplicates: bool, errors: list[tuple[str, str]]
) -> None:
    for name, inner in value.items():
        type_ = shape.member(name)
        if type_ is None:
            # Upstream stops here, and so reports one unknown field of several.
            errors.append((f"{path}.{name}", "field not declared in schema"))
            return
        _check(inner, type_, f"{path}.{name}", duplicates, errors)


def _check_list(value: list[Any], shape: ListType, path: str, duplicates: bool, errors: list[tuple[str, str]]) -> None:
    elements: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if shape.associative:
            try:
                element = item_element(item, shape)
            except ItemError as error:
                errors.append((path, f"element {index}: {error}"))
                return
            if element in elements and not duplicates:
                errors.append((path, f"duplicate entries for key {element_text(element)}"))
            elements.add(element)
        _check(item, shape.element, path + element_text(element), duplicates, errors)
