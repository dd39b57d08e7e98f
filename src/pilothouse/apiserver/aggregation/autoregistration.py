"""Creates and deletes the APIServices of CustomResourceDefinitions and of groups behind feature gates.

After kube-apiserver's ``crdRegistrationController`` (kubernetes
``pkg/controlplane/controller/crdregistration/crdregistration_controller.go``, v1.36). These APIServices route no
requests here; clients read them to see what is served.
"""

import msgspec

from pilothouse.apiserver.controllers.bootstrap_objects import stage_missing
from pilothouse.apiserver.controllers.derived_objects import DerivedObjectsController
from pilothouse.apiserver.controllers.post_start_hooks import api_service
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import readable_records, stage_deletion
from pilothouse.apiserver.resources import BEHIND_GATES, gated, storage_prefix
from pilothouse.storage import Staged
from pilothouse.storage.unreadable import is_readable

_GROUP = "apiregistration.k8s.io"
_DEFINITIONS = storage_prefix("apiextensions.k8s.io", "customresourcedefinitions")
_SERVICES = storage_prefix(_GROUP, "apiservices")
_MANAGED = "kube-aggregator.kubernetes.io/automanaged"


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False


class _Spec(msgspec.Struct, frozen=True):
    group: str
    versions: tuple[_Version, ...] = ()


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec


class _Meta(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str] = {}


class _Service(msgspec.Struct, frozen=True):
    metadata: _Meta


_read_definition = msgspec.json.Decoder(_Definition).decode
_read_service = msgspec.json.Decoder(_Service).decode


class AutoRegistrationController(DerivedObjectsController):
    """Syncs the APIServices of custom groups with the CustomResourceDefinitions."""

    reason = "each group version of the CustomResourceDefinitions has an APIService"

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        core.store.follow(_DEFINITIONS, self.notify)

    def stage(self) -> Staged | None:
        core, staged = self._core, None
        desired: dict[str, tuple[str, str]] = {}
        definitions = core.store.list(_DEFINITIONS).records
        services = readable_records(core.store, _SERVICES)
        if core.store.has_unreadable and not all(is_readable(record.value) for record in definitions):
            return None  # APIServices of feature-gated groups are not removed
        for record in definitions:
            spec = _read_definition(record.value).spec
            for version in spec.versions:
                if version.served:
                    desired[f"{version.name}.{spec.group}"] = (spec.group, version.name)
        for group, name in desired.values():
            service = api_service(group, name, core.time.now(), automanaged="true")
            staged = stage_missing(core, _GROUP, "apiservices", service) or staged
        of_gates = {f"{info.version}.{info.group}" for info in gated(BEHIND_GATES)}
        for info in gated(core.options.gates):
            desired[f"{info.version}.{info.group}"] = (info.group, info.version)
            service = api_service(info.group, info.version, core.time.now())
            staged = stage_missing(core, _GROUP, "apiservices", service) or staged
        for record in services:
            meta = _read_service(record.value).metadata
            is_managed = meta.labels.get(_MANAGED) == "true" or (meta.name in of_gates and _MANAGED in meta.labels)
            if is_managed and meta.name not in desired:
                current = core.store.staged(record.key)
                if current is not None:
                    staged = stage_deletion(core.store, current)
        return staged
