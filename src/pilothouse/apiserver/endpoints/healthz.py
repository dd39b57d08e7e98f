"""``/healthz``, ``/livez`` and ``/readyz``.

Checks are functions that return whether the check passes. Upstream's names are kept, since its tests request them: each
covers the corresponding part of this server, and those without a counterpart always pass.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import unquote

from pilothouse.api.wire import Response
from pilothouse.apiserver.errors import PlainNotFound

Check = Callable[[], bool]
_TEXT = {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache, private",
}

_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-wait-for-first-sync",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
"""The post-start hooks, in the order of v1.36.2."""
_OF_BOOTSTRAP_OBJECTS = (
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
)


_ENDPOINTS = ("/healthz", "/livez", "/readyz")
_RELOAD_HOOK = "start-encryption-provider-config-automatic-reload"


def _pass() -> bool:
    return True


def is_health(path: str) -> bool:
    """Whether the path is one of the health endpoints."""
    return path.startswith(_ENDPOINTS)


class CallingCheck:
    """A check that makes a call, which is made before a response that includes the check."""

    def __init__(self, call: Callable[[], Awaitable[bool]], *endpoints: str) -> None:
        """``endpoints`` are the paths that include the check: ``/readyz``."""
        self._ask = call
        self._endpoints = endpoints
        self._is_well = False

    def __call__(self) -> bool:
        """The result of the last ``refresh``."""
        return self._is_well

    async def refresh(self, path: str) -> None:
        """Make the call, if the path includes the check."""
        if path.startswith(self._endpoints):
            self._is_well = await self._ask()


class KmsHealth(CallingCheck):
    """The check ``kms-providers``: whether the KMS plugins are healthy. As upstream, it is not part of ``/livez``.
    ``reloads``: the configuration is reloaded when it changes."""

    def __init__(self, call: Callable[[], Awaitable[bool]], *, reloads: bool) -> None:
        super().__init__(call, "/healthz", "/readyz")
        self.reloads = reloads


class Health:
    """The checks of one server.

    ``started``: the bootstrap objects exist; ``storage``: the store accepts writes, ``storage_ready`` the same with the
    timeout of ``/readyz``; ``serving`` is False during shutdown, which only fails ``/readyz``; ``kms``: encryption at
    rest, if it has plugins; ``overrides``: ``storage`` and ``storage_ready`` of each further etcd
    (``addEtcdHealthEndpoint``, v0.36).
    """

    def __init__(
        self,
        *,
        started: Check = _pass,
        storage: Check = _pass,
        storage_ready: Check = _pass,
        serving: Check = _pass,
        kms: KmsHealth | None = None,
        overrides: Sequence[tuple[Check, Check]] = (),
    ) -> None:
        hooks: dict[str, Check] = {}
        for name in _HOOKS:
            hooks[f"poststarthook/{name}"] = started if name in _OF_BOOTSTRAP_OBJECTS else _pass
            if name == "kube-apiserver-autoregistration":
                hooks["autoregister-completion"] = _pass
        if kms is not None and kms.reloads:
            hooks[f"poststarthook/{_RELOAD_HOOK}"] = _pass
        plugins: dict[str, Check] = {} if kms is None else {"kms-providers": kms}
        base_checks: dict[str, Check] = {"ping": _pass, "log": _pass}
        live_checks = {**base_checks, "loopback-serving-certificate": _pass, "etcd": storage}
        override_checks = {f"etcd-override-{index}": check for index, (check, _ready) in enumerate(overrides)}
        override_ready_checks: dict[str, Check] = {}
        for index, (check, ready) in enumerate(overrides):
            override_ready_checks |= {f"etcd-override-{index}": check, f"etcd-override-readiness-{index}": ready}
        self._checks: Mapping[str, Mapping[str, Check]] = {
            "healthz": {**live_checks, **override_checks, **plugins, **hooks},
            "livez": {**live_checks, **override_checks, **hooks},
            "readyz": {
                **base_checks,
                "etcd": storage,
                "etcd-readiness": storage_ready,
                **override_ready_checks,
                **plugins,
                "informer-sync": storage,
                **hooks,
                "shutdown": serving,
            },
        }

    def handle(self, path: str, query: Mapping[str, Sequence[str]]) -> Response | None:
        """The response for a path, or None if it is no health endpoint. An unknown check is 404."""
        endpoint, slash, check_name = path.removeprefix("/").partition("/")
        checks = self._checks.get(endpoint)
        if checks is None:
            return None
        if slash:
            check = checks.get(unquote(check_name))
            if check is None:
                raise PlainNotFound
            if check():
                return Response(200, _TEXT, b"ok")
            return Response(500, _TEXT, b"internal server error: reason withheld\n")
        excluded = list(query.get("exclude", ()))
        lines: list[str] = []
        failed = False
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
        if unknown_names := [name for name in excluded if name not in checks]:
            quoted = ", ".join(f'"{name}"' for name in sorted(unknown_names))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return Response(500, _TEXT, "\n".join([*lines, f"{endpoint} check failed\n"]).encode())
        if "verbose" in query:
            return Response(200, _TEXT, "\n".join([*lines, f"{endpoint} check passed\n"]).encode())
        return Response(200, _TEXT, b"ok")
