"""``/statusz`` and ``/flagz``: version, uptime and flags of the program (component-base ``zpages``, v0.36).

Plain text, or a versioned object in JSON or YAML if its kind is requested. The separator in the text changes with each
start, so that no parser relies on it, as upstream.
"""

import platform
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

import pilothouse
from pilothouse.controllermanager.pages import Page, Request, Response
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.times import format_time

with lazy_imports():
    import yaml

GROUP = "config.k8s.io"
_VERSIONS = ("v1beta1", "v1alpha1")
_SEPARATORS = (":", ": ", "=", " ")
_NOT_ACCEPTABLE = Response(HTTPStatus.NOT_ACCEPTABLE, "unsupported media type\n")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_UNLISTED = ("/healthz", "/livez", "/readyz")


def flagz_page(env: Env, program: str, flags: Mapping[str, str]) -> Page:
    """``/flagz``: all flags with their values."""
    separator = _separator(env)

    def page(request: Request) -> Response:
        desired = _requested_format(request.accept, "Flagz")
        if desired is None:
            return _NOT_ACCEPTABLE
        values = {name: flags[name] for name in sorted(flags)}
        if isinstance(desired, _Structured):
            return desired.answer(program, {"flags": values})
        lines = [f"{name}{separator}{value}" for name, value in values.items()]
        return Response(HTTPStatus.OK, "\n".join(["", f"{program} flagz", _WARNING, "", *lines, ""]))

    return page


def statusz_page(env: Env, program: str, paths: Callable[[], list[str]]) -> Page:
    """``/statusz``: uptime, versions, and pages."""
    separator, started_at, started = _separator(env), env.now(), env.monotonic()

    def page(request: Request) -> Response:
        desired = _requested_format(request.accept, "Statusz")
        if desired is None:
            return _NOT_ACCEPTABLE
        seconds = int(env.monotonic() - started)
        version = pilothouse.KUBERNETES_VERSION.removeprefix("v")
        emulated = ".".join(version.split(".")[:2])
        listed = [path for path in paths() if path not in _UNLISTED]
        if isinstance(desired, _Structured):
            return desired.answer(
                program,
                {
                    "startTime": format_time(started_at),
                    "uptimeSeconds": seconds,
                    "goVersion": _language(),
                    "binaryVersion": version,
                    "emulationVersion": emulated,
                    "paths": listed,
                },
            )
        up = f"{seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec"
        rows = {
            "Started": f"{started_at:%a %b %e %H:%M:%S UTC %Y}",
            "Up": up,
            "Go version": _language(),
            "Binary version": version,
            "Emulation version": emulated,
            "Paths": " ".join(listed),
        }
        lines = [f"{name}{separator}{value}" for name, value in rows.items()]
        return Response(HTTPStatus.OK, "\n".join(["", f"{program} statusz", _WARNING, "", *lines, ""]))

    return page


def _language() -> str:
    # The name of the field is upstream's; it identifies the implementation.
    return f"python{platform.python_version()} (pilothouse {pilothouse.__version__})"


def _separator(env: Env) -> str:
    return _SEPARATORS[int(env.stream("zpages").random() * len(_SEPARATORS))]


class _Text:
    """Plain text was requested."""


class _Structured(msgspec.Struct, frozen=True):
    """An object was requested."""

    kind: str
    version: str
    yaml: bool

    def answer(self, program: str, fields: dict[str, Any]) -> Response:
        """The object as a response."""
        document = {
            "kind": self.kind,
            "apiVersion": f"{GROUP}/{self.version}",
            "metadata": {"name": program},
            **fields,
        }
        if not self.yaml:
            return Response(HTTPStatus.OK, msgspec.json.encode(document) + b"\n", "application/json")
        return Response(HTTPStatus.OK, yaml.safe_dump(document, sort_keys=False), "application/yaml")


def _requested_format(accept: str, kind: str) -> _Text | _Structured | None:
    """The first alternative of an ``Accept`` header that can be served, or None."""
    if not accept.strip():
        return _Text()
    for alternative in accept.split(","):
        media, *parameters = (part.strip() for part in alternative.split(";"))
        parameter_values = dict(pair.partition("=")[::2] for pair in parameters)
        if media in {"*/*", "text/*", "text/plain"}:
            return _Text()
        if media not in {"application/json", "application/yaml"}:
            continue
        if (parameter_values.get("as"), parameter_values.get("g")) == (kind, GROUP) and parameter_values.get(
            "v"
        ) in _VERSIONS:
            return _Structured(kind, parameter_values["v"], media == "application/yaml")
    return None
