"""Deletes expired bootstrap tokens.

Behaviour: a token with an ``expiration`` is deleted at that time, and at once if the time is invalid. One without
is never touched, nor is a Secret of the same name that was made meanwhile.

Not guaranteed: the second. And nothing is deleted while no manager leads.

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
