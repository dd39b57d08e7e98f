"""APIServices. After kube-aggregator's ``pkg/apis/apiregistration`` (v0.36)."""

import base64
from collections.abc import Callable

from pilothouse.apiserver.conditions import LOCAL, set_condition
from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE, ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors, path_segment_errors

_CONDITION_STATUSES = ("True", "False", "Unknown")


class APIServiceStrategy(Strategy):
    """The name of an APIService is ``<version>.<group>``."""

    allow_unconditional_update = False
    kept_on_status_update = "user metadata"
    kube_finalizers = False
    update_steps = ("object meta update", "object meta", "object")

    def name_errors(self, obj: Object) -> Callable[[str], list[str]]:
        required_name = f"{obj['spec'].get('version') or ''}.{obj['spec'].get('group') or ''}"
        detail = f'must be `spec.version+"."+spec.group`: {quote(required_name)}'

        def name_errors(name: str) -> list[str]:
            return path_segment_errors(name) or ([] if name == required_name else [detail])

        return name_errors

    def set_defaults(self, obj: Object) -> None:
        service = ensure_object(obj, "spec").get("service")
        if service is not None:
            set_default_fields(service, {"port": 443})

    def prepare_for_create(self, obj: Object, now: str) -> None:
        if obj["spec"].get("service") is None:
            status: Object = {}
            set_condition(status, now, "Available", *LOCAL)
            obj["status"] = status

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        group, version = spec.get("group") or "", spec.get("version") or ""
        errors: ErrorList = []
        if not group and version != "v1":
            errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
        msgs = dns_subdomain_errors(group) if group else []
        errors += [invalid("spec.group", group, msg) for msg in msgs]
        errors += [invalid("spec.version", version, msg) for msg in dns_1035_label_errors(version)]
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field) or 0
            if not 0 < value <= limit:
                errors.append(invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
        if spec.get("service") is None:
            return errors + _validate_local(spec)
        return errors + _validate_remote(spec)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        # The name does not change, but a change of the spec can make it invalid.
        name = obj["metadata"]["name"]
        all_errors = [invalid("metadata.name", name, msg) for msg in self.name_errors(obj)(name)]
        return all_errors + self.validate(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return [
            not_supported(f"status.conditions[{position}].status", condition.get("status") or "", _CONDITION_STATUSES)
            for position, condition in enumerate((obj.get("status") or {}).get("conditions") or ())
            if condition.get("status") not in _CONDITION_STATUSES
        ]


def _validate_local(spec: Object) -> ErrorList:
    """The errors in the spec of a local APIService."""
    errors: ErrorList = []
    bundle = base64.b64decode(spec.get("caBundle") or "")
    if bundle:
        errors.append(invalid("spec.caBundle", f"{len(bundle)} bytes", "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        detail = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, detail))
    return errors


def _validate_remote(spec: Object) -> ErrorList:
    """The errors in the spec of an APIService of an extension API server."""
    service = spec["service"]
    errors = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 1 <= service["port"] <= 65535:
        errors.append(invalid("spec.service.port", service["port"], f"port is not valid: {PORT_RANGE}"))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors


def print_api_service(value: Doc, now: Now) -> Row:
    reference = nested_field(value, "spec", "service")
    service = f"{reference.get('namespace')}/{reference.get('name')}" if reference else "Local"
    available = "Unknown"
    for condition in nested_field(value, "status", "conditions") or ():
        if condition.get("type") == "Available":
            available = condition.get("status", "")
            if available != "True":
                available = f"{available} ({condition.get('reason', '')})"
    return [service, available]


REGISTRATION = Registration(
    APIServiceStrategy(),
    printer=lambda: Printer((NAME, *columns("Service", "Available"), AGE), print_api_service),
    etcd_prefix="apiregistration.k8s.io/apiservices",
)
