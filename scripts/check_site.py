"""``python scripts/check_site.py DIRECTORY``: what MkDocs does not check of the site that it has built.

Every link and picture leads to a file, every page has a title, and no page loads anything from another host: neither
fonts nor scripts.
"""

import sys
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
_NOT_LOADED = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """What a page loads, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded, self.links = set[str](), set[str]()
        self.titles = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what it names."""
        given = {name: value or "" for name, value in attributes}
        self.titles += tag == "title"
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        elif tag in _LOADED and _LOADED[tag] in given and given.get("rel") not in _NOT_LOADED:
            self.loaded.add(given[_LOADED[tag]])


def errors(root: Path) -> Iterator[str]:
    """What is wrong with a site."""
    pages = sorted(root.rglob("*.html"))
    if not pages:
        yield f"{root} has no pages"
    for path in pages:
        page = Page(path.read_text(encoding="utf-8"))
        here = path.relative_to(root)
        if not page.titles:
            yield f"{here} has no title"
        for target in sorted(page.loaded | page.links):
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    yield f"{here} loads {target}"
            elif parts.path and not _exists(root, path, parts.path):
                yield f"{here} links to {target}"


def _exists(root: Path, page: Path, target: str) -> bool:
    target = urllib.parse.unquote(target)
    found = root / target.lstrip("/") if target.startswith("/") else page.parent / target
    return (found / "index.html").is_file() if found.is_dir() else found.is_file()


def main() -> int:
    """Print what is wrong. Exit code 1 if anything is."""
    found = list(errors(Path(sys.argv[1])))
    print("".join(f"{line}\n" for line in found), end="", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
