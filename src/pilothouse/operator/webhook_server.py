"""The server of an operator's webhooks: HTTPS, certificates that are renewed while it runs, and their CA bundles.

Every replica runs one, whether it is the leader or not. Our own certificates are in a Secret that the replicas share;
the first replica that finds them due renews them (``webhook_certificates``), the others load them within
``CHECK_SECONDS``. Each makes sure that the API server trusts them before it uses them.
"""

import asyncio
import base64
import functools
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.core import SECRETS
from pilothouse.api.kinds import Kind
from pilothouse.client import Client, apply_patch, json_patch, merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.metrics import Registry
from pilothouse.operator.client_config import HTTPS_PORT, ClientConfig
from pilothouse.operator.configurations import CONFIGURATIONS
from pilothouse.operator.webhook_certificates import Certificates, from_secret, renewed
from pilothouse.operator.webhook_handler import WebhookHandler

if TYPE_CHECKING:
    from pilothouse.serving.certificates import Pair

with lazy_imports():
    from pilothouse import serving
    from pilothouse.serving import tls

T = TypeVar("T")
_Work = Callable[[], Coroutine[Any, Any, None]]
CHECK_SECONDS = 60.0
"""How often certificates and ``caBundle`` are checked."""
_BACKOFF_SECONDS = 1.0
PORT = 9443
"""controller-runtime's."""
_CONFLICTS = 5
_WITHDRAW_SECONDS = 5.0


class UnusableCertificates(Exception):
    """The files of ``WebhookSettings.certificate_directory`` can't be used."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the webhooks of an app are served, and how the API server reaches them: through the app's Service in
    ``namespace``, which also has the Secret with the certificates; or, outside of the cluster, at ``url_host``, with
    certificates in memory."""

    host: str = ""
    """The address to listen on; all if empty."""
    port: int = PORT
    """0 for a free one."""
    namespace: str = "default"
    url_host: str = ""
    certificate_directory: str = ""
    """A directory with ``tls.crt`` and ``tls.key``, as a Secret of cert-manager is mounted, to use instead of
    certificates of our own. They are read again when they change; ``caBundle`` is their maker's to write."""
    install: bool = False
    """Apply the CustomResourceDefinitions and the webhook configurations."""


class Served(Protocol):
    """The parts of an ``App`` that its server needs."""

    name: str
    metrics: Registry

    def webhook_handler(self, client: Client) -> WebhookHandler: ...

    def webhook_configurations(self, webhooks: ClientConfig | None = None) -> list[dict[str, Any]]: ...

    def definitions(self, webhooks: ClientConfig | None = None) -> list[dict[str, Any]]: ...

    async def install(self, client: Client, webhooks: ClientConfig | None = None) -> None: ...


def service_name(app: str) -> str:
    """The Service in front of an app's webhooks."""
    return f"{app}-webhooks"


def secret_name(app: str) -> str:
    """The Secret with the certificates of an app's webhooks."""
    return f"{app}-webhook-certificates"


class CertificateRotator:
    """Keeps certificates valid and trusted. ``present`` is called with each pair that is to be served from then on."""

    def __init__(
        self,
        app: Served,
        settings: WebhookSettings,
        *,
        client: Client,
        env: Env,
        present: Callable[["Pair"], None],
    ) -> None:
        self._app = app
        self._settings = settings
        self._client = client
        self._env = env
        self._present = present
        self._log = Log("webhooks")
        self._in_memory: Certificates | None = None
        self._installed: bytes | None = None
        """The bundle that was installed."""
        self._served: Certificates | None = None
        service = service_name(app.name)
        self._hosts = [settings.url_host or f"{service}.{settings.namespace}.svc"]

    async def run(self) -> None:
        """Check the certificates periodically until cancelled; failures are logged and retried."""
        backoff = _BACKOFF_SECONDS
        while True:
            await asyncio.sleep(backoff if backoff > _BACKOFF_SECONDS else CHECK_SECONDS)
            try:
                await self.sync()
                backoff = _BACKOFF_SECONDS
            except (ApiError, OSError) as error:
                self._log.error("Cannot renew or publish the certificates of webhooks", error=error)
                backoff = min(backoff * 2, CHECK_SECONDS)

    async def certificates(self) -> Certificates:
        """The stored certificates, renewed if they are due. Raises the API server's errors."""
        if self._settings.url_host:
            self._in_memory = self._renewed(self._in_memory)
            return self._in_memory
        for _ in range(_CONFLICTS):
            try:
                return await self._shared()
            except (AlreadyExists, Conflict):
                continue  # another replica was faster
        return await self._shared()

    async def sync(self) -> None:
        """Renew due certificates, make the API server trust them, and serve them."""
        certificates = await self.certificates()
        await self.publish(certificates.bundle)
        if certificates != self._served:
            self._present(certificates.serving)
            self._served = certificates

    async def publish(self, bundle: bytes) -> None:
        """Have the API server trust these authorities."""
        if self._settings.install:
            if bundle != self._installed:
                await self._install(bundle)
                self._installed = bundle
            return
        encoded = base64.b64encode(bundle).decode()
        for body in self._app.webhook_configurations():
            names = {webhook["name"] for webhook in body["webhooks"]}
            paths = functools.partial(_of_webhooks, names=names)
            await self._write(CONFIGURATIONS[body["kind"]], body["metadata"]["name"], paths, encoded)
        for body in self._app.definitions():
            if "webhook" in body["spec"].get("conversion", {}):
                await self._write(CUSTOM_RESOURCE_DEFINITIONS, body["metadata"]["name"], _of_conversion, encoded)

    async def withdraw(self) -> None:
        """Delete the webhook configurations that call this process, unless somebody has changed their address: after
        its end they would reject matching requests."""
        if self._installed is None:
            return
        config = self.client_config(self._installed)
        for body in self._app.webhook_configurations(config):
            kind, name = CONFIGURATIONS[body["kind"]], body["metadata"]["name"]
            raw = await self._client.get(kind.raw, name)
            obj: dict[str, Any] = msgspec.json.decode(raw)
            expected = [webhook["clientConfig"] for webhook in body["webhooks"]]
            if [webhook["clientConfig"] for webhook in obj.get("webhooks") or ()] == expected:
                await self._client.delete(kind, name, uid=obj["metadata"]["uid"])

    # Certificates

    async def _shared(self) -> Certificates:
        """Raises ``AlreadyExists`` or ``Conflict`` if another replica has written the Secret in the meantime."""
        name, namespace = secret_name(self._app.name), self._settings.namespace
        try:
            secret = await self._client.get(SECRETS, name, namespace)
        except NotFound:
            certificates = self._renewed(None)
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace},
                "type": "kubernetes.io/tls",
                "data": certificates.to_data(),
            }
            await self._client.create(SECRETS.raw, body, namespace, field_manager=self._manager)
            return certificates
        kept: Certificates | None = None
        try:
            kept = from_secret(secret)
        except ValueError as error:
            self._log.error("The certificates of webhooks are created again", error=error)
        certificates = self._renewed(kept)
        if certificates != kept:
            metadata = {"resourceVersion": secret.metadata.resource_version}
            changed = {"metadata": metadata, "data": certificates.to_data()}
            await self._client.patch(SECRETS.raw, name, merge_patch(changed), namespace, field_manager=self._manager)
        return certificates

    def _renewed(self, kept: Certificates | None) -> Certificates:
        certificates = renewed(kept, self._hosts, f"{self._app.name}-webhooks", self._env.now())
        if certificates != kept:
            self._log.info("Renewed the certificates of webhooks", until=certificates.serving.not_after)
        return certificates

    # Trust

    @property
    def _manager(self) -> str:
        return f"{self._app.name}/webhooks"

    async def _install(self, bundle: bytes) -> None:
        config = self.client_config(bundle)
        await self._app.install(self._client, config)
        for body in self._app.webhook_configurations(config):
            kind, name = CONFIGURATIONS[body["kind"]], body["metadata"]["name"]
            await self._client.patch(kind.raw, name, apply_patch(body), field_manager=self._manager, force=True)
            self._log.info("Applied the webhook configuration", kind=body["kind"], name=name)

    def client_config(self, bundle: bytes) -> ClientConfig:
        """Where the API server finds the webhooks."""
        settings = self._settings
        if not settings.url_host:
            service = service_name(self._app.name)
            return ClientConfig(service_name=service, service_namespace=settings.namespace, ca_bundle=bundle)
        host = f"[{settings.url_host}]" if ":" in settings.url_host else settings.url_host
        port = "" if settings.port == HTTPS_PORT else f":{settings.port}"
        return ClientConfig(url=f"https://{host}{port}", ca_bundle=bundle)

    async def _write(
        self, kind: Kind[Any], name: str, paths: Callable[[dict[str, Any]], dict[str, str]], bundle: str
    ) -> None:
        """Write ``caBundle`` where it differs: ``paths`` are those of its client configs, with their bundles."""
        try:
            raw = await self._client.get(kind.raw, name)
        except NotFound:
            self._log.warning(
                "The API server does not call the webhooks: apply the manifests", kind=kind.kind, name=name
            )
            return
        obj: dict[str, Any] = msgspec.json.decode(raw)
        bundles = paths(obj)
        if not bundles:
            self._log.warning("It names none of the webhooks: apply the manifests", kind=kind.kind, name=name)
        operations: list[dict[str, Any]] = [
            {"op": "add", "path": f"{path}/caBundle", "value": bundle} for path, old in bundles.items() if old != bundle
        ]
        if operations:
            version = obj["metadata"]["resourceVersion"]
            operations.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
            await self._client.patch(kind.raw, name, json_patch(operations), field_manager=self._manager)


def _of_webhooks(obj: dict[str, Any], names: set[str]) -> dict[str, str]:
    """The paths of client configs that call one of these webhooks through a Service, and their bundles."""
    return {
        f"/webhooks/{number}/clientConfig": webhook["clientConfig"].get("caBundle") or ""
        for number, webhook in enumerate(obj.get("webhooks") or ())
        if webhook["name"] in names and webhook["clientConfig"].get("service")
    }


def _of_conversion(obj: dict[str, Any]) -> dict[str, str]:
    config = ((obj["spec"].get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    return {"/spec/conversion/webhook/clientConfig": config.get("caBundle") or ""} if config.get("service") else {}


class WebhookServer:
    """Serves the webhooks of an app until ``run`` is cancelled."""

    def __init__(self, app: Served, settings: WebhookSettings, *, client: Client, env: Env) -> None:
        self._app = app
        self._settings = settings
        self._client = client
        self._env = env
        self._log = Log("webhooks")
        self.ready = asyncio.Event()
        """Set once it listens and the API server trusts it."""

    async def run(self) -> None:
        """Raises ``CannotListen``, and ``UnusableCertificates`` for a certificate directory that cannot be used.
        Waits for a Secret and configurations that cannot be read or written."""
        settings = self._settings
        source: tls.ServerTls

        def present(pair: "Pair") -> None:
            source.present(pair)

        rotator = CertificateRotator(self._app, settings, client=self._client, env=self._env, present=present)
        if settings.certificate_directory:
            directory = Path(settings.certificate_directory)
            try:
                source = tls.ServerTls.load(directory / "tls.crt", directory / "tls.key")
                authority = directory / "ca.crt"
                bundle = authority.read_bytes() if authority.exists() else b""
            except OSError as error:
                raise UnusableCertificates(f"{error.filename or directory}: {error.strerror or error}") from error
            except ValueError as error:
                raise UnusableCertificates(str(error)) from error
            publish: _Work = functools.partial(rotator.publish, bundle)
            keep: _Work = _run_forever
        else:
            first = await self._retried(rotator.certificates)
            source = tls.ServerTls.from_pair(first.serving)
            publish, keep = rotator.sync, rotator.run
        async with self._server(source):
            try:
                if settings.install or not settings.certificate_directory:
                    await self._retried(publish)
                self.ready.set()
                await keep()
            finally:
                if settings.url_host:
                    await self._withdraw(rotator)

    async def _withdraw(self, rotator: CertificateRotator) -> None:
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                await rotator.withdraw()
        except (ApiError, OSError) as error:  # a TimeoutError is one
            self._log.error("The webhook configurations of this process are still there", error=error)

    def _server(self, source: "tls.ServerTls") -> "serving.Server":
        handler = self._app.webhook_handler(self._client)
        return serving.Server(
            handler, host=self._settings.host, port=self._settings.port, tls=source, clock=self._env.clock
        )

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        backoff = _BACKOFF_SECONDS
        while True:
            try:
                return await call()
            except (ApiError, OSError) as error:
                self._log.error("Cannot install definitions or set up the webhooks, will be retried", error=error)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, CHECK_SECONDS)


async def _run_forever() -> None:
    await asyncio.Event().wait()
