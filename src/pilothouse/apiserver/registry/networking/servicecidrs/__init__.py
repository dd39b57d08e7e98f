"""ServiceCIDRs."""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import canonical_cidr_errors, parse_cidr_sloppy
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy


class ServiceCIDRStrategy(Strategy):
    """``networking.k8s.io`` ServiceCIDRs: ``cidrs`` is immutable, except for adding a second family."""

    kept_on_status_update = "user metadata"
    update_steps = ("object meta update", "update")

    def validate(self, obj: Object) -> ErrorList:
        cidrs: list[str] = (obj.get("spec") or {}).get("cidrs") or []
        if not cidrs:
            return [required("spec.cidrs", "at least one CIDR required")]
        if len(cidrs) > 2:
            bad_value = internal_value("networking.ServiceCIDRSpec", obj["spec"])
            return [invalid("spec.cidrs", bad_value, "may only hold up to 2 values")]
        errors = [
            invalid(f"spec.cidrs[{position}]", cidr, msg)
            for position, cidr in enumerate(cidrs)
            for msg in canonical_cidr_errors(cidr)
        ]
        families = [network.version for network in map(parse_cidr_sloppy, cidrs) if network is not None]
        if len(families) == 2 and families[0] == families[1]:
            detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            errors.append(invalid("spec.cidrs", cidrs, detail))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        cidrs: Sequence[str] = (obj.get("spec") or {}).get("cidrs") or []
        old_cidrs: Sequence[str] = (old.get("spec") or {}).get("cidrs") or []
        if len(cidrs) != len(old_cidrs) and (len(old_cidrs), len(cidrs)) != (1, 2):
            return [invalid("spec.cidrs", list(cidrs), IMMUTABLE)]
        all_errors = [
            invalid(f"spec.cidrs[{position}]", cidrs[position], IMMUTABLE)
            for position, cidr in enumerate(old_cidrs)
            if cidrs[position] != cidr
        ]
        return all_errors if len(cidrs) == len(old_cidrs) else all_errors + self.validate(obj)


def print_service_cidr(value: Doc, now: Now) -> Row:
    return [",".join(nested_field(value, "spec", "cidrs") or ())]


REGISTRATION = Registration(
    ServiceCIDRStrategy(),
    printer=lambda: Printer((NAME, *columns("CIDRs"), AGE), print_service_cidr),
)
