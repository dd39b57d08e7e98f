"""``CustomResource``: a ``Kind`` and its CustomResourceDefinition from one class.

The class is a ``View``: the fields that the operator reads. Its annotations give the structural schema: types,
defaults, ``msgspec.Meta`` bounds (``ge``, ``le``, ``min_length``, ``max_length``, ``pattern``), ``Literal`` for
enumerations, docstrings for descriptions. Fields without a default are required.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.operator.schema import object_schema

T = TypeVar("T")


class Column(msgspec.Struct, frozen=True):
    """A printer column of ``kubectl get``; ``type`` as in ``additionalPrinterColumns``."""

    name: str
    path: str
    """A JSONPath below the object, such as ``.spec.replicas``."""
    type: Literal["integer", "number", "string", "boolean", "date"] = "string"
    description: str = ""
    priority: int = 0


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule (``x-kubernetes-validations``) about the object, such as ``self.spec.low <= self.spec.high``."""

    rule: str
    message: str = ""


class CustomResource(Generic[T]):
    """The definition of a custom resource with one version, whose objects are read as ``view``.

    ``api_version`` is ``GROUP/VERSION``. ``kind`` and ``plural`` default to the name of the class and its lower case
    with an ``s``. A view with a field ``status`` has the status subresource; ``scale`` names the paths of the scale
    subresource (``specReplicasPath``, ``statusReplicasPath``, ``labelSelectorPath``).

    Raises ``ValueError`` for an ``api_version`` without a group, ``TypeError`` for a field that no structural schema
    can express; the error names the field.
    """

    def __init__(
        self,
        api_version: str,
        view: type[T],
        *,
        kind: str = "",
        plural: str = "",
        namespaced: bool = True,
        short_names: Iterable[str] = (),
        categories: Iterable[str] = (),
        columns: Iterable[Column] = (),
        rules: Iterable[Rule] = (),
        scale: Mapping[str, str] | None = None,
    ) -> None:
        group, slash, version = api_version.partition("/")
        if not slash or not group or not version:
            raise ValueError(f"api_version of a custom resource is GROUP/VERSION, got {api_version!r}")
        if "metadata" not in getattr(view, "__struct_fields__", ("metadata",)):
            raise TypeError(f"{view.__name__} needs the field: metadata: ObjectMeta = ObjectMeta()")
        name = kind or view.__name__
        self.kind: Kind[T] = Kind(group, version, plural or f"{name.lower()}s", name, namespaced, view)
        self._names = {
            "kind": name,
            "listKind": f"{name}List",
            "plural": self.kind.resource,
            "singular": name.lower(),
            **({"shortNames": list(short_names)} if short_names else {}),
            **({"categories": list(categories)} if categories else {}),
        }
        self._columns = tuple(columns)
        self._rules = tuple(rules)
        self._scale = dict(scale or {})
        self._schema = object_schema(view)

    @property
    def name(self) -> str:
        """``websites.example.com``."""
        return self.kind.group_resource

    @property
    def status_fields(self) -> frozenset[str] | None:
        """The fields that a status may have, on the wire; None if any."""
        fields = self._schema["properties"].get("status", {"properties": ()}).get("properties")
        return None if fields is None else frozenset(fields)

    def definition(self) -> dict[str, Any]:
        """The CustomResourceDefinition (``apiextensions.k8s.io/v1``), as a new dict."""
        schema = msgspec.json.decode(msgspec.json.encode(self._schema))
        if self._rules:
            schema["x-kubernetes-validations"] = [
                {"rule": each.rule, **({"message": each.message} if each.message else {})} for each in self._rules
            ]
        version: dict[str, Any] = {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
        }
        subresources: dict[str, Any] = {}
        if "status" in schema["properties"]:
            subresources["status"] = {}
        if self._scale:
            subresources["scale"] = dict(self._scale)
        if subresources:
            version["subresources"] = subresources
        if self._columns:
            version["additionalPrinterColumns"] = [_column(each) for each in self._columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.kind.group,
                "names": dict(self._names),
                "scope": "Namespaced" if self.kind.namespaced else "Cluster",
                "versions": [version],
            },
        }


Resource = Kind[T] | CustomResource[T]


def kind_of(resource: Resource[T]) -> Kind[T]:
    """The kind, also of a custom resource."""
    return resource.kind if isinstance(resource, CustomResource) else resource


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        shown["description"] = column.description
    if column.priority:
        shown["priority"] = column.priority
    return shown
