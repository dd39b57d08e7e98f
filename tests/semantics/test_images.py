"""Names of images: which tag is meant, and so how they are pulled."""

import pytest

from pilothouse.semantics.images import parse_error, registry_of, tag_of
from pilothouse.semantics.pod_defaults import pull_policy

_A = "a" * 64
_DIGEST = f"sha256:{_A}"


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        pytest.param("nginx", "latest", id="a name alone is the latest"),
        pytest.param("nginx:latest", "latest", id="latest, said"),
        pytest.param("nginx:1.25", "1.25", id="a tag"),
        pytest.param("nginx:V_1.2-x", "V_1.2-x", id="tags may have capitals"),
        pytest.param("registry.k8s.io/pause", "latest", id="a host and no tag"),
        pytest.param("registry:5000/a/b", "latest", id="a port is no tag"),
        pytest.param("registry:5000/a/b:c", "c", id="a port and a tag"),
        pytest.param("[fd00::1]:5000/a", "latest", id="an address of IPv6"),
        pytest.param("REGISTRY/a", "latest", id="hosts may have capitals"),
        pytest.param("localhost/a__b/c--d.e_f", "latest", id="separators"),
        pytest.param(f"nginx@{_DIGEST}", "", id="a digest stands for no tag"),
        pytest.param(f"nginx:latest@{_DIGEST}", "latest", id="a tag beside a digest counts"),
        pytest.param(f"nginx@sha512:{'b' * 128}", "", id="a longer digest"),
        pytest.param("", "", id="nothing"),
        pytest.param("UPPER", "", id="no name: capitals"),
        pytest.param("a/Upper", "", id="no name: capitals after the host"),
        pytest.param("Upper:latest", "", id="no name: capitals before a tag"),
        pytest.param(_A, "", id="no name: an identifier"),
        pytest.param("a" * 63, "latest", id="a little less than an identifier"),
        pytest.param("a b", "", id="no name: a space"),
        pytest.param("nginx:latest\n", "", id="no name: a line end"),
        pytest.param("näme", "", id="no name: letters of other alphabets"),
        pytest.param("nginx:täg", "", id="no tag: letters of other alphabets"),
        pytest.param("a___b", "", id="no name: three underlines"),
        pytest.param("a..b", "", id="no name: two points"),
        pytest.param("-a", "", id="no name: a dash first"),
        pytest.param("a/", "", id="no name: a slash last"),
        pytest.param("/a", "", id="no name: a slash first"),
        pytest.param("a:", "", id="no name: an empty tag"),
        pytest.param("a:-b", "", id="no name: a tag that begins with a dash"),
        pytest.param(f"a:{'t' * 129}", "", id="no name: a tag that is too long"),
        pytest.param("nginx:latest@sha256:abc", "", id="no name: a digest that is too short"),
        pytest.param(f"nginx:latest@sha256:{'A' * 64}", "", id="no name: a digest with capitals"),
        pytest.param(f"nginx:latest@md5:{'a' * 32}", "", id="no name: a digest of a kind that is not known"),
        pytest.param(f"{'a' * 247}", "latest", id="as long as can be, with what it is short for"),
        pytest.param(f"{'a' * 248}", "", id="too long, with what it is short for"),
        pytest.param(f"b/{'a' * 253}", "latest", id="as long as can be"),
        pytest.param(f"b/{'a' * 254}", "", id="too long"),
        pytest.param(f"example.com/{'a' * 255}", "latest", id="the host does not count"),
        pytest.param(f"example.com/{'a' * 256}", "", id="too long without the host"),
        pytest.param(f"docker.io/{'a' * 248}", "", id="too long, with what is left out after the host"),
    ],
)
def test_the_tag_of_an_image(image: str, tag: str) -> None:
    assert tag_of(image) == tag
    assert pull_policy(image) == ("Always" if tag == "latest" else "IfNotPresent")


@pytest.mark.parametrize(
    ("image", "error"),
    [
        pytest.param("nginx", "", id="a name"),
        pytest.param("registry:5000/a/b:c", "", id="with a host and a tag"),
        pytest.param(
            "Nginx", "invalid reference format: repository name (library/Nginx) must be lowercase", id="capitals"
        ),
        pytest.param(
            "x.io/A:V1", "invalid reference format: repository name (A) must be lowercase", id="after the host"
        ),
        pytest.param("a b", "invalid reference format", id="a space"),
        pytest.param("nginx:", "invalid reference format", id="a tag that is missing"),
        pytest.param("", "invalid reference format", id="nothing"),
        pytest.param(
            _A, f"invalid repository name ({_A}), cannot specify 64-byte hexadecimal strings", id="an identifier"
        ),
        pytest.param("a/" * 127 + "bc", "repository name must not be more than 255 characters", id="too long"),
    ],
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
