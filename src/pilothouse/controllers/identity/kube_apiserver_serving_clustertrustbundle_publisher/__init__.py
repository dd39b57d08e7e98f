"""Publishes the CA of the API server's serving certificate as a ClusterTrustBundle, which pods can mount.

Behaviour: there is one ClusterTrustBundle with signer ``kubernetes.io/kube-apiserver-serving``, whose name contains the
hash of its content, with the certificates of ``--root-ca-file`` or of the manager's own connection; other bundles of
that signer are deleted after it exists. Only with the gate ``ClusterTrustBundle``, which is off in v1.36, if there is a
CA to publish, and if the API server serves the kind.

Not guaranteed: that a change of the file of ``--root-ca-file`` is noticed before a restart.

docs/controllers/kube_apiserver_serving_clustertrustbundle_publisher.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.certificates import CLUSTER_TRUST_BUNDLES, KUBE_APISERVER_SERVING_SIGNER
from pilothouse.controllers.shared.root_authority import ROOT_CA_FLAG
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch

SELECTOR = f"spec.signerName={KUBE_APISERVER_SERVING_SIGNER}"


class TrustBundleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Published is ``root_ca_file``, or without one ``authority``, the CA of the program's own connection (PEM)."""

    root_ca_file: str = ""
    authority: str = ""

    @property
    def is_configured(self) -> bool:
        return bool(self.root_ca_file or self.authority)


DESCRIPTOR = Descriptor(
    name="kube-apiserver-serving-clustertrustbundle-publisher-controller",
    client_name="kube-apiserver-serving-clustertrustbundle-publisher",
    gates=("ClusterTrustBundle",),
    options=TrustBundleOptions,
    switch="is_configured",
    flags=(FlagSpec(field="root_ca_file", group="serviceaccount-controller", flag=ROOT_CA_FLAG),),
    watches=(Watch(kind=CLUSTER_TRUST_BUNDLES, field_selector=SELECTOR, keep_raw=True),),
    package=__name__,
)
