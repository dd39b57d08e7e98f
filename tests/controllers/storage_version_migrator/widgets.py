"""Widgets: a custom resource of two versions, one of which is stored."""

from typing import Any

from tests import custom_resources
from tests.custom_resources import DEFINITIONS

Doc = dict[str, Any]

NAME = "widgets.example.com"
DEFINITION = f"{DEFINITIONS}/{NAME}"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"


def versions(storage: str, *, served: tuple[str, ...] = ("v1", "v2")) -> list[Doc]:
    """Those that are served, and which one is stored."""
    return [custom_resources.version(name, storage=name == storage) for name in served]


def definition(storage: str = "v1") -> Doc:
    """The definition, with both versions."""
    return custom_resources.definition("Widget", *versions(storage))


def widgets(version: str) -> str:
    """Where those of a version are."""
    return f"/apis/example.com/{version}/namespaces/default/widgets"


def widget(name: str, size: int = 1, version: str = "v1") -> Doc:
    """As who knows that version writes it."""
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


def migration(name: str = "m", resource: str = "widgets", group: str = "example.com") -> Doc:
    """Of all widgets, unless told otherwise."""
    return {"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}}


def stored_version(value: bytes) -> str:
    """The version that a stored widget is in."""
    return value.partition(b'"apiVersion":"example.com/')[2].partition(b'"')[0].decode()
