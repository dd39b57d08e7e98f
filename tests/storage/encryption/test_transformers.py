"""Encryption providers, without a store."""

import pytest

from pilothouse.storage.encryption.aes import Cbc, ExtendedNonceGcm, Gcm
from pilothouse.storage.encryption.identity import Identity
from pilothouse.storage.encryption.secretbox import Secretbox
from pilothouse.storage.encryption.transformer import (
    Context,
    PrefixTransformer,
    PrefixTransformers,
    Transformer,
    TransformError,
    combined,
)

HERE, ELSEWHERE = Context(b"/registry/secrets/default/x", "secrets"), Context(b"/registry/secrets/default/y", "secrets")
PROVIDERS: dict[str, Transformer] = {
    "aescbc, 16 bytes": Cbc(b"a" * 16),
    "aescbc, 32 bytes": Cbc(b"b" * 32),
    "aesgcm, 16 bytes": Gcm(b"c" * 16),
    "aesgcm, 24 bytes": Gcm(b"d" * 24),
    "aesgcm, 32 bytes": Gcm(b"e" * 32),
    "a key for each value": ExtendedNonceGcm(b"f" * 32),
    "secretbox": Secretbox(b"g" * 32),
    "identity": Identity(),
}


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS.keys())
def test_values_of_all_sizes_round_trip(provider: Transformer) -> None:
    for size in (*range(18), 128, 1024):
        value = bytes(range(size % 256)) or b""
        stored = provider.to_storage(value, HERE)
        assert provider.from_storage(stored, HERE) == (value, False)
        if not isinstance(provider, Identity):
            assert provider.to_storage(value, HERE) != stored, "a nonce is used once"


def test_derived_key_is_gos() -> None:
    """The bytes are those of Go's crypto/aes, crypto/cipher and crypto/hmac for this seed, info and nonce."""
    stored = bytes.fromhex(
        "6465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283c8c9cacbcccdcecfd0d1d2d3"
        "065e16714568956714622e68f12e7029f3a611ce56d62632b1bf8051"
    )
    assert ExtendedNonceGcm(bytes(range(32))).from_storage(stored, HERE) == (b"k8s\0a secret", False)


@pytest.mark.parametrize("name", [name for name in PROVIDERS if "gcm" in name or "each" in name])
def test_value_moved_to_another_key_is_rejected(name: str) -> None:
    provider = PROVIDERS[name]
    with pytest.raises(TransformError, match="cipher: message authentication failed"):
        provider.from_storage(provider.to_storage(b"value", HERE), ELSEWHERE)


@pytest.mark.parametrize(
    ("provider", "stored", "message"),
    [
        pytest.param(Gcm(b"k" * 32), b"short", "the stored data was shorter than the required size", id="gcm, short"),
        pytest.param(Gcm(b"k" * 32), bytes(40), "cipher: message authentication failed", id="gcm, damaged"),
        pytest.param(Cbc(b"k" * 32), b"short", "the stored data was shorter than the required size", id="cbc, short"),
        pytest.param(
            Cbc(b"k" * 32), bytes(33), "the stored data is not a multiple of the block size", id="cbc, uneven"
        ),
        pytest.param(Cbc(b"k" * 32), bytes(16), "invalid PKCS7 data (empty or not padded)", id="cbc, empty"),
        pytest.param(Secretbox(b"k" * 32), bytes(39), "the stored data was shorter than the required size", id="box"),
        pytest.param(
            Secretbox(b"k" * 32), bytes(60), "output array was not large enough for encryption", id="box, damaged"
        ),
        pytest.param(
            ExtendedNonceGcm(b"k" * 32), bytes(31), "the stored data was shorter than the required size", id="seed"
        ),
        pytest.param(
            Identity(), b"k8s:enc:aescbc:v1:", "identity transformer tried to read encrypted data", id="identity"
        ),
    ],
)
def test_corrupt_value_errors_are_upstreams(provider: Transformer, stored: bytes, message: str) -> None:
    with pytest.raises(TransformError) as refused:
        provider.from_storage(stored, HERE)
    assert str(refused.value) == message


def test_padding_is_checked_byte_for_byte() -> None:
    """With another key there is no padding but by chance: about one in 256 looks well, and the value is wrong then."""
    right, wrong = Cbc(b"a" * 32), Cbc(b"b" * 32)
    refused = set()
    for _ in range(50):
        try:
            wrong.from_storage(right.to_storage(b"0123456789", HERE), HERE)
        except TransformError as error:
            refused.add(str(error))
    assert refused <= {"invalid PKCS7 data (empty or not padded)", "invalid padding on input"}
    assert refused


@pytest.mark.parametrize("make", [Cbc, Gcm])
def test_aes_key_sizes(make: type[Cbc | Gcm]) -> None:
    with pytest.raises(TransformError, match="crypto/aes: invalid key size 17"):
        make(b"k" * 17)


def test_seed_size() -> None:
    with pytest.raises(TransformError, match="invalid seed length 31 used for key generation"):
        ExtendedNonceGcm(b"k" * 31)


class Recorded:
    """The recorded metrics of transformations."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str, str]] = []

    def __call__(self, resource: str, kind: str, prefix: str, seconds: float, error: TransformError | None) -> None:
        assert seconds >= 0
        self.calls.append((resource, kind, prefix, "OK" if error is None else error.code))


def prefixed(record: Recorded, *transformers: tuple[bytes, Transformer]) -> PrefixTransformers:
    return PrefixTransformers(
        "no matching prefix found", [PrefixTransformer(*transformer) for transformer in transformers], record
    )


def test_first_provider_encrypts_and_all_decrypt() -> None:
    record = Recorded()
    old, new = Gcm(b"o" * 32), Gcm(b"n" * 32)
    before = prefixed(record, (b"old:", old))
    after = prefixed(record, (b"new:", new), (b"old:", old))
    stored = before.to_storage(b"value", HERE)
    assert stored.startswith(b"old:")
    assert before.from_storage(stored, HERE) == (b"value", False)
    assert after.from_storage(stored, HERE) == (b"value", True)
    assert after.from_storage(after.to_storage(b"value", HERE), HERE) == (b"value", False)
    with pytest.raises(TransformError, match="no matching prefix found"):
        after.from_storage(b"other:value", HERE)
    assert record.calls == [
        ("secrets", "to_storage", "old:", "OK"),
        ("secrets", "from_storage", "old:", "OK"),
        ("secrets", "from_storage", "old:", "OK"),
        ("secrets", "to_storage", "new:", "OK"),
        ("secrets", "from_storage", "new:", "OK"),
        ("secrets", "from_storage", "unknown", "unknown-non-grpc"),
    ]


def test_providers_with_the_same_prefix_are_all_tried() -> None:
    """A key is rotated by adding a provider."""
    record = Recorded()
    both = prefixed(record, (b"p:", Gcm(b"n" * 32)), (b"p:", Gcm(b"o" * 32)))
    assert both.from_storage(b"p:" + Gcm(b"o" * 32).to_storage(b"value", HERE), HERE) == (b"value", True)
    with pytest.raises(TransformError) as refused:
        both.from_storage(b"p:" + Gcm(b"x" * 32).to_storage(b"value", HERE), HERE)
    assert str(refused.value) == "cipher: message authentication failed"


def test_identity_provider_first_decrypts_values_of_later_providers() -> None:
    record = Recorded()
    aes = Gcm(b"k" * 32)
    leaving = prefixed(record, (b"", Identity()), (b"k8s:enc:aesgcm:v1:", aes))
    assert leaving.to_storage(b"value", HERE) == b"value"
    assert leaving.from_storage(b"value", HERE) == (b"value", False)
    assert leaving.from_storage(b"k8s:enc:aesgcm:v1:" + aes.to_storage(b"value", HERE), HERE) == (b"value", True)
    with pytest.raises(TransformError, match="no matching prefix found"):
        leaving.from_storage(b"k8s:enc:other:value", HERE)
    entering = prefixed(record, (b"k8s:enc:aesgcm:v1:", aes), (b"", Identity()))
    assert entering.from_storage(b"value", HERE) == (b"value", True)


def test_errors_are_aggregated() -> None:
    errors = [TransformError("a"), TransformError("b", "Unavailable"), TransformError("a")]
    both = combined(errors)
    assert (str(both), both.code, both.may_pass) == ("[a, b]", "Unavailable", True)
    assert combined(errors[::2]).may_pass is False
