"""Deletes the content of a namespace, resource by resource, and reports what remains."""

import datetime
from collections.abc import Sequence

import msgspec

from pilothouse.api.core import PODS, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, MethodNotAllowed, NotFound
from pilothouse.controllers.cleanup.namespace.decide import (
    GONE,
    RemainingContent,
    Resource,
    Totals,
    UnexpectedContent,
    estimate_graceful_termination_for_pods,
    remaining_content,
)
from pilothouse.controllers.cleanup.namespace.status import Outcome
from pilothouse.env import Env
from pilothouse.machinery.api_resources import Discovery
from pilothouse.machinery.api_resources import Resource as ServedResource
from pilothouse.machinery.causes import record_decision

_BACKGROUND = "Background"
_FAILURES = (ApiError, ConnectionError, TimeoutError, ValueError)
"""The errors of a request. ValueError: the response cannot be parsed."""


class DeletionResult(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Outcome
    errors: tuple[str, ...] = ()
    """All errors; the namespace must be synced again."""
    estimate_seconds: int = 0
    """Without errors: the estimated seconds until the remaining content is gone, 0 if nothing remains."""


class NamespacedResourcesDeleter:
    def __init__(self, env: Env, client: Client) -> None:
        self._env = env
        self._client = client

    async def delete_all_content(self, namespace: str, deleted_at: datetime.datetime) -> DeletionResult:
        """Delete everything that can be deleted now. Failures are collected and do not stop the others."""
        errors: list[str] = []
        discovery_error = parsing_error = ""
        resources: list[ServedResource] = []
        try:
            discovery = await self._client.discover()
        except _FAILURES as error:
            discovery_error = _text(error)
        else:
            discovery_error = discovery_failures_message(discovery)
            resources = [r for r in discovery.preferred_resources() if r.namespaced and r.supports("delete")]
        if discovery_error:
            errors.append(discovery_error)
            if resources:
                failures = len(discovery.failures)
                discovery_error = f"Discovery failed for some groups, {failures} failing: {discovery_error}"
        unparsable = [resource for resource in resources if "/" in resource.group]
        if unparsable:
            parsing_error = f"unexpected GroupVersion string: {unparsable[0].api_version}"
            errors.append(parsing_error)
            resources = [resource for resource in resources if resource not in unparsable]
        return await self._delete_resources(namespace, deleted_at, resources, errors, (discovery_error, parsing_error))

    async def _delete_resources(
        self,
        namespace: str,
        deleted_at: datetime.datetime,
        resources: Sequence[ServedResource],
        errors: list[str],
        lookup_errors: tuple[str, str],
    ) -> DeletionResult:
        totals = Totals()
        content_errors: list[str] = []
        discovery_error, parsing_error = lookup_errors
        pods = [resource for resource in resources if _resource_of(resource).is_pods]
        other_resources = [resource for resource in resources if not _resource_of(resource).is_pods]
        for resource in pods:
            error = await self._delete_and_count(totals, namespace, deleted_at, resource)
            if error:
                errors.append(f"failed to delete pods for namespace: {namespace}, err: {error}")
                content_errors.append(error)
        # As upstream, the sync continues with other resources if pods cannot be deleted or listed (v1.36,
        # deleteAllContent).
        if totals.counts:
            # Resources that pods use are deleted after the pods (KEP-5080). Upstream does not report the pods in the
            # conditions of such a sync (v1.36, deleteAllContent), which then say that no content remains; scripts rely
            # on it.
            outcome = Outcome(
                discovery_error=discovery_error, parsing_error=parsing_error, content_errors=tuple(content_errors)
            )
            return DeletionResult(outcome=outcome, errors=tuple(errors), estimate_seconds=totals.estimate_seconds)
        for resource in other_resources:
            error = await self._delete_and_count(totals, namespace, deleted_at, resource)
            if error:
                errors.append(error)
                content_errors.append(error)
        outcome = Outcome(
            discovery_error=discovery_error,
            parsing_error=parsing_error,
            content_errors=tuple(content_errors),
            counts=totals.counts,
            finalizers=totals.finalizers,
        )
        return DeletionResult(outcome=outcome, errors=tuple(errors), estimate_seconds=totals.estimate_seconds)

    async def _delete_and_count(
        self, totals: Totals, namespace: str, deleted_at: datetime.datetime, resource: ServedResource
    ) -> str:
        try:
            totals.add(
                _resource_of(resource), await self._delete_all_content_for_resource(namespace, deleted_at, resource)
            )
        except UnexpectedContent as error:
            totals.add(_resource_of(resource), error.remaining)
            return str(error)
        except _FAILURES as error:
            return _text(error)
        return ""

    async def _delete_all_content_for_resource(
        self, namespace: str, deleted_at: datetime.datetime, resource: ServedResource
    ) -> RemainingContent:
        resource_name = _resource_of(resource)
        estimate = 0
        if resource_name.is_pods:
            pods: Sequence[Pod] = (await self._client.list(PODS, namespace)).items
            estimate = estimate_graceful_termination_for_pods(pods, deleted_at, self._env.now())
        kind = resource.as_kind().metadata
        record_decision(f"namespace {namespace} is being deleted: all {resource.as_kind().group_resource} in it go")
        if not await self._delete_collection(kind, namespace, resource):
            for item in await self._list(kind, namespace, resource) or ():
                try:
                    await self._client.delete(kind, item.metadata.name, namespace, propagation_policy=_BACKGROUND)
                except (NotFound, MethodNotAllowed):
                    pass  # It does not exist, or single deletes are not supported either; the list below shows it.
        remaining = await self._list(kind, namespace, resource)
        return GONE if remaining is None else remaining_content(resource_name, namespace, remaining, estimate)

    async def _delete_collection(self, kind: Kind[Object], namespace: str, resource: ServedResource) -> bool:
        """Whether the server supports it. Some claim to, but return 404 or 405 (kubernetes#22413)."""
        if not resource.supports("deletecollection"):
            return False
        try:
            await self._client.delete_collection(kind, namespace, propagation_policy=_BACKGROUND)
        except (NotFound, MethodNotAllowed):
            return False
        return True

    async def _list(self, kind: Kind[Object], namespace: str, resource: ServedResource) -> Sequence[Object] | None:
        if not resource.supports("list"):
            return None
        try:
            return (await self._client.list(kind, namespace)).items
        except (NotFound, MethodNotAllowed):
            return None


def discovery_failures_message(discovery: Discovery) -> str:
    """client-go's ``ErrGroupDiscoveryFailed`` in its words; "" when nothing failed."""
    if not discovery.failures:
        return ""
    parts = sorted(f"{name}: {error}" for name, error in discovery.failures.items())
    return f"unable to retrieve the complete list of server APIs: {', '.join(parts)}"


def _resource_of(resource: ServedResource) -> Resource:
    return Resource(resource.group, resource.version, resource.name)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
