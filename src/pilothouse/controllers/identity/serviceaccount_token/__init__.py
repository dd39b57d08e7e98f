"""Adds a token without expiration to user-created Secrets of type ``kubernetes.io/service-account-token``, and
deletes them with their account. Pods use bound tokens; these are for programs outside of the cluster that
cannot request new ones.

Users create such Secrets. Since v1.24 none are created automatically; pods have tokens that expire.

Behaviour: a Secret whose annotation ``kubernetes.io/service-account.name`` refers to a ServiceAccount of its namespace
gets a ``token``, the ``namespace`` and the CA (``ca.crt``), and the account's uid as an annotation. Existing values are
not changed, except an old CA. A Secret whose account does not exist or has another uid is deleted, as are all Secrets
of an account that is deleted. A deleted Secret is removed from the list of its account.

Not guaranteed: that the token is good when the Secret is there. It works once it is in the Secret.

Built before all other controllers, with the manager's own identity, and only if there is a key to sign with. Tokens and
keys are in no log line, event or metric.

docs/controllers/serviceaccount_token.md has where it differs from upstream.
"""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.core import SECRETS, SERVICE_ACCOUNTS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.root_authority import ROOT_CA_FLAG
from pilothouse.machinery.flags import INT32, STRING
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch
from pilothouse.semantics.service_accounts import SECRET_TYPE

if TYPE_CHECKING:
    from pilothouse.machinery.jws import Signer

SELECTOR = f"type={SECRET_TYPE}"
GROUP = "serviceaccount-controller"


class TokenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The signing key, and the CA that is stored with the token: ``root_ca_file``, or without one ``authority``, that
    of the program's own connection (PEM)."""

    private_key_file: str = ""
    workers: int = 5
    root_ca_file: str = ""
    authority: str = ""
    signer: "Signer | None" = None
    """Replaces the key file if the API server runs in the same process."""

    @property
    def has_key(self) -> bool:
        return bool(self.private_key_file) or self.signer is not None


DESCRIPTOR = Descriptor(
    name="serviceaccount-token-controller",
    aliases=("serviceaccount-token",),
    client_name="tokens-controller",
    options=TokenOptions,
    switch="has_key",
    flags=(
        flag_spec(
            "private_key_file",
            "service-account-private-key-file",
            STRING,
            "",
            "Enables legacy secret-based tokens when set. Filename containing a PEM-encoded private RSA or ECDSA "
            "key used to sign service account tokens.",
            group=GROUP,
        ),
        flag_spec(
            "workers",
            "concurrent-serviceaccount-token-syncs",
            INT32,
            5,
            "The number of service account token objects that are allowed to sync concurrently. Larger number = "
            "more responsive token generation, but more CPU (and network) load",
            group=GROUP,
        ),
        FlagSpec(field="root_ca_file", group=GROUP, flag=ROOT_CA_FLAG),
    ),
    watches=(Watch(kind=SERVICE_ACCOUNTS), Watch(kind=SECRETS, field_selector=SELECTOR)),
    package=__name__,
)
