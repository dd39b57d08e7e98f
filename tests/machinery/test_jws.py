"""JSON Web Signatures: other programs verify ours, and we verify theirs.

The detached signatures are those of cluster-bootstrap's ``token/jws/jws_test.go`` (v1.36). Tokens are verified with
OpenSSL's command line, if it is installed.
"""

import base64
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from tests.tables import cases

from pilothouse.machinery.jws import (
    PrivateKey,
    Signer,
    algorithm_of,
    detached_hs256,
    from_base64url,
    jwk,
    key_id,
    load_key,
    load_public_key,
    to_base64url,
    verify,
)

RSA = rsa.generate_private_key(65537, 2048)
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
KEYS: dict[str, PrivateKey] = {"RS256": RSA} | {name: ec.generate_private_key(it) for name, it in CURVES.items()}
HASHES = {"RS256": "sha256", "ES256": "sha256", "ES384": "sha384", "ES512": "sha512"}
CLAIMS = {"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:x"}


def pem(key: PrivateKey, form: str = "PKCS8") -> bytes:
    """The key as a file has it."""
    private = serialization.PrivateFormat.PKCS8 if form == "PKCS8" else serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())


@pytest.mark.parametrize("algorithm", KEYS)
def test_openssl_verifies_signatures(algorithm: str, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here")
    key = KEYS[algorithm]
    head, body, signature = Signer(key).sign(CLAIMS).split(".")
    raw = from_base64url(signature)
    if algorithm != "RS256":
        # Beside tokens a signature by a curve is written as DER.
        half = len(raw) // 2
        raw = encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))
    public, paths, text = tmp_path / "public.pem", tmp_path / "signature", tmp_path / "text"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    paths.write_bytes(raw)

    def is_good(signed: str) -> bool:
        text.write_text(signed)
        command = [
            openssl,
            "dgst",
            f"-{HASHES[algorithm]}",
            "-verify",
            str(public),
            "-signature",
            str(paths),
            str(text),
        ]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    assert is_good(f"{head}.{body}")
    assert not is_good(f"{head}.{body}x")


@pytest.mark.parametrize("algorithm", KEYS)
def test_token_has_the_key_id(algorithm: str) -> None:
    key = KEYS[algorithm]
    public = key.public_key()
    head, body, signature = Signer(key).sign(CLAIMS).split(".")
    assert from_base64url(head) == f'{{"alg":"{algorithm}","kid":"{key_id(public)}"}}'.encode()
    assert msgspec.json.decode(from_base64url(body)) == CLAIMS
    document = msgspec.json.decode(from_base64url(head))
    signed = f"{head}.{body}".encode()
    assert verify(public, document, signed, from_base64url(signature))
    assert not verify(public, document, signed + b"x", from_base64url(signature))
    assert not verify(public, document, signed, from_base64url(signature)[:-1])
    assert not verify(public, {"alg": "HS256"}, signed, from_base64url(signature))
    others = [other.public_key() for name, other in KEYS.items() if name != algorithm]
    assert not any(verify(other, document, signed, from_base64url(signature)) for other in others)


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("form", ["PKCS8", "traditional"])
def test_private_key_formats(algorithm: str, form: str) -> None:
    """``RSA PRIVATE KEY``, ``EC PRIVATE KEY`` and ``PRIVATE KEY``; what OpenSSL puts before the second is passed over,
    as is a certificate (client-go ``util/keyutil``, ``ParsePrivateKeyPEM``)."""
    key = KEYS[algorithm]
    text = pem(key, form)
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    for data in (text, parameters + text, b"Some words.\n" + text + pem(RSA)):
        assert key_id(load_key(data).public_key()) == key_id(key.public_key())
    assert algorithm_of(load_public_key(text)) == algorithm


SECRET = b"dGhlIGtleSB0aGF0IG5vYm9keSBzaG91bGQgc2Vl"


@cases(
    "data",
    {
        "empty": b"",
        "not PEM": SECRET,
        "invalid key": b"-----BEGIN PRIVATE KEY-----\n" + SECRET + b"\n-----END PRIVATE KEY-----\n",
        "cut off": b"-----BEGIN PRIVATE KEY-----\n" + SECRET,
        "unsupported key type": ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        "unsupported curve": pem(ec.generate_private_key(ec.SECP256K1())),
        "encrypted key": KEYS["ES256"].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        ),
    },
)
def test_invalid_key_error_does_not_contain_the_key(data: bytes) -> None:
    with pytest.raises(ValueError, match="key") as caught:
        load_key(data)
    lines = [line for line in data.decode().splitlines() if line and not line.startswith("-----")]
    assert not any(line in str(caught.value) for line in lines)


def test_signer_repr_hides_the_key() -> None:
    signer = Signer(KEYS["ES256"])
    assert repr(signer) == f"Signer(ES256, kid='{signer.kid}')"


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("ES256", ("P-256", 32)), ("ES384", ("P-384", 48)), ("ES512", ("P-521", 66))],
    ids=["ES256", "ES384", "ES512"],
)
def test_elliptic_curve_keys_in_a_key_set(algorithm: str, expected: tuple[str, int]) -> None:
    result = jwk("x", KEYS[algorithm].public_key())
    curve, size = expected
    assert {name: result[name] for name in ("use", "kty", "kid", "alg", "crv")} == {
        "use": "sig",
        "kty": "EC",
        "kid": "x",
        "alg": algorithm,
        "crv": curve,
    }
    assert [len(from_base64url(result[name])) for name in "xy"] == [size, size]


CONTENT = "Hello from the other side. I must have called a thousand times."
HEAD = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9"


@cases(
    "content, secret, expected",
    {
        "a text": (CONTENT, "my voice is my passcode", "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"),
        "empty content": ("", "my voice is my passcode", "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk"),
        "empty secret": (CONTENT, "", "UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8"),
    },
)
def test_detached_signatures_are_upstreams(content: str, secret: str, expected: str) -> None:
    assert detached_hs256(content, "joshua", secret.encode()) == f"{HEAD}..{expected}"


def test_openssl_computes_the_same_detached_signature() -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here")
    head, body, signature = detached_hs256("payload", "abc123", b"0123456789abcdef").split(".")
    assert body == ""
    text = f"{head}.{base64.urlsafe_b64encode(b'payload').decode().rstrip('=')}"
    command = [openssl, "dgst", "-sha256", "-hmac", "0123456789abcdef", "-binary"]
    openssl_signature = subprocess.run(command, check=True, capture_output=True, input=text.encode()).stdout
    assert to_base64url(openssl_signature) == signature
