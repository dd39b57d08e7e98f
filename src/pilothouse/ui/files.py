"""The static files of the page, and their Content-Security-Policy: no resources from other origins, no inline scripts,
no framing."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

_DIRECTORY = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# With trusted types no text can become markup or code.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class File(msgspec.Struct, frozen=True):
    """One file with its headers."""

    content: bytes
    content_type: str
    etag: str


def load_files() -> dict[str, File]:
    """Load all files by their path below ``/ui/``; the page itself has the empty path."""
    files = {}
    for path in sorted(_DIRECTORY.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            name = path.relative_to(_DIRECTORY).as_posix()
            files["" if name == "index.html" else name] = File(content, _TYPES[path.suffix], etag)
    return files
