"""Creates the service account ``default`` of every namespace, which pods use if they name no other.

Behaviour: an active namespace without the ServiceAccount gets one when the namespace is added or changed, and when the
account is deleted. Fields that others write are not changed.

Not guaranteed: that the account is there as soon as the namespace is. Admission of pods waits for it a little.

docs/controllers/serviceaccount.md has where it differs from upstream.
"""

from pilothouse.api.core import NAMESPACES, SERVICE_ACCOUNTS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="serviceaccount-controller",
    aliases=("serviceaccount",),
    client_name="service-account-controller",
    watches=(Watch(kind=NAMESPACES), Watch(kind=SERVICE_ACCOUNTS)),
    package=__name__,
)
