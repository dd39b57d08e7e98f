"""Which DeviceClass backs an extended resource.

As k8s.io/dynamic-resource-allocation v0.36 ``deviceclass/extendedresourcecache``: the class that has the resource in
``spec.extendedResourceName``, among several the newest, then the first by name; and every class backs
``deviceclass.resource.kubernetes.io/<name>``.
"""

import datetime

from pilothouse.api.resource import DeviceClass

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
_NEVER = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class DeviceClassResolver:
    """Updated with each event of a DeviceClass, in upstream's order of changes."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self.version = 0
        """Increases with every change."""

    def __bool__(self) -> bool:
        return bool(self._classes)

    def device_class(self, resource: str) -> DeviceClass | None:
        """``GetDeviceClass``."""
        return self._classes.get(resource)

    def update(self, old: DeviceClass | None, new: DeviceClass) -> None:
        """A class was added or changed."""
        name = new.spec.extended_resource_name
        present = self._classes.get(name) if name else None
        # As upstream, a class that comes later than one with the same resource is not recorded by its own name either.
        if present is not None and not _comes_before(new, present):
            return
        self.version += 1
        if old is not None:
            self._classes.pop(DEVICE_CLASS_PREFIX + old.metadata.name, None)
            if old.spec.extended_resource_name:
                self._classes.pop(old.spec.extended_resource_name, None)
        if name:
            self._classes[name] = new
        self._classes[DEVICE_CLASS_PREFIX + new.metadata.name] = new

    def remove(self, device_class: DeviceClass) -> None:
        """A class was deleted."""
        self.version += 1
        self._classes.pop(DEVICE_CLASS_PREFIX + device_class.metadata.name, None)
        self._classes.pop(device_class.spec.extended_resource_name, None)


def _comes_before(one: DeviceClass, other: DeviceClass) -> bool:
    """Newer, or as new and with an earlier name."""
    created = one.metadata.creation_timestamp or _NEVER, other.metadata.creation_timestamp or _NEVER
    return created[0] > created[1] or (created[0] == created[1] and one.metadata.name < other.metadata.name)
