"""What a program needs to know about a controller before it starts one. Importing descriptors costs nothing: the code
behind ``factory`` is imported when the controller is built."""

import importlib
from collections.abc import Callable
from typing import Any, Protocol, cast, runtime_checkable

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.machinery.flags import Flag
from pilothouse.runtime.context import ControllerContext


class RunnableController(Protocol):
    """What ``build`` returns."""

    @property
    def name(self) -> str:
        """The upstream name."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class FlagSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A command-line flag and the field of the options struct that it sets. Their defaults must agree.

    ``--help`` shows it in the controller's group, or in ``group``.
    """

    field: str
    flag: Flag
    group: str = ""


@runtime_checkable
class CheckedOptions(Protocol):
    """An options struct that knows which of its values cannot go together."""

    def problems(self) -> list[str]:
        """What is wrong, in words for people; nothing if it can be used."""
        ...


def any_object(_obj: Any) -> bool:
    """For ``Watch.wakes``: whatever it is."""
    return True


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a controller watches.

    ``wakes`` says which of these objects give it something to do. A controller with such watches sends and keeps
    nothing as long as there is none of them, and may be built with the first one (``runtime.on_demand``):
    to it that is as a restart of the program.
    """

    kind: Kind[Any]
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    indexes: tuple[str, ...] = ()
    keep_raw: bool = False
    wakes: Callable[[Any], bool] | None = None


class GateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A feature gate of upstream and the boolean field of the options struct that it sets. Their defaults must
    agree."""

    field: str
    gate: str


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """One controller.

    ``name`` is upstream's canonical name (``replicaset-controller``), ``aliases`` are the older ones that
    ``--controllers`` takes too, ``client_name`` the service account and User-Agent suffix. ``gates`` must all be on.
    ``qps_factor`` and ``burst_factor`` widen the client's rate limit where upstream widens it (garbage collector,
    namespaces). ``switch`` names the field of the options without which the controller has nothing to do and is not
    even built, however it was asked for. ``factory`` is ``"module:function"``; the function takes a
    ``ControllerContext`` and returns a ``RunnableController``.
    """

    name: str
    aliases: tuple[str, ...] = ()
    client_name: str
    default_on: bool = True
    qps_factor: float = 1.0
    burst_factor: int = 1
    gates: tuple[str, ...] = ()
    gate_fields: tuple[GateSpec, ...] = ()
    options: type[msgspec.Struct] | None = None
    switch: str = ""
    flags: tuple[FlagSpec, ...] = ()
    watches: tuple[Watch, ...] = ()
    factory: str

    def build(self, context: ControllerContext) -> RunnableController:
        """Import the factory and build the controller."""
        module, _colon, function = self.factory.partition(":")
        build = cast(
            "Callable[[ControllerContext], RunnableController]", getattr(importlib.import_module(module), function)
        )
        return build(context)

    def default_options(self) -> msgspec.Struct | None:
        """A new options struct with its defaults, or None if the controller has none."""
        return self.options() if self.options is not None else None
