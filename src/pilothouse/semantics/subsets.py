"""The canonical form of the subsets of Endpoints, and which Endpoints are not mirrored. Pure.

Read by the controllers that write Endpoints and that mirror them into slices. Upstream: v1.36
``pkg/api/v1/endpoints/util.go``.
"""

from collections.abc import Iterable, Mapping

from pilothouse.api.core import EndpointAddress, EndpointsPort, EndpointSubset
from pilothouse.api.meta import ObjectMeta

Subsets = tuple[EndpointSubset, ...]

LEADER = "control-plane.alpha.kubernetes.io/leader"


def is_lock(meta: ObjectMeta) -> bool:
    """Whether these Endpoints are a lock of old leader elections. There is no service, and they must stay."""
    return LEADER in meta.annotations


_Key = tuple[str, str]
_NO_PORTS = EndpointsPort(port=-1)


def repack(subsets: Iterable[EndpointSubset]) -> Subsets:
    """The canonical form (``RepackSubsets``): each address once per port, not ready if any entry is not ready; ports
    with the same addresses in one subset; all sorted.

    Ports and subsets are sorted by their content. Upstream sorts them by a hash, which differs between releases: repack
    both before comparing.
    """
    address_by_key: dict[_Key, EndpointAddress] = {}
    by_port: dict[EndpointsPort, dict[_Key, bool]] = {}
    for subset in subsets:
        for port in subset.ports or (_NO_PORTS,):
            states = by_port.setdefault(port, {})
            for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses)):
                for address in addresses:
                    key = _key(address)
                    address_by_key.setdefault(key, address)
                    states[key] = states.get(key, True) and ready
    by_addresses: dict[frozenset[tuple[_Key, bool]], list[EndpointsPort]] = {}
    for port, states in by_port.items():
        if states:
            by_addresses.setdefault(frozenset(states.items()), []).append(port)
    packed = [
        EndpointSubset(
            addresses=_sorted(address_by_key, states, True),
            not_ready_addresses=_sorted(address_by_key, states, False),
            ports=tuple(sorted((port for port in ports if port != _NO_PORTS), key=_port_order)),
        )
        for states, ports in by_addresses.items()
    ]
    return tuple(sorted(packed, key=lambda subset: [_port_order(port) for port in subset.ports]))


def _key(address: EndpointAddress) -> _Key:
    return address.ip, address.target_ref.uid if address.target_ref is not None else ""


def _sorted(
    address_by_key: Mapping[_Key, EndpointAddress], states: Iterable[tuple[_Key, bool]], ready: bool
) -> tuple[EndpointAddress, ...]:
    # As text; addresses without a target come last.
    keys = sorted((key for key, state in states if state is ready), key=lambda key: (key[0], not key[1], key[1]))
    return tuple(address_by_key[key] for key in keys)


def _port_order(port: EndpointsPort) -> tuple[str, int, str, str]:
    return port.name, port.port, port.protocol, port.app_protocol or ""
