"""Approves kubelets' requests for client certificates if the authorizer allows it.

Behaviour: a request for ``kubernetes.io/kube-apiserver-client-kubelet`` in the form of a kubelet's is approved if its
requestor may create ``certificatesigningrequests/selfnodeclient`` (for the node that it already is) or ``…/nodeclient``
(for any node), by a SubjectAccessReview. A request that is not allowed is reviewed again with backoff. Approved or
denied requests are not changed.

Not guaranteed: other signers. Serving certificates of kubelets must be approved by administrators, or by programs that
can verify the addresses of nodes.

docs/controllers/certificatesigningrequest_approving.md has where it differs from upstream.
"""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="certificatesigningrequest-approving-controller",
    aliases=("csrapproving",),
    client_name="certificate-controller",
    watches=(Watch(kind=CERTIFICATE_SIGNING_REQUESTS, keep_raw=True, predicate=any_object),),
    package=__name__,
)
