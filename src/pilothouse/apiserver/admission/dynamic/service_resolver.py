"""Resolves the Service of a webhook to the address of an endpoint, as no kube-proxy routes its cluster IP here.

After kube-aggregator's ``pkg/apiserver/resolvers.go`` (``NewEndpointServiceResolver``, v0.36). Pods on simulated nodes
are excluded: their addresses are made up, and in the network of this machine belong to nobody, or to others.
"""

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode, readable_records
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.nodes import is_simulated, without_process
from pilothouse.storage import Store
from pilothouse.storage.unreadable import is_readable

_ALTERNATIVES = "a webhook that runs elsewhere needs a url in its clientConfig, or an EndpointSlice with its address"


class ResolveError(Exception):
    """The Service has no endpoint that can be called."""


def resolve_endpoint(core: Core, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Address and port of the first ready endpoint for the Service's ``port``. Raises ``ResolveError``."""
    record = core.store.staged(f"{storage_prefix('', 'services')}{namespace}/{name}")
    if record is None:
        raise ResolveError(f"service {quote(name)} not found")
    spec = decode(record.value).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return spec.get("externalName") or "", port
    desired_port = next(
        (service_port for service_port in spec.get("ports") or () if service_port.get("port") == port), None
    )
    if desired_port is None:
        raise ResolveError(f"no service port {port} found for service {quote(name)}")
    simulated_pods = _SimulatedPods(core.store, namespace)
    prefix, name_bytes = f"{storage_prefix('discovery.k8s.io', 'endpointslices')}{namespace}/", name.encode()
    for slice_record in readable_records(core.store, prefix):
        if name_bytes not in slice_record.value:
            continue  # without decoding the slices of all Services of the namespace
        endpoint_slice = decode(slice_record.value)
        if (endpoint_slice["metadata"].get("labels") or {}).get("kubernetes.io/service-name") != name:
            continue
        target_port = next(
            (
                endpoint_port.get("port")
                for endpoint_port in endpoint_slice.get("ports") or ()
                if endpoint_port.get("name", "") == desired_port.get("name", "")
            ),
            None,
        )
        if not target_port:
            continue
        for endpoint in endpoint_slice.get("endpoints") or ():
            is_ready = (endpoint.get("conditions") or {}).get("ready") is not False
            if endpoint.get("addresses") and is_ready and not simulated_pods.has(endpoint):
                return endpoint["addresses"][0], target_port
    if simulated_pods.first:
        raise ResolveError(f"{simulated_pods.first}: {_ALTERNATIVES}")
    raise ResolveError(f"no endpoints available for service {quote(name)}")


class _SimulatedPods:
    """Finds out which endpoints are pods on simulated nodes, by key: each node is read once, and a pod only if the
    endpoint has no ``nodeName``."""

    def __init__(self, store: Store, namespace: str) -> None:
        self.first = ""
        """Why the first of them cannot be called."""
        self._store = store
        self._namespace = namespace
        self._nodes: dict[str, bool] = {}

    def has(self, endpoint: Object) -> bool:
        """Whether the endpoint is one of them."""
        target = endpoint.get("targetRef") or {}
        if target.get("kind") != "Pod":
            return False
        pod = target.get("name") or ""
        node = endpoint.get("nodeName") or self._node_of(target.get("namespace") or self._namespace, pod)
        if node not in self._nodes:
            self._nodes[node] = is_simulated(self._read(f"{storage_prefix('', 'nodes')}{node}"))
        if self._nodes[node] and not self.first:
            self.first = without_process(pod, node)
        return self._nodes[node]

    def _node_of(self, namespace: str, pod: str) -> str:
        spec = self._read(f"{storage_prefix('', 'pods')}{namespace}/{pod}").get("spec") or {}
        return spec.get("nodeName") or ""

    def _read(self, key: str) -> Object:
        """The object, empty if there is none."""
        record = self._store.get(key)
        return decode(record.value) if record is not None and is_readable(record.value) else {}
