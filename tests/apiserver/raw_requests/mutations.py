"""Mutations of valid values, texts and bytes, determined by the ``Random`` argument."""

import json
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

Json = Any
_LONGEST = 256 * 1024
"""The maximum length of a value in JSON. Longer bodies are among the attacks."""
DEEP = "(deep)"
"""A placeholder for lists that are nested deeper than Python's encoders allow; see ``dump``."""

_DIGITS = "9" * 5000
_TEXTS = (
    "",
    " ",
    "a",
    "-1",
    "0",
    "1e999",
    "NaN",
    "null",
    "true",
    "x" * 300,
    "x" * 70_000,
    "\x00",
    "\ud800",
    "é\u202e",
    "%s%n",
    "..",
    "../..",
    "a/b/c",
    "a=b,c in (d",
    "!a",
    "$(a)",
    "{{.a}}",
    "(" * 500,
    "[a-",
    "(a+)+$",
    "*" * 50,
    "9223372036854775808",
    "-9223372036854775809",
    _DIGITS,
    "1Ei" * 3,
    "1e-400",
    "0.0000000000000000001",
    "10000000000E",
    "2026-13-45T99:99:99Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999+14:00",
    "300h",
    "9" * 25 + "h",
    "-1ns",
    "::1/200",
    "10.0.0.256",
    "fe80::1%eth0",
    "10.0.0.0/0",
    "@every 0s",
    "* * * * *",
    "0 0 30 2 *",
    "CRON_TZ=Nowhere * * * * *",
    "object.x.y",
    "self.all(x, x)",
    "f:a",
    'k:{"a":1}',
    "v:[",
    "system:masters",
    "kubernetes",
    "default",
    "\r\nX: y",
    "a" * 63 + "." + "b" * 63,
    "\\",
    '"',
    "'",
    "`",
)
_NUMBERS = (
    0,
    -1,
    1,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    10**40,
    0.5,
    -0.0,
    1e308,
    1e-320,
)
_STRUCTURES: tuple[Callable[[], Json], ...] = (
    dict,
    list,
    lambda: [[]],
    lambda: [None],
    lambda: {"": None},
    lambda: [{}],
    lambda: {"a": {"a": {"a": 1}}},
    lambda: nested(40),
    lambda: nested(299),
    lambda: nested(320),
    lambda: DEEP,
    lambda: [1, "1", None, {}],
    lambda: {"$patch": "replace"},
    lambda: {"$patch": "delete"},
    lambda: {"$retainKeys": ["a"]},
    lambda: {"$setElementOrder/a": [1]},
    lambda: {"$deleteFromPrimitiveList/a": [{}]},
    lambda: {"f:a": {".": {}}},
    lambda: ["x"] * 3000,
    lambda: {str(n): n for n in range(1000)},
)
_KEYS = (
    "",
    "name",
    "kind",
    "apiVersion",
    "metadata",
    "spec",
    "status",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "uid",
    "a" * 500,
    "resourceVersion",
    "generateName",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "fieldsV1",
    "$patch",
    "$retainKeys",
    "\x00",
    "items",
    "Spec",
    "labels",
    "annotations",
    "selector",
    "value",
    "op",
    "from",
    "path",
)
_BYTES = (
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b'"',
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"- ",
    b"? ",
    b"&a ",
    b"*a",
    b"!!binary ",
    b"!!python/object:os.system ",
    b"|",
    b">",
    b"#",
    b"---\n",
    b"...\n",
    b"%",
    b"<<: ",
    b"1e9999",
    b"9" * 400,
    b"\\u0000",
    b"\\ud800",
    b"\xd9\xd9\xf7",
    b"k8s\x00",
    b"\x80" * 12,
    b"\xff\xff\xff\xff\x0f",
    b"\x0b",
    b"\x0c",
)


def dump(value: Json) -> bytes:
    """A value as JSON. Surrogates by themselves are written as escapes."""
    return json.dumps(value).encode().replace(b'"(deep)"', b"[" * 3000 + b"]" * 3000)


def nested(levels: int) -> Json:
    """Nested lists and maps of this depth."""
    value: Json = 1
    for level in range(levels):
        value = [value] if level % 3 else {"a": value}
    return value


def odd_value(random: Random) -> Json:
    """A value of a probably wrong type."""
    choice = random.randrange(4)
    if choice == 0:
        return random.choice(_TEXTS)
    if choice == 1:
        return random.choice(_NUMBERS)
    if choice == 2:
        return random.choice((None, True, False))
    return random.choice(_STRUCTURES)()


def odd_text(random: Random) -> str:
    """A random string."""
    return random.choice(_TEXTS)


def change_value(random: Random, value: Json) -> Json:
    """A copy of the value with one to four mutations."""
    changed = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        text = json.dumps(changed)
        changed = _change_one(random, changed)
        if len(json.dumps(changed)) > _LONGEST:
            return json.loads(text)
    return changed


def _places(value: Json, places: list[tuple[Json, Any]]) -> None:
    members = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else ()
    )
    for key, member in members[:50]:
        places.append((value, key))
        if len(places) < 2000:
            _places(member, places)


def _change_one(random: Random, value: Json) -> Json:
    result: list[tuple[Json, Any]] = []
    if isinstance(value, dict | list):
        _places(value, result)
    if not result or random.random() < 0.02:
        return odd_value(random)
    holder, key = random.choice(result)
    action = random.randrange(8)
    if action <= 2:
        holder[key] = odd_value(random)
    elif action == 3:
        del holder[key]
    elif action == 4:
        # One value in the place of another.
        other, position = random.choice(result)
        if isinstance(other, dict) == isinstance(position, str) and (isinstance(other, dict) or position < len(other)):
            holder[key] = json.loads(json.dumps(other.get(position) if isinstance(other, dict) else other[position]))
    elif isinstance(holder, dict):
        if action == 5:
            holder[random.choice(_KEYS)] = holder.pop(key)
        elif action == 6:
            holder[random.choice(_KEYS)] = odd_value(random)
        else:
            holder[key] = [holder[key]] * random.choice((1, 2, 50))
    elif action == 5:
        holder.insert(key, holder[key])
    elif action == 6:
        holder.insert(key, odd_value(random))
    else:
        holder[key:key] = [holder[key]] * random.choice((2, 50))
    return value


def change_bytes(random: Random, data: bytes) -> bytes:
    """The bytes with one to four mutations."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(changed) + 1)
        action = random.randrange(7)
        if action == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif action == 1 and at < len(changed):
            changed[at] = random.randrange(256)
        elif action == 2:
            changed[at:at] = random.choice(_BYTES)
        elif action == 3:
            del changed[at : at + random.choice((1, 2, 10, 100))]
        elif action == 4:
            changed[at:at] = changed[at : at + random.choice((1, 10, 200))] * random.choice((1, 2, 30))
        elif action == 5 and random.random() < 0.3:
            del changed[at:]
        else:
            position = random.randrange(len(changed) + 1)
            changed[at:at] = changed[position : position + 20]
    return bytes(changed)


def change_text(random: Random, text: str) -> str:
    """A mutated path or parameter, without spaces."""
    action = random.randrange(4)
    if action == 0:
        return quote(odd_text(random).encode("utf-8", "surrogatepass")[:3000], safe="/=,!()")
    if action == 1:
        return quote(change_bytes(random, text.encode()), safe="/%=&?,!()+")
    if action == 2:
        return text + quote(odd_text(random).encode("utf-8", "surrogatepass")[:3000], safe="/=,!()")
    at = random.randrange(len(text) + 1)
    return (
        text[:at]
        + random.choice(("%00", "%", "%zz", "%2F", "%2f..", "//", "/.", "%ff", "%C3", "+", ";", "&", "=", "?", "#"))
        + text[at:]
    )
