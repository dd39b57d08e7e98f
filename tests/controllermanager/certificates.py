"""CAs and client certificates for tests of the secure port."""

import ssl

import msgspec

from pilothouse.env.virtual import START
from pilothouse.serving.certificates import Pair, create_authority, issue_client
from pilothouse.serving.peer import Peer

NOW = START
USERS, OTHERS, PROXIES = (create_authority(name, NOW) for name in ("users", "others", "proxies"))


def peer(authority: Pair, name: str, *groups: str) -> Peer:
    """The peer information of a client with a certificate of this CA."""
    pair = issue_client(authority, name or "x", groups, NOW)
    der = ssl.PEM_cert_to_DER_cert(pair.certificate.decode())
    return Peer(der, name, groups, (der,))


def with_uids(request_header: Peer, *uids: str) -> Peer:
    """The same client, with uids in its certificate."""
    return msgspec.structs.replace(request_header, uids=uids)
