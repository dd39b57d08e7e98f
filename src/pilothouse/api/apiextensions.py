"""``apiextensions.k8s.io/v1``: CustomResourceDefinitions, with the versions in which objects are stored."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class CustomResourceDefinitionVersion(View, frozen=True):
    """One version; ``storage`` is set for exactly one of them."""

    name: str = ""
    storage: bool = False


class CustomResourceDefinitionSpec(View, frozen=True):
    versions: tuple[CustomResourceDefinitionVersion, ...] = ()


class CustomResourceDefinitionStatus(View, frozen=True):
    """``stored_versions`` are the versions in which objects may be stored."""

    conditions: tuple[Condition, ...] = ()
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()


CUSTOM_RESOURCE_DEFINITIONS = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    CustomResourceDefinition,
)
