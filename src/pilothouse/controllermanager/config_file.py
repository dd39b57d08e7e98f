"""``--config FILE``: flags in a YAML document. Not in upstream.

Keys are names of flags. Values are written as on the command line, or as YAML numbers, booleans, lists for repeatable
flags, and mappings for ``key=value`` flags::

    leader-elect: false
    kube-api-qps: 50
    controllers: ["*", "-ttl"]
    feature-gates: {PodDeletionCost: false}

The command line takes precedence for a whole flag: lists are not merged.
"""

from collections.abc import Sequence
from typing import Any

from pilothouse.controllermanager.yaml_file import read_mapping
from pilothouse.machinery.flag_types import (
    BOOL,
    INT32S,
    MULTIMAP,
    NAMED_CERTIFICATES,
    PAIRS,
    STRINGS,
    show_bool,
    show_csv,
)
from pilothouse.machinery.flags import Flag, FlagError, FlagSet, Parsed, normalize

_NOT_ALLOWED = ("config", "help", "version")
_LISTS = (STRINGS, INT32S, NAMED_CERTIFICATES)
_MAPS = (PAIRS, MULTIMAP)


def add_config(parsed: Parsed, flags: FlagSet) -> Parsed:
    """Add the settings of the ``--config`` file to a command line. Raises ``FlagError`` with the file and the key."""
    path = parsed["config"]
    if not path:
        return parsed
    try:
        document = read_mapping(path)
    except OSError as error:
        raise FlagError(f"--config {path}: {error.strerror}") from error
    except ValueError as error:
        raise FlagError(f"--config {path}: {error}") from error
    values = dict(parsed.values)
    keys: dict[str, str] = {}
    for key, value in document.items():
        name = normalize(str(key))
        if name not in flags or name in _NOT_ALLOWED:
            raise FlagError(f'--config {path}: unknown key "{key}"')
        if name in keys:
            raise FlagError(f'--config {path}: "{key}" and "{keys[name]}" are the same setting')
        keys[name] = str(key)
        read = _read(flags.flag(name), str(key), value, path)
        if name not in parsed.given:
            values[name] = read
    return Parsed(values, tuple(dict.fromkeys((*parsed.given, *keys))), parsed.arguments, parsed.help)


def _read(flag: Flag, key: str, value: Any, path: str) -> Any:
    try:
        words = _words(flag, value)
        read = flag.type.parse(words[0])
        for word in words[1:]:
            assert flag.type.join is not None, "only what adds up has several words"
            read = flag.type.join(read, flag.type.parse(word))
        return read
    except ValueError as error:
        raise FlagError(f'--config {path}: "{key}": {error}') from None


def _words(flag: Flag, value: Any) -> Sequence[str]:
    """The value as it would be given on the command line, once or several times."""
    if isinstance(value, list) and flag.type in _LISTS and value:
        items = [_scalar(item) for item in value]
        return [show_csv(items)] if flag.type is STRINGS else items
    if value == [] and flag.type is STRINGS:
        return [""]
    if isinstance(value, dict) and flag.type in _MAPS and value:
        pairs = [f"{name}={_scalar(item)}" for name, item in value.items()]
        return [show_csv(pairs)] if flag.type is PAIRS and len(pairs) > 1 else pairs
    if isinstance(value, bool) and flag.type is not BOOL:
        # In YAML "no" and "on" are booleans, also where a string is meant.
        raise ValueError("unexpected boolean; quote it if it is a string")
    return [_scalar(value)]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return show_bool(value)
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"expected a single value, found {_KINDS.get(type(value), 'something else')}")


_KINDS: dict[type, str] = {dict: "a mapping", list: "a list", type(None): "nothing"}
