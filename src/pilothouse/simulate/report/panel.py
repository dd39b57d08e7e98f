"""``Panel``: a picture on the time axis, with a name on the left and a number on the right. Pure."""

from collections.abc import Sequence

import msgspec

from pilothouse.simulate.report.axis import LEFT, WIDTH, Axis
from pilothouse.simulate.report.markup import LONGEST, Markup, element, joined, short

LINE = 14
"""Line height in pixels."""
CHARACTERS = 38
"""Maximum number of characters left of the plot."""
_BESIDE_TICKS = 32
_CHARACTER_PIXELS = 6.4


class Panel(msgspec.Struct, frozen=True):
    """A part of a picture, relative to its upper left corner."""

    height: float
    parts: list[Markup]
    has_name: bool = False
    """Whether it starts with a name; then there is a gap above it."""


class Key(msgspec.Struct, frozen=True):
    """An entry of a legend: a sample and its name."""

    text: str
    class_: str
    shape: str = "area"
    """``area``, ``line`` or ``spot``."""


def name_part(text: str, y: float = 12) -> Markup:
    """The name of a panel."""
    shortened = short(text, _BESIDE_TICKS - 2)
    title = [element("title", short(text, LONGEST))] if shortened != text else []
    return element("text", *title, shortened, x=0, y=y, class_="name")


def label_part(text: str, y: float, *, x: float = 0, class_: str = "label", max_characters: int = CHARACTERS) -> Markup:
    """A text on the left; the full text is in its title if it is truncated."""
    shortened = short(text, max_characters)
    title = [element("title", short(text, LONGEST))] if shortened != text else []
    return element("text", *title, shortened, x=x, y=y, class_=class_)


def value_part(text: str, y: float, class_: str = "value") -> Markup:
    """A text on the right."""
    return element("text", text, x=WIDTH, y=y, class_=class_, text_anchor="end")


def legend_parts(keys: Sequence[Key], top: float) -> list[Markup]:
    """The legend, on the left."""
    parts = []
    for number, key in enumerate(keys):
        y = top + number * LINE
        match key.shape:
            case "line":
                sample = element("path", d=f"M0 {y - 3.5:g}H14", class_=key.class_)
            case "spot":
                sample = element("circle", cx=7, cy=y - 3.5, r=3.5, class_=key.class_)
            case _:
                sample = element("rect", x=0.5, y=y - 8.5, width=13, height=9, class_=key.class_)
        parts += [sample, label_part(key.text, y, x=20, max_characters=_BESIDE_TICKS - 3)]
    return parts


def frame_part(axis: Axis, top: float, bottom: float) -> Markup:
    """The background of a plot, with its base line."""
    ground = element(
        "rect", x=axis.left, y=top, width=axis.right - axis.left, height=round(bottom - top, 1), class_="ground"
    )
    base = element("path", d=f"M{axis.left:g} {bottom:g}H{axis.right:g}", class_="base")
    return joined([ground, base])


def scale_parts(value: int, y: float) -> Markup:
    """A tick label of the vertical axis."""
    return element("text", f"{value:,}", x=LEFT - 6, y=y + 4, class_="tick", text_anchor="end")


def axis_panel(axis: Axis, *, above: bool = False) -> Panel:
    """The tick labels of the time axis, below or above the plots."""
    parts = []
    last = -100.0
    for x, label in axis.ticks():
        parts.append(element("path", d=f"M{x:g} {13 if above else 0}v5", class_="base"))
        if x - last > len(label) * _CHARACTER_PIXELS + 8:
            parts.append(element("text", label, x=x, y=10 if above else 17, class_="tick", text_anchor="middle"))
            last = x
    return Panel(18 if above else 24, parts)


def grid_part(axis: Axis, height: float) -> Markup:
    """Vertical grid lines at the ticks."""
    return element("path", d="".join(f"M{x:g} 0V{height:g}" for x, _label in axis.ticks()), class_="grid")


def placed(panels: Sequence[Panel], top: float, gap: float = 16) -> tuple[list[Markup], float]:
    """Arrange panels below each other. Also returns the y coordinate below the last one."""
    parts, y = [], top
    for number, panel in enumerate(panels):
        if number and panel.has_name:
            y += gap
        parts.append(element("g", *panel.parts, transform=f"translate(0 {y:g})"))
        y += panel.height
    return parts, y
