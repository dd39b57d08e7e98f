"""Builds XML elements. Everything except ``Markup`` is escaped: names and messages come from untrusted manifests.
Pure."""

import re

import msgspec

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Characters that XML does not allow, and characters that change the text direction."""
_EMPTY = frozenset({"path", "line", "rect", "circle", "meta", "br", "use"})
LONGEST = 200
"""Maximum length of a name in a picture or a table."""
Value = str | int | float | None


class Markup(msgspec.Struct, frozen=True):
    """Markup; it is not escaped again."""

    text: str

    def __str__(self) -> str:
        return self.text


def clean(text: str) -> str:
    """Replace characters that can't be displayed or that change the text direction."""
    return _UNSAFE.sub("\ufffd", text)


def short(text: str, limit: int) -> str:
    """Truncate to ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def escape(text: str) -> str:
    """Escape for content and attribute values."""
    return clean(text).translate(_ESCAPES)


def element(name: str, /, *content: "Markup | str", **attributes: Value) -> Markup:
    """``element("text", "a < b", x=1, class_="label")``. Underscores in attribute names become dashes, a trailing one
    is dropped; attributes that are None are omitted."""
    rendered = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        inner = "".join(part.text for part in content if isinstance(part, Markup))
        return Markup(f"<{name}{rendered}/>" if not inner else f"<{name}{rendered}>{inner}</{name}>")
    inner = "".join(part.text if isinstance(part, Markup) else escape(part) for part in content)
    return Markup(f"<{name}{rendered}>{inner}</{name}>")


def joined(parts: "list[Markup]") -> Markup:
    """Concatenate."""
    return Markup("".join(part.text for part in parts))


def _number(value: str | int | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
