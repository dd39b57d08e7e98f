"""Deletes expired bootstrap tokens.

Behaviour: a token with an ``expiration`` is deleted at that time, and immediately if the time is invalid. A token
without an expiration, and another Secret with the same name that was created in the meantime, are not deleted.

Not guaranteed: the exact second, and deletions while there is no leader.

Off unless ``--controllers`` names it, as upstream. docs/controllers/token_cleaner.md has where it differs from
upstream.
"""

from pilothouse.api.core import SECRETS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch
from pilothouse.semantics.bootstrap_tokens import NAMESPACE, SECRET_TYPE

SELECTOR = f"type={SECRET_TYPE}"

DESCRIPTOR = Descriptor(
    name="token-cleaner-controller",
    aliases=("tokencleaner",),
    client_name="token-cleaner",
    default_on=False,
    watches=(Watch(kind=SECRETS, namespace=NAMESPACE, field_selector=SELECTOR),),
    package=__name__,
)
