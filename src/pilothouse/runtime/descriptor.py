"""The declaration of a controller: what a program must have before it builds one. Importing descriptors is cheap: the
code of the controller is imported when it is built."""

import importlib
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from pilothouse.machinery.flags import Flag
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.watches import Watch


class RunnableController(Protocol):
    """A built controller."""

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
    """An options struct with rules about combinations of its values."""

    def validate(self) -> list[str]:
        """The error in the options, for users; empty if they are valid."""
        ...


class GateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A feature gate of upstream and the boolean field of the options struct that it sets. Their defaults must
    agree."""

    field: str
    gate: str


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """One controller.

    ``name`` is upstream's canonical name (``replicaset-controller``), or another one for a controller that upstream
    does not have; ``aliases`` are the older ones that ``--controllers`` takes too, ``client_name`` is the service
    account and User-Agent suffix. ``default_on`` says whether ``--controllers=*`` includes it. ``gates`` must all be
    on. ``unsupported_gates`` change what upstream's controller does and not what this one does: the manager rejects
    their other value. ``qps_factor`` and ``burst_factor`` widen the client's rate limit where upstream widens it
    (garbage collector, namespaces). ``switch`` names the field of the options without which the controller has nothing
    to do and is not even built, however it was asked for. ``package`` is the package of the controller (``__name__``
    where the descriptor stands), whose module ``controller`` builds it: ``build(context: ControllerContext) ->
    RunnableController``.
    """

    name: str
    aliases: tuple[str, ...] = ()
    client_name: str
    default_on: bool = True
    qps_factor: float = 1.0
    burst_factor: int = 1
    gates: tuple[str, ...] = ()
    gate_fields: tuple[GateSpec, ...] = ()
    unsupported_gates: tuple[str, ...] = ()
    options: type[msgspec.Struct] | None = None
    switch: str = ""
    flags: tuple[FlagSpec, ...] = ()
    watches: tuple[Watch, ...] = ()
    watches_discovered: bool = False
    """It also watches whatever resources discovery finds."""
    package: str

    def build(self, context: ControllerContext) -> RunnableController:
        """Import the controller and build it, with the informers that ``watches`` declares."""
        return self.factory()(msgspec.structs.replace(context, name=self.name, watches=self.watches, awaited=[]))

    def factory(self) -> "Callable[[ControllerContext], RunnableController]":
        """The factory of the controller."""
        build: Callable[[ControllerContext], RunnableController]
        build = importlib.import_module(f"{self.package}.controller").build
        return build

    def rules(self) -> list[tuple[str, str]]:
        """The API groups and resources that its informers list and watch, for which the program's user needs
        permissions; ``*`` for all."""
        if self.watches_discovered:
            return [("*", "*")]
        return sorted({(watch.kind.group, watch.kind.resource) for watch in self.watches})

    def default_options(self) -> msgspec.Struct | None:
        """A new options struct with default values, or None if the controller has no options."""
        return self.options() if self.options is not None else None
