"""``python -m scripts.release check|notes TAG`` and ``prepare VERSION``: what a release needs of the tree.

``check`` fails unless the tag is the version of the code and the changelog has a section for it; ``notes`` prints that
section; ``prepare`` sets the version, and makes a section of what is under "Unreleased".
"""

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_VALID = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_UNRELEASED = "## Unreleased\n"


def version_of(root: Path) -> str:
    """The version of the code."""
    found = _VERSION.search((root / "src/pilothouse/__init__.py").read_text(encoding="utf-8"))
    assert found is not None, "src/pilothouse/__init__.py has no __version__"
    return found[1]


def notes(root: Path, version: str) -> str:
    """The section of the changelog. Raises ``ValueError`` if there is none, or nothing in it."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title.split(" ")[0] == version:
            if not body.strip():
                raise ValueError(f"CHANGELOG.md says nothing about {version}")
            return body.strip() + "\n"
    raise ValueError(f'CHANGELOG.md has no section "## {version}"')


def check(root: Path, tag: str) -> None:
    """Raises ``ValueError`` unless the tree is what the tag says."""
    version = version_of(root)
    if tag != f"v{version}":
        raise ValueError(f"the tag {tag} is not v{version}, the version in src/pilothouse/__init__.py")
    notes(root, version)


def prepare(root: Path, version: str, today: str) -> None:
    """Set the version, and give what is unreleased a title. Raises ``ValueError``."""
    if not _VALID.fullmatch(version):
        raise ValueError(f"{version} is no version such as 0.2.0 or 0.2.0rc1")
    changelog, module = root / "CHANGELOG.md", root / "src/pilothouse/__init__.py"
    text = changelog.read_text(encoding="utf-8")
    before, found, after = text.partition(_UNRELEASED)
    if not found or not after.split("\n## ")[0].strip():
        raise ValueError('CHANGELOG.md has nothing under "## Unreleased"')
    if f"\n## {version}" in text:
        raise ValueError(f"CHANGELOG.md has a section {version} already")
    changelog.write_text(f"{before}{_UNRELEASED}\n## {version} ({today})\n{after}", encoding="utf-8")
    code = module.read_text(encoding="utf-8")
    module.write_text(_VERSION.sub(f'__version__ = "{version}"', code), encoding="utf-8")


def main(words: list[str]) -> int:
    """Exit code 1 if the tree is not ready, 2 for anything else on the command line."""
    try:
        match words:
            case ["check", tag]:
                check(ROOT, tag)
            case ["notes", tag]:
                print(notes(ROOT, tag.removeprefix("v")), end="")
            case ["prepare", version]:
                prepare(ROOT, version, datetime.datetime.now(datetime.UTC).date().isoformat())  # noqa: TID251
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
