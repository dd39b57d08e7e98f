"""An operator of something outside of the cluster: a Zone is a DNS zone at a provider with a REST API.

    kind: Zone                                          # in no namespace
    spec: {domain: example.org, ttlSeconds: 3600, credentials: {namespace: dns, name: provider}}

A zone needs a token from a Secret, is written again when somebody changes it at the provider, and goes with its Zone.
A second Zone of a domain is denied by a webhook, or by the controller if both come at the same time. In v1alpha1 the
TTL is text (``ttl: 1h``). ``operator`` is given the provider, so that tests can have one of their own.

docs/operators.md explains it. ``pilothouse run examples/zone_operator.py --install`` runs it.
"""

import asyncio
import json
import os
import urllib.error
import urllib.request
from typing import Annotated, Protocol

import msgspec

from pilothouse.api.core import SECRETS
from pilothouse.operator import (
    AdmissionRequest,
    App,
    Column,
    Condition,
    Context,
    CustomResource,
    Denied,
    ObjectMeta,
    Reference,
    Requeue,
    RetryLater,
    Rule,
    StatusCause,
    TerminalError,
    Version,
    View,
    any_of,
    generation_changed,
    label_changed,
    validations,
)

PAUSED = "dns.example.com/paused"
INTERVAL_SECONDS = 600.0
"""Between two visits: the provider does not say when a zone changes there."""
UNITS = {"h": 3600, "m": 60, "s": 1}
Domain = Annotated[
    str,
    msgspec.Meta(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", max_length=253),
    validations(Rule("self == oldSelf", "is immutable")),
]


class Credentials(View, frozen=True):
    """A Secret with the key ``token``."""

    namespace: str
    name: str


class ZoneSpec(View, frozen=True):
    domain: Domain
    credentials: Credentials
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1)] = 3600


class ZoneStatus(View, frozen=True):
    observed_generation: int = 0
    id: str = ""
    claimed: bool = False
    """The provider may have the zone, and it is this object's."""
    conditions: tuple[Condition, ...] = ()


class Zone(View, frozen=True):
    """A DNS zone at the provider."""

    spec: ZoneSpec
    metadata: ObjectMeta = ObjectMeta()
    status: ZoneStatus = ZoneStatus()


class ZoneSpecV1Alpha1(View, frozen=True):
    domain: Domain
    credentials: Credentials
    ttl: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,8}[hms]$")] = "1h"


class ZoneV1Alpha1(View, frozen=True):
    spec: ZoneSpecV1Alpha1
    metadata: ObjectMeta = ObjectMeta()
    status: ZoneStatus = ZoneStatus()


def to_v1(old: ZoneV1Alpha1) -> Zone:
    seconds = int(old.spec.ttl[:-1]) * UNITS[old.spec.ttl[-1]]
    spec = ZoneSpec(domain=old.spec.domain, credentials=old.spec.credentials, ttl_seconds=seconds)
    return Zone(spec=spec, status=old.status)


def to_v1alpha1(zone: Zone) -> ZoneV1Alpha1:
    seconds = zone.spec.ttl_seconds
    unit = next(unit for unit, length in UNITS.items() if seconds % length == 0)
    spec = ZoneSpecV1Alpha1(
        domain=zone.spec.domain, credentials=zone.spec.credentials, ttl=f"{seconds // UNITS[unit]}{unit}"
    )
    return ZoneV1Alpha1(spec=spec, status=zone.status)


READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
V1ALPHA1 = Version("v1alpha1", ZoneV1Alpha1, to_v1, to_v1alpha1, deprecated=True, columns=(READY,))
ZONES = CustomResource(
    "dns.example.com/v1",
    Zone,
    namespaced=False,
    columns=(Column("Domain", ".spec.domain"), READY),
    selectable_fields=(".spec.domain",),
    versions=(V1ALPHA1,),
)


class Rejected(Exception):
    """The provider does not do it, however often it is asked."""


class Provider(Protocol):
    """What is outside of the cluster. Raises ``OSError`` while it cannot be reached."""

    async def put(self, token: str, domain: str, ttl_seconds: int) -> str:
        """Create the zone or change it; its id. Raises ``Rejected``."""
        ...

    async def delete(self, token: str, domain: str) -> None:
        """Delete the zone, if it is there. Raises ``Rejected``."""
        ...


class RestProvider:
    """A provider at an address. Blocking calls run in a thread of their own."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def put(self, token: str, domain: str, ttl_seconds: int) -> str:
        answer = await asyncio.to_thread(self._call, "PUT", f"zones/{domain}", token, {"ttl": ttl_seconds})
        return str(json.loads(answer)["id"])

    async def delete(self, token: str, domain: str) -> None:
        await asyncio.to_thread(self._call, "DELETE", f"zones/{domain}", token, None)

    def _call(self, method: str, path: str, token: str, body: object) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", data, headers, method=method)  # noqa: S310  # the operator's own
        try:
            with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
                return bytes(response.read(65536))
        except urllib.error.HTTPError as error:
            if error.code == 404 and method == "DELETE":
                return b""
            if error.code == 429 or error.code >= 500:
                raise OSError(f"{method} {path}: {error}") from error
            raise Rejected(f"{method} {path}: {error}") from error


def operator(provider: Provider) -> App:
    app = App("zone-operator")
    calls = app.metrics.counter("dns_calls_total", "Calls of the DNS provider", ("call", "result"))
    seconds = app.metrics.histogram("dns_call_seconds", "How long calls of the DNS provider take", ("call",))
    secret = Reference(
        kind=SECRETS, of=lambda zone: (f"{zone.spec.credentials.namespace}/{zone.spec.credentials.name}",)
    )

    def token_of(zone: Zone, ctx: Context[Zone]) -> str:
        where = zone.spec.credentials
        found = ctx.get(SECRETS, where.name, namespace=where.namespace)
        token = found.data.get("token") if found is not None else None
        if token is None:
            text = f"Secret {where.namespace}/{where.name} has no token"
            ctx.condition("Ready", False, reason="NoCredentials", message=text)
            raise TerminalError(text)  # until the Secret changes
        return token.decode().strip()

    @app.controller(
        ZONES,
        references=(secret,),
        predicates=(any_of(generation_changed, label_changed(PAUSED)),),
        indexes={"domain": lambda zone: (zone.spec.domain,)},
        workers=8,
    )
    async def zone(obj: Zone, ctx: Context[Zone]) -> Requeue | None:
        if PAUSED in obj.metadata.labels:
            ctx.condition("Ready", None, reason="Paused")
            return None
        rivals = ctx.list(ZONES, index="domain", value=obj.spec.domain)
        first = min(rivals, key=lambda each: (each.metadata.creation_timestamp, each.metadata.name), default=obj)
        if first.metadata.uid != obj.metadata.uid:
            text = f"{obj.spec.domain} is that of Zone {first.metadata.name}"
            ctx.condition("Ready", False, reason="DomainTaken", message=text)
            ctx.status["claimed"] = False
            return Requeue(INTERVAL_SECONDS)
        token = token_of(obj, ctx)
        # Before the call: if its answer is lost, the finalizer still knows that there is something to delete.
        ctx.status["claimed"] = True
        await ctx.write_status()
        await ctx.check_current()
        try:
            with seconds.labels(call="put").time():
                ctx.status["id"] = await provider.put(token, obj.spec.domain, obj.spec.ttl_seconds)
        except OSError as error:
            calls.labels(call="put", result="unreachable").inc()
            ctx.condition("Ready", False, reason="Unreachable", message=str(error))
            raise RetryLater(str(error)) from error
        except Rejected as error:
            calls.labels(call="put", result="rejected").inc()
            ctx.condition("Ready", False, reason="Rejected", message=str(error))
            raise TerminalError(str(error)) from error
        calls.labels(call="put", result="done").inc()
        if obj.status.id != ctx.status["id"]:
            ctx.event("Normal", "Created", f"The zone has the id {ctx.status['id']}")
        ctx.condition("Ready", True, reason="Synced")
        return Requeue(INTERVAL_SECONDS)

    @zone.finalizer("dns.example.com/zone")
    async def delete(obj: Zone, ctx: Context[Zone]) -> None:
        if obj.status.claimed:
            try:
                await provider.delete(token_of(obj, ctx), obj.spec.domain)
            except OSError as error:
                raise RetryLater(str(error)) from error

    @app.validating(ZONES, operations=("CREATE",), reads=(ZONES,))
    async def one_zone_per_domain(obj: Zone, request: AdmissionRequest[Zone]) -> None:
        found = await request.client.list(ZONES.kind, field_selector=f"spec.domain={obj.spec.domain}", limit=1)
        for other in found.items:
            text = f"is the domain of Zone {other.metadata.name}"
            raise Denied("the domain is taken", causes=[StatusCause("FieldValueDuplicate", text, "spec.domain")])

    return app


app = operator(RestProvider(os.environ.get("DNS_URL", "http://127.0.0.1:8053")))
