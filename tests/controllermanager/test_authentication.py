"""Who calls the secure port, and which credentials are wrong."""

import hashlib

import msgspec
import pytest
from tests.controllermanager.certificates import OTHERS, PROXIES, USERS, peer, with_uids
from tests.controllermanager.scripted import Scripted
from tests.controllermanager.test_delegation import review

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
    shown: Peer | None,
    *headers: tuple[str, str],
    config: ConfigMap = KNOWN,
    delegates: bool = True,
    certificate_uids: bool = True,
) -> User | None:
    trust = ClientTrust(env, Serving())
    trust.take(config)
    tokens = TokenReviews(env, Scripted(review).client(env), cache_seconds=10) if delegates else None
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
    authenticator = Authenticator(env, trust, tokens, certificate_uids=certificate_uids)
    return await authenticator.user(shown, encoded)


@pytest.mark.parametrize(
    ("shown", "headers", "user"),
    [
        pytest.param(None, [], ANONYMOUS, id="nothing: nobody in particular"),
        pytest.param(None, [("Authorization", "Basic abc")], ANONYMOUS, id="not a bearer token: nothing"),
        pytest.param(None, [("Authorization", "Bearer ")], ANONYMOUS, id="an empty token: nothing"),
        pytest.param(None, [("Authorization", "Bearer good")], READER, id="a good token"),
        pytest.param(None, [("Authorization", "bearer  good ")], READER, id="a good token, spelled freely"),
        pytest.param(None, [("Authorization", "Bearer bad")], None, id="a bad token"),
        pytest.param(JANE, [], JANE_USER, id="a certificate"),
        pytest.param(JANE, [("Authorization", "Bearer bad")], JANE_USER, id="a certificate goes before a bad token"),
        pytest.param(peer(OTHERS, "eve"), [], None, id="a certificate of somebody else's"),
        pytest.param(peer(OTHERS, "eve"), [("Authorization", "Bearer good")], READER, id="and a good token beside it"),
        pytest.param(peer(USERS, ""), [], None, id="a certificate without a name, and wrong for a proxy"),
    ],
)
async def test_who_is_asking(env: Env, shown: Peer | None, headers: list[tuple[str, str]], user: User | None) -> None:
    assert await identify(env, shown, *headers) == user


@pytest.mark.parametrize(
    ("uids", "enabled", "uid"),
    [
        pytest.param((), True, "", id="none"),
        pytest.param(("1-2-3",), True, "1-2-3", id="one"),
        pytest.param(("1-2-3",), False, "", id="one, with the gate off"),
        pytest.param(("1", "2"), True, None, id="several: who is it"),
        pytest.param(("1", "2"), False, "", id="several, with the gate off"),
        pytest.param(("",), True, None, id="an empty one"),
    ],
)
async def test_a_certificate_may_name_the_users_uid(
    env: Env, uids: tuple[str, ...], enabled: bool, uid: str | None
) -> None:
    """``parseUIDFromCert`` and the gate ``AllowParsingUserUIDFromCertAuth`` (apiserver v0.36)."""
    found = await identify(env, with_uids(JANE, *uids), certificate_uids=enabled)
    assert found == (None if uid is None else msgspec.structs.replace(JANE_USER, uid=uid))


VOUCHED = [
    ("X-Remote-User", "joe"),
    ("X-Remote-Uid", "9"),
    ("X-Remote-Group", "a"),
    ("X-Remote-Group", "b"),
    ("X-Remote-Extra-Scopes%2fall", "one"),
    ("X-Remote-Extra-Scopes%2fall", "two"),
]


@pytest.mark.parametrize(
    ("shown", "headers", "user"),
    [
        pytest.param(
            PROXY,
            VOUCHED,
            User(
                username="joe", uid="9", groups=("a", "b", "system:authenticated"), extra={"scopes/all": ("one", "two")}
            ),
            id="a proxy's word",
        ),
        pytest.param(None, VOUCHED, ANONYMOUS, id="headers alone prove nothing"),
        pytest.param(JANE, VOUCHED, JANE_USER, id="a user can't vouch for another"),
        pytest.param(peer(PROXIES, "stranger"), VOUCHED, None, id="only proxies of the names that are allowed"),
        pytest.param(PROXY, [], None, id="a proxy that names nobody is a user with a wrong certificate"),
    ],
)
async def test_a_front_proxy_vouches_for_users(
    env: Env, shown: Peer | None, headers: list[tuple[str, str]], user: User | None
) -> None:
    assert await identify(env, shown, *headers) == user


async def test_any_name_will_do_when_none_is_listed(env: Env) -> None:
    config = ConfigMap(data={**KNOWN.data, "requestheader-allowed-names": "[]"})
    found = await identify(env, peer(PROXIES, "whoever"), *VOUCHED, config=config)
    assert found is not None
    assert found.username == "joe"


async def test_without_delegation_tokens_are_ignored(env: Env) -> None:
    assert await identify(env, None, ("Authorization", "Bearer bad"), delegates=False) == ANONYMOUS


async def test_without_an_authority_certificates_are_ignored(env: Env) -> None:
    assert await identify(env, JANE, config=ConfigMap()) == ANONYMOUS
