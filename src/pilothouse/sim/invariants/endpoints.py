"""Invariants of the final state of Services: EndpointSlices and Endpoints have each existing pod once.

Little is guaranteed before, because endpoints follow the pods with a delay.
"""

from collections import Counter

import msgspec

from pilothouse.api.core import Endpoints, Pod
from pilothouse.api.discovery import EndpointSlice
from pilothouse.semantics.pods import is_ready, is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_slice = msgspec.json.Decoder(EndpointSlice).decode

MANAGED_BY = "endpointslice-controller.k8s.io"


class ServiceEndpoints(Invariant):
    """One Service that selects pods by the label ``app``. ``per_slice`` is the maximum number of endpoints of a slice.

    ``extra_slices`` is the number of slices that may exist in addition to the required ones.
    """

    def __init__(self, service: str, app: str, *, per_slice: int = 100, extra_slices: int = 0) -> None:
        self._service = service
        self._app = app
        self._per_slice = per_slice
        self._extra_slices = extra_slices
        self._slices: dict[str, EndpointSlice] = {}
        self._endpoints = Objects("/endpoints/", Endpoints)
        self._pods = Objects("/pods/", Pod)
        self.most_slices = 0
        """The maximum number of slices at any time."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        if self._endpoints.follow(change) or self._pods.follow(change):
            return
        if change.key.startswith("discovery.k8s.io/endpointslices/"):
            self._slices.pop(change.key, None)
            endpoint_slice = _slice(change.value)
            if (
                change.type != "DELETED"
                and endpoint_slice.metadata.labels.get("endpointslice.kubernetes.io/managed-by") == MANAGED_BY
            ):
                self._slices[change.key] = endpoint_slice
                self.most_slices = max(self.most_slices, len(self._slices))

    def check_final_state(self) -> None:
        """At the end both have each pod with an address, with its readiness, and no others."""
        desired = {
            pod.metadata.name: is_ready(pod)
            for pod in self._pods.values()
            if pod.metadata.labels.get("app") == self._app and pod.status.pod_ip and not is_terminal(pod)
        }
        named: Counter[str] = Counter()
        reported: dict[str, bool | None] = {}
        for endpoint_slice in self._slices.values():
            for endpoint in endpoint_slice.endpoints or ():
                name = endpoint.target_ref.name if endpoint.target_ref is not None else ""
                named[name] += 1
                reported[name] = endpoint.conditions.ready
        duplicated = sorted(name for name, count in named.items() if count > 1)
        if duplicated:
            raise Violation(f"{duplicated} are in several endpoints of the slices of {self._service}")
        if reported != desired:
            raise Violation(f"the slices of {self._service} have {reported}, expected {desired}")
        required = max(1, -(-len(desired) // self._per_slice))
        if len(self._slices) > required + self._extra_slices:
            raise Violation(f"{self._service} has {len(self._slices)} slices for {len(desired)} pods")
        endpoints_addresses = {
            address.target_ref.name: ready
            for endpoints in self._endpoints.values()
            if endpoints.metadata.name == self._service
            for subset in endpoints.subsets
            for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses))
            for address in addresses
            if address.target_ref is not None
        }
        if endpoints_addresses != desired:
            raise Violation(f"the Endpoints of {self._service} have {endpoints_addresses}, expected {desired}")
