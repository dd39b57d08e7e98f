"""Valid and invalid snapshot files."""

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.snapshots.files import CONFIG_MAPS, HEADER, config_map, end, lines, snapshot_of, write
from tests.tables import cases

from pilothouse.snapshots.file_format import MAX_LINE, SnapshotError
from pilothouse.snapshots.reading import SnapshotFile, load

DEEP = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{},"data":' + b'{"a":' * 400 + b"1" + b"}" * 401


def test_objects_are_read_in_order(tmp_path: Path) -> None:
    path = snapshot_of(tmp_path / "s", config_map("a"), config_map("b"))
    assert [item["metadata"]["name"] for item in load(path)] == ["a", "b"]
    file = SnapshotFile(path)
    assert file.header.server_version == "v1.36.2"
    assert [entry.line for entry in file.entries()] == [3, 4]
    assert file.totals is not None
    assert file.totals.objects == 2


@cases(
    "documents, error",
    {
        "missing header": ((CONFIG_MAPS,), ":1: this is no snapshot of pilothouse: the first line is no header"),
        "a newer format": (
            ({**HEADER, "pilothouseSnapshot": 2, "writtenBy": "pilothouse v9"},),
            ":1: the snapshot has format 2 (written by pilothouse v9), and this pilothouse reads format 1",
        ),
        "unknown format": (({**HEADER, "pilothouseSnapshot": 0},), ":1: the snapshot says that it has format 0"),
        "invalid header": (({"pilothouseSnapshot": "x"},), ":1: the header can't be read"),
        "missing end": ((HEADER, CONFIG_MAPS, config_map("a")), ":4: the file ends here"),
        "wrong count at the end": ((HEADER, CONFIG_MAPS, config_map("a"), end(2)), ":4: the end says that there"),
        "data after the end": ((HEADER, end(0), config_map("a")), ":3: something comes after the end"),
        "an object of no resource": ((HEADER, config_map("a"), end(1)), ":2: an object comes before the line"),
        "a resource without a kind": ((HEADER, {**CONFIG_MAPS, "kind": ""}, end(0)), ":2: the line that names a reso"),
        "a resource with a path": ((HEADER, {**CONFIG_MAPS, "resource": "a/b"}, end(0)), ":2: the line that names a r"),
        "an object of another kind": (
            (HEADER, CONFIG_MAPS, {**config_map("a"), "kind": "Secret"}, end(1)),
            ":3: expected a ConfigMap of v1 (configmaps), got v1 Secret",
        ),
        "an object that is a list": ((HEADER, CONFIG_MAPS, b"[]", end(1)), ":3: the object is no JSON object"),
        "truncated object": ((HEADER, CONFIG_MAPS, b'{"kind":', end(1)), ":3: the object is no JSON object"),
        "an object without metadata": (
            (HEADER, CONFIG_MAPS, {"kind": "ConfigMap", "apiVersion": "v1"}, end(1)),
            ":3: the ConfigMap has no metadata",
        ),
        "an object that nests too deep": (
            (HEADER, CONFIG_MAPS, DEEP, end(1)),
            ":3: the object can't be taken: exceeded",
        ),
        "an object that is too long": (
            (HEADER, CONFIG_MAPS, {**config_map("a"), "data": {"a": "x" * MAX_LINE}}, end(1)),
            f":3: the line is longer than {MAX_LINE:,} bytes",
        ),
        "invalid UTF-8": ((HEADER, CONFIG_MAPS, b'{"a":"\xff"}', end(1)), ":3: the object is no JSON object"),
    },
)
def test_invalid_snapshot_is_rejected_with_the_line(documents: tuple[Any, ...], error: str, tmp_path: Path) -> None:
    path = write(tmp_path / "s", *documents)
    with pytest.raises(SnapshotError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}{error}")


def test_other_file_formats_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(lines(HEADER, end(0)))
    with pytest.raises(SnapshotError, match="not compressed by gzip"):
        load(path)


def test_every_damaged_byte_is_detected(tmp_path: Path) -> None:
    """One byte after the other is changed, and the file cut off at each place."""
    whole = gzip.compress(lines(HEADER, CONFIG_MAPS, config_map("a"), end(1)), mtime=0)
    path = tmp_path / "s"
    path.write_bytes(whole)
    expected = load(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place])
        with pytest.raises(SnapshotError):
            load(path)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            result = load(path)
        except SnapshotError:
            continue
        assert result == expected, place  # the time, the system and the flags in the gzip header do not matter


@cases(
    "bounds, error",
    {
        "objects": ({"max_objects": 10}, "there are more than 10 objects"),
        "bytes": ({"max_bytes": 100_000}, "it is larger than 100,000 bytes, uncompressed"),
    },
)
def test_number_and_size_of_objects_are_bounded(bounds: Any, error: str, tmp_path: Path) -> None:
    objects = [config_map(f"{number:05}") for number in range(2000)]
    path = snapshot_of(tmp_path / "s", *objects)
    assert len(list(SnapshotFile(path).entries())) == 2000
    with pytest.raises(SnapshotError, match=error):
        list(SnapshotFile(path, **bounds).entries())


def test_decompression_bomb_is_rejected(tmp_path: Path) -> None:
    """300 MB of nothing in a few kilobytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(lines(HEADER, CONFIG_MAPS))
        file.write(b'{"data":"')
        for _ in range(300):
            file.write(b"x" * 1_000_000)
    path = tmp_path / "s"
    path.write_bytes(buffer.getvalue())
    assert path.stat().st_size < 400_000
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError, match="the line is longer"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_LINE
    finally:
        tracemalloc.stop()


def test_missing_snapshot_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def test_json_formatting_of_lines_does_not_matter(tmp_path: Path) -> None:
    spaced = json.dumps(config_map("a"), indent=None, separators=(" , ", " : ")).encode()
    assert load(snapshot_of(tmp_path / "s", spaced)) == [config_map("a")]
