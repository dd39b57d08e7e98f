"""The strategies of CertificateSigningRequests, /status and /approval (``endpoints.approval``). After kubernetes'
``pkg/registry/certificates`` (v1.36)."""

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.events import no_name_errors
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.certificates.certificatesigningrequests import validation


_REQUESTER_FIELDS = ("username", "uid", "groups", "extra")


class CertificateSigningRequestStrategy(Strategy):
    """The spec is immutable, except for the fields of the requester, which the server sets on create."""

    validate_name = staticmethod(no_name_errors)  # upstream's ValidateCertificateRequestName allows any
    update_steps = ("object meta", "object meta update")  # the other fields are reset
    status_steps = ("object meta", "update", "object meta update")
    selectable = {"spec.signerName": ("spec", "signerName")}  # read only
    selectable_namespace = False
    reset_fields = {
        "": (("f:spec",), ("f:status",)),
        "status": (("f:spec",), ("f:status", "f:conditions")),
        "approval": (("f:spec",), ("f:status", "f:certificate")),
    }

    def record_requester(self, obj: Object, identity: Identity) -> None:
        spec: Object = obj.setdefault("spec", {})
        for field in _REQUESTER_FIELDS:
            spec.pop(field, None)
        spec["username"] = identity.user
        if identity.uid:
            spec["uid"] = identity.uid
        if identity.groups:
            spec["groups"] = list(identity.groups)
        if identity.extra:
            spec["extra"] = {name: list(values) for name, values in sorted(identity.extra.items())}

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        status: Object = obj.setdefault("status", {})
        conditions: list[Object] = status.get("conditions") or []
        for kind in validation.APPROVAL_CONDITION_TYPES:
            old_conditions = validation.conditions_of_type(old, kind)
            positions = [position for position, condition in enumerate(conditions) if condition.get("type") == kind]
            if len(old_conditions) == len(positions):
                # Existing conditions are reset; validation rejects added and removed ones.
                for position, condition in zip(positions, old_conditions, strict=True):
                    conditions[position] = condition
        _populate_condition_timestamps(conditions, old, now)

    def prepare_approval(self, obj: Object, old: Object, now: str) -> None:
        """``prepare_for_update`` for /approval: only conditions may change."""
        conditions: list[Object] = (obj.get("status") or {}).get("conditions") or []
        _populate_condition_timestamps(conditions, old, now)
        obj["spec"] = old["spec"]
        status = dict(old.get("status") or {})
        if conditions:
            status["conditions"] = conditions
        else:
            status.pop("conditions", None)
        obj["status"] = status

    def validate(self, obj: Object) -> ErrorList:
        return validation.validate_certificate_signing_request(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validation.validate_certificate_signing_request_status_update(obj, old)

    def validate_approval(self, obj: Object, old: Object) -> ErrorList:
        """The errors in a write to /approval (``ValidateCertificateSigningRequestApprovalUpdate``)."""
        return validation.validate_conditions(obj, old) + validation.validate_no_removed_conditions(obj, old)


def _populate_condition_timestamps(conditions: list[Object], old: Object, now: str) -> None:
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if condition.get("lastTransitionTime"):
            continue
        condition["lastTransitionTime"] = now
        for old_condition in validation.conditions_of_type(old, condition.get("type") or ""):
            if old_condition.get("status") == condition.get("status") and old_condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = old_condition["lastTransitionTime"]
                break
