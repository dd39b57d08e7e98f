"""Every view of a Kind constant, checked against the schema: wire names and types."""

import datetime
import importlib
import pkgutil
import types
import typing
from typing import Any

import msgspec
import pytest

import pilothouse.api
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, Status, View
from pilothouse.api.schema import Definition, Type, load
from pilothouse.apiserver import ApiServer
from pilothouse.env import Env
from pilothouse.storage import MemoryStore


def all_kinds() -> list[Kind[Any]]:
    result: dict[tuple[str, str, str], Kind[Any]] = {}
    for module in pkgutil.iter_modules(pilothouse.api.__path__):
        for value in vars(importlib.import_module(f"pilothouse.api.{module.name}")).values():
            if isinstance(value, Kind):
                result.setdefault((value.group, value.version, value.kind), value)
    return list(result.values())


# One view for the conditions of many kinds; the older kinds lack this field, and it reads as 0 there.
SHARED = {(Condition, "observed_generation")}


def check(view: Any, definition: Definition, resources: str) -> list[str]:
    """Errors of a view, as sentences."""
    problems: list[str] = []
    for field in msgspec.structs.fields(view):
        path = f"{resources}.{field.encode_name}"
        declared = definition.fields.get(field.encode_name)
        if declared is None and (view, field.name) in SHARED:
            continue
        if declared is None:
            problems.append(f"{path} is no field of {definition.name}")
            continue
        problems.extend(check_type(field.type, declared.type, path))
        if field.required:
            problems.append(f"{path} must have a default: absent fields read as zero")
    return problems


PLAIN: dict[str, tuple[Any, ...]] = {
    "string": (str,),
    "int32": (int,),
    "int64": (int,),
    "bool": (bool,),
    "number": (float,),
    "quantity": (str,),
    "time": (datetime.datetime,),
    "micro-time": (datetime.datetime,),
    "bytes": (str, bytes),
}


def check_type(annotation: Any, type_: Type, path: str) -> list[str]:
    if annotation is msgspec.Raw or annotation is Any:
        return []
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        rest = [argument for argument in arguments if argument is not type(None)]
        if type_.name == "int-or-string" and set(rest) == {int, str}:
            return []
        return check_type(rest[0], type_, path) if len(rest) == 1 else [f"{path}: {annotation} is ambiguous"]
    wrong = [f"{path} is {annotation} here and {type_!r} in the schema"]
    match type_.name:
        case "list":
            if origin is tuple and type_.element is not None and arguments[1:] == (...,):
                return check_type(arguments[0], type_.element, path + "[]")
            return wrong
        case "map":
            if origin is dict and type_.element is not None and arguments[0] is str:
                return check_type(arguments[1], type_.element, path + "{}")
            return wrong
        case "object":
            if isinstance(annotation, type) and issubclass(annotation, View):
                return check(annotation, type_.definition, path)
            return wrong
        case name:
            return [] if annotation in PLAIN.get(name, ()) else wrong


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.kind) for kind in all_kinds()])
def test_view_declares_only_fields_of_its_type(kind: Kind[Any]) -> None:
    definition = load().for_kind(kind.group, kind.version, kind.kind)
    assert definition is not None, "a Kind constant names a built-in"
    assert not check(kind.view, definition, kind.kind)


def test_status_views_match_their_type() -> None:
    definition = load().for_kind("", "v1", "Status")
    assert definition is not None
    assert not check(Status, definition, "Status")


def test_kinds_are_discovered() -> None:
    assert {"Pod", "Node", "Namespace", "ReplicaSet", "Lease", "Event"} <= {kind.kind for kind in all_kinds()}


async def test_every_served_kind_has_a_constant(env: Env) -> None:
    """But for the events of another group, which are the same objects, and ComponentStatus, which is deprecated."""
    known = {(kind.group, kind.resource) for kind in all_kinds()}
    served = {
        (info.group, info.resource)
        for info in ApiServer(env, MemoryStore(env)).core.table
        if "list" in info.verbs and "/" not in info.resource
    }
    assert served - known == {("", "componentstatuses"), ("events.k8s.io", "events")}


def test_check_detects_wrong_names_and_types() -> None:
    class Spec(View, frozen=True):
        cluster_ip: str = ""
        selector: dict[str, int] = {}

    class Service(View, frozen=True):
        spec: Spec = Spec()

    definition = load().for_kind("", "v1", "Service")
    assert definition is not None
    assert check(Service, definition, "Service") == [
        "Service.spec.clusterIp is no field of io.k8s.api.core.v1.ServiceSpec",
        "Service.spec.selector{} is <class 'int'> here and string in the schema",
    ]
