"""Creates protobuf classes from a table of fields: generated code would require a certain version of the protobuf
runtime."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {"int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "message": 11, "bytes": 12, "enum": 14}
Messages = Mapping[str, Mapping[str, tuple[int, str]]]
"""Message and field name → number and type: one of ``_TYPES`` or a message; "*" before it for a list, "?" for a member
of a oneof, "%" for the values of a map with strings as keys."""


def message_classes(package: str, messages: Messages) -> dict[str, Any]:
    """A class for each message, by its name."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file(package, messages))
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _file(package: str, messages: Messages) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}/messages.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            plain = kind.lstrip("*?%")
            descriptor = message.field.add(name=field, number=number, label=3 if kind[0] in "*%" else 1)
            if kind.startswith("%"):
                entry = f"{field[0].upper()}{field[1:]}Entry"
                _add_entry(message, entry, _TYPES[plain])
                descriptor.type, descriptor.type_name = _TYPES["message"], f".{package}.{name}.{entry}"
            elif plain in messages:
                descriptor.type, descriptor.type_name = _TYPES["message"], f".{package}.{plain}"
            else:
                descriptor.type = _TYPES[plain]
            if kind.startswith("?"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="one")
                descriptor.oneof_index = 0
    return file


def _add_entry(message: Any, name: str, value: int) -> None:
    """The entry message of a map, nested in the message with the map."""
    entry = message.nested_type.add(name=name)
    entry.field.add(name="key", number=1, label=1, type=_TYPES["string"])
    entry.field.add(name="value", number=2, label=1, type=value)
    entry.options.map_entry = True
