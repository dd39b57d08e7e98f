"""IPAddresses."""

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import canonical_ip_errors
from pilothouse.apiserver.registry.generic.object_fields import validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import (
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    age_of,
    columns,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.networking.ingresses import validation as ingress_validation


class IPAddressStrategy(Strategy):
    """``networking.k8s.io`` IPAddresses: the name is the address; ``parentRef`` is immutable."""

    update_steps = ("object meta", "object", "object meta update", "update")

    @staticmethod
    def generated_name(generate_name: str, _suffix: str) -> str:
        """``generateName`` itself: no address has a random suffix (``noopNameGenerator``)."""
        return generate_name

    def validate(self, obj: Object) -> ErrorList:
        parent: Object | None = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [required("spec.parentRef")]
        group, path = parent.get("group") or "", "spec.parentRef.group"
        msgs = dns_subdomain_errors(group) if group else []
        errors = [invalid(path, group, msg) for msg in msgs]
        fields = ("resource", "name", "namespace") if parent.get("namespace") else ("resource", "name")
        return errors + ingress_validation.validate_path_segments(parent, "spec.parentRef", fields)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        return validate_immutable_fields(spec, old_spec, "spec", {"parentRef": "*networking.ParentReference"})

    @staticmethod
    def validate_name(name: str) -> list[str]:
        """``ValidateIPAddressName``."""
        return list(canonical_ip_errors(name))


def print_ip_address(value: Doc, now: Now) -> Row:
    # Three cells under two column definitions, as upstream.
    parent = nested_field(value, "spec", "parentRef")
    if not parent:
        return [NONE, age_of(value, now)]
    group, namespace = parent.get("group"), parent.get("namespace")
    parent_text = f"{parent.get('resource')}{f'.{group}' if group else ''}/{f'{namespace}/' if namespace else ''}"
    return [parent_text + str(parent.get("name")), age_of(value, now)]


REGISTRATION = Registration(
    IPAddressStrategy(),
    printer=lambda: Printer((NAME, *columns("ParentRef")), print_ip_address),
)
