"""``WebhookConverter``: calls the conversion webhook of a definition.

After apiextensions-apiserver's ``pkg/apiserver/conversion/{webhook_converter,metrics}.go`` (v0.36). Requests are sent
as to admission webhooks (``admission.dynamic.webhook_calls``): with the same resolution of Services, TLS and limits.
"""

import asyncio
import base64
from collections.abc import Sequence

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.dynamic.webhook_calls import (
    CallError,
    Send,
    check_status,
    find_target,
    timed_out,
)
from pilothouse.apiserver.apiextensions.conversion import reviews
from pilothouse.apiserver.apiextensions.conversion.reviews import ReviewError
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.metrics import Registry, exponential_buckets

TIMEOUT_SECONDS = 30
"""The limit of one call, including redirects and retries (apiserver ``pkg/util/webhook/authentication.go``, v0.36)."""
_LATENCIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)


class ConversionMetrics:
    """Metrics of the conversion webhooks of one server."""

    def __init__(self) -> None:
        registry = self.registry = Registry()
        self._of_crd = registry.histogram(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "[ALPHA] CRD webhook conversion duration in seconds",
            ("crd_name", "from_version", "to_version", "succeeded"),
            exponential_buckets(0.001, 2, 15),
        )
        self._requests = registry.counter(
            "apiserver_conversion_webhook_request_total",
            "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
            ("result", "failure_type"),
        )
        self._seconds = registry.histogram(
            "apiserver_conversion_webhook_duration_seconds",
            "[ALPHA] Conversion webhook request latency",
            ("result", "failure_type"),
            _LATENCIES,
        )

    def observe(self, definition: str, source: str, target: str, seconds: float, failure: str = "") -> None:
        """Record one call. ``failure`` is upstream's failure type, "" for success."""
        labels = ("failure" if failure else "success", failure)
        self._requests.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)
        versions = (source.rpartition("/")[2], target.rpartition("/")[2])
        self._of_crd.labels(definition, *versions, "false" if failure else "true").observe(seconds)


class _CallError(Exception):
    """A failed call: upstream's failure type, and the message, which follows ``conversion webhook for … `` if
    ``names_webhook``."""

    def __init__(self, kind: str, message: str, *, names_webhook: bool = True) -> None:
        super().__init__(message)
        self.kind = f"conversion_webhook_{kind}_failure"
        self.names_webhook = names_webhook


class WebhookConverter:
    """The conversion webhook of one definition (``spec.conversion.webhook``)."""

    def __init__(self, core: Core, definition: str, webhook: Object, metrics: ConversionMetrics, send: Send) -> None:
        self._core = core
        self._definition = definition
        self._config: Object = _without_blank_bundle(webhook.get("clientConfig") or {})
        self._versions: Sequence[str] = webhook.get("conversionReviewVersions") or ()
        self._metrics = metrics
        self._send = send

    async def convert(self, objects: Sequence[Object], target: str, size: int) -> list[Object]:
        """Convert objects to the API version ``target``, which differs from theirs, in one call. ``size`` is their
        approximate size in bytes of JSON.

        Raises ``StatusError``, upstream's 500 without details.
        """
        first_object = objects[0]
        source = first_object.get("apiVersion") or ""
        started = self._core.env.monotonic()
        try:
            converted = await self._convert(objects, target, size)
        except _CallError as error:
            self._metrics.observe(self._definition, source, target, self._core.env.monotonic() - started, error.kind)
            prefix = f"conversion webhook for {source}, Kind={first_object.get('kind') or ''} "
            raise errors.plain(f"{prefix if error.names_webhook else ''}{error}") from None
        self._metrics.observe(self._definition, source, target, self._core.env.monotonic() - started)
        return converted

    async def _convert(self, objects: Sequence[Object], target: str, size: int) -> list[Object]:
        try:
            version = reviews.review_version(self._versions)
        except ReviewError as error:
            raise errors.plain(str(error)) from None
        uid, work = self._core.env.uid(), self._core.long_work
        review = reviews.conversion_review(version, uid, target, objects)
        try:
            body = await self._call(await work.run(size, msgspec.json.encode, review))
        except CallError as error:
            raise _CallError("call", f"failed: {reviews.truncate(str(error))}") from None
        try:
            response_review = await work.run(len(body), reviews.read_review, body, version)
        except ReviewError as error:
            raise _CallError("call", f"failed: {error}") from None
        try:
            converted_objects = reviews.converted_objects(response_review, version, uid)
        except ReviewError as error:
            raise _CallError("malformed_response", f"failed: {error}") from None
        if len(converted_objects) != len(objects):
            raise _CallError("partial_response", f"returned {len(converted_objects)} objects, expected {len(objects)}")

        def restore() -> list[Object]:
            of_list = len(objects) > 1
            return [
                reviews.converted_object(original, converted, target, index, of_list=of_list)
                for index, (original, converted) in enumerate(zip(objects, converted_objects, strict=True))
            ]

        try:
            return await work.run(len(body), restore)
        except ReviewError as error:
            raise _CallError("invalid_converted_object", str(error), names_webhook=error.names_webhook) from None

    async def _call(self, request_body: bytes) -> bytes:
        target = find_target(self._core, self._config, TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                status, response_body = await self._send(target, request_body)
        except TimeoutError:
            # Go's http.Client adds this if it has a timeout, which only conversion webhooks set.
            raise CallError(f"{timed_out(target)} (Client.Timeout exceeded while awaiting headers)") from None
        check_status(status, response_body)
        return response_body


def _without_blank_bundle(config: Object) -> Object:
    """A bundle of white space is treated as empty."""
    bundle = config.get("caBundle")
    if bundle and not base64.b64decode(bundle).strip():
        return {**config, "caBundle": ""}
    return config
