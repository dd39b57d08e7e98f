"""Conversion of custom resources between versions, and the response to a ConversionReview.

Every conversion goes through the hub. ``metadata`` is copied: of the result of a function only labels and annotations
are used, and only those that it has added or changed. The API server accepts no other changes (apiextensions-apiserver
``pkg/apiserver/conversion/webhook_converter.go``, v0.36).

The API server validates a client's object against the schema of the version in which it was sent, and trusts the result
of a conversion. So the object converted to the stored version must fit the class of the hub: otherwise controllers
could not decode the stored object. An object that does not fit its own class is decoded leniently (``lenient``) and
converted as far as possible: either the API server will reject it, with the messages of the schema, or it is an
intermediate object of a server-side apply, which is never stored.

The result of a complete object is complete, too: it has the defaults of its schema (``schema_defaults``). An object
that lacks some of its own is not complete, but consists of the fields of some managers: defaults would become theirs.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client.decode import UNREADABLE, decoders_of
from pilothouse.client.errors import UndecodableObject
from pilothouse.env import Log
from pilothouse.operator import lenient
from pilothouse.operator.custom_resource import CustomResource, Version
from pilothouse.operator.schema_defaults import Defaults, add_defaults, has_defaults

OBJECTS_PER_TURN = 50
"""Objects that are converted before the loop runs other tasks."""

_log = Log("conversion")


class ConversionFailed(Exception):
    """An object could not be converted; the message has the object and the reason."""


class BadReview(ValueError):
    """A body that is no ConversionReview or AdmissionReview of version v1."""


class _Head(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str
    kind: str


class _Heads(msgspec.Struct, frozen=True):
    objects: list[_Head]


class _HeadsReview(msgspec.Struct, frozen=True):
    request: _Heads


class ConversionRequest(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw]


class ConversionReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: ConversionRequest


class Conversions:
    """The conversions of some custom resources."""

    def __init__(self, resources: Iterable[CustomResource[Any]]) -> None:
        self._resources = {
            (resource.kind.group, resource.kind.kind): resource for resource in resources if resource.has_conversion
        }

    @property
    def any(self) -> bool:
        """Whether there is anything to convert."""
        return bool(self._resources)

    def convert(self, raw: bytes | msgspec.Raw, desired_api_version: str) -> bytes | msgspec.Raw:
        """An object in another version. Raises ``ConversionFailed``."""
        try:
            obj = decoders_of(Object).one(bytes(raw), lambda: "an object")
        except UndecodableObject as error:
            raise ConversionFailed(str(error)) from error
        description = f"{obj.kind or 'an object'} {_name(obj.metadata)} from {obj.api_version or 'nothing'}"
        group, _slash, version = obj.api_version.rpartition("/")
        desired_group, _slash, desired = desired_api_version.rpartition("/")
        resource = self._resources.get((group, obj.kind))
        if resource is None or group != desired_group:
            raise ConversionFailed(f"{description} to {desired_api_version}: this operator does not convert it")
        for kind in (version, desired):
            if kind not in resource.versions:
                raise ConversionFailed(f"{description} to {desired_api_version}: {resource.name} has no version {kind}")
        if version == desired:
            return raw
        try:
            return _converted(resource, obj, bytes(raw), desired)
        except (UndecodableObject, ConversionFailed) as error:
            raise ConversionFailed(f"{description} to {desired_api_version}: {error}") from error
        except Exception as error:
            _log.exception("A function for conversion failed", error, object=description, to=desired_api_version)
            text = " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
            raise ConversionFailed(f"{description} to {desired_api_version}: {text}") from error

    async def review(self, body: bytes) -> bytes:
        """The response to a ConversionReview: all objects, in the given order, or the error of the first that fails.
        Raises ``BadReview``."""
        try:
            # An item that is not an object stops the decoding: otherwise a list of a million zeros would become a
            # million values first.
            msgspec.json.decode(body, type=_HeadsReview)
            review = msgspec.json.decode(body, type=ConversionReview)
        except UNREADABLE as error:
            raise BadReview(f"the body is no ConversionReview: {error}") from error
        if (review.api_version, review.kind) != ("apiextensions.k8s.io/v1", "ConversionReview"):
            raise BadReview(f"expected a ConversionReview of apiextensions.k8s.io/v1, got {review.kind!r}")
        request, converted = review.request, []
        result: dict[str, Any] = {"status": "Success"}
        for count, obj in enumerate(request.objects, 1):
            try:
                converted.append(msgspec.Raw(self.convert(obj, request.desired_api_version)))
            except ConversionFailed as error:
                result, converted = {"status": "Failed", "message": str(error)}, []
                break
            if count % OBJECTS_PER_TURN == 0:
                await asyncio.sleep(0)
        response = {"uid": request.uid, "result": result, "convertedObjects": converted}
        return msgspec.json.encode({"apiVersion": review.api_version, "kind": review.kind, "response": response})


def _converted(resource: CustomResource[Any], obj: Object, raw: bytes, desired: str) -> bytes:
    source, target = resource.versions[obj.api_version.rpartition("/")[2]], resource.versions[desired]
    hub = resource.versions[resource.kind.version]
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    metadata = fields.get("metadata", msgspec.Raw(b"{}"))
    if source.convert_to is not None or target.convert_from is not None:
        view: Any
        view, fits = lenient.read(source.view if source.convert_to is not None else hub.view, raw, lambda: obj.kind)
        metadata_before = obj.metadata
        for function, result in ((source.convert_to, hub.view), (target.convert_from, target.view)):
            if function is not None:
                view = _called(function, view, fits=fits)
                if not isinstance(view, result):
                    raise TypeError(f"it must return a {result.__name__}, got {type(view).__name__}")
                metadata_before = _with_added(metadata_before, view.metadata)
                view = msgspec.structs.replace(view, metadata=metadata_before)
                if fits and function is source.convert_to and desired == resource.stored:
                    _check_fits(view, hub)
        if fits:
            is_complete = has_defaults(_decoded(fields, resource.defaults[source.name]), resource.defaults[source.name])
            fields = msgspec.json.decode(msgspec.json.encode(view), type=dict[str, msgspec.Raw])
            if is_complete:
                fields |= _with_defaults(fields, resource.defaults[target.name])
        else:
            converted = lenient.without_defaults(view, msgspec.json.decode(raw))
            fields = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in converted.items()}
        metadata = _with_changes(metadata, obj.metadata, metadata_before)
    names = {"apiVersion": f"{resource.kind.group}/{desired}", "kind": obj.kind, "metadata": metadata}
    return msgspec.json.encode({**names, **{name: value for name, value in fields.items() if name not in names}})


def _decoded(fields: dict[str, msgspec.Raw], defaults: Defaults) -> dict[str, Any]:
    """The fields of an object that may have defaults, or whose fields may."""
    return {name: msgspec.json.decode(fields[name]) for name in defaults.get("properties", ()) if name in fields}


def _with_defaults(fields: dict[str, msgspec.Raw], defaults: Defaults) -> dict[str, msgspec.Raw]:
    decoded = _decoded(fields, defaults)
    add_defaults(decoded, defaults)
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in decoded.items()}


def _called(function: Callable[[Any], Any], view: Any, *, fits: bool) -> Any:
    try:
        return function(view)
    except Exception as error:
        if not fits:
            error.add_note(
                "The object is incomplete or invalid: functions for conversion get zero values for what it lacks."
            )
        raise


def _check_fits(view: Any, hub: Version[Any, Any]) -> None:
    """Raise ``ConversionFailed`` unless a view of the hub can be read as one: constructors check no types."""
    try:
        msgspec.json.decode(msgspec.json.encode(view), type=hub.view)
    except msgspec.ValidationError as error:
        raise ConversionFailed(f"what convert_to= returned does not fit {hub.view.__name__}: {error}") from error


def _with_added(before: ObjectMeta, after: ObjectMeta) -> ObjectMeta:
    """The metadata with the labels and annotations that a function has added or changed."""
    return msgspec.structs.replace(
        before,
        labels={**before.labels, **after.labels},
        annotations={**before.annotations, **after.annotations},
    )


def _with_changes(metadata: msgspec.Raw, before: ObjectMeta, after: ObjectMeta) -> msgspec.Raw:
    if (before.labels, before.annotations) == (after.labels, after.annotations):
        return metadata
    changed: dict[str, Any] = msgspec.json.decode(metadata)
    for name, old_values, values in (
        ("labels", before.labels, after.labels),
        ("annotations", before.annotations, after.annotations),
    ):
        if values != old_values:
            changed[name] = values
    return msgspec.Raw(msgspec.json.encode(changed))


def _name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
