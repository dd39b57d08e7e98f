"""Syncs all bundles of the signer on every event of one of them. Upstream: v1.36
``pkg/controller/certificates/clustertrustbundlepublisher/publisher.go``."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.certificates import CLUSTER_TRUST_BUNDLES, KUBE_APISERVER_SERVING_SIGNER, ClusterTrustBundle
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR,
    TrustBundleOptions,
)
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.root_authority import read_authority
from pilothouse.controllers.shared.sync_codes import SyncCodes
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue


def name_of(bundle: str) -> str:
    """The signer's name and the start of the content's hash: new content is a new object, so that pods read either the
    old or the new one."""
    return f"{KUBE_APISERVER_SERVING_SIGNER.replace('/', ':')}:{hashlib.sha256(bundle.encode()).digest()[:12].hex()}"


def new_bundle(bundle: str) -> dict[str, Any]:
    return {
        "apiVersion": CLUSTER_TRUST_BUNDLES.api_version,
        "kind": CLUSTER_TRUST_BUNDLES.kind,
        "metadata": {"name": name_of(bundle)},
        "spec": {"signerName": KUBE_APISERVER_SERVING_SIGNER, "trustBundle": bundle},
    }


def other_bundle_names(trust_bundles: Sequence[ClusterTrustBundle], bundle: str) -> list[str]:
    """Names of the signer's bundles with other content, or another name."""
    return [
        trust_bundle.metadata.name for trust_bundle in trust_bundles if trust_bundle.metadata.name != name_of(bundle)
    ]


ALL = "all"


def build(context: ControllerContext) -> "TrustBundlePublisher":
    """Raises ``CannotRun`` for a file that cannot be used."""
    return TrustBundlePublisher(context)


class TrustBundlePublisher(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        bundles = context.informer(CLUSTER_TRUST_BUNDLES)
        super().__init__(context, DESCRIPTOR.name, queue_name="ca_cert_publisher_cluster_trust_bundles")
        options = context.options_as(TrustBundleOptions)
        self._bundle = read_authority(options.root_ca_file, options.authority)
        self._name = name_of(self._bundle)
        self._client = context.client
        self._bundles = bundles.cache
        self._codes = SyncCodes(
            context.metrics,
            context.env.perf_counter,
            "clustertrustbundle_publisher",
            "[ALPHA] Number of syncs that occurred in cluster trust bundle publisher.",
            "[ALPHA] The time it took to sync a cluster trust bundle.",
        )
        on_any_event(bundles, lambda _bundle: self.queue.add(ALL))
        self.queue.add(ALL)

    async def reconcile(self, key: str) -> Requeue | None:
        with self._codes.counted():
            await self._ensure_bundle()
            await self._delete_other_bundles()
        return None

    async def _ensure_bundle(self) -> None:
        existing = self._bundles.get(self._name)
        if existing is None:
            record_decision(f"there is no ClusterTrustBundle {self._name} of the API server's certificates")
            await self._client.create(CLUSTER_TRUST_BUNDLES, new_bundle(self._bundle))
        elif existing.spec.trust_bundle != self._bundle:
            raw = self._bundles.raw(self._name)
            assert raw is not None, "the informer was asked to keep it"
            body = replace_fields(raw, {"spec.trustBundle": msgspec.json.encode(self._bundle)})
            record_decision(f"ClusterTrustBundle {self._name} does not contain the API server's certificates")
            await self._client.update(CLUSTER_TRUST_BUNDLES.raw, self._name, body)

    async def _delete_other_bundles(self) -> None:
        """Delete all that can be deleted, then raise the last failure."""
        failure: ApiError | OSError | None = None
        for name in other_bundle_names(self._bundles.list(), self._bundle):
            record_decision(f"ClusterTrustBundle {name} contains former certificates of the API server")
            try:
                await self._client.delete(CLUSTER_TRUST_BUNDLES, name)
            except NotFound:
                continue
            except (ApiError, OSError) as error:
                self.log.error("Failed to remove a cluster trust bundle", error=error, bundleName=name)  # noqa: TRY400  # no traceback: the server said no
                failure = error
        if failure is not None:
            raise failure
