"""Names in Python for kinds, fields and versions on the wire. Pure."""

import functools
import itertools
import keyword
import re
from collections.abc import Collection, Iterable

import msgspec

IMPORTED = ("Any", "Annotated", "Literal", "Column", "CustomResource", "ObjectMeta", "Rule", "Version", "View")
"""Names that the module may import."""
_ANNOTATING = frozenset({"bool", "bytes", "datetime", "dict", "float", "int", "msgspec", "str", "tuple", *IMPORTED})
"""Names in annotations: a field with such a name would shadow them in the body of its class."""


def _words(name: str) -> list[str]:
    """``clusterIPs`` is cluster and ips, ``HTTPRoute`` http and route."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name))
    return [word for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def field_name(wire: str, names_used: Collection[str]) -> str:
    name = "_".join(word.lower() for word in _words(wire)) or "field"
    if name[0].isdigit():
        name = f"field_{name}"
    if keyword.iskeyword(name) or name in _ANNOTATING or name in names_used:
        name += "_"
    # Numbers from the fields so far, or many names that differ in punctuation only would take their square.
    numbered = (f"{name}{number}" for number in itertools.count(len(names_used)))
    return name if name not in names_used else next(candidate for candidate in numbered if candidate not in names_used)


@functools.cache
def camel(name: str) -> str:
    """The JSON name that msgspec derives for a field of a view."""
    return msgspec.defstruct("Renamed", [name], rename="camel").__struct_encode_fields__[0]


def pascal(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in _words(name))


def identifier(name: str) -> str:
    """Kinds and plurals may have hyphens."""
    return name.replace("-", "_")


def _singular(name: str) -> str:
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "ches", "shes", "iases", "tuses")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "us", "is")) else name


def class_names(path: tuple[str, ...]) -> Iterable[str]:
    """Candidate names for a path, the shortest first: for ``Website``, ``spec`` it is WebsiteSpec."""
    parts: list[str] = []
    for part in path:
        if part in ("[]", "{}"):
            parts[-1] = _singular(parts[-1])
        else:
            parts.append(pascal(part) or "Field")
    least = 2 if len(parts) == 2 else 1
    for count in range(least, len(parts) + 1):
        name = "".join(parts[-count:])
        yield name if not name[0].isdigit() else f"_{name}"


def constant_name(name: str, kind: str) -> str:
    """``certificaterequests`` of the kind CertificateRequest is CERTIFICATE_REQUESTS."""
    words = _words(kind)
    if words and name.startswith("".join(words).lower()[:-1]):
        rest = name[len("".join(words[:-1])) :]
        return "_".join([*(word.upper() for word in words[:-1]), identifier(rest.upper())])
    return "_".join(word.upper() for word in _words(name))
