"""``--tls-curve-preferences``: Go's numbers of key exchanges, and OpenSSL's names.

The list has the allowed ones; the order of preference is fixed, as in Go's library. Sources: component-base
``cli/flag/curves_flag.go`` and apiserver ``pkg/server/options/serving.go`` (v0.36), Go 1.26 ``crypto/tls/defaults.go``.
Used by ``validation`` and ``secure_port``.
"""

from collections.abc import Iterable, Iterator

_PREFERRED = {
    4588: "X25519MLKEM768",
    4587: "SecP256r1MLKEM768",
    4589: "SecP384r1MLKEM1024",
    29: "X25519",
    23: "P-256",
    24: "P-384",
    25: "P-521",
}
"""The most preferred first."""


def validate_curves(numbers: Iterable[int]) -> Iterator[str]:
    """The errors in a list, with upstream's messages."""
    identifiers: set[int] = set()
    for number in numbers:
        if not 0 < number <= 65535:
            yield f"curve preference {number} is out of range (must be 1-65535)"
        elif number in identifiers:
            yield f"duplicate curve preference {number}"
        elif number not in _PREFERRED:
            yield f"curve preference {number} is not supported"
        identifiers.add(number)


def openssl_groups(numbers: Iterable[int]) -> tuple[str, ...]:
    """OpenSSL's names, the most preferred first. Older versions of OpenSSL do not have all."""
    allowed = set(numbers)
    return tuple(name for number, name in _PREFERRED.items() if number in allowed)
