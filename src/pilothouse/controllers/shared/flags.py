"""A flag of one controller, declared in one call."""

from typing import Any

from pilothouse.machinery.flags import Flag, FlagType
from pilothouse.runtime.descriptor import FlagSpec


def flag_spec(
    field: str, name: str, type_: FlagType, default: Any, text: str, *, group: str = "", note: str = ""
) -> FlagSpec:
    """The flag ``--name`` that sets ``field`` of the options struct. ``default`` must agree with the field's."""
    return FlagSpec(field=field, flag=Flag(name, type_, default, text, note=note), group=group)
