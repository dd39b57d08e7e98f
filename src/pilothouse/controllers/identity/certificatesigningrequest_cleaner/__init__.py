"""Deletes old CertificateSigningRequests, so that those of kubelets do not accumulate.

Kubelets create requests periodically, which are approved automatically; without this controller they would accumulate.

Behaviour: once an hour every request is checked, and deleted if it was served, denied or has failed an hour ago, if
it has been pending for a day, if it was approved a day ago and not served, or if its certificate has expired.

Not guaranteed: that a request is deleted exactly when its time has passed. Issued certificates remain valid.

docs/controllers/certificatesigningrequest_cleaner.md has where it differs from upstream.
"""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="certificatesigningrequest-cleaner-controller",
    aliases=("csrcleaner",),
    client_name="certificate-controller",
    watches=(Watch(kind=CERTIFICATE_SIGNING_REQUESTS, predicate=any_object),),
    package=__name__,
)
