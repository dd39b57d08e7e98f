"""Deletes old CertificateSigningRequests, so that those of kubelets do not accumulate.

Kubelets ask for certificates by themselves and are approved by themselves; without this the requests would pile up.

Behaviour: once an hour every request is checked, and deleted if it was served, denied or has failed an hour ago, if
it has been pending for a day, if it was approved a day ago and not served, or if its certificate has expired.

Not guaranteed: that a request goes the moment its time is over. Certificates that were issued stay good: nothing is
revoked by this.

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
