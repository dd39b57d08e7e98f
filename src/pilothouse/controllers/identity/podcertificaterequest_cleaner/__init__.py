"""Deletes the PodCertificateRequests that kubelets create for pods, shortly after their use.

Behaviour: every five minutes every request is checked, and deleted if it is a quarter of an hour old, whatever its
status. Only behind the gate ``PodCertificateRequest``, which is off in v1.36, and where the API server serves the kind.

Not guaranteed: anything about the certificates. They are the signer's and the kubelet's.

docs/controllers/podcertificaterequest_cleaner.md has where it differs from upstream.
"""

from pilothouse.api.certificates import POD_CERTIFICATE_REQUESTS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="podcertificaterequest-cleaner-controller",
    client_name="podcertificaterequestcleaner",
    gates=("PodCertificateRequest",),
    watches=(Watch(kind=POD_CERTIFICATE_REQUESTS, predicate=any_object),),
    package=__name__,
)
