"""Ingresses and their classes.

After kubernetes' ``pkg/apis/networking/{v1/defaults.go,validation}`` (v1.36).
"""

import re
from collections.abc import Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.domain_paths import domain_path_problems
from pilothouse.apiserver.strategies.filling import PORT_RANGE, child, fill, fixed
from pilothouse.apiserver.strategies.network_forms import address_faults, sloppy_address
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
_BAD_ENDS = ("/..", "/.")
_NO_ADDRESS = "must be a DNS name, not an IP address"
_CLASS = "kubernetes.io/ingress.class"
_LONGEST_CONTROLLER = 250
_LONGEST_HOST = 253
_SCOPES = ("Cluster", "Namespace")


class IngressStrategy(Strategy):
    """``networking.k8s.io`` Ingresses."""

    empty_status = {"loadBalancer": {}}  # read only

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        backends = [spec.get("defaultBackend")]
        for rule in spec.get("rules") or ():
            backends += [path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()]
        for backend in backends:
            if backend and backend.get("resource") is not None:
                backend["resource"].setdefault("apiGroup", None)  # printed even when it is not set

    def finish(self, obj: Object) -> None:
        child(child(obj, "status"), "loadBalancer")

    def validate(self, obj: Object) -> list[FieldError]:
        problems = _ingress_problems(obj["spec"])
        given, wanted = (obj["metadata"].get("annotations") or {}).get(_CLASS), obj["spec"].get("ingressClassName")
        if given is not None and wanted is not None and given != wanted:
            text = "must match `ingressClassName` when both are specified"
            problems.append(errors.invalid_value(f"annotations.{_CLASS}", given, text))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [] if obj["spec"] == old["spec"] else _ingress_problems(obj["spec"]) * self.judgements.spec

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        before = {one.get("ip") for one in _balanced(old)}
        problems: list[FieldError] = []
        for position, one in enumerate(_balanced(obj)):
            path, ip, host = f"status.loadBalancer.ingress[{position}]", one.get("ip") or "", one.get("hostname") or ""
            if ip and ip not in before:
                problems += [errors.invalid_value(f"{path}.ip", ip, text) for text in address_faults(ip)]
            if host:
                told = [*dns_subdomain_errors(host), *([_NO_ADDRESS] if sloppy_address(host) is not None else [])]
                problems += [errors.invalid_value(f"{path}.hostname", host, text) for text in told]
        return problems


def _balanced(obj: Object) -> Sequence[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()


def _ingress_problems(spec: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        problems.append(errors.invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        problems += _backend_problems(backend, "spec.defaultBackend")
    for position, rule in enumerate(rules):
        path = f"spec.rules[{position}]"
        problems += _host_problems(rule.get("host") or "", f"{path}.host")
        if rule.get("http") is None:
            continue
        paths = rule["http"].get("paths") or []
        if not paths:
            problems.append(errors.required(f"{path}.http.paths"))
        for index, entry in enumerate(paths):
            problems += _path_problems(entry, f"{path}.http.paths[{index}]")
    for position, tls in enumerate(spec.get("tls") or ()):
        for index, host in enumerate(tls.get("hosts") or ()):
            problems += _name_problems(host, f"spec.tls[{position}].hosts[{index}]")
        secret, where = tls.get("secretName"), f"spec.tls[{position}].secretName"
        if secret:
            problems += [errors.invalid_value(where, secret, text) for text in dns_subdomain_errors(secret)]
    class_name, where = spec.get("ingressClassName"), "spec.ingressClassName"
    if class_name is not None:
        problems += [errors.invalid_value(where, class_name, text) for text in dns_subdomain_errors(class_name)]
    return problems


def _host_problems(host: str, path: str) -> list[FieldError]:
    if not host:
        return []
    problems = [errors.invalid_value(path, host, _NO_ADDRESS)] if sloppy_address(host) is not None else []
    return problems + _name_problems(host, path)


def _name_problems(host: str, path: str) -> list[FieldError]:
    if "*" not in host:
        return [errors.invalid_value(path, host, text) for text in dns_subdomain_errors(host)]
    told = [f"must be no more than {_LONGEST_HOST} characters"] if len(host.encode()) > _LONGEST_HOST else []
    if _wildcard.fullmatch(host) is None:
        told.append(regex_error(_WILDCARD_TEXT, _WILDCARD, ("*.example.com",)))
    return [errors.invalid_value(path, host, text) for text in told]


def _path_problems(entry: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    kind, where = entry.get("pathType"), entry.get("path") or ""
    if not kind:
        # Upstream looks no further.
        return [errors.required(f"{path}.pathType", "pathType must be specified")]
    if kind not in _PATH_TYPES:
        problems.append(errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    if kind == "ImplementationSpecific" and where and not where.startswith("/"):
        problems.append(errors.invalid_value(f"{path}.path", where, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            problems.append(errors.invalid_value(f"{path}.path", where, "must be an absolute path"))
        problems += [
            errors.invalid_value(f"{path}.path", where, f"must not contain '{text}'")
            for text in _BAD_SEQUENCES
            if text in where
        ]
        problems += [
            errors.invalid_value(f"{path}.path", where, f"cannot end with '{text}'")
            for text in _BAD_ENDS
            if where.endswith(text)
        ]
    return problems + _backend_problems(entry.get("backend") or {}, f"{path}.backend")


def _resource_problems(reference: Object, path: str) -> list[FieldError]:
    """``validateIngressTypedLocalObjectReference``."""
    problems: list[FieldError] = []
    group = reference.get("apiGroup")
    if group is not None:
        problems += [errors.invalid_value(f"{path}.apiGroup", group, text) for text in dns_subdomain_errors(group)]
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if not value:
            problems.append(errors.required(f"{path}.{field}"))
        problems += [errors.invalid_value(f"{path}.{field}", value, text) for text in path_segment_errors(value)]
    return problems


def _backend_problems(backend: Object, path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if (service is None) == (resource is None):
        if service is None:
            return [errors.invalid_value(path, "", "resource or service backend is required")]
        return [errors.invalid_value(path, "", "cannot set both resource and service backends")]
    problems: list[FieldError] = []
    if service is None:
        return _resource_problems(resource or {}, f"{path}.resource")
    if not service.get("name"):
        problems.append(errors.required(f"{path}.service.name"))
    else:
        where = f"{path}.service.name"
        problems += [errors.invalid_value(where, service["name"], text) for text in dns_label_errors(service["name"])]
    port: Object = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        problems.append(errors.invalid_value(path, "", "cannot set both port name & port number"))
    elif not name and not number:
        problems.append(errors.required(path, "port name or number is required"))
    elif name:
        where = f"{path}.service.port.name"
        problems += [errors.invalid_value(where, name, text) for text in port_name_errors(name)]
    elif number and not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.service.port.number", number, PORT_RANGE))
    return problems


class IngressClassStrategy(Strategy):
    """Who serves ingresses of a class: that never changes."""

    def default(self, obj: Object) -> None:
        parameters = child(obj, "spec").get("parameters")
        if parameters is not None:
            fill(parameters, {"scope": "Cluster"})

    def validate(self, obj: Object) -> list[FieldError]:
        controller, parameters = obj["spec"].get("controller") or "", obj["spec"].get("parameters")
        problems: list[FieldError] = []
        if len(controller.encode()) > _LONGEST_CONTROLLER:
            problems.append(errors.too_long("spec.controller", _LONGEST_CONTROLLER))
        problems += domain_path_problems(controller, "spec.controller")
        return problems + (_parameters_problems(parameters, "spec.parameters") if parameters is not None else [])

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj["spec"], old["spec"], "spec", ("controller",))


def _parameters_problems(parameters: Object, path: str) -> list[FieldError]:
    group, scope, namespace = (parameters.get(field) for field in ("apiGroup", "scope", "namespace"))
    problems: list[FieldError] = []
    if group is not None:
        problems += [errors.invalid_value(f"{path}.apiGroup", group, text) for text in dns_subdomain_errors(group)]
    for field in ("kind", "name"):
        value, where = parameters.get(field) or "", f"{path}.{field}"
        problems += [errors.invalid_value(where, value, text) for text in path_segment_errors(value)]
        if not value:
            problems.append(errors.required(where, f"{field} is required"))
    if scope not in _SCOPES:
        problems.append(errors.not_supported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Cluster":
        if namespace is not None:
            problems.append(errors.not_allowed(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif namespace is None:
        problems.append(errors.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    else:
        told = dns_label_errors(namespace)
        problems += [errors.invalid_value(f"{path}.namespace", namespace, text) for text in told]
    return problems
