"""YAML as the API server takes it: one document, within limits.

A few lines of aliases of aliases stand for gigabytes; Go's yaml (v2 and v3, ``decode.go``: ``allowedAliasRatio``)
refuses them before it builds anything, and so does this. Unlike Go's it also refuses a long text that is repeated a
few hundred times, and nests 300 deep at most, not 10,000: PyYAML's composer calls itself in C, and a line of a hundred
thousand brackets would end the process.
"""

from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 300
_FEW, _MANY = 400_000, 4_000_000
"""Between these numbers of values, the share of them that may come from aliases goes from 99 to 10 percent."""


_MOST_TEXT = 32 * 1024 * 1024


class YamlError(ValueError):
    """The text is no YAML, or goes too far; the message begins with ``yaml: ``."""


def load_yaml(text: bytes | str) -> Any:
    """The document as plain values; ``None`` for an empty text. Raises ``YamlError``."""
    _check_depth(text)
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_aliases(node)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _told(error) from None
    except (ValueError, OverflowError) as error:
        # A date that is none, a number beyond all bounds.
        raise error if isinstance(error, YamlError) else YamlError(f"yaml: {error}") from None
    finally:
        loader.dispose()


def compose_yaml(text: bytes | str) -> yaml.Node | None:
    """The document's nodes, for who must see what loading does not tell, such as repeated keys. Raises as above."""
    _check_depth(text)
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _told(error) from None


def repeated_keys(text: bytes | str) -> list[str]:
    """What Go's strict decoder says of keys that a map has twice: ``line 9: key "foo" already set in map``."""
    found: list[str] = []
    seen: set[int] = set()

    def look(node: Any) -> None:
        if id(node) in seen:
            return  # an alias
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for name, value in node.value:
                key = str(name.value)
                if key in names:
                    found.append(f'line {name.start_mark.line + 1}: key "{key}" already set in map')
                names.add(key)
                look(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                look(item)

    look(compose_yaml(text))
    return found


def _told(error: yaml.YAMLError) -> YamlError:
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return YamlError(f"yaml: {line}{getattr(error, 'problem', None) or error}")


def _check_depth(text: bytes | str) -> None:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _MAX_DEPTH:
                    raise YamlError(f"yaml: exceeded max depth of {_MAX_DEPTH}")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        raise _told(error) from None


def _check_aliases(root: yaml.Node) -> None:
    """Refuse a document that is mostly repetition, counting what its aliases stand for without building it."""
    sizes: dict[int, tuple[int, int]] = {}
    total, text = _size(root, sizes)
    repeated = total - len(sizes)
    share = 0.99 if total <= _FEW else 0.10 if total >= _MANY else 0.99 - 0.89 * (total - _FEW) / (_MANY - _FEW)
    too_many = repeated > 100 and total > 1000 and repeated / total > share
    if too_many or (repeated and text > _MOST_TEXT):
        raise YamlError("yaml: document contains excessive aliasing")


_UNDER_WAY = (0, 0)


def _size(node: yaml.Node, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values, and how many characters of text, the node and what is below it stand for."""
    known = sizes.get(id(node))
    if known is not None:
        if known is _UNDER_WAY:
            raise YamlError("yaml: anchor value contains itself")
        return known
    sizes[id(node)] = _UNDER_WAY
    if isinstance(node, yaml.MappingNode):
        below = [_size(part, sizes) for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        below = [_size(item, sizes) for item in node.value]
    else:
        below = [(0, len(node.value))]
    size = sizes[id(node)] = (1 + sum(values for values, _text in below), sum(text for _values, text in below))
    return size
