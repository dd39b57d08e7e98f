"""The plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

After k8s.io/apiserver ``pkg/admission/plugin/webhook/{mutating,validating,request,errors}`` (v0.36). Mutating webhooks
are called one after the other, in the order of the names of their configurations; if one has changed the object, all
plugins are called again, and once more webhooks with ``reinvocationPolicy: IfNeeded`` that were called before the
change. Validating webhooks are called concurrently.
"""

import asyncio
import copy
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, Reinvocation
from pilothouse.apiserver.admission.dynamic.configurations import EXEMPT_FROM_WEBHOOKS, Configurations
from pilothouse.apiserver.admission.dynamic.expressions import Activation, MatchConditions, Scope, versioned_attributes
from pilothouse.apiserver.admission.dynamic.matching import MatchCriteria, may_match
from pilothouse.apiserver.admission.dynamic.object_replacement import estimated_size, replace_object
from pilothouse.apiserver.admission.dynamic.requests import admission_request, convert, converted
from pilothouse.apiserver.admission.dynamic.responses import VERSIONS, read_patch, rejection, verified_response
from pilothouse.apiserver.admission.dynamic.webhook_calls import (
    CallError,
    Send,
    check_status,
    find_target,
    send,
    timed_out,
)
from pilothouse.apiserver.audit.context import add_audit_annotation
from pilothouse.apiserver.audit.policy import REQUEST
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.managed_fields import with_decoded_managed_fields
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.cel.scopes import ExpressionError
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Log
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.names import qualified_name_errors
from pilothouse.machinery.patches import PatchError

if TYPE_CHECKING:
    from pilothouse.tracing.provider import Tracing

with lazy_imports():
    from pilothouse.tracing import propagation

_log = Log("admission-webhook")
_CALL_FAILED = 500
"""The code in metrics for a call that failed without a response."""


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, webhook: Object, configuration: str) -> None:
        self.configuration = configuration
        self.name: str = webhook.get("name") or ""
        self.config: Object = webhook.get("clientConfig") or {}
        self.timeout: int = webhook.get("timeoutSeconds") or 10
        self.ignores_failures = webhook.get("failurePolicy") == "Ignore"
        self.reinvoke_if_needed = webhook.get("reinvocationPolicy") == "IfNeeded"
        self.has_side_effects = webhook.get("sideEffects") not in ("None", "NoneOnDryRun")
        versions = webhook.get("admissionReviewVersions") or ()
        self.version = next((version for version in versions if version in VERSIONS), "v1")
        self.conditions = MatchConditions(Scope(), webhook.get("matchConditions") or ())
        self.criteria = MatchCriteria(
            webhook.get("rules") or (),
            namespaces=webhook.get("namespaceSelector"),
            objects=webhook.get("objectSelector"),
            policy=webhook.get("matchPolicy") or "Equivalent",
        )

    @property
    def key(self) -> tuple[str, str]:
        """Configuration and name."""
        return self.configuration, self.name


def _webhooks(configuration: Object) -> list[Webhook]:
    name: str = configuration["metadata"]["name"]
    return [Webhook(webhook, name) for webhook in configuration.get("webhooks") or ()]


class Webhooks(Plugin):
    """The base class of both plugins: matches webhooks, calls them and verifies responses."""

    resource = ""
    annotation_prefix = ""
    mutating = False
    type = ""
    """The label ``type`` in metrics."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._configurations = Configurations(core, self.resource, _webhooks)
        self.send: Send = lambda target, body: (core.send_webhook or send)(target, body)
        self._tracing: Tracing | None = core.env.tracing

    async def _matching(self, write: AdmissionAttributes, webhook: Webhook) -> ResourceInfo | None:
        """The version to send (``ShouldCallHook``); None if the webhook does not match."""
        info = webhook.criteria.match(self._core, write)
        if info is None or not webhook.conditions:
            return info
        try:
            return (
                info
                if await webhook.conditions.match(Activation(await versioned_attributes(self._core, write, info)))
                else None
            )
        except ExpressionError as error:
            if webhook.ignores_failures:
                return None
            raise errors.forbidden(write.info, write.name, str(error)) from None

    async def _call_hook(
        self, write: AdmissionAttributes, webhook: Webhook, info: ResourceInfo, annotation: str
    ) -> Object | None:
        """The response of a webhook that allows the write; None for an ignored failure. Raises the ``StatusError`` of a
        denial. ``annotation`` is the suffix of audit annotations' keys (``round_0_index_1``)."""
        if write.dry_run and webhook.has_side_effects:
            raise errors.bad_request(f"admission webhook {quote(webhook.name)} does not support dry run")
        metrics = self._core.metrics
        started_at = self._core.env.perf_counter() if metrics is not None else 0.0

        def observe(code: int, *, error: str = "") -> None:
            if metrics is not None:
                seconds = self._core.env.perf_counter() - started_at
                if error:
                    metrics.admission.webhook_rejected(webhook.name, self.type, write.operation, error, code)
                metrics.admission.webhook_called(
                    webhook.name, self.type, write.operation, seconds, code=code, rejected=bool(error)
                )

        try:
            response = await (self._call if self._tracing is None else self._traced_call)(write, webhook, info)
        except CallError as error:
            observe(_CALL_FAILED, error="" if webhook.ignores_failures else "calling_webhook_error")
            if webhook.ignores_failures:
                if metrics is not None:
                    metrics.admission.webhook_failed_open(webhook.name, self.type)
                _log.warning("Failed calling webhook, failing open", webhook=webhook.name, error=str(error))
                add_audit_annotation(f"failed-open.{self.annotation_prefix}{annotation}", webhook.name)
                return None
            raise errors.internal(f"failed calling webhook {quote(webhook.name)}: {error}") from None
        _annotate(webhook, response)
        write.warnings += [text or "" for text in response.get("warnings") or ()]
        if response.get("allowed") is not True:
            denial = rejection(webhook.name, response.get("status") or {})
            observe(denial.code, error="no_error")
            raise denial
        observe(200)
        return response

    def _record_wait(self, started_at: float) -> None:
        """Exclude the duration of webhook calls from the SLI metrics of requests."""
        if self._core.metrics is not None:
            self._core.metrics.requests.waited(self._core.env.perf_counter() - started_at)

    async def _traced_call(self, write: AdmissionAttributes, webhook: Webhook, info: ResourceInfo) -> Object:
        """Call the webhook within a span, whose context is sent in the request header ``Traceparent``
        (``pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go``)."""
        assert self._tracing is not None, "the caller checks"
        attributes = {
            "configuration": webhook.configuration,
            "webhook": webhook.name,
            "resource": f"{info.group}/{info.version}, Resource={info.resource}",
            "subresource": write.subresource,
            "operation": write.operation,
        }
        name = f"Call {'mutating' if self.mutating else 'validating'} webhook"
        with self._tracing.within(self._tracing.start(name, attributes)):
            return await self._call(write, webhook, info)

    async def _call(self, write: AdmissionAttributes, webhook: Webhook, info: ResourceInfo) -> Object:
        uid, api_version = self._core.env.uid(), f"admission.k8s.io/{webhook.version}"
        request = admission_request(write, info, uid)
        request["object"] = await converted(self._core, write, write.obj, info)
        request["oldObject"] = await converted(self._core, write, write.old, info)
        review = {"kind": "AdmissionReview", "apiVersion": api_version, "request": request}
        try:
            target = find_target(self._core, webhook.config, webhook.timeout)
            if self._tracing is not None:
                target = msgspec.structs.replace(target, traceparent=propagation.current_header())
            try:
                async with asyncio.timeout(webhook.timeout):
                    status, body = await self.send(target, msgspec.json.encode(review))
            except TimeoutError:
                raise timed_out(target) from None
            check_status(status, body)
        except CallError as error:
            raise CallError(f"failed to call webhook: {error}") from None
        return verified_response(body, webhook.version, uid, mutating=self.mutating)


def _annotate(webhook: Webhook, response: Object) -> None:
    """Add the webhook's ``auditAnnotations`` to the audit event, except for invalid keys."""
    annotations = response.get("auditAnnotations")
    for key, value in (annotations or {}).items():
        name = f"{webhook.name}/{key}"
        if value is not None and not qualified_name_errors(name):
            add_audit_annotation(name, value)


class ValidatingWebhooks(Webhooks):
    """ValidatingAdmissionWebhook."""

    resource = "validatingwebhookconfigurations"
    annotation_prefix = "validating.webhook.admission.k8s.io/"
    type = "validating"

    def validate(self, write: AdmissionAttributes) -> Any:
        """Call all matching webhooks concurrently."""
        if not may_match(write, EXEMPT_FROM_WEBHOOKS, self._configurations):
            return None
        return self._validate(write)

    async def _validate(self, write: AdmissionAttributes) -> None:
        calls: list[Awaitable[Object | None]] = []
        for webhooks in self._configurations.all:
            for webhook in webhooks:
                info = await self._matching(write, webhook)
                if info is not None:
                    calls.append(self._call_hook(write, webhook, info, f"round_0_index_{len(calls)}"))
        started_at = self._core.env.perf_counter()
        results = await asyncio.gather(*calls, return_exceptions=True)
        self._record_wait(started_at)
        for result in results:
            if isinstance(result, BaseException):
                raise result


class MutatingWebhooks(Webhooks):
    """MutatingAdmissionWebhook."""

    resource = "mutatingwebhookconfigurations"
    annotation_prefix = "mutation.webhook.admission.k8s.io/"
    type = "admit"
    mutating = True

    def admit(self, write: AdmissionAttributes) -> Any:
        """Call all matching webhooks one after the other."""
        if not may_match(write, EXEMPT_FROM_WEBHOOKS, self._configurations):
            return None
        return self._admit(write)

    def reinvoke(self, write: AdmissionAttributes) -> Any:
        """Call the webhooks again that want it."""
        reinvocation = write.reinvocation(self.name)
        return self._reinvoke(write, reinvocation) if reinvocation is not None else None

    async def _admit(self, write: AdmissionAttributes) -> None:
        reinvocation = write.new_reinvocation(self.name)
        for index, webhook in enumerate(self._all()):
            called, changed = await self._mutate(write, webhook, f"round_0_index_{index}")
            if changed:
                write.should_reinvoke = True
                reinvocation.require()
            if called and webhook.reinvoke_if_needed:
                reinvocation.invoked(webhook.key)
        if write.obj is not None:  # deletions have none to change
            reinvocation.end(with_decoded_managed_fields(write.obj))

    async def _reinvoke(self, write: AdmissionAttributes, reinvocation: Reinvocation) -> None:
        assert write.obj is not None, "only writes with an object are mutated"
        reinvocation.begin_again(with_decoded_managed_fields(write.obj))
        for index, webhook in enumerate(self._all()):
            if webhook.key in reinvocation.required:
                await self._mutate(write, webhook, f"round_1_index_{index}")

    def _all(self) -> list[Webhook]:
        return [webhook for webhooks in self._configurations.all for webhook in webhooks]

    async def _mutate(self, write: AdmissionAttributes, webhook: Webhook, annotation: str) -> tuple[bool, bool]:
        """Whether the webhook was called, and whether it has changed the object."""
        info = await self._matching(write, webhook)
        if info is None:
            return False, False
        changed = False
        try:
            changed = await self._apply(write, webhook, info, annotation)
        finally:
            mutation = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
            add_audit_annotation(f"{self.annotation_prefix}{annotation}", msgspec.json.encode(mutation).decode())
        return True, changed

    async def _apply(self, write: AdmissionAttributes, webhook: Webhook, info: ResourceInfo, annotation: str) -> bool:
        """Call the webhook and apply its patch; returns whether the object has changed."""
        started_at = self._core.env.perf_counter()
        try:
            response = await self._call_hook(write, webhook, info, annotation)
        finally:
            self._record_wait(started_at)
        if response is None:
            return False
        try:
            operations = read_patch(response)
        except CallError as error:
            if webhook.ignores_failures:
                return False
            raise errors.internal(f"failed calling webhook {quote(webhook.name)}: {error}") from None
        if not operations:
            return False
        if write.obj is None:
            raise errors.internal(
                f"admission webhook {quote(webhook.name)} attempted to modify the object, which is not supported for "
                "this operation"
            )
        versioned, work = await converted(self._core, write, write.obj, info), self._core.long_work
        try:
            patched = await work.run(estimated_size(versioned, operations), _patched, versioned, operations)
        except PatchError as error:
            raise errors.internal(error.detail) from None
        # The kinds of subresources have one version.
        if info is not write.info and write.obj["kind"] == write.info.kind:
            patched = await convert(self._core, info, write.info, patched)
        changed = await work.run(estimated_size(patched), replace_object, self._core, write, patched)
        patch = {"configuration": webhook.configuration, "webhook": webhook.name, "patch": operations}
        text = msgspec.json.encode({**patch, "patchType": "JSONPatch"}).decode()
        add_audit_annotation(f"patch.webhook.admission.k8s.io/{annotation}", text, REQUEST)
        return changed


def _patched(obj: Object | None, operations: list[Object]) -> Any:
    """A patched copy. Raises ``PatchError``."""
    return apply_json_patch(copy.deepcopy(obj), operations)
