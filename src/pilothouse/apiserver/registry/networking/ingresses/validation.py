"""Validation of Ingresses. After kubernetes' ``pkg/apis/networking/validation/validation.go`` (v1.36)."""

import re
from collections.abc import Iterable, Sequence

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import ip_errors, parse_ip_sloppy
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_subdomain_errors,
    path_segment_errors,
    port_name_errors,
    regex_error,
)

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_wildcard = re.compile(_WILDCARD)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES = ("/..", "/.")
_NOT_AN_IP_ADDRESS = "must be a DNS name, not an IP address"
_CLASS = "kubernetes.io/ingress.class"
_MAX_HOST_LENGTH = 253


def validate_ingress_class_annotation(obj: Object) -> ErrorList:
    annotation, name = (obj["metadata"].get("annotations") or {}).get(_CLASS), obj["spec"].get("ingressClassName")
    if annotation is None or name is None or annotation == name:
        return []
    return [invalid(f"annotations.{_CLASS}", annotation, "must match `ingressClassName` when both are specified")]


def validate_ingress_status_update(obj: Object, old: Object) -> ErrorList:
    old_ips = {ingress.get("ip") for ingress in _load_balancer_ingress(old)}
    errors: ErrorList = []
    for position, ingress in enumerate(_load_balancer_ingress(obj)):
        path, ip, host = (
            f"status.loadBalancer.ingress[{position}]",
            ingress.get("ip") or "",
            ingress.get("hostname") or "",
        )
        if ip and ip not in old_ips:
            errors += [invalid(f"{path}.ip", ip, msg) for msg in ip_errors(ip)]
        if host:
            msgs = [*dns_subdomain_errors(host), *([_NOT_AN_IP_ADDRESS] if parse_ip_sloppy(host) is not None else [])]
            errors += [invalid(f"{path}.hostname", host, msg) for msg in msgs]
    return errors


def _load_balancer_ingress(obj: Object) -> Sequence[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()


def validate_ingress_spec(spec: Object) -> ErrorList:
    errors: ErrorList = []
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        errors.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _validate_ingress_backend(backend, "spec.defaultBackend")
    for position, rule in enumerate(rules):
        path = f"spec.rules[{position}]"
        errors += _validate_host(rule.get("host") or "", f"{path}.host")
        if rule.get("http") is None:
            continue
        paths = rule["http"].get("paths") or []
        if not paths:
            errors.append(required(f"{path}.http.paths"))
        for index, ingress_path in enumerate(paths):
            errors += _validate_http_ingress_path(ingress_path, f"{path}.http.paths[{index}]")
    for position, tls in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(tls.get("hosts") or ()):
            errors += _validate_tls_secret_name(host, f"spec.tls[{position}].hosts[{index}]")
        secret, child_path = tls.get("secretName"), f"spec.tls[{position}].secretName"
        if secret:
            errors += [invalid(child_path, secret, msg) for msg in dns_subdomain_errors(secret)]
    class_name, child_path = spec.get("ingressClassName"), "spec.ingressClassName"
    if class_name is not None:
        errors += [invalid(child_path, class_name, msg) for msg in dns_subdomain_errors(class_name)]
    return errors


def _validate_host(host: str, path: str) -> ErrorList:
    if not host:
        return []
    all_errors = [invalid(path, host, _NOT_AN_IP_ADDRESS)] if parse_ip_sloppy(host) is not None else []
    return all_errors + _validate_tls_secret_name(host, path)


def _validate_tls_secret_name(host: str, path: str) -> ErrorList:
    if "*" not in host:
        return [invalid(path, host, msg) for msg in dns_subdomain_errors(host)]
    detail = [f"must be no more than {_MAX_HOST_LENGTH} characters"] if len(host.encode()) > _MAX_HOST_LENGTH else []
    if _wildcard.fullmatch(host) is None:
        detail.append(regex_error(_WILDCARD_TEXT, _WILDCARD, ("*.example.com",)))
    return [invalid(path, host, msg) for msg in detail]


def _validate_http_ingress_path(ingress_path: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    kind, child_path = ingress_path.get("pathType"), ingress_path.get("path") or ""
    if not kind:
        # As upstream, the other fields are not validated.
        return [required(f"{path}.pathType", "pathType must be specified")]
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    if kind == "ImplementationSpecific" and child_path and not child_path.startswith("/"):
        errors.append(invalid(f"{path}.path", child_path, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        if not child_path.startswith("/"):
            errors.append(invalid(f"{path}.path", child_path, "must be an absolute path"))
        errors += [
            invalid(f"{path}.path", child_path, f"must not contain '{sequence}'")
            for sequence in _BAD_SEQUENCES
            if sequence in child_path
        ]
        errors += [
            invalid(f"{path}.path", child_path, f"cannot end with '{suffix}'")
            for suffix in _BAD_SUFFIXES
            if child_path.endswith(suffix)
        ]
    return errors + _validate_ingress_backend(ingress_path.get("backend") or {}, f"{path}.backend")


def _validate_ingress_typed_local_object_reference(reference: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    group = reference.get("apiGroup")
    if group is not None:
        errors += [invalid(f"{path}.apiGroup", group, msg) for msg in dns_subdomain_errors(group)]
    return errors + validate_path_segments(reference, path)


def validate_path_segments(reference: Object, path: str, fields: Iterable[str] = ("kind", "name")) -> ErrorList:
    errors: ErrorList = []
    for field in fields:
        value, child_path = reference.get(field) or "", f"{path}.{field}"
        if not value:
            errors.append(required(child_path))
        else:
            errors += [invalid(child_path, value, msg) for msg in path_segment_errors(value)]
    return errors


def _validate_ingress_backend(backend: Object, path: str) -> ErrorList:
    service, resource = backend.get("service"), backend.get("resource")
    if (service is None) == (resource is None):
        if service is None:
            return [invalid(path, "", "resource or service backend is required")]
        return [invalid(path, "", "cannot set both resource and service backends")]
    errors: ErrorList = []
    if service is None:
        return _validate_ingress_typed_local_object_reference(resource or {}, f"{path}.resource")
    if not service.get("name"):
        errors.append(required(f"{path}.service.name"))
    else:
        child_path = f"{path}.service.name"
        errors += [invalid(child_path, service["name"], msg) for msg in dns_label_errors(service["name"])]
    port: Object = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif not name and not number:
        errors.append(required(path, "port name or number is required"))
    elif name:
        child_path = f"{path}.service.port.name"
        errors += [invalid(child_path, name, msg) for msg in port_name_errors(name)]
    elif number and not 1 <= number <= 65535:
        errors.append(invalid(f"{path}.service.port.number", number, PORT_RANGE))
    return errors
