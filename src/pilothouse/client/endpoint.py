"""Where an API server is, and through which proxy it is reached."""

import base64
import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from pilothouse.client.errors import ConfigError


class Endpoint(msgspec.Struct, frozen=True):
    """The parts of a server's URL."""

    scheme: str
    host: str
    port: int
    path_prefix: str = ""
    """The prefix of every path (``/k8s/clusters/c-1``), without a trailing slash."""

    @property
    def authority(self) -> str:
        """``host:port`` for the Host header, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def tls(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path_prefix}"


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy."""

    scheme: str
    host: str
    port: int
    authorization: str = ""
    """The value of Proxy-Authorization."""


_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_endpoint(text: str, origin: str) -> Endpoint:
    """``https://host:port/prefix``. Without a scheme, ``host:port`` means http, as upstream's ``--master``."""
    parts = _split(text if "://" in text else f"http://{text}", text, origin)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f"{origin}: the server {text!r} must begin with https:// or http://")
    if not parts.hostname:
        raise ConfigError(f"{origin}: the server {text!r} has no host; write https://HOST:PORT")
    if parts.query or parts.fragment:
        raise ConfigError(f"{origin}: the server {text!r} must not have a query or fragment")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return Endpoint(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))


def parse_proxy(text: str, origin: str) -> Proxy:
    """``http://user:password@host:port``; ``host:port`` means http."""
    parts = _split(text if "://" in text else f"http://{text}", text, origin)
    if parts.scheme.startswith("socks"):
        raise ConfigError(
            f"{origin}: SOCKS proxies ({text!r}) are not supported; use an HTTP proxy, or a tunnel such as ssh -L"
        )
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f"{origin}: the proxy {text!r} must begin with http:// or https://")
    if not parts.hostname:
        raise ConfigError(f"{origin}: the proxy {text!r} has no host")
    authorization = ""
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(login.encode()).decode()
    return Proxy(parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], authorization)


def proxy_from_environment(endpoint: Endpoint, environ: Mapping[str, str]) -> Proxy | None:
    """The settings of HTTPS_PROXY, HTTP_PROXY and NO_PROXY (either case), by the rules of Go's ``http/httpproxy``.

    Loopback addresses and ``localhost`` are never reached through a proxy.
    """
    name = f"{endpoint.scheme}_proxy"
    text = environ.get(name.upper()) or environ.get(name) or ""
    if not text or not _uses_proxy(endpoint, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return parse_proxy(text, f"the environment variable {name.upper()}")


def _uses_proxy(endpoint: Endpoint, no_proxy: str) -> bool:
    host = endpoint.host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return False
    return not any(_matches(entry.strip().lower(), host, address, endpoint.port) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, its_port = entry.rpartition(":")
    if colon and its_port.isdigit() and (":" not in name or name.startswith("[")):
        if int(its_port) != port:
            return False
        entry = name
    literal = _address(entry.strip("[]"))
    if literal is not None:
        return address == literal
    entry = entry.removeprefix("*")
    if entry.startswith("."):
        return host.endswith(entry)  # ".example.com": subdomains only
    return host == entry or host.endswith("." + entry)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _split(text: str, url: str, origin: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # a port that is not a number raises here
    except ValueError as error:
        raise ConfigError(f"{origin}: {url!r} is not a URL: {error}") from error
    return parts
