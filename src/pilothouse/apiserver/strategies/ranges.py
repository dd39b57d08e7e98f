"""ServiceCIDRs and IPAddresses: the ranges of services, and the addresses taken of them.

After kubernetes' ``pkg/apis/networking/validation`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE, fixed
from pilothouse.apiserver.strategies.network_forms import (
    canonical_address_faults,
    canonical_network_faults,
    sloppy_network,
)
from pilothouse.machinery.names import dns_subdomain_errors, path_segment_errors


class RangeStrategy(Strategy):
    """ServiceCIDRs: the ranges stay, but for a second family that is added."""

    def validate(self, obj: Object) -> list[FieldError]:
        cidrs: list[str] = (obj.get("spec") or {}).get("cidrs") or []
        if not cidrs:
            return [errors.required("spec.cidrs", "at least one CIDR required")]
        if len(cidrs) > 2:
            return [errors.invalid_value("spec.cidrs", {"CIDRs": cidrs}, "may only hold up to 2 values")]
        problems = [
            errors.invalid_value(f"spec.cidrs[{position}]", cidr, text)
            for position, cidr in enumerate(cidrs)
            for text in canonical_network_faults(cidr)
        ]
        families = [network.version for network in map(sloppy_network, cidrs) if network is not None]
        if len(families) == 2 and families[0] == families[1]:
            told = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            problems.append(errors.invalid_value("spec.cidrs", cidrs, told))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        after: Sequence[str] = (obj.get("spec") or {}).get("cidrs") or []
        before: Sequence[str] = (old.get("spec") or {}).get("cidrs") or []
        if len(after) == len(before) or (len(before) == 1 and len(after) == 2):
            problems = [
                errors.invalid_value(f"spec.cidrs[{position}]", after[position], IMMUTABLE)
                for position, cidr in enumerate(before)
                if after[position] != cidr
            ]
            return problems or (self.validate_again(obj) if len(after) != len(before) else [])
        return [errors.invalid_value("spec.cidrs", list(after), IMMUTABLE)]


class AddressStrategy(Strategy):
    """IPAddresses: named by the address, and somebody's for good."""

    def validate(self, obj: Object) -> list[FieldError]:
        parent: Object | None = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [errors.required("spec.parentRef")]
        group, where = parent.get("group") or "", "spec.parentRef.group"
        told = dns_subdomain_errors(group) if group else []
        problems = [errors.invalid_value(where, group, text) for text in told]
        for field in ("resource", "name"):
            path = f"spec.parentRef.{field}"
            value = parent.get(field) or ""
            if not value:
                problems.append(errors.required(path))
            else:
                problems += [errors.invalid_value(path, value, text) for text in path_segment_errors(value)]
        if parent.get("namespace"):
            problems += [
                errors.invalid_value("spec.parentRef.namespace", parent["namespace"], text)
                for text in path_segment_errors(parent["namespace"])
            ]
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj.get("spec") or {}, old.get("spec") or {}, "spec", ("parentRef",))

    @staticmethod
    def name_problems(name: str) -> list[str]:
        """What is wrong with the name."""
        return list(canonical_address_faults(name))
