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
from pilothouse.sim.story import Origin
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
    """All ServiceCIDRs of a cluster in which none is deleted before it has its finalizer, and no other program removes
    the finalizer. ``kept`` counts deletions that had to wait for an address, ``gone`` removed ServiceCIDRs."""

    def __init__(self) -> None:
        self._ranges = Objects(_RANGES, ServiceCIDR)
        self._addresses: set[Address] = set()
        self._deleted: dict[str, float] = {}
        """When those that go were deleted."""
        self.kept = 0
        self.gone = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        gone = change.type == "DELETED"
        if update := self._ranges.follow(change):
            self._see(*update, origin)
        elif change.key.startswith(_ADDRESSES):
            address = ipaddress.ip_address(change.key.removeprefix(_ADDRESSES))
            self._addresses.discard(address)
            if not gone and MANAGED.items() <= _address(change.value).metadata.labels.items():
                self._addresses.add(address)

    def _see(self, name: str, before: ServiceCIDR | None, now: ServiceCIDR | None, origin: Origin | None) -> None:
        if before is None:
            return
        lost = FINALIZER in before.metadata.finalizers and not _is_protected(now)
        if before.metadata.deletion_timestamp is None:
            if lost and origin is not None and origin.controller == CONTROLLER:
                raise Violation(f"range {name} lost its protection while it lives")
            if now is not None and now.metadata.deletion_timestamp is not None:
                self._deleted[name] = asyncio.get_running_loop().time()
                self.kept += bool(self._only_given_by(name))
            return
        if lost:
            self._let_go(name, before)

    def _let_go(self, name: str, before: ServiceCIDR) -> None:
        after = asyncio.get_running_loop().time() - self._deleted.pop(name)
        if after < GRACE_SECONDS:
            raise Violation(f"range {name} was let go after {after:.1f} s")
        orphans = [str(ip) for ip in sorted(self._given_by(before), key=str) if not self._others_giving(name, ip)]
        if orphans:
            raise Violation(f"range {name} was released, and no other range contains {orphans}")
        self.gone += 1

    def _given_by(self, cidr: ServiceCIDR) -> set[Address]:
        return {address for address in self._addresses if _gives(cidr, address)}

    def _others_giving(self, name: str, address: Address) -> list[ServiceCIDR]:
        return [
            service_cidr
            for other, service_cidr in self._ranges.items()
            if other != name and _gives(service_cidr, address)
        ]

    def _only_given_by(self, name: str) -> list[str]:
        """The addresses for which the range is needed: of the others those count that stay."""
        return [
            str(ip)
            for ip in sorted(self._given_by(self._ranges[name]), key=str)
            if all(other.metadata.deletion_timestamp is not None for other in self._others_giving(name, ip))
        ]

    def settled(self) -> None:
        """Existing ones have the finalizer and are ready; terminating ones are needed, and report that."""
        for name, cidr in self._ranges.items():
            ready = {condition.type: (condition.status, condition.reason) for condition in cidr.status.conditions}.get(
                "Ready"
            )
            if cidr.metadata.deletion_timestamp is None:
                if FINALIZER not in cidr.metadata.finalizers or ready != ("True", ""):
                    raise Violation(f"range {name} lives, has {cidr.metadata.finalizers} and is ready: {ready}")
            elif not self._only_given_by(name):
                raise Violation(f"range {name} is being deleted and not needed, and still exists")
            elif ready != ("False", "Terminating"):
                raise Violation(f"range {name} is kept for its addresses, and is ready: {ready}")


def _gives(cidr: ServiceCIDR, address: Address) -> bool:
    return any(prefix_contains_ip(parse_cidr(text), address) for text in cidr.spec.cidrs)


def _is_protected(cidr: ServiceCIDR | None) -> bool:
    return cidr is not None and FINALIZER in cidr.metadata.finalizers
