"""Removes the PodCertificateRequests that kubelets make for pods, soon after they have served.

Promises: every five minutes every request is looked at, and goes if it is a quarter of an hour old, whatever became of
it. Only behind the gate ``PodCertificateRequest``, which is off in v1.36, and where the API server serves the kind.

Not promised: anything about the certificates. They are the signer's and the kubelet's.

Files: ``decide`` which go, ``controller`` the wiring. docs/controllers/podcertificaterequest_cleaner.md has where it
differs from upstream.
"""

from pilothouse.api.certificates import POD_CERTIFICATE_REQUESTS
from pilothouse.runtime.descriptor import Descriptor, Watch, any_object

DESCRIPTOR = Descriptor(
    name="podcertificaterequest-cleaner-controller",
    client_name="podcertificaterequestcleaner",
    gates=("PodCertificateRequest",),
    watches=(Watch(kind=POD_CERTIFICATE_REQUESTS, wakes=any_object),),
    factory="pilothouse.controllers.identity.podcertificaterequest_cleaner.controller:build",
)
