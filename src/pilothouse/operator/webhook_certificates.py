"""The certificates of an operator's webhooks: which there are, and which are due.

The operator's own CA signs the serving certificate of webhooks; the API server trusts the CAs in ``bundle``. A CA is
replaced long before it expires: the new one is in the bundle from then on, while the serving certificate is still one
that the previous CA has signed just before. So a replica or an API server that observes the change late still trusts
the current certificate.
"""

import datetime
from collections.abc import Sequence

import msgspec

from pilothouse.api.core import Secret
from pilothouse.serving.certificates import (
    ISSUED_DAYS,
    RENEW_BEFORE,
    Pair,
    create_authority,
    is_issued_for,
    issue_server,
    not_expired,
    split,
)

AUTHORITY_RENEW_BEFORE = datetime.timedelta(days=ISSUED_DAYS) + RENEW_BEFORE
"""A certificate that an authority signs in its last days would expire with it."""
_FIELDS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class Certificates(msgspec.Struct, frozen=True):
    """The state that the replicas of an operator share."""

    authority: Pair
    """It signs; its certificate is the first of the bundle."""
    bundle: bytes
    serving: Pair

    def to_data(self) -> dict[str, bytes]:
        """The data of a Secret of type ``kubernetes.io/tls``, with the authority in ``ca.crt`` and ``ca.key``."""
        values = (self.bundle, self.authority.key, self.serving.certificate, self.serving.key)
        return dict(zip(_FIELDS, values, strict=True))


def from_secret(secret: Secret) -> Certificates:
    """The certificates in a Secret. Raises ``ValueError`` if they are incomplete or do not match."""
    name = f"Secret {secret.metadata.namespace}/{secret.metadata.name}"
    missing = [field for field in _FIELDS if not secret.data.get(field)]
    if missing:
        raise ValueError(f"{name} has no {', '.join(missing)}")
    bundle, key, certificate, serving_key = (secret.data[field] or b"" for field in _FIELDS)
    try:
        certificates = Certificates(Pair(split(bundle)[0], key), bundle, Pair(certificate, serving_key))
        for pair in (certificates.authority, certificates.serving):
            pair.check()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return certificates


def renewed(kept: Certificates | None, hosts: Sequence[str], common_name: str, now: datetime.datetime) -> Certificates:
    """Certificates for ``hosts``: those that were kept, if nothing is due."""
    if kept is None or kept.authority.not_after <= now:
        authority = create_authority(common_name, now)
        return Certificates(authority, authority.certificate, issue_server(authority, hosts, now))
    if kept.authority.not_after - now <= AUTHORITY_RENEW_BEFORE:
        authority = create_authority(common_name, now)
        bundle = b"".join((authority.certificate, *not_expired(kept.bundle, now)))
        return Certificates(authority, bundle, issue_server(kept.authority, hosts, now))
    serving = kept.serving
    if serving.not_after - now > RENEW_BEFORE and is_issued_for(serving, hosts, kept.bundle):
        return kept
    bundle = b"".join(not_expired(kept.bundle, now))
    return Certificates(kept.authority, bundle, issue_server(kept.authority, hosts, now))
