"""What a program hands to a controller when it builds one."""

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pilothouse.client import Client
from pilothouse.env import Env, Log
from pilothouse.runtime.informer import InformerFactory
from pilothouse.runtime.metrics import Registry

if TYPE_CHECKING:
    from pilothouse.client.discovery import RestMapper

O = TypeVar("O")  # noqa: E741  # the options struct


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a controller may use. ``client`` is its own (identity, rate limit, User-Agent); informers are shared.

    ``informers`` cache whole views, ``metadata_informers`` only metadata (garbage collector, quota). Informers asked
    for while controllers are built are started by the program afterwards.
    """

    env: Env
    client: Client
    informers: InformerFactory
    metadata_informers: InformerFactory
    metrics: Registry = msgspec.field(default_factory=Registry)
    options: object = None
    rest_mapper: "RestMapper | None" = None
    log: Log = msgspec.field(default_factory=lambda: Log("controller"))

    def options_as(self, kind: type[O]) -> O:
        """The options, which are of that type, or its defaults if the program gave none."""
        if self.options is None:
            return kind()
        assert isinstance(self.options, kind), f"options are {type(self.options).__name__}, wanted {kind.__name__}"
        return self.options
