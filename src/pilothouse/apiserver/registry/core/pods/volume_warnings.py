"""Warnings about volumes that write two sources to the same path.

After ``warningsForOverlappingVirtualPaths`` in kubernetes' ``pkg/api/pod/warnings.go`` (v1.36).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote


class _PathAndSource(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f"{quote(self.path)} ({self.source})" if self.source else quote(self.path)


def warnings_for_overlapping_virtual_paths(volumes: Iterable[Object]) -> Iterator[str]:
    """``warningsForOverlappingVirtualPaths``."""
    for volume in volumes:
        name = quote(volume.get("name") or "")
        for field in ("configMap", "secret", "downwardAPI"):
            source = volume.get(field)
            if source is not None and source.get("items"):
                for overlap in _overlaps(_items(source, "")):
                    yield f"volume {name} ({_description(field, source)}): overlapping paths: {overlap}"
        if volume.get("projected") is not None:
            yield from _warnings_for_projected(volume["projected"], name)


def _warnings_for_projected(projected: Object, name: str) -> Iterator[str]:
    warnings: list[_PathAndSource] = []
    for source in projected.get("sources") or ():
        if not source:
            yield f"volume {name} (Projected) has no sources provided"
        warnings += _projected_paths(source)
    for overlap in _overlaps(warnings):
        yield f"volume {name} (Projected): overlapping paths: {overlap}"


def _projected_paths(source: Object) -> Iterator[_PathAndSource]:
    for field in ("configMap", "secret", "downwardAPI"):
        if (source.get(field) or {}).get("items"):
            description = _description(field, source[field], projected=True)
            yield from _items(source[field], description)
            return
    if source.get("serviceAccountToken") is not None:
        yield _PathAndSource(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")
    elif source.get("clusterTrustBundle") is not None:
        bundle = source["clusterTrustBundle"]
        name = bundle.get("signerName") or "" if bundle.get("name") is None else bundle["name"]
        yield _PathAndSource(bundle.get("path") or "", f"ClusterTrustBundle {quote(name)}")
    elif source.get("podCertificate") is not None:
        for field, content in (
            ("certificateChainPath", "chain"),
            ("keyPath", "key"),
            ("credentialBundlePath", "credential bundle"),
        ):
            if source["podCertificate"].get(field):
                yield _PathAndSource(source["podCertificate"][field], f"PodCertificate {content}")


def _description(field: str, source: Object, *, projected: bool = False) -> str:
    if field == "downwardAPI":
        return "DownwardAPI"
    if field == "configMap":
        return f"ConfigMap {quote(source.get('name') or '')}"
    return f"Secret {quote(source.get('name' if projected else 'secretName') or '')}"


def _items(source: Object, description: str) -> list[_PathAndSource]:
    return [_PathAndSource(item.get("path") or "", description) for item in source["items"]]


def _overlaps(paths: Iterable[_PathAndSource]) -> Iterator[str]:
    """``checkVolumeMappingForOverlap``: the pairs of which one path is equal to the other, or in it."""
    trimmed = [path_entry._replace(path=path_entry.path.rstrip("/")) for path_entry in paths]
    overlapping = _overlapping(trimmed)
    known: list[_PathAndSource] = []
    for position in sorted(overlapping):  # only those: they may be few of many
        needle = trimmed[position]
        directory = f"{needle.path}/"
        for item in known:
            if f"{item.path}/".startswith(directory) or directory.startswith(f"{item.path}/"):
                yield f"{needle} with {item}"
        known.append(needle)


def _overlapping(paths: Sequence[_PathAndSource]) -> set[int]:
    """The positions of the paths that overlap with another one."""
    overlapping: set[int] = set()
    above: list[tuple[str, int]] = []
    """The directories that contain the path, the outermost first."""
    for directory, position in sorted(
        (f"{path_entry.path}/", position) for position, path_entry in enumerate(paths) if path_entry.path
    ):
        while above and not directory.startswith(above[-1][0]):
            above.pop()
        if above:
            overlapping |= {above[-1][1], position}
        above.append((directory, position))
    return overlapping
