"""Things: the custom resource of the tests of declared controllers."""

from typing import Any

from pilothouse.api.meta import Condition, ObjectMeta, View
from pilothouse.operator import CustomResource

THING = ("example.com/v1", "Thing")


class ThingSpec(View, frozen=True):
    size: int = 0


class ThingStatus(View, frozen=True):
    observed_generation: int = 0
    names: tuple[str, ...] = ()
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ThingSpec = ThingSpec()
    status: ThingStatus = ThingStatus()


THINGS = CustomResource("example.com/v1", Thing)


def thing(name: str = "one", *, size: int = 0, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": THING[0],
        "kind": THING[1],
        "metadata": {"name": name, **metadata},
        "spec": {"size": size} if size else {},
    }


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
