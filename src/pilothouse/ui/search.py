"""Searches objects of all stored kinds by parts of their names."""

from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env import Env
from pilothouse.ui.objects import Objects
from pilothouse.ui.slices import Slices

MAX_FOUND = 100
MAX_GONE = 50
"""The limit for deleted objects."""
_PAGE = 1000
_LONGEST = 100
_AT_ONCE = 500
"""Changes of the history that are searched in about a millisecond."""


class Search:
    """Searches the keys of one server: names and namespaces, not the content of objects."""

    def __init__(self, env: Env, core: Core, objects: Objects) -> None:
        self._env = env
        self._core = core
        self._objects = objects

    async def find(self, text: str) -> dict[str, Any]:
        """The objects whose namespace and name contain every word. A first word that is a kind, resource or short name
        restricts the search to it. Deleted objects come last, as far back as the history goes. Events are left out:
        they are shown with their objects."""
        words = text[:_LONGEST].lower().split()
        infos = [info for info in self._objects.infos() if info.resource != "events"]
        of_kind = [info for info in infos if words and words[0] in _names_of(info)]
        if of_kind:
            infos, words = of_kind, words[1:]
        elif not words:
            infos = []
        slices = Slices(self._env.perf_counter)
        matching: list[dict[str, Any]] = []
        for info in infos:
            after = info.prefix
            while len(matching) < MAX_FOUND:
                records = self._core.store.list(info.prefix, after=after, limit=_PAGE).records
                fitting = [
                    record.key for record in records if _contains_all(record.key[len(info.prefix) :].lower(), words)
                ]
                matching += [{"key": key, "kind": info.kind} for key in fitting[: MAX_FOUND - len(matching)]]
                await slices.turn()
                if len(records) < _PAGE:
                    break
                after = records[-1].key
        more = len(matching) == MAX_FOUND
        for info in infos if words else ():
            matching += await self._deleted_objects(
                info, words, min(MAX_GONE, MAX_FOUND + MAX_GONE - len(matching)), slices
            )
        return {"found": matching, "more": more}

    async def _deleted_objects(
        self, info: ResourceInfo, words: Sequence[str], limit: int, slices: Slices
    ) -> list[dict[str, Any]]:
        """The recorded objects of a kind that were deleted, last deleted first."""
        store = self._core.store
        names_seen, deleted = set[str](), list[dict[str, Any]]()
        for number, change in enumerate(reversed(store.changes(info.prefix)) if limit else ()):
            if number % _AT_ONCE == 0:
                await slices.turn()
            key = change.key
            if (
                change.type != "DELETED"
                or key in names_seen
                or not _contains_all(key[len(info.prefix) :].lower(), words)
            ):
                continue
            names_seen.add(key)
            if store.get(key) is None:
                deleted.append({"key": key, "kind": info.kind, "gone": True})
                if len(deleted) == limit:
                    break
        return deleted

    def kinds(self) -> list[dict[str, Any]]:
        """The stored kinds, with the number of their objects."""
        store = self._core.store
        return [
            {"kind": info.kind, "group": info.group, "resource": info.resource, "count": count}
            for info in sorted(self._objects.infos(), key=lambda info: (info.group, info.resource))
            if info.group != "events.k8s.io" and (count := store.count(info.prefix))
        ]


def _names_of(info: ResourceInfo) -> tuple[str, ...]:
    return (info.resource, info.singular, info.kind.lower(), *info.short_names)


def _contains_all(place: str, words: Sequence[str]) -> bool:
    return all(word in place for word in words)
