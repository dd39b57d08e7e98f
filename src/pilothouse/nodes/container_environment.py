"""The environment of a container, as far as its pod states it: values, and fields of its metadata. Pure.

Values that come from ConfigMaps, Secrets and Services are not known here. ``container_commands`` interprets a command
with these variables: an Indexed Job's ``exit $JOB_COMPLETION_INDEX``.
"""

import re
from collections.abc import Mapping, Sequence

from pilothouse.api.meta import ObjectMeta
from pilothouse.nodes.views import Variable

Environment = tuple[tuple[str, str], ...]
"""Names and values, in order."""

REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_][\w.-]*)\)", re.ASCII)
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_MOST = 100
_LONGEST = 1024
"""Values of more characters are not known either: they are no part of what commands decide by."""


def environment_of(metadata: ObjectMeta, variables: Sequence[Variable] | None) -> Environment:
    """The known variables of a container: ``variables`` are its ``env``, ``metadata`` is that of its pod."""
    known: dict[str, str] = {}
    for variable in (variables or ())[:_MOST]:
        value = expand(variable.value, known, _LONGEST)
        if variable.value_from is not None:
            field = variable.value_from.field_ref
            value = None if field is None else _field(metadata, field.field_path)
        if value is None or len(value) > _LONGEST:
            known.pop(variable.name, None)
        else:
            known[variable.name] = value
    return tuple(known.items())


def expand(text: str, known: Mapping[str, str], longest: int) -> str | None:
    """The text with its references (``$(NAME)``), None if one of them is unknown, or if it would be too long."""
    if len(text) > longest:
        return None
    if "$(" not in text:
        return text
    names = REFERENCE.findall(text)
    if any(name not in known for name in names) or len(text) + sum(len(known[name]) for name in names) > longest:
        return None
    return REFERENCE.sub(lambda match: known[match[1]], text).replace("$$", "$")


def _field(metadata: ObjectMeta, path: str) -> str | None:
    match path:
        case "metadata.name":
            return metadata.name
        case "metadata.namespace":
            return metadata.namespace
        case "metadata.uid":
            return metadata.uid
    entry = _ENTRY.fullmatch(path)
    if entry is None:
        return None
    return (metadata.labels if entry[1] == "labels" else metadata.annotations).get(entry[2], "")
