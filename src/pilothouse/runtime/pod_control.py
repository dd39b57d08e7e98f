"""Creating, deleting and patching pods for an owner, with the events that record it.

Used by every controller that owns pods. Mirrors ``RealPodControl`` in ``pkg/controller/controller_utils.go`` of v1.36.
"""

import msgspec

from pilothouse.api.core import PODS, ObjectReference
from pilothouse.api.meta import Object, OwnerReference, View
from pilothouse.client import Client, NewObject, Patch
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.runtime.events import NORMAL, WARNING, EventRecorder

_POD_META = PODS.read_as(Object)
"""The response is only decoded as far as name and resourceVersion."""

_BODIES = 256


class _TemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class _Template(View, frozen=True):
    metadata: _TemplateMeta = _TemplateMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _NewMeta(NewObject, frozen=True):
    generate_name: str = ""
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class _NewPod(NewObject, frozen=True):
    api_version: str
    kind: str
    metadata: _NewMeta
    spec: msgspec.Raw


_template = msgspec.json.Decoder(_Template)


class NoLabels(ValueError):
    """A template without labels: its pods could never be found again."""


def pod_body(
    template: msgspec.Raw | bytes, owner_name: str, controller: OwnerReference, *, name: str = "", namespace: str = ""
) -> bytes:
    """The pod that a template describes: its labels, annotations and finalizers, and its spec byte for byte.

    The name is generated from the owner's unless one is given; ``generateName`` is set in both cases, as upstream does.
    Upstream's bodies have the namespace only if the controller names its pods. Raises ``NoLabels``.
    """
    read = _template.decode(template)
    meta = read.metadata
    if not meta.labels:
        raise NoLabels("unable to create pods, no labels")
    if not (controller.api_version and controller.kind and controller.controller and controller.block_owner_deletion):
        raise ValueError(f"pods are created for a controller that blocks its owner's deletion, got {controller}")
    prefix = f"{owner_name}-"
    # getPodsPrefix: the dash is omitted if it would make the prefix invalid. A prefix "a-" is valid, so a name with
    # that prefix is checked.
    generate_name = prefix if not dns_subdomain_errors(f"{prefix}a") else owner_name
    new = _NewPod(
        api_version="v1",
        kind="Pod",
        metadata=_NewMeta(
            generate_name=generate_name,
            name=name,
            namespace=namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=(controller,),
            finalizers=meta.finalizers,
        ),
        spec=read.spec,
    )
    return msgspec.json.encode(new)


class PodControl:
    """Pod writes of one controller. Failures are recorded as events on ``owner`` and then raised."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        # The pods of one owner and template differ in nothing that we send: build the body once, not 5,000 times.
        self._bodies: dict[tuple[str, bytes], bytes] = {}

    async def create_pod(
        self,
        namespace: str,
        template: msgspec.Raw | bytes,
        owner: ObjectReference,
        controller: OwnerReference,
        *,
        name: str = "",
        prefix: str = "",
    ) -> Object:
        """Create a pod from the template, controlled by ``controller``. Events: SuccessfulCreate, FailedCreate.

        Its name is ``name``, or generated from ``prefix``, or else from the owner's name. No event is recorded if the
        namespace is terminating.
        """
        body = self._body(template, owner.name, controller, name, prefix)
        try:
            pod = await self._client.create(_POD_META, body, namespace)
        except (ApiError, OSError) as error:
            if not has_cause(error, "NamespaceTerminating"):
                self._recorder.event(owner, WARNING, "FailedCreate", f"Error creating: {error}")
            raise
        self._recorder.event(owner, NORMAL, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return pod

    async def delete_pod(self, namespace: str, name: str, owner: ObjectReference) -> None:
        """Delete a pod with its own grace period, without preconditions. Events: SuccessfulDelete, FailedDelete.

        ``NotFound`` records no event but is raised, because the caller's expectation will never be observed.
        """
        try:
            await self._client.delete(PODS, name, namespace)
        except NotFound:
            raise
        except (ApiError, OSError) as error:
            self._recorder.event(owner, WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {name}")

    async def patch_pod(self, namespace: str, name: str, patch: Patch) -> Object:
        """Patch a pod. No events."""
        return await self._client.patch(_POD_META, name, patch, namespace)

    def _body(
        self, template: msgspec.Raw | bytes, owner_name: str, controller: OwnerReference, name: str, prefix: str
    ) -> bytes:
        if name or prefix:
            return pod_body(template, prefix or owner_name, controller, name=name)
        key = (controller.uid, bytes(template))
        body = self._bodies.get(key)
        if body is None:
            if len(self._bodies) >= _BODIES:
                del self._bodies[next(iter(self._bodies))]
            body = self._bodies[key] = pod_body(template, owner_name, controller)
        return body
