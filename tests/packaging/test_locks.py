"""The lock file of an installation, and its SBOM."""

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from tests.programs import ROOT

_PIN = re.compile(r"^([\w.-]+)==(\S+)((?:.*\\\n\s+--hash=sha256:[0-9a-f]{64})*)", re.MULTILINE)


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes by package."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return {
        item[1]: (item[2], frozenset(re.findall(r"sha256:([0-9a-f]{64})", item[3]))) for item in _PIN.finditer(text)
    }


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    """What the script prints."""
    document: dict[str, Any] = json.loads(printed())
    return document


def printed(**environment: str) -> str:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "sbom")], capture_output=True, text=True, check=True, env=environment
    ).stdout


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_runtime_lock_is_a_subset_of_the_development_lock(name: str) -> None:
    """Equal versions and hashes: tested versions are installed."""
    locked, tested = pins(name), pins("requirements-dev.txt")
    assert locked
    assert all(tested[name] == pin for name, pin in locked.items())


def test_every_dependency_is_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = pins("requirements.txt")
    assert {re.split(r"[<>=;]", line)[0] for line in project["dependencies"]} <= set(locked)
    assert all(hashes for _version, hashes in locked.values())


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt", "requirements-dev.txt"])
def test_lock_has_no_index_url(name: str) -> None:
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_sbom_lists_locked_packages(bill: dict[str, Any]) -> None:
    listed = {
        component["name"]: (
            component["version"],
            frozenset(hashe["content"] for hashe in component["externalReferences"][0]["hashes"]),
        )
        for component in bill["components"]
    }
    assert listed == pins("requirements.txt")


def test_sbom_lists_dependencies(bill: dict[str, Any]) -> None:
    graph = {entry["ref"]: set(entry["dependsOn"]) for entry in bill["dependencies"]}
    own = bill["metadata"]["component"]["bom-ref"]
    assert set(graph) == {own} | {component["bom-ref"] for component in bill["components"]}
    assert {"pkg:pypi/cryptography", "pkg:pypi/msgspec"} <= {ref.partition("@")[0] for ref in graph[own]}
    reached, open_ends = {own}, [own]
    while open_ends:
        for ref in graph[open_ends.pop()] - reached:
            reached.add(ref)
            open_ends.append(ref)
    assert reached == set(graph), "something is installed that nothing asks for"


def test_sbom_is_cyclonedx(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", bill["serialNumber"]
    )
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)


def test_sbom_is_reproducible() -> None:
    assert printed(PYTHONHASHSEED="1") == printed(PYTHONHASHSEED="2")


def test_sbom_timestamp() -> None:
    assert json.loads(printed(SOURCE_DATE_EPOCH="0"))["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
