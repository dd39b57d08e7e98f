"""Strategic merge patch, as the API server applies it (apimachinery 0.36, ``pkg/util/strategicpatch/patch.go``).

Like a merge patch, but lists are merged if the schema says so: lists of objects by their merge key, lists of scalars as
sets. Directives in the patch change this::

    {"$patch": "replace" | "delete"}           in an object or a list item: replace or delete it
    "$retainKeys": [..]                        in an object: remove all other members
    "$deleteFromPrimitiveList/<field>": [..]   remove these scalars
    "$setElementOrder/<field>": [..]           the order of the items

The order of a merged list: items in the patch are in the order of the patch (or ``$setElementOrder``), items only in
the live list in the live order, and a live item precedes a patch item only if it did so before.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.schema import Definition, Field, Type
from pilothouse.machinery.go_text import print_value
from pilothouse.machinery.nulls import without_nulls
from pilothouse.machinery.patches import PatchFormatError, PatchNotApplicable, PatchSyntaxError

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_PREFIX: Final = "$deleteFromPrimitiveList"
_ORDER_PREFIX: Final = "$setElementOrder"

Object = dict[str, Any]
_SINGLE: Final = frozenset({str, int, float, bool})


def apply_strategic_merge(document: Object, patch: Object, definition: Definition | None) -> Object:
    """Merge ``patch`` into ``document``, an object of the type ``definition``.

    The arguments are not changed; the result shares unchanged parts with them. It may have fields and values that the
    type does not have: ``bodies.convert_document`` is called next. Raises a ``PatchError``, also without a definition,
    as for custom resources.
    """
    if definition is None:
        raise PatchSyntaxError("strategic merge patch format is not supported")
    return _merge_objects(document, patch, Type("object", definition=definition))


def _merge_objects(original: Object, patch: Object, type_: Type) -> Object:
    if _PATCH in patch:
        return _apply_directive(patch)
    result: Object
    directed = "$" in "".join(patch)
    if directed:
        patch = dict(patch)
        result = _retain_keys(original, patch)
        _merge_ordered_lists(result, patch, type_)
    else:
        # Most objects have no directives, and most members are scalars.
        result = dict(original)
    for key, value in patch.items():
        if type(value) in _SINGLE and not (directed and key.startswith(_DELETE_PREFIX)):
            result[key] = value
            continue
        deletes = directed and key.startswith(_DELETE_PREFIX)
        name = _directive_field(key, _DELETE_PREFIX) if deletes else key
        if value is None:
            result.pop(name, None)
            continue
        current = result.get(name)
        if name in result and isinstance(current, list) and isinstance(value, list):
            result[name] = _merge_lists(current, value, _field(type_, name), type_, deletes=deletes)
        elif deletes:
            # There is nothing to delete.
            continue
        elif isinstance(current, dict) and isinstance(value, dict):
            field = _field(type_, name)
            result[name] = value if _strategy(field) == "replace" else _merge_objects(current, value, field.type)
        else:
            _set_member(result, name, without_nulls(value))
    return result


def _apply_directive(patch: Object) -> Object:
    match patch[_PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case unknown:
            raise _unknown_directive(unknown, patch)


def _unknown_directive(directive: Any, patch: Object) -> PatchFormatError:
    return PatchFormatError(f"unknown patch type: {print_value(directive)} in map: {print_value(patch)}")


def _retain_keys(original: Object, patch: Object) -> Object:
    """A copy of ``original`` without the members that ``$retainKeys`` does not list; removes the directive."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise PatchSyntaxError("invalid patch format of retainKeys")
    names = {name for name in retained if type(name) is str}
    for key, value in patch.items():
        if value is not None and key not in names and not key.startswith((_DELETE_PREFIX, _ORDER_PREFIX)):
            raise PatchSyntaxError("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in names}


# The schema ---------------------------------------------------------------------------------------------------------


def _field(type_: Type, name: str) -> Field:
    if type_.name == "any":
        # A value without a type is treated as a struct without fields.
        raise PatchFormatError(f'unable to find api field in struct RawExtension for the json field "{name}"')
    if type_.name != "object":
        kind = {"list": "slice"}.get(type_.name, type_.name)
        raise PatchFormatError(f"merging an object in json but data type is not struct, instead is: {kind}")
    definition = type_.definition
    field = definition.fields.get(name)
    if field is None:
        raise PatchFormatError(f'unable to find api field in struct {definition.go_name} for the json field "{name}"')
    return field


def _strategy(field: Field) -> str:
    """``merge``, ``replace`` or nothing. ``retainKeys`` only matters for the creation of patches."""
    for strategy in field.patch_strategies:
        if strategy != "retainKeys":
            return strategy
    return ""


def _directive_field(key: str, prefix: str) -> str:
    directive, slash, name = key.partition("/")
    if not slash or directive != prefix:
        list_name = "primitive list" if prefix == _DELETE_PREFIX else "setElementOrder list"
        raise PatchSyntaxError(f"invalid patch format of {list_name}")
    return name


# Values that are added as a whole -------------------------------------------------------------------------------------


def _set_member(members: Object, name: str, value: Any) -> None:
    """Set a member, without directives in it; a value that is a directive itself removes the member."""
    if isinstance(value, dict) and _PATCH in value:
        members.pop(name, None)
    else:
        members[name] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        result: Object = {}
        for name, member in value.items():
            _set_member(result, name, member)
        return result
    if isinstance(value, list):
        return [_without_directives(v) for v in value if not (isinstance(v, dict) and _PATCH in v)]
    return value


# Lists ---------------------------------------------------------------------------------------------------------------


def _merge_ordered_lists(result: Object, patch: Object, type_: Type) -> None:
    """Apply every ``$setElementOrder``; removes the directives and their lists from the patch."""
    for key in [key for key in patch if key.startswith(_ORDER_PREFIX)]:
        order = patch.pop(key)
        if not isinstance(order, list):
            raise _wrong_type("[]interface {}", order)
        name = _directive_field(key, _ORDER_PREFIX)
        live, items = result.get(name), patch.get(name)
        for value, present in ((live, name in result), (items, name in patch)):
            if present and not isinstance(value, list):
                raise _wrong_type("[]interface {}", value)
        field = _field(type_, name)
        _check_order(items or [], order, field.merge_key)
        if live is None and items is None:
            continue
        ordered = _merge_by_name(live, items, order, field) if live and items else None
        if ordered is not None:
            result[name] = ordered
            patch.pop(name, None)
            continue
        if items is None:
            merged = live
        elif live is None:
            merged = _without_directives(items)
        else:
            merged = _merge_lists(live, items, field, type_, deletes=False)
        assert merged is not None, "one of the two lists exists"
        _require_one_kind(live or [], items or [])
        live_order = live or []
        if field.merge_key and live is not None and items is not None:
            live_order = _overwritten_order(live, items, field.merge_key)
        result[name] = _normalize_element_order(merged, order, live_order, field.merge_key)
        patch.pop(name, None)


def _merge_by_name(live: list[Any], items: list[Any], order: list[Any], field: Field) -> list[Any] | None:
    """The fast path, if all items are objects with a string as key, without directives, and the order names all of
    them: as clients patch conditions and containers. None otherwise."""
    key = field.merge_key
    element = field.type.element
    if not key or element is None or _strategy(field) != "merge":
        return None
    by_name: dict[str, Any] = {}
    for item in live:
        name = item.get(key) if type(item) is dict else None
        if type(name) is not str or name in by_name:
            return None
        by_name[name] = item
    patch_names: set[str] = set()
    for item in items:
        name = item.get(key) if type(item) is dict and _PATCH not in item else None
        if type(name) is not str or name in patch_names:
            return None
        patch_names.add(name)
        current = by_name.get(name)
        by_name[name] = item if current is None else _merge_objects(current, item, element)
    result = []
    for ordered_item in order:
        name = ordered_item.get(key) if type(ordered_item) is dict else None
        if type(name) is not str or name not in by_name:
            return None
        result.append(by_name.pop(name))
    return None if by_name else result


def _overwritten_order(live: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    """The live order as upstream's code sees it after merging the list once.

    Go's slices share their memory, so deletions shift upstream's live list and new items are written into the space at
    its end: live [a, c, e] - c + d becomes [a, e, d], and d, which would be first, is last. Observed with ``kubectl
    apply`` against v1.20.2, and the code has not changed since.
    """
    if any(item.get(_PATCH) == "replace" for item in patch):
        return list(live)
    deleted = {_identity(item[merge_key]): None for item in patch if item.get(_PATCH) == "delete"}
    memory, overwritten = _delete_in_place(live, list(deleted), merge_key)
    present = {_identity(item[merge_key]) for item in memory if merge_key in item}
    for item in patch:
        if not overwritten:
            break
        if _PATCH not in item and (key := _identity(item[merge_key])) not in present:
            present.add(key)
            memory.append(item)
            overwritten.pop()
    return memory + overwritten[::-1]


def _delete_in_place(live: list[Any], deleted: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The remaining items, and the contents of the space after them, from the end of the list.

    Every deletion shifts the rest, so that the last item at that time is there twice.
    """
    indexes: dict[Any, list[int]] = {}
    for index, item in enumerate(live):
        if merge_key in item:
            indexes.setdefault(_identity(item[merge_key]), []).append(index)
    overwritten: list[Any] = []
    deleted_indexes: set[int] = set()
    last = len(live) - 1
    for key in deleted:
        for index in indexes.get(key, ()):
            while last in deleted_indexes:
                last -= 1
            overwritten.append(live[last])
            deleted_indexes.add(index)
    return [item for index, item in enumerate(live) if index not in deleted_indexes], overwritten


def _check_order(items: Sequence[Any], order: Sequence[Any], merge_key: str) -> None:
    """The items of the patch must all be in ``$setElementOrder``, in the same order, except deletions."""
    if not order or not items:
        return
    position = 0
    for item in items:
        if isinstance(item, dict) and _PATCH in item:
            continue
        if merge_key and not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
        while position < len(order) and _identity(_key_of(item, merge_key)) != _identity(
            _key_of(order[position], merge_key)
        ):
            position += 1
        if position == len(order):
            raise PatchFormatError(
                f"The order in patch list:\n{print_value(items)}\n"
                f" doesn't match {_ORDER_PREFIX} list:\n{print_value(order)}\n"
            )
        position += 1


def _merge_lists(live: list[Any], patch: list[Any], field: Field, type_: Type, *, deletes: bool) -> list[Any]:
    if not deletes and _strategy(field) != "merge":
        return patch
    if not live and not patch:
        return live
    merged: list[Any]
    if not _require_one_kind(live, patch):
        if deletes:
            deleted = {_identity(item) for item in patch}
            return [item for item in live if _identity(item) not in deleted]
        distinct: dict[Any, Any] = {}
        for item in (*live, *patch):
            distinct.setdefault(_identity(item), item)
        merged = list(distinct.values())
        return _normalize_element_order(merged, patch, live, field.merge_key)
    if not field.merge_key:
        raise PatchFormatError(f"cannot merge lists without merge key for {_kind_of_element(field.type)}")
    element = field.type.element or type_
    live, patch = _apply_item_directives(_with_keys(live, field.merge_key, element), patch, field.merge_key)
    merged = list(live)
    indexes: dict[Any, int] = {}
    for index, item in enumerate(live):
        if field.merge_key in item:
            indexes.setdefault(_identity(item[field.merge_key]), index)
    for item in patch:
        index = indexes.setdefault(_identity(_key_of(item, field.merge_key)), len(merged))
        if index == len(merged):
            merged.append(item)
        else:
            merged[index] = _merge_objects(merged[index], item, element)
    return _normalize_element_order(merged, patch, live, field.merge_key)


def _with_keys(live: list[Any], merge_key: str, element: Type) -> list[Any]:
    """The items, each with a key: an unset string is omitted here, but encoded by upstream's types."""
    if element.name != "object" or all(merge_key in item for item in live):
        return live
    key_field = element.definition.fields.get(merge_key)
    if key_field is None or key_field.type.name != "string":
        return live
    return [item if merge_key in item else {**item, merge_key: ""} for item in live]


def _kind_of_element(type_: Type) -> str:
    element = type_.element
    return {"object": "struct", "list": "slice"}.get(element.name, element.name) if element else "struct"


def _apply_item_directives(live: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Both lists after applying the directives among the items: deletions, and ``replace`` for the whole list."""
    items, replace = [], False
    deleted: set[Any] = set()
    for item in patch:
        if _PATCH not in item:
            items.append(item)
            continue
        match item[_PATCH]:
            case "delete":
                deleted.add(_identity(_key_of(item, merge_key)))
            case "replace":
                replace = True
            case "merge":
                raise PatchFormatError("merging lists cannot yet be specified in the patch")
            case unknown:
                raise _unknown_directive(unknown, item)
    if replace:
        return items, []
    if deleted:
        live = [entry for entry in live if merge_key not in entry or _identity(entry[merge_key]) not in deleted]
    return live, items


def _normalize_element_order(
    merged: list[Any], patch_order: Sequence[Any], live_order: Sequence[Any], merge_key: str
) -> list[Any]:
    """``merged`` in the order described in the module docstring."""
    patch_indexes = _indexes(_keys_of(patch_order, merge_key))
    live_indexes = _indexes(_keys_of(live_order, merge_key))
    keys = _keys_of(merged, merge_key)
    if _is_sorted(keys, patch_indexes, live_indexes):
        return merged
    from_patch: list[tuple[int, int | None, Any]] = []
    only_live: list[tuple[int, Any]] = []
    for key, item in zip(keys, merged, strict=True):
        patch_index, live_index = patch_indexes.get(key), live_indexes.get(key)
        if patch_index is not None:
            from_patch.append((patch_index, live_index, item))
        else:
            only_live.append((live_index or 0, item))
    from_patch.sort(key=lambda indexed: indexed[0])
    only_live.sort(key=lambda indexed: indexed[0])

    result: list[Any] = []
    remaining = iter(from_patch)
    following = next(remaining, None)
    for live_index, item in only_live:
        while following is not None and not (following[1] is not None and live_index < following[1]):
            result.append(following[2])
            following = next(remaining, None)
        result.append(item)
    if following is not None:
        result.append(following[2])
        result.extend(item for _index, _live_index, item in remaining)
    return result


def _is_sorted(keys: list[Any], patch_indexes: dict[Any, int], live_indexes: dict[Any, int]) -> bool:
    """Whether all items, given by their keys, were live in this order, and the patch names its items in this order,
    too: then they are sorted already, as in nearly every patch of conditions."""
    last_live = last_patch = -1
    for key in keys:
        live_index = live_indexes.get(key, -1)
        if live_index <= last_live:
            return False
        last_live = live_index
        patch_index = patch_indexes.get(key)
        if patch_index is not None:
            if patch_index <= last_patch:
                return False
            last_patch = patch_index
    return True


def _keys_of(items: Sequence[Any], merge_key: str) -> list[Any]:
    """The identities of the items' merge keys, or of the items if there is no merge key."""
    return [_identity(_key_of(item, merge_key)) for item in items]


def _key_of(item: Any, merge_key: str) -> Any:
    if not merge_key:
        return item
    if not isinstance(item, dict):
        raise _wrong_type("map[string]interface {}", item)
    if merge_key not in item:
        raise PatchFormatError(f"map: {print_value(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def _indexes(keys: list[Any]) -> dict[Any, int]:
    """The first index of each key."""
    indexes: dict[Any, int] = {}
    for index, key in enumerate(keys):
        indexes.setdefault(key, index)
    return indexes


_canonical = msgspec.json.Encoder(order="sorted").encode


def _identity(value: Any) -> Any:
    """A dictionary key that is equal for values that are equal in Go: of the same type, so that true is not 1."""
    if type(value) is str:
        return value
    return type(value), value if type(value) in _SINGLE else _canonical(value)


def _require_one_kind(live: Sequence[Any], patch: Sequence[Any]) -> bool:
    """Whether the items are objects. They must all be of one type, which must not be a list."""
    items = [*live, *patch]
    if not items:
        raise PatchFormatError("no elements in any of the given slices")
    kind = type(items[0])
    if kind is list:
        raise PatchNotApplicable("lists of lists are not supported")
    for item in items:
        if type(item) is not kind:
            raise PatchFormatError(f"list element types are not identical: {print_value([live, patch])}")
    return kind is dict


_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def _wrong_type(expected: str, value: Any) -> PatchFormatError:
    return PatchFormatError(f"expected a {expected}, but received a {_GO_TYPES.get(type(value), '%!s(<nil>)')}")
