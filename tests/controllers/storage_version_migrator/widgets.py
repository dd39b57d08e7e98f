"""Widgets: a custom resource with two versions, one of which is the storage version."""

from typing import Any

from tests import custom_resources
from tests.custom_resources import DEFINITIONS

Doc = dict[str, Any]

NAME = "widgets.example.com"
DEFINITION = f"{DEFINITIONS}/{NAME}"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"


def versions(storage: str, *, served: tuple[str, ...] = ("v1", "v2")) -> list[Doc]:
    """The versions, of which ``storage`` is the storage version."""
    return [custom_resources.version(name, storage=name == storage) for name in served]


def definition(storage: str = "v1") -> Doc:
    """The CustomResourceDefinition with both versions."""
    return custom_resources.definition("Widget", *versions(storage))


def widgets(version: str) -> str:
    """The path of the collection in a version."""
    return f"/apis/example.com/{version}/namespaces/default/widgets"


def widget(name: str, size: int = 1, version: str = "v1") -> Doc:
    """A widget in a version."""
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


def migration(name: str = "m", resource: str = "widgets", group: str = "example.com") -> Doc:
    """A migration, by default of widgets."""
    return {"metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}}


def stored_version(value: bytes) -> str:
    """The version in which a widget is stored."""
    return value.partition(b'"apiVersion":"example.com/')[2].partition(b'"')[0].decode()
