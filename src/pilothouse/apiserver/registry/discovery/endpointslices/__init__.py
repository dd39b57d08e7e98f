"""EndpointSlices. After kubernetes' ``pkg/registry/discovery/endpointslice`` (v1.36)."""

from collections.abc import Iterable, Iterator

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_ip
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_immutable_fields,
)
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    UNSET,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    join_with_limit,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.discovery.endpointslices import validation as endpoint_slice_validation


_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


class EndpointSliceStrategy(Strategy):
    """``discovery.k8s.io`` EndpointSlices."""

    generation_fields = ("endpoints", "ports", "addressType")
    update_steps = ("object meta", "object", "update")

    def set_defaults(self, obj: Object) -> None:
        set_defaults_endpoint_slice(obj)
        for endpoint in obj.get("endpoints") or ():
            ensure_object(endpoint, "conditions")

    def prepare_for_create(self, obj: Object, now: str) -> None:
        _drop_topology(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _drop_topology(obj)

    def increments_generation(self, obj: Object, old: Object) -> bool:
        """Also for labels, whose changes consumers of slices must not miss."""
        if (obj["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            return True
        return any((obj.get(name) or None) != (old.get(name) or None) for name in self.generation_fields)

    def canonicalize(self, obj: Object) -> None:
        obj.setdefault("endpoints", None)
        obj.setdefault("ports", None)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        if obj.get("addressType") == "FQDN":
            yield "spec.addressType: FQDN endpoints are deprecated"
        yield from _warnings_for_bad_ips(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return _warnings_for_bad_ips(obj)

    def validate(self, obj: Object) -> ErrorList:
        return endpoint_slice_validation.validate_endpoint_slice(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return endpoint_slice_validation.validate_endpoint_slice_on_update(obj, old)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"addressType": "named"})


def set_defaults_endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        if port.get("name") is None:
            port["name"] = ""
        set_default_fields(port, {"protocol": "TCP"})


def _warnings_for_bad_ips(obj: Object) -> Iterator[str]:
    """``warnOnBadIPs``: the controllers write only canonical addresses."""
    if (obj["metadata"].get("labels") or {}).get("endpointslice.kubernetes.io/managed-by") in _CONTROLLERS:
        return
    for position, endpoint in enumerate(obj.get("endpoints") or ()):
        for index, address in enumerate(endpoint.get("addresses") or ()):
            yield from warnings_for_ip(address, f"endpoints[{position}].addresses[{index}]")


def _drop_topology(obj: Object) -> None:
    """Drop ``deprecatedTopology``, which is only supported in v1beta1 (``dropTopologyOnV1``)."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def print_endpoint_slice(value: Doc, now: Now) -> Row:
    ports = [str(p.get("port") or p.get("name") or "*") for p in value.get("ports") or ()]
    addresses = [address for e in value.get("endpoints") or () for address in e.get("addresses") or ()]
    return [
        value.get("addressType", ""),
        join_with_limit(ports, 3) or UNSET,
        join_with_limit(addresses, 3) or UNSET,
    ]


REGISTRATION = Registration(
    EndpointSliceStrategy(),
    printer=lambda: Printer((NAME, *columns("AddressType", "Ports", "Endpoints"), AGE), print_endpoint_slice),
)
