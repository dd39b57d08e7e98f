"""APIServices: group versions, and which server has them.

After kube-aggregator's ``pkg/apis/apiregistration`` (v0.36).
"""

import base64

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import PORT_RANGE, child, fill
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors, path_segment_errors

_CONDITION = ("True", "False", "Unknown")


class ApiServiceStrategy(Strategy):
    """Group versions, and which server has them. The name says which, and only has to fit into a path."""

    name_problems = staticmethod(path_segment_errors)

    def default(self, obj: Object) -> None:
        service = child(obj, "spec").get("service")
        if service is not None:
            fill(service, {"port": 443})

    def validate(self, obj: Object) -> list[FieldError]:
        spec, meta = obj["spec"], obj["metadata"]
        group, version = spec.get("group") or "", spec.get("version") or ""
        wanted = f"{version}.{group}"
        problems = [
            errors.invalid_value(f"metadata.{field}", meta[field], f'must be `spec.version+"."+spec.group`: "{wanted}"')
            for field in ("generateName", "name")
            if meta.get(field) and meta[field] != wanted
        ]
        if not group and version != "v1":
            text = "only v1 may have an empty group and it better be legacy kube"
            problems.append(errors.required("spec.group", text))
        told = dns_subdomain_errors(group) if group else []
        problems += [errors.invalid_value("spec.group", group, text) for text in told]
        problems += [errors.invalid_value("spec.version", version, text) for text in dns_1035_label_errors(version)]
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field) or 0
            if not 0 < value <= limit:
                text = f"must be positive and less than {limit}"
                problems.append(errors.invalid_value(f"spec.{field}", value, text))
        if spec.get("service") is None:
            return problems + _local_problems(spec)
        return problems + _remote_problems(spec)

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return [
            errors.not_supported(f"status.conditions[{position}].status", condition.get("status") or "", _CONDITION)
            for position, condition in enumerate((obj.get("status") or {}).get("conditions") or ())
            if condition.get("status") not in _CONDITION
        ]


def _local_problems(spec: Object) -> list[FieldError]:
    """Of a version that this server has itself."""
    problems: list[FieldError] = []
    bundle = base64.b64decode(spec.get("caBundle") or "")
    if bundle:
        told = "local APIServices may not have a caBundle"
        problems.append(errors.invalid_value("spec.caBundle", f"{len(bundle)} bytes", told))
    if spec.get("insecureSkipTLSVerify"):
        told = "local APIServices may not have insecureSkipTLSVerify"
        problems.append(errors.invalid_value("spec.insecureSkipTLSVerify", True, told))
    return problems


def _remote_problems(spec: Object) -> list[FieldError]:
    """Of a version that another server has."""
    service = spec["service"]
    problems = [errors.required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 1 <= service["port"] <= 65535:
        told = f"port is not valid: {PORT_RANGE}"
        problems.append(errors.invalid_value("spec.service.port", service["port"], told))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        told = "may not be true if caBundle is present"
        problems.append(errors.invalid_value("spec.insecureSkipTLSVerify", True, told))
    return problems
