"""Approves kubelets' requests for client certificates if the authorizer allows it.

Behaviour: a request to ``kubernetes.io/kube-apiserver-client-kubelet`` that has the form of a kubelet's is approved if
who made it may create ``certificatesigningrequests/selfnodeclient`` (for the node that it is already) or
``…/nodeclient`` (for any), as a SubjectAccessReview shows. A request that is not allowed is reviewed again with
backoff. Decided requests are left alone.

Not guaranteed: anything about other signers. Certificates for the servers of kubelets are for people to approve, or for
programs that know the addresses of nodes.

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
