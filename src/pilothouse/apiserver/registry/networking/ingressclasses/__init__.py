"""IngressClasses."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_domain_prefixed_path
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_immutable_fields,
)
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.networking.ingresses import validation as ingress_validation


_MAX_CONTROLLER_LENGTH = 250
_SCOPES = ("Cluster", "Namespace")


class IngressClassStrategy(Strategy):
    """``networking.k8s.io`` IngressClasses. ``controller`` is immutable."""

    generation_fields = ("spec",)
    update_steps = ("object meta update", "update", "object meta", "object")

    def set_defaults(self, obj: Object) -> None:
        parameters = ensure_object(obj, "spec").get("parameters")
        if parameters is not None:
            set_default_fields(parameters, {"scope": "Cluster"})

    def validate(self, obj: Object) -> ErrorList:
        controller, parameters = obj["spec"].get("controller") or "", obj["spec"].get("parameters")
        errors: ErrorList = []
        if len(controller.encode()) > _MAX_CONTROLLER_LENGTH:
            errors.append(too_long("spec.controller", _MAX_CONTROLLER_LENGTH))
        errors += validate_domain_prefixed_path(controller, "spec.controller")
        return errors + (
            _validate_ingress_class_parameters(parameters, "spec.parameters") if parameters is not None else []
        )

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj["spec"], old["spec"], "spec", {"controller": "string"})


def _validate_ingress_class_parameters(parameters: Object, path: str) -> ErrorList:
    group, scope, namespace = (parameters.get(field) for field in ("apiGroup", "scope", "namespace"))
    errors: ErrorList = []
    if group is not None:
        errors += [invalid(f"{path}.apiGroup", group, msg) for msg in dns_subdomain_errors(group)]
    errors += ingress_validation.validate_path_segments(parameters, path)
    if scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Cluster":
        if namespace is not None:
            errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif namespace is None:
        errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    else:
        msgs = dns_label_errors(namespace)
        errors += [invalid(f"{path}.namespace", namespace, msg) for msg in msgs]
    return errors


def print_ingress_class(value: Doc, now: Now) -> Row:
    parameters = nested_field(value, "spec", "parameters")
    parameters_text = NONE
    if parameters:
        group = parameters.get("apiGroup")
        parameters_text = f"{parameters.get('kind')}{f'.{group}' if group else ''}/{parameters.get('name')}"
    return [nested_field(value, "spec", "controller") or "", parameters_text]


REGISTRATION = Registration(
    IngressClassStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Controller", "Parameters"), AGE),
        print_ingress_class,
        default_annotations=("ingressclass.kubernetes.io/is-default-class",),
    ),
)
