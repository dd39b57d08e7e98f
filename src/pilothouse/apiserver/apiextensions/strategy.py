"""The strategy of custom resources."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.apiextensions import schema
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_meta import STANDARD_FINALIZERS
from pilothouse.apiserver.registry.generic.selection_predicate import Fields
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.deep_equal import deep_equal
from pilothouse.machinery.go_text import quote

_TERMINATING = "create not allowed while custom resource definition is terminating"


class _Warnings(threading.local):
    """The warnings of a validation, per thread, until ``CustomStrategy.warnings`` returns them."""

    def __init__(self) -> None:
        self.warnings: list[str] = []


class CustomStrategy(Strategy):
    """The strategy of a custom resource: no unconditional update; changes outside metadata and status increase the
    generation.

    ``storage`` is the storage version; the creator sets it.
    """

    generation_fields = ("",)
    allow_unconditional_update = False
    kept_on_status_update = "metadata"
    kube_finalizers = False
    update_steps = ("object meta update", "update")
    storage: ResourceInfo

    def __init__(
        self,
        *,
        status: bool,
        selectable: Fields,
        validate: Callable[[Object, Object | None, list[str], bool], ErrorList],
        default: Callable[[Object], None],
        terminating: bool,
    ) -> None:
        self.selectable = selectable
        self._untracked = ("metadata", "status") if status else ("metadata",)
        self._validate = validate
        self._default = default
        self.terminating = terminating
        self._validation_warnings = _Warnings()
        super().__init__()

    def set_defaults(self, obj: Object) -> None:
        self._default(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        if self.terminating:
            raise errors.forbidden(self.storage, obj["metadata"].get("name") or "", _TERMINATING)

    def validate(self, obj: Object) -> ErrorList:
        self._validation_warnings.warnings = finalizer_warnings(obj["metadata"], {})
        return self._validate(obj, None, self._validation_warnings.warnings, False)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        self._validation_warnings.warnings = finalizer_warnings(obj["metadata"], old["metadata"])
        return self._validate(obj, old, self._validation_warnings.warnings, False)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        self._validation_warnings.warnings = []
        return self._validate(obj, old, self._validation_warnings.warnings, True)

    def warnings_on_create(self, obj: Object) -> Sequence[str]:
        return self._warnings_of_validation()

    def warnings_on_update(self, obj: Object, old: Object) -> Sequence[str]:
        return self._warnings_of_validation()

    def _warnings_of_validation(self) -> Sequence[str]:
        # Set by the preceding validation in this thread: finalizers, and failed rules whose values are unchanged.
        warnings, self._validation_warnings.warnings = self._validation_warnings.warnings, []
        return warnings

    def increments_generation(self, obj: Object, old: Object) -> bool:
        return not deep_equal(_without(obj, self._untracked), _without(old, self._untracked))

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return self.storage

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        stored = {name: _as_go_encodes(value) for name, value in obj.items() if name not in ("kind", "apiVersion")}
        if info is not self.storage:
            schema.prune(stored, self.storage.custom.openapi)
        return stored

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def finalizer_warnings(metadata: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """Warnings about unqualified names of finalizers."""
    warnings = []
    for name in sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())):
        if "/" not in name and name not in STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            warnings.append(
                f"metadata.finalizers: {quote(name)}: prefer a domain-qualified finalizer name{path} to avoid "
                "accidental conflicts with other finalizer writers"
            )
    return warnings


_NO_EXPONENT = 1e21


def _as_go_encodes(value: Any) -> Any:
    """The value as Go encodes it: an integral float has no fraction, so that it can be decoded as an integer
    (encoding/json ``floatEncoder``)."""
    if isinstance(value, dict):
        return {name: _as_go_encodes(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_go_encodes(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _NO_EXPONENT:
        return int(value)
    return value


def _without(obj: Mapping[str, object], names: tuple[str, ...]) -> dict[str, object]:
    return {name: value for name, value in obj.items() if name not in names}
