"""Approves the requests of kubelets for a certificate to log in with, where the authorizer says that they may have one.

Promises: a request to ``kubernetes.io/kube-apiserver-client-kubelet`` that has the form of a kubelet's is approved if
who made it may create ``certificatesigningrequests/selfnodeclient`` (for the node that it is already) or
``…/nodeclient`` (for any), as a SubjectAccessReview tells. Whoever may not now is asked about again with growing
pauses: rights may come later. What somebody has decided is left alone.

Not promised: anything about other signers. Certificates for the servers of kubelets are for people to approve, or for
programs that know the addresses of nodes.

Files: ``decide`` which right is asked for, ``controller`` the wiring. docs/controllers/
certificatesigningrequest_approving.md has where it differs from upstream.
"""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.runtime.descriptor import Descriptor, Watch, any_object

DESCRIPTOR = Descriptor(
    name="certificatesigningrequest-approving-controller",
    aliases=("csrapproving",),
    client_name="certificate-controller",
    watches=(Watch(kind=CERTIFICATE_SIGNING_REQUESTS, keep_raw=True, wakes=any_object),),
    factory="pilothouse.controllers.identity.certificatesigningrequest_approving.controller:build",
)
