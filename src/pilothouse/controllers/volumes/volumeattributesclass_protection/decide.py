"""Which claim and which volume names which class. Pure.

Upstream: ``getPVCReferencedVACNames`` and ``getPVReferencedVACNames``, v1.36
``pkg/controller/volume/vacprotection/vac_protection_controller.go``.
"""

from collections.abc import Sequence

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume


def classes_of_claim(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """The class that a claim asks for, the one that it has, and the one that it is about to have; each once."""
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    names = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return tuple(dict.fromkeys(name for name in names if name))


def classes_of_volume(volume: PersistentVolume) -> tuple[str, ...]:
    """The class that a volume has, if any."""
    name = volume.spec.volume_attributes_class_name
    return (name,) if name else ()


def let_go(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The classes that were named, and are not any more."""
    return [name for name in old if name not in new]
