"""Parses the names of images.

Used by ``pod_defaults`` for the pull policy, and by simulated nodes to determine whether an image exists. Follows
``ParseImageName`` (``pkg/util/parsers/parsers.go``, v1.36), which uses the grammar of
``github.com/distribution/reference`` (v0.6).
"""

import re

from pilothouse.machinery.bounded_cache import bounded_cache

# Nothing here can be read in two ways, so nothing is tried twice (``++``, ``*+``), however long a name is.
_PART = "[a-z0-9]++(?:(?:[._]|__|-++)[a-z0-9]++)*+"
_LABEL = "[a-zA-Z0-9]++(?:-++[a-zA-Z0-9]++)*+"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*+|\[[a-fA-F0-9:]+\])(?::[0-9]++)?"
_DIGEST = "sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
_NAME = rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*+)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@(?:{_DIGEST}))?"
_IDENTIFIER = "[a-f0-9]{64}"
_MAX_LENGTH = 255
_DEFAULT_DOMAIN = "docker.io"
_OFFICIAL = "library/"
"""The implied prefix of ``nginx``, which counts for the length."""


@bounded_cache(1024, max_length=512)
def tag_of(image: str) -> str:
    """The tag of an image. ``latest`` if there is neither tag nor digest; "" for a digest only, and for an invalid
    name."""
    match = re.fullmatch(_NAME, image, re.ASCII)  # compiled with the first pod rather than at every start
    if match is None or re.fullmatch(_IDENTIFIER, image) is not None:
        return ""
    name, tag, digest = match.groups()
    if len(name) > _MAX_LENGTH - len(_OFFICIAL) and _is_too_long(name):
        return ""
    return tag or ("" if digest else "latest")


def parse_error(image: str) -> str:
    """Why this is not a name of an image, "" if it is one."""
    if re.fullmatch(_IDENTIFIER, image) is not None:
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    _domain, rest = _split_domain(image)
    remote = rest.partition(":")[0]
    if remote.lower() != remote:
        return f"invalid reference format: repository name ({remote}) must be lowercase"
    match = re.fullmatch(_NAME, image, re.ASCII)
    if match is None:
        return "invalid reference format"
    return "repository name must not be more than 255 characters" if _is_too_long(match["name"]) else ""


def registry_of(image: str) -> tuple[str, str]:
    """The registry and the repository of an image: ``docker.io`` and ``library/nginx`` of ``nginx:1``."""
    domain, rest = _split_domain(image.partition("@")[0])
    return domain, rest.partition(":")[0]


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if not slash or not (first == "localhost" or "." in first or ":" in first or first.lower() != first):
        first, rest = _DEFAULT_DOMAIN, image
    if first == "index.docker.io":
        first = _DEFAULT_DOMAIN
    return first, _OFFICIAL + rest if first == _DEFAULT_DOMAIN and "/" not in rest else rest


def _is_too_long(name: str) -> bool:
    """Only the part after the host counts."""
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first or first.lower() != first):
        official = first in ("docker.io", "index.docker.io") and "/" not in rest
        return len(rest) + len(_OFFICIAL) * official > _MAX_LENGTH
    return len(name) + len(_OFFICIAL) * (not slash) > _MAX_LENGTH
