"""Authentication at the secure port, and rejected credentials."""

import hashlib

import msgspec
from tests.controllermanager.certificates import OTHERS, PROXIES, USERS, peer, with_uids
from tests.controllermanager.scripted import Scripted
from tests.controllermanager.test_delegation import review
from tests.tables import cases

from pilothouse.controllermanager.authentication import ANONYMOUS, Authenticator
from pilothouse.controllermanager.client_trust import ClientTrust, ConfigMap
from pilothouse.controllermanager.delegation import TokenReviews, User
from pilothouse.controllermanager.options import Serving
from pilothouse.env import Env
from pilothouse.serving.peer import Peer

KNOWN = ConfigMap(
    data={
        "client-ca-file": USERS.certificate.decode(),
        "requestheader-client-ca-file": PROXIES.certificate.decode(),
        "requestheader-allowed-names": '["front-proxy"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }
)
JANE = peer(USERS, "jane", "devs")
PROXY = peer(PROXIES, "front-proxy")
READER = User(username="reader", uid="7", groups=("staff", "system:authenticated"))
JANE_USER = User(
    username="jane",
    groups=("devs", "system:authenticated"),
    extra={
        "authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(JANE.certificate).hexdigest()}",)
    },
)


async def identify(
    env: Env,
    request_header: Peer | None,
    *headers: tuple[str, str],
    config: ConfigMap = KNOWN,
    delegates: bool = True,
    certificate_uids: bool = True,
) -> User | None:
    trust = ClientTrust(env, Serving())
    trust.apply_config_map(config)
    tokens = TokenReviews(env, Scripted(review).client(env), cache_seconds=10) if delegates else None
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
    authenticator = Authenticator(env, trust, tokens, certificate_uids=certificate_uids)
    return await authenticator.user(request_header, encoded)


@cases(
    "expected, headers, user",
    {
        "no credentials": (None, [], ANONYMOUS),
        "basic authentication is ignored": (None, [("Authorization", "Basic abc")], ANONYMOUS),
        "an empty token: nothing": (None, [("Authorization", "Bearer ")], ANONYMOUS),
        "a good token": (None, [("Authorization", "Bearer good")], READER),
        "a good token, spelled freely": (None, [("Authorization", "bearer  good ")], READER),
        "invalid token": (None, [("Authorization", "Bearer bad")], None),
        "a certificate": (JANE, [], JANE_USER),
        "certificate precedes an invalid token": (JANE, [("Authorization", "Bearer bad")], JANE_USER),
        "a certificate of another CA": (peer(OTHERS, "eve"), [], None),
        "certificate of another CA with a valid token": (
            peer(OTHERS, "eve"),
            [("Authorization", "Bearer good")],
            READER,
        ),
        "certificate without common name": (peer(USERS, ""), [], None),
    },
)
async def test_authenticate_request(
    env: Env, expected: Peer | None, headers: list[tuple[str, str]], user: User | None
) -> None:
    assert await identify(env, expected, *headers) == user


@cases(
    "uids, enabled, uid",
    {
        "no uid": ((), True, ""),
        "one uid": (("1-2-3",), True, "1-2-3"),
        "one uid, gate disabled": (("1-2-3",), False, ""),
        "several uids": (("1", "2"), True, None),
        "several uids, gate disabled": (("1", "2"), False, ""),
        "an empty one": (("",), True, None),
    },
)
async def test_certificate_uid_extension(env: Env, uids: tuple[str, ...], enabled: bool, uid: str | None) -> None:
    """``parseUIDFromCert`` and the gate ``AllowParsingUserUIDFromCertAuth`` (apiserver v0.36)."""
    result = await identify(env, with_uids(JANE, *uids), certificate_uids=enabled)
    assert result == (None if uid is None else msgspec.structs.replace(JANE_USER, uid=uid))


VOUCHED = [
    ("X-Remote-User", "joe"),
    ("X-Remote-Uid", "9"),
    ("X-Remote-Group", "a"),
    ("X-Remote-Group", "b"),
    ("X-Remote-Extra-Scopes%2fall", "one"),
    ("X-Remote-Extra-Scopes%2fall", "two"),
]


@cases(
    "expected, headers, user",
    {
        "request header proxy": (
            PROXY,
            VOUCHED,
            User(
                username="joe", uid="9", groups=("a", "b", "system:authenticated"), extra={"scopes/all": ("one", "two")}
            ),
        ),
        "headers alone prove nothing": (None, VOUCHED, ANONYMOUS),
        "a user can't vouch for another": (JANE, VOUCHED, JANE_USER),
        "only proxies of the names that are allowed": (peer(PROXIES, "stranger"), VOUCHED, None),
        "proxy without a user name": (PROXY, [], None),
    },
)
async def test_request_header_authentication(
    env: Env, expected: Peer | None, headers: list[tuple[str, str]], user: User | None
) -> None:
    assert await identify(env, expected, *headers) == user


async def test_any_common_name_is_allowed_without_a_list(env: Env) -> None:
    config = ConfigMap(data={**KNOWN.data, "requestheader-allowed-names": "[]"})
    result = await identify(env, peer(PROXIES, "whoever"), *VOUCHED, config=config)
    assert result is not None
    assert result.username == "joe"


async def test_tokens_are_ignored_without_delegation(env: Env) -> None:
    assert await identify(env, None, ("Authorization", "Bearer bad"), delegates=False) == ANONYMOUS


async def test_certificates_are_ignored_without_a_client_ca(env: Env) -> None:
    assert await identify(env, JANE, config=ConfigMap()) == ANONYMOUS
