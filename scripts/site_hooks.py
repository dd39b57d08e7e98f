"""What MkDocs needs to make a site of ``docs/`` (``mkdocs.yml``), which is written to be read on GitHub, too.

Pages link to files outside ``docs/``: those at the root become pages of ``project/``, all others (examples, manifests)
are copied to ``source/``, and the links follow. Headings get the anchors that GitHub gives them. In the navigation
``FOLDER/*`` stands for all pages of that folder that are named nowhere else.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the navigation, and GitHub's anchors."""
    named = set(_paths(config.nav))
    config.nav = _filled(config.nav, named)
    config.mdx_configs.setdefault("toc", {}).update(slugify=slugify(case="lower"), permalink=True)
    return config


def _paths(entries: Any) -> list[str]:
    if isinstance(entries, dict):
        return [path for each in entries.values() for path in _paths(each)]
    return [path for each in entries for path in _paths(each)] if isinstance(entries, list) else [entries]


def _filled(entries: Any, named: set[str]) -> Any:
    if isinstance(entries, dict):
        return {name: _filled(each, named) for name, each in entries.items()}
    if not isinstance(entries, list):
        return entries
    filled = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/*"):
            found = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob(f"{entry}.md"))
            filled += sorted({*found} - named, key=lambda path: (not path.endswith("index.md"), path))
        else:
            filled.append(_filled(entry, named))
    return filled


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside ``docs/`` and is linked to."""
    for path in sorted(_linked()):
        content = (ROOT / path).read_bytes() if (ROOT / path).is_file() else _list_of(posixpath.dirname(path))
        files.append(File.generated(config, _site_path(path), content=content))
    return files


def _list_of(folder: str) -> str:
    """The page of a folder that has none."""
    names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_file())
    return f"# {folder}\n\n" + "".join(f"* [{name}]({name})\n" for name in names)


def _page_of(folder: str) -> str:
    """The page that stands for a folder; it may be one that ``_list_of`` writes."""
    return posixpath.join(folder, "index.md" if (ROOT / folder / "index.md").exists() else "README.md")


def _linked() -> set[str]:
    """The files outside ``docs/`` that pages link to, from the root, and pages of folders that have none."""
    found = set[str]()
    waiting = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    while waiting:
        page = waiting.pop()
        for _start, target in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if "://" in target or path == "README.md" or path.startswith(("docs/", "..")) or path in found:
                continue
            if (ROOT / path).is_dir():
                path = _page_of(path)
                if not (ROOT / path).exists():
                    found |= {
                        each.relative_to(ROOT).as_posix() for each in (ROOT / path).parent.iterdir() if each.is_file()
                    }
                    found.add(path)
            if (ROOT / path).is_file():
                found.add(path)
                if path.endswith(".md"):
                    waiting.append(path)
    return found


def _site_path(path: str) -> str:
    """Where a file of the project is on the site."""
    if path == "README.md":
        path = "docs/README.md"  # its counterpart on the site
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"project/{path}" if path.endswith(".md") and "/" not in path else f"source/{path}"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links lead to where files are on the site."""
    here = page.file.src_uri
    source = here.removeprefix("project/") if here.startswith("project/") else f"docs/{here}"

    def moved(link: re.Match[str]) -> str:
        target = link[2]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if "://" in target or target.startswith("mailto:") or not (ROOT / path).exists():
            return link[0]
        if (ROOT / path).is_dir():
            path = _page_of(path)
        return link[1] + posixpath.relpath(_site_path(path), posixpath.dirname(here) or ".")

    return _LINK.sub(moved, markdown)
