"""Reads metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.

Upstream: v1.36 ``pkg/controller/podautoscaler/metrics/client.go`` and k8s.io/metrics ``pkg/client``.
"""

import datetime
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from pilothouse.api.autoscaling import CrossVersionObjectReference
from pilothouse.api.core import ObjectReference
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import MetricUnavailable, Sample
from pilothouse.env import Env, Log
from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.go_text import quote as quoted
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.quantities import QuantityError, parse_quantity

RESOURCE_METRICS = "metrics.k8s.io/v1beta1"
CUSTOM_GROUP = "custom.metrics.k8s.io"
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
EXTERNAL_METRICS = "external.metrics.k8s.io/v1beta1"
DEFAULT_WINDOW = 60.0

T = TypeVar("T")


class _ContainerMetrics(View, frozen=True):
    name: str = ""
    usage: dict[str, str] = {}


class _PodMetrics(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    timestamp: datetime.datetime | None = None
    window: str = ""
    containers: tuple[_ContainerMetrics, ...] = ()


class _PodMetricsList(View, frozen=True):
    items: tuple[_PodMetrics, ...] = ()


class _MetricValue(View, frozen=True):
    described_object: ObjectReference = ObjectReference()
    timestamp: datetime.datetime | None = None
    window_seconds: int | None = None
    window: int | None = None
    """Its name in v1beta1."""
    value: str = "0"


class _MetricValues(View, frozen=True):
    items: tuple[_MetricValue, ...] = ()


class MetricApis:
    """Every method raises ``MetricUnavailable`` with upstream's message. The served version of the custom API is read
    once per ``period`` seconds."""

    def __init__(self, client: Client, mapper: RestMapper, env: Env, period: float, log: Log) -> None:
        self._client = client
        self._mapper = mapper
        self._env = env
        self._period = period
        self._log = log
        self._custom = ""
        self._custom_until = float("-inf")

    async def resource(self, resource: str, namespace: str, selector: Selector, container: str) -> dict[str, Sample]:
        """The usage of a resource by each pod, or by its container of that name."""
        api = "resource metrics API"
        target = f"/apis/{RESOURCE_METRICS}/namespaces/{quote(namespace)}/pods"
        response = await self._read(
            api, _with(target, labelSelector=str(selector)), "pods.metrics.k8s.io", _PodMetricsList
        )
        if not response.items:
            raise MetricUnavailable(f"no metrics returned from {api}")
        samples: dict[str, Sample] = {}
        try:
            for pod in response.items:
                value = self._used(pod, resource, container)
                if value is not None:
                    window = parse_duration(pod.window) if pod.window else 0.0
                    samples[pod.metadata.name] = Sample(value, pod.timestamp, window)
        except (QuantityError, DurationError) as error:
            raise MetricUnavailable(f"unable to fetch metrics from {api}: {error}") from error
        return samples

    def _used(self, pod: _PodMetrics, resource: str, container: str) -> int | None:
        of = [candidate for candidate in pod.containers if not container or candidate.name == container]
        if container:
            of = of[:1]
        texts = [candidate.usage.get(resource) for candidate in of]
        if not texts or None in texts:
            if container and of:
                return None
            message = "Missing container metric" if container else "Missing resource metric"
            described = {"container": container} if container else {"resourceMetric": resource}
            self._log.info(message, v=2, pod=f"{pod.metadata.namespace}/{pod.metadata.name}", **described)
            return None
        return sum(parse_quantity(text).milli_value for text in texts if text is not None)

    async def pods(
        self, metric: str, namespace: str, selector: Selector, metric_selector: Selector
    ) -> dict[str, Sample]:
        """The values of a metric of pods."""
        target = f"{await self._custom_root()}/namespaces/{quote(namespace)}/pods/*/{quote(metric)}"
        query = {"labelSelector": str(selector), "metricLabelSelector": str(metric_selector)}
        values = await self._custom_values(_with(target, **query), f"pods.{CUSTOM_GROUP} *")
        if not values:
            raise MetricUnavailable("no metrics returned from custom metrics API")
        return {
            value.described_object.name: Sample(_milli(value, "custom"), value.timestamp, _window_of(value))
            for value in values
        }

    async def object(
        self, metric: str, namespace: str, described: CrossVersionObjectReference, metric_selector: Selector
    ) -> int:
        """The value of a metric of an object. Of namespaces only that of the autoscaler can be read."""
        root = await self._custom_root()
        group, _slash, _version = described.api_version.rpartition("/")
        if described.kind == "Namespace" and not group:
            target, request_target = (
                f"{root}/namespaces/{quote(namespace)}/metrics/{quote(metric)}",
                f"namespaces {namespace}",
            )
        else:
            resource = await self._resource_of(group, described.kind)
            target = f"{root}/namespaces/{quote(namespace)}/{resource}/{quote(described.name)}/{quote(metric)}"
            request_target = f"{resource}.{CUSTOM_GROUP} {described.name}"
        values = await self._custom_values(_with(target, metricLabelSelector=str(metric_selector)), request_target)
        if len(values) != 1:
            raise MetricUnavailable(
                "unable to fetch metrics from custom metrics API: the custom metrics API server returned "
                f"{len(values)} results when we asked for exactly one"
            )
        return _milli(values[0], "custom")

    async def external(self, metric: str, namespace: str, selector: Selector) -> list[int]:
        """The values of an external metric."""
        api = "external metrics API"
        target = f"/apis/{EXTERNAL_METRICS}/namespaces/{quote(namespace)}/{quote(metric)}"
        response = await self._read(
            api, _with(target, labelSelector=str(selector)), f"{metric}.external.metrics.k8s.io", _MetricValues
        )
        if not response.items:
            raise MetricUnavailable(f"no metrics returned from {api}")
        return [_milli(item, "external") for item in response.items]

    async def _custom_values(self, target: str, request_target: str) -> tuple[_MetricValue, ...]:
        return (await self._read("custom metrics API", target, request_target, _MetricValues)).items

    async def _custom_root(self) -> str:
        now = self._env.monotonic()
        if not self._custom or now >= self._custom_until:
            version = await self._custom_version()
            self._custom, self._custom_until = version, now + self._period
        return f"/apis/{CUSTOM_GROUP}/{self._custom}"

    async def _custom_version(self) -> str:
        """The preferred version of the custom API, or the first known one (``apiVersionsFromDiscovery``)."""
        unavailable = "unable to fetch metrics from custom metrics API"
        try:
            response = await self._client.request("GET", f"/apis/{CUSTOM_GROUP}")
            group = msgspec.json.decode(response.body, type=_Group)
        except NotFound as error:
            raise MetricUnavailable(f"{unavailable}: no custom metrics API ({CUSTOM_GROUP}) registered") from error
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            raise MetricUnavailable(f"{unavailable}: {_error_text(error, 'get', CUSTOM_GROUP)}") from error
        for served in (group.preferred_version, *group.versions):
            if served.version in CUSTOM_VERSIONS:
                return served.version
        raise MetricUnavailable(f"{unavailable}: no known available metric versions found")

    async def _resource_of(self, group: str, kind: str) -> str:
        """``deployments.apps`` for a kind."""
        try:
            discovery = await self._mapper.discovery()
        except (ApiError, OSError) as error:
            raise MetricUnavailable(f"unable to fetch metrics from custom metrics API: {error}") from error
        resources = discovery.preferred_for(group, kind)
        if not resources:
            reason = f"no matches for kind {quoted(kind)} in group {quoted(group)}"
            raise MetricUnavailable(f"unable to fetch metrics from custom metrics API: {reason}")
        return resources[0].group_resource

    async def _read(self, api: str, target: str, request_target: str, view: type[T]) -> T:
        try:
            response = await self._client.request("GET", target)
            return msgspec.json.decode(response.body, type=view)
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            raise MetricUnavailable(
                f"unable to fetch metrics from {api}: {_error_text(error, 'get', request_target)}"
            ) from error


class _Version(View, frozen=True):
    version: str = ""


class _Group(View, frozen=True):
    preferred_version: _Version = _Version()
    versions: tuple[_Version, ...] = ()


def _milli(value: _MetricValue, api: str) -> int:
    try:
        return parse_quantity(value.value).milli_value
    except QuantityError as error:
        raise MetricUnavailable(f"unable to fetch metrics from {api} metrics API: {error}") from error


def _window_of(value: _MetricValue) -> float:
    seconds = value.window if value.window_seconds is None else value.window_seconds
    return DEFAULT_WINDOW if seconds is None else float(seconds)


def _with(target: str, **query: str) -> str:
    parameters: Mapping[str, str] = {name: text for name, text in query.items() if text}
    return f"{target}?{urlencode(parameters)}" if parameters else target


def _error_text(error: Exception, verb: str, request_target: str) -> str:
    """The error as client-go prints it: a response that is not a Status is described by the request (apimachinery
    ``NewGenericServerResponse``, v0.36)."""
    if isinstance(error, ApiError):
        for cause in error.causes:
            if cause.reason == "UnexpectedServerResponse":
                return f"{str(error).removesuffix(f': {cause.message}')} ({verb} {request_target})"
    return str(error) or type(error).__name__
