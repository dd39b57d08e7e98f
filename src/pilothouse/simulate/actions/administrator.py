"""Requests of an administrator, as kubectl sends them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.kinds import Kind
from pilothouse.client import Client, json_patch, merge_patch, strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, Invalid, NotFound
from pilothouse.client.patches import Patch
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.flags import closest
from pilothouse.simulate.scenario import actions
from pilothouse.simulate.scenario.scalars import counted

FIELD_MANAGER = "pilothouse-simulate"
_NAMESPACES: Kind[msgspec.Raw] = Kind("", "v1", "namespaces", "Namespace", False, msgspec.Raw)
_ESTABLISHED_SECONDS = 60.0
_NAMESPACES_NAMED = 5
_ERRORS_NAMED = 10
_STRICT = "strict decoding error: "


class ActionError(ValueError):
    """An action failed. The message has the object and the reason."""


class ObjectsRejected(ActionError):
    """Objects could not be applied. ``errors`` has each with the reason."""

    def __init__(self, errors: "Sequence[tuple[dict[str, Any], ActionError]]") -> None:
        super().__init__("; ".join(str(error) for _document, error in errors))
        self.errors = tuple(errors)

    def messages(self, place: Callable[[dict[str, Any]], str]) -> list[str]:
        """The reasons, each after the place of the object; of many the first ones."""
        shown = [f"{place(document)}{error}" for document, error in self.errors[:_ERRORS_NAMED]]
        left_out = len(self.errors) - len(shown)
        return [*shown, *([f"{counted(left_out, 'more object')} rejected"] if left_out else [])]


class Administrator:
    """Reads and changes objects of any kind."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._discovery: Discovery | None = None

    # Kinds

    async def resource(self, text: str) -> Resource:
        """Resolve a resource argument of kubectl: plural, singular, kind or short name, optionally with the group.
        Raises ``ActionError``."""
        for again in (False, True):
            resolved = _find(await self._discovered(again=again), text)
            if resolved is not None:
                return resolved
        resources = (await self._discovered(again=False)).preferred_resources()
        names = [name for resource in resources for name in (resource.singular, resource.name)]
        hint = _did_you_mean(text.lower(), names)
        raise ActionError(f'the cluster has no resource type "{text}"{hint}')

    async def kind_of(self, document: dict[str, Any]) -> Kind[Any]:
        """The kind of an object, from discovery. Raises ``ActionError``."""
        for again in (False, True):
            resolved = (await self._discovered(again=again)).find(document["apiVersion"], document["kind"])
            if resolved is not None:
                return resolved.as_kind().raw
        version, kind = document["apiVersion"], document["kind"]
        resources = (await self._discovered(again=False)).resources()
        hint = _did_you_mean(
            kind, [resource.kind for resource in resources if resource.as_kind().api_version == version]
        )
        raise ActionError(f'no matches for kind "{kind}" in version "{version}"{hint}')

    async def _discovered(self, *, again: bool) -> Discovery:
        if self._discovery is None or again:
            self._discovery = await self.client.discover()
        return self._discovery

    # Objects

    async def apply(self, documents: Sequence[dict[str, Any]]) -> None:
        """Create the objects, or patch existing ones; missing namespaces are created. As kubectl does, it continues
        after a rejected one. Raises ``ObjectsRejected``."""
        own = {namespace["metadata"].get("name") for namespace in documents if namespace["kind"] == "Namespace"}
        errors = []
        for document in documents:
            try:
                await self._apply_one(document, own)
            except ActionError as error:
                errors.append((document, error))
        if errors:
            raise ObjectsRejected(errors)

    async def _apply_one(self, document: dict[str, Any], namespaces: set[Any]) -> None:
        kind = await self.kind_of(document)
        namespace = str(document["metadata"].get("namespace") or "default") if kind.namespaced else ""
        if namespace and namespace not in namespaces:
            namespaces.add(namespace)
            await self._create_namespace(namespace)
        await self._apply(kind, document, namespace)
        if document["kind"] == "CustomResourceDefinition":
            await self._wait_established(document["metadata"]["name"])

    async def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self.client.create(_NAMESPACES, body)
        except AlreadyExists:
            return

    async def _apply(self, kind: Kind[Any], document: dict[str, Any], namespace: str) -> None:
        name = document["metadata"].get("name", "")
        try:
            try:
                await self.client.create(
                    kind, document, namespace, field_manager=FIELD_MANAGER, field_validation="Strict"
                )
            except (AlreadyExists, Invalid) as rejected:
                # Invalid are also some fields of an existing object: the server validates it before it looks for its
                # name.
                if not name:
                    raise
                try:
                    await self._patch_applied(kind, name, document, namespace)
                except NotFound:
                    raise rejected from None
        except ApiError as error:
            shown = name or document["metadata"]["generateName"]
            raise ActionError(f"{document['kind']} {shown}: {error}") from error

    async def _patch_applied(self, kind: Kind[Any], name: str, document: dict[str, Any], namespace: str) -> None:
        # The lists of a pod keep the items that admission has added, such as the volume with the token of the service
        # account: they can't be removed.
        patch = strategic_merge_patch(document) if kind.group_resource == "pods" else merge_patch(document)
        await self.client.patch(kind, name, patch, namespace, field_manager=FIELD_MANAGER, field_validation="Strict")

    async def _wait_established(self, name: str) -> None:
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            while True:
                definition = await self.client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
                if any(
                    (condition.type, condition.status) == ("Established", "True")
                    for condition in definition.status.conditions
                ):
                    return
                await asyncio.sleep(0.01)

    async def read(self, target: actions.Target) -> tuple[Kind[Any], str, str, dict[str, Any]]:
        """Kind, namespace, name, and the object. Raises ``ActionError``."""
        kind, namespace, name = await self._located(target)
        try:
            raw = await self.client.get(kind, name, namespace)
        except ApiError as error:
            hint = await self._elsewhere(error, kind, name, namespace)
            raise ActionError(f"{target}: {error}{hint}") from error
        return kind, namespace, name, msgspec.json.decode(raw)

    async def _located(self, target: actions.Target) -> tuple[Kind[Any], str, str]:
        text, name = target.resource_and_name
        resource = await self.resource(text)
        return resource.as_kind().raw, target.namespace if resource.namespaced else "", name

    async def _elsewhere(self, error: ApiError, kind: Kind[Any], name: str, namespace: str) -> str:
        """For an object that was not found: the namespaces that have one of this name."""
        if not isinstance(error, NotFound) or not namespace:
            return ""
        found = await self.client.list(kind, field_selector=f"metadata.name={name}", limit=_NAMESPACES_NAMED)
        namespaces = [msgspec.json.decode(raw)["metadata"]["namespace"] for raw in found.items]
        if not namespaces:
            return ""
        return f"; there is one in {', '.join(namespaces)}: `namespace: {namespaces[0]}`"

    async def patch(self, target: actions.Target, patch: Patch, *, subresource: str = "") -> None:
        """Raises ``ActionError``."""
        kind, namespace, name = await self._located(target)
        try:
            # kubectl would only warn of an unknown field; here nobody would notice that it has no effect.
            await self.client.patch(
                kind,
                name,
                patch,
                namespace,
                subresource=subresource,
                field_manager=FIELD_MANAGER,
                field_validation="Strict",
            )
        except ApiError as error:
            hint = await self._elsewhere(error, kind, name, namespace)
            # Before the unknown fields the message has the whole object, as upstream's.
            _object, strict, fields = str(error).rpartition(_STRICT)
            raise ActionError(f"{target}: {strict}{fields}{hint}") from error

    async def scale(self, target: actions.Scale) -> None:
        """Raises ``ActionError``."""
        await self.patch(target, merge_patch({"spec": {"replicas": target.replicas}}), subresource="scale")

    async def set_image(self, target: actions.SetImage) -> None:
        """Raises ``ActionError``."""
        kind, _namespace, _name, obj = await self.read(target)
        outer = ("spec", "jobTemplate", "spec", "template", "spec", "containers")
        path = outer if kind.resource == "cronjobs" else ("spec", "template", "spec", "containers")
        containers: Any = obj
        for step in path:
            containers = containers[step] if isinstance(containers, dict) and step in containers else {}
        names = [container["name"] for container in containers or ()]
        if not names:
            raise ActionError(f"{target}: it has no containers")
        wanted = [target.container] if target.container else names
        if not set(wanted) <= set(names):
            raise ActionError(f"{target}: no container is called {target.container}; there are {', '.join(names)}")
        body: Any = [{"name": name, "image": target.image} for name in wanted]
        for step in reversed(path):
            body = {step: body}
        await self.patch(target, strategic_merge_patch(body))

    async def restart(self, target: actions.Restart, at: str) -> None:
        """As ``kubectl rollout restart``. Raises ``ActionError``."""
        annotations = {"kubectl.kubernetes.io/restartedAt": at}
        await self.patch(target, merge_patch({"spec": {"template": {"metadata": {"annotations": annotations}}}}))

    async def change(self, target: actions.Patch) -> None:
        """Raises ``ActionError``."""
        if target.json is not None:
            patch = json_patch(target.json)
        elif target.strategic is not None:
            patch = strategic_merge_patch(target.strategic)
        else:
            patch = merge_patch(target.merge or {})
        await self.patch(target, patch, subresource=target.subresource)

    async def delete(self, target: actions.Delete) -> None:
        """Raises ``ActionError``."""
        text, _slash, name = target.object.partition("/")
        resource = await self.resource(text)
        kind, namespace = resource.as_kind().raw, target.namespace if resource.namespaced else ""
        grace = None if target.grace_period is None else round(target.grace_period)
        try:
            if target.selector:
                await self.client.delete_collection(
                    kind,
                    namespace,
                    label_selector=target.selector,
                    propagation_policy=target.propagation,
                    grace_period_seconds=grace,
                )
            else:
                await self.client.delete(
                    kind, name, namespace, propagation_policy=target.propagation, grace_period_seconds=grace
                )
        except ApiError as error:
            hint = await self._elsewhere(error, kind, name, namespace)
            raise ActionError(f"{target}: {error}{hint}") from error


def _did_you_mean(name: str, names: Sequence[str]) -> str:
    near = closest(name, names)
    return f"; did you mean {near}?" if near else ""


def _find(discovery: Discovery, text: str) -> Resource | None:
    name, _dot, group = text.lower().partition(".")
    preferred = discovery.preferred_resources()
    matching = [resource for resource in preferred if name in (resource.name, resource.singular, resource.kind.lower())]
    for resource in matching or [candidate for candidate in preferred if name in candidate.short_names]:
        if group in ("", resource.group):
            return resource
    return None
