"""Syncs a namespace when it is added or changes, and on events of its ConfigMap. Upstream: v1.36
``pkg/controller/certificates/rootcacertpublisher/publisher.go``."""

from typing import Any

import msgspec

from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, ROOT_CA_CONFIG_MAP, ConfigMap, Namespace
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR, RootCaOptions
from pilothouse.controllers.shared.root_authority import read_authority
from pilothouse.controllers.shared.sync_codes import SyncCodes
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue

KEY = "ca.crt"
ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def predicate(namespace: Namespace) -> bool:
    return namespace.status.phase == "Active"


def is_up_to_date(config_map: ConfigMap, bundle: str) -> bool:
    """Whether the ConfigMap is up to date. Users may change the text of its description."""
    return config_map.data == {KEY: bundle} and bool(config_map.metadata.annotations.get(ANNOTATION))


def new_config_map(bundle: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA_CONFIG_MAP, "annotations": {ANNOTATION: DESCRIPTION}},
        "data": {KEY: bundle},
    }


def build(context: ControllerContext) -> "RootCaPublisher":
    """Raises ``CannotRun`` for a file that cannot be used."""
    return RootCaPublisher(context)


class RootCaPublisher(ManagedController):
    """Keys are names of namespaces."""

    def __init__(self, context: ControllerContext) -> None:
        config_maps = context.informer(CONFIG_MAPS)
        namespaces = context.informer(NAMESPACES)
        super().__init__(context, DESCRIPTOR.name, queue_name="root_ca_cert_publisher")
        options = context.options_as(RootCaOptions)
        self._bundle = read_authority(options.root_ca_file, options.authority)
        self._client = context.client
        self._config_maps = config_maps.cache
        help_text = "Number of namespace syncs happened in root ca cert publisher."
        self._codes = SyncCodes(
            context.metrics, context.env.perf_counter, "root_ca_cert_publisher", help_text, help_text
        )
        config_maps.add_handler(
            on_update=lambda _old, config_map: self._enqueue_namespace_of(config_map),
            on_delete=lambda config_map, _unknown: self._enqueue_namespace_of(config_map),
        )
        namespaces.add_handler(
            on_add=lambda namespace, _initial: self.queue.add(namespace.metadata.name),
            on_update=lambda _old, namespace: self._enqueue_namespace(namespace),
        )

    def _enqueue_namespace_of(self, config_map: ConfigMap) -> None:
        self.queue.add(config_map.metadata.namespace)

    def _enqueue_namespace(self, namespace: Namespace) -> None:
        if predicate(namespace):
            self.queue.add(namespace.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        with self._codes.counted():
            await self._sync(key)
        return None

    async def _sync(self, namespace: str) -> None:
        key = f"{namespace}/{ROOT_CA_CONFIG_MAP}"
        config_map = self._config_maps.get(key)
        if config_map is None:
            record_decision(f"namespace {namespace} has no ConfigMap {ROOT_CA_CONFIG_MAP}")
            try:
                await self._client.create(CONFIG_MAPS, new_config_map(self._bundle), namespace)
            except NotFound:
                return  # the namespace was deleted
            except ApiError as error:
                if not has_cause(error, "NamespaceTerminating"):
                    raise
            return
        if is_up_to_date(config_map, self._bundle):
            return
        raw = self._config_maps.raw(key)
        assert raw is not None, "the informer was asked to keep it"
        annotations = {**config_map.metadata.annotations, ANNOTATION: DESCRIPTION}
        body = replace_fields(
            raw,
            {
                "data": msgspec.json.encode({KEY: self._bundle}),
                "metadata.annotations": msgspec.json.encode(annotations),
            },
        )
        record_decision(f"ConfigMap {key} does not hold the root certificates of this cluster")
        await self._client.update(CONFIG_MAPS, ROOT_CA_CONFIG_MAP, body, namespace)
