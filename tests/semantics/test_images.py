"""Image names: tags and default pull policies."""

import pytest
from tests.tables import cases

from pilothouse.semantics.images import parse_error, registry_of, tag_of
from pilothouse.semantics.pod_defaults import pull_policy

_A = "a" * 64
_DIGEST = f"sha256:{_A}"


@cases(
    "image, tag",
    {
        "a name alone is the latest": ("nginx", "latest"),
        "explicit latest": ("nginx:latest", "latest"),
        "a tag": ("nginx:1.25", "1.25"),
        "tags may have capitals": ("nginx:V_1.2-x", "V_1.2-x"),
        "a host and no tag": ("registry.k8s.io/pause", "latest"),
        "a port is no tag": ("registry:5000/a/b", "latest"),
        "a port and a tag": ("registry:5000/a/b:c", "c"),
        "an address of IPv6": ("[fd00::1]:5000/a", "latest"),
        "hosts may have capitals": ("REGISTRY/a", "latest"),
        "separators": ("localhost/a__b/c--d.e_f", "latest"),
        "digest without tag": (f"nginx@{_DIGEST}", ""),
        "tag and digest": (f"nginx:latest@{_DIGEST}", "latest"),
        "a longer digest": (f"nginx@sha512:{'b' * 128}", ""),
        "empty": ("", ""),
        "invalid: uppercase": ("UPPER", ""),
        "invalid: uppercase after the host": ("a/Upper", ""),
        "invalid: uppercase before a tag": ("Upper:latest", ""),
        "invalid: image ID": (_A, ""),
        "63 hexadecimal digits": ("a" * 63, "latest"),
        "invalid: space": ("a b", ""),
        "invalid: newline": ("nginx:latest\n", ""),
        "invalid: non-ASCII name": ("näme", ""),
        "invalid: non-ASCII tag": ("nginx:täg", ""),
        "invalid: three underscores": ("a___b", ""),
        "invalid: two dots": ("a..b", ""),
        "invalid: leading dash": ("-a", ""),
        "invalid: trailing slash": ("a/", ""),
        "invalid: leading slash": ("/a", ""),
        "invalid: empty tag": ("a:", ""),
        "invalid: tag with leading dash": ("a:-b", ""),
        "invalid: tag too long": (f"a:{'t' * 129}", ""),
        "invalid: short digest": ("nginx:latest@sha256:abc", ""),
        "invalid: uppercase digest": (f"nginx:latest@sha256:{'A' * 64}", ""),
        "invalid: unknown digest algorithm": (f"nginx:latest@md5:{'a' * 32}", ""),
        "longest name with default host and repository": (f"{'a' * 247}", "latest"),
        "too long, with what it is short for": (f"{'a' * 248}", ""),
        "longest name": (f"b/{'a' * 253}", "latest"),
        "too long": (f"b/{'a' * 254}", ""),
        "the host is not counted": (f"example.com/{'a' * 255}", "latest"),
        "too long without the host": (f"example.com/{'a' * 256}", ""),
        "too long, with default repository": (f"docker.io/{'a' * 248}", ""),
    },
)
def test_image_tag(image: str, tag: str) -> None:
    assert tag_of(image) == tag
    assert pull_policy(image) == ("Always" if tag == "latest" else "IfNotPresent")


@cases(
    "image, error",
    {
        "a name": ("nginx", ""),
        "host and tag": ("registry:5000/a/b:c", ""),
        "capitals": ("Nginx", "invalid reference format: repository name (library/Nginx) must be lowercase"),
        "after the host": ("x.io/A:V1", "invalid reference format: repository name (A) must be lowercase"),
        "a space": ("a b", "invalid reference format"),
        "a tag that is missing": ("nginx:", "invalid reference format"),
        "empty": ("", "invalid reference format"),
        "an identifier": (_A, f"invalid repository name ({_A}), cannot specify 64-byte hexadecimal strings"),
        "too long": ("a/" * 127 + "bc", "repository name must not be more than 255 characters"),
    },
)
def test_parse_error(image: str, error: str) -> None:
    """``ParseNormalizedNamed`` of ``github.com/distribution/reference`` (v0.6)."""
    assert parse_error(image) == error


@pytest.mark.parametrize(
    ("image", "registry", "repository"),
    [
        ("nginx:1", "docker.io", "library/nginx"),
        ("team/app@" + _DIGEST, "docker.io", "team/app"),
        ("index.docker.io/nginx", "docker.io", "library/nginx"),
        ("localhost/app", "localhost", "app"),
        ("registry:5000/a/b:c", "registry:5000", "a/b"),
        ("invalid.registry.k8s.io/invalid/alpine:3.1", "invalid.registry.k8s.io", "invalid/alpine"),
    ],
)
def test_registry(image: str, registry: str, repository: str) -> None:
    assert registry_of(image) == (registry, repository)
