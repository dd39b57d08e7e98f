"""Invariants of ServiceCIDRs: no address loses its last range, none is removed before every API server has observed the
deletion, and none remains unnecessarily.

Computed from the committed objects after every write.
"""

import asyncio
import ipaddress

import msgspec

from pilothouse.api.networking import IP_ADDRESSES, SERVICE_CIDRS, IPAddress, ServiceCIDR
from pilothouse.machinery.cidrs import Address, parse_cidr, prefix_contains_ip
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_address = msgspec.json.Decoder(IPAddress).decode

_RANGES = f"{SERVICE_CIDRS.group}/{SERVICE_CIDRS.resource}/"
_ADDRESSES = f"{IP_ADDRESSES.group}/{IP_ADDRESSES.resource}/"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
MANAGED = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
CONTROLLER = "service-cidrs-controller"
GRACE_SECONDS = 9.0
"""Ten, as instants are written with whole seconds."""


class ServiceRanges(Invariant):
    """All ServiceCIDRs, if none is deleted before it has its finalizer, and no other program removes the finalizer.
    ``kept`` counts deletions that were delayed by an address, ``removed`` removed ServiceCIDRs."""

    def __init__(self) -> None:
        self._ranges = Objects(_RANGES, ServiceCIDR)
        self._addresses: set[Address] = set()
        self._deleted: dict[str, float] = {}
        """The deletion times of terminating ServiceCIDRs."""
        self.kept = 0
        self.removed = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        deleted = change.type == "DELETED"
        if update := self._ranges.follow(change):
            self._check(*update, origin)
        elif change.key.startswith(_ADDRESSES):
            address = ipaddress.ip_address(change.key.removeprefix(_ADDRESSES))
            self._addresses.discard(address)
            if not deleted and MANAGED.items() <= _address(change.value).metadata.labels.items():
                self._addresses.add(address)

    def _check(self, name: str, old: ServiceCIDR | None, new: ServiceCIDR | None, origin: Origin | None) -> None:
        if old is None:
            return
        finalizer_removed = FINALIZER in old.metadata.finalizers and not _is_protected(new)
        if old.metadata.deletion_timestamp is None:
            if finalizer_removed and origin is not None and origin.controller == CONTROLLER:
                raise Violation(f"range {name} lost its finalizer while it is not being deleted")
            if new is not None and new.metadata.deletion_timestamp is not None:
                self._deleted[name] = asyncio.get_running_loop().time()
                self.kept += bool(self._addresses_only_in(name))
            return
        if finalizer_removed:
            self._check_release(name, old)

    def _check_release(self, name: str, old: ServiceCIDR) -> None:
        new = asyncio.get_running_loop().time() - self._deleted.pop(name)
        if new < GRACE_SECONDS:
            raise Violation(f"range {name} was released after {new:.1f} s")
        orphans = [str(ip) for ip in sorted(self._addresses_in(old), key=str) if not self._other_ranges_of(name, ip)]
        if orphans:
            raise Violation(f"range {name} was released, and no other range contains {orphans}")
        self.removed += 1

    def _addresses_in(self, cidr: ServiceCIDR) -> set[Address]:
        return {address for address in self._addresses if _contains(cidr, address)}

    def _other_ranges_of(self, name: str, address: Address) -> list[ServiceCIDR]:
        return [
            service_cidr
            for other, service_cidr in self._ranges.items()
            if other != name and _contains(service_cidr, address)
        ]

    def _addresses_only_in(self, name: str) -> list[str]:
        """The addresses for which the range is required: no other range that is not terminating contains them."""
        return [
            str(ip)
            for ip in sorted(self._addresses_in(self._ranges[name]), key=str)
            if all(other.metadata.deletion_timestamp is not None for other in self._other_ranges_of(name, ip))
        ]

    def check_final_state(self) -> None:
        """At the end ServiceCIDRs have the finalizer and are ready; terminating ones are required, and report that."""
        for name, cidr in self._ranges.items():
            ready = {condition.type: (condition.status, condition.reason) for condition in cidr.status.conditions}.get(
                "Ready"
            )
            if cidr.metadata.deletion_timestamp is None:
                if FINALIZER not in cidr.metadata.finalizers or ready != ("True", ""):
                    raise Violation(f"range {name} has the finalizers {cidr.metadata.finalizers} and Ready: {ready}")
            elif not self._addresses_only_in(name):
                raise Violation(f"range {name} is being deleted and not needed, and still exists")
            elif ready != ("False", "Terminating"):
                raise Violation(f"range {name} is kept for its addresses, and has Ready: {ready}")


def _contains(cidr: ServiceCIDR, address: Address) -> bool:
    return any(prefix_contains_ip(parse_cidr(text), address) for text in cidr.spec.cidrs)


def _is_protected(cidr: ServiceCIDR | None) -> bool:
    return cidr is not None and FINALIZER in cidr.metadata.finalizers
