"""Elements as text. Everything that is not ``Markup`` is escaped: names and messages come from other people's
manifests. Pure."""

import re

import msgspec

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""What XML has no characters for, and what changes the direction of the text around it."""
_EMPTY = frozenset({"path", "line", "rect", "circle", "meta", "br", "use"})
LONGEST = 200
"""Characters of a name in a picture or a table."""
Value = str | int | float | None


class Markup(msgspec.Struct, frozen=True):
    """Text that is markup already."""

    text: str

    def __str__(self) -> str:
        return self.text


def clean(text: str) -> str:
    """Without characters that can't be shown, or that would reorder others."""
    return _UNSAFE.sub("\ufffd", text)


def short(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def escape(text: str) -> str:
    """For content and attributes."""
    return clean(text).translate(_ESCAPES)


def element(name: str, /, *content: "Markup | str", **attributes: Value) -> Markup:
    """``element("text", "a < b", x=1, class_="label")``. Underscores of attributes become dashes, a last one is
    dropped; attributes that are None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        inner = "".join(part.text for part in content if isinstance(part, Markup))
        return Markup(f"<{name}{given}/>" if not inner else f"<{name}{given}>{inner}</{name}>")
    inner = "".join(part.text if isinstance(part, Markup) else escape(part) for part in content)
    return Markup(f"<{name}{given}>{inner}</{name}>")


def joined(parts: "list[Markup]") -> Markup:
    """One after the other."""
    return Markup("".join(part.text for part in parts))


def _number(value: str | int | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
