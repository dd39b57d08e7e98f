"""Ingresses."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_load_balancer_status
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    join_with_limit,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.networking.ingresses import validation as ingress_validation


_CLASS = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    """``networking.k8s.io`` Ingresses."""

    generation_fields = ("spec",)
    empty_status = {"loadBalancer": {}}  # read only
    create_steps = ("object meta", "object", "additional")
    update_steps = ("object meta update", "object meta", "object")

    def set_defaults(self, obj: Object) -> None:
        set_defaults_ingress(obj)

    def canonicalize(self, obj: Object) -> None:
        ensure_object(ensure_object(obj, "status"), "loadBalancer")

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        if _CLASS in (obj["metadata"].get("annotations") or ()) and obj["spec"].get("ingressClassName") is None:
            yield f"annotation \"{_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"

    def warnings_on_status_update(self, obj: Object, old: Object) -> Iterable[str]:
        return warnings_for_load_balancer_status(obj.get("status") or {})

    def validate(self, obj: Object) -> ErrorList:
        return ingress_validation.validate_ingress_spec(obj["spec"])

    def validate_additional(self, obj: Object) -> ErrorList:
        return ingress_validation.validate_ingress_class_annotation(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return [] if obj["spec"] == old["spec"] else self.validate(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return ingress_validation.validate_ingress_status_update(obj, old)


def set_defaults_ingress(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    backends = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        backends += [path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()]
    for backend in backends:
        if backend and backend.get("resource") is not None:
            backend["resource"].setdefault("apiGroup", None)  # serialized even if it is not set


def print_ingress(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    addresses = {
        i.get("ip") or i.get("hostname") or "" for i in nested_field(value, "status", "loadBalancer", "ingress") or ()
    }
    return [
        spec.get("ingressClassName") or NONE,
        join_with_limit(hosts, 3) if hosts else "*",
        ",".join(sorted(addresses - {""})),
        "80, 443" if spec.get("tls") else "80",
    ]


REGISTRATION = Registration(
    IngressStrategy(),
    printer=lambda: Printer((NAME, *columns("Class", "Hosts", "Address", "Ports"), AGE), print_ingress),
    etcd_prefix="ingress",
)
