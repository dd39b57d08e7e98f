"""NetworkPolicies. After kubernetes' ``pkg/apis/networking/{v1/defaults.go,validation}`` (v1.36)."""

from collections.abc import Iterable, Iterator

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_cidr
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    format_selector,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.networking.networkpolicies import validation as network_policy_validation


class NetworkPolicyStrategy(Strategy):
    """``networking.k8s.io`` NetworkPolicies."""

    generation_fields = ("spec",)

    def set_defaults(self, obj: Object) -> None:
        set_defaults_network_policy(obj)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return _warnings_for_cidrs(obj["spec"])

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return network_policy_validation.validate_network_policy_spec(obj["spec"], ())

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        # CIDRs of the stored object are accepted: they may be older than the strict validation.
        return network_policy_validation.validate_network_policy_spec(obj["spec"], set(_cidrs(old["spec"])))


def set_defaults_network_policy(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    ensure_object(spec, "podSelector")
    for field in ("ingress", "egress"):
        for rule in spec.get(field) or ():
            for port in rule.get("ports") or ():
                set_default_fields(port, {"protocol": "TCP"})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _cidrs(spec: Object) -> Iterator[str]:
    for field, peers in network_policy_validation.PEERS:
        for rule in spec.get(field) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                yield block.get("cidr") or ""
                yield from block.get("except") or ()


def _warnings_for_cidrs(spec: Object) -> Iterator[str]:
    for field, peers in network_policy_validation.PEERS:
        for position, rule in enumerate(spec.get(field) or ()):
            for index, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock"), f"spec.{field}[{position}].{peers}[{index}].ipBlock"
                if block is not None:
                    yield from warnings_for_cidr(block.get("cidr") or "", f"{path}.cidr")
                    for number, cidr in enumerate(block.get("except") or ()):
                        yield from warnings_for_cidr(cidr, f"{path}.except[{number}]")


def print_network_policy(value: Doc, now: Now) -> Row:
    return [format_selector(nested_field(value, "spec", "podSelector"))]


REGISTRATION = Registration(
    NetworkPolicyStrategy(),
    printer=lambda: Printer((NAME, *columns("Pod-Selector"), AGE), print_network_policy),
)
