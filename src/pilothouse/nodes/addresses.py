"""Addresses for simulated nodes and pods.

Nodes have addresses from 10.64.0.0/12 by their number. Pods get the next free one from 10.128.0.0/10.
"""

import functools
import ipaddress

_NODES = ipaddress.IPv4Address("10.64.0.0")
_PODS = ipaddress.IPv4Address("10.128.0.0")
_POD_ADDRESSES = 1 << 22


@functools.lru_cache(maxsize=8192)
def node_address(index: int) -> str:
    """The internal address of the ``index``-th simulated node."""
    return str(_NODES + 1 + index)


class PodAddresses:
    """Allocates addresses. An address of a known pod is not given to another one, and a released one is not reused
    soon."""

    def __init__(self) -> None:
        self._last = 0
        self._holders: dict[str, str] = {}
        self._held: dict[str, str | tuple[str, ...]] = {}
        """The allocated address per uid, which is released when the pod ends; in a tuple only if there are several."""

    def hold(self, address: str, uid: str) -> None:
        """The pod with this uid has the address."""
        if self._holders.get(address) != uid:
            self._holders[address] = uid
            held = self._held_by(uid)
            self._held[uid] = (*held, address) if held else address

    def release(self, address: str, uid: str) -> None:
        """The pod with this uid has it no more. Does nothing when another has the address by now."""
        if self._holders.get(address) == uid:
            del self._holders[address]
            self._held[uid] = tuple(held_address for held_address in self._held_by(uid) if held_address != address)

    def _held_by(self, uid: str) -> tuple[str, ...]:
        held = self._held.get(uid, ())
        return (held,) if isinstance(held, str) else held

    def release_all(self, uid: str) -> None:
        """The pod with this uid was deleted."""
        for address in self._held_by(uid):
            self.release(address, uid)
        self._held.pop(uid, None)

    def take(self, uid: str) -> str:
        """An address for the pod with this uid."""
        for _ in range(_POD_ADDRESSES):
            self._last = self._last % (_POD_ADDRESSES - 2) + 1
            address = str(_PODS + self._last)
            if address not in self._holders:
                self.hold(address, uid)
                return address
        raise RuntimeError("all pod addresses are taken")
