"""Removes CertificateSigningRequests that nobody will look at any more.

Kubelets ask for certificates by themselves and are approved by themselves; without this the requests would pile up.

Promises: once an hour every request is looked at, and goes if it was served, denied or given up an hour ago, if nobody
has said anything about it for a day, if it was approved a day ago and not served, or if its certificate has ended.

Not promised: that a request goes the moment its time is over. Certificates that were issued stay good: nothing is
revoked by this.

Files: ``decide`` which go, ``controller`` the hour. docs/controllers/certificatesigningrequest_cleaner.md has where it
differs from upstream.
"""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.runtime.descriptor import Descriptor, Watch, any_object

DESCRIPTOR = Descriptor(
    name="certificatesigningrequest-cleaner-controller",
    aliases=("csrcleaner",),
    client_name="certificate-controller",
    watches=(Watch(kind=CERTIFICATE_SIGNING_REQUESTS, wakes=any_object),),
    factory="pilothouse.controllers.identity.certificatesigningrequest_cleaner.controller:build",
)
