"""Draws an asciicast as an animated SVG: lines appear as they did in the terminal, commands key by key.

For READMEs, which can show a picture and run no script. The animation is CSS; where a reader asks for less motion, or a
viewer knows no CSS animations, the picture is the last screen. Everything must fit on one screen: nothing scrolls.
"""

import html
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_CHARACTER, _LINE, _MARGIN, _BAR = 8.4, 19, 16, 34
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_LAST_SECONDS = 6.0
"""How long the last screen stays before the animation begins again."""
_KEY_SECONDS = 0.03


class Line(NamedTuple):
    """A line of the terminal, and when it was printed, or begun to be typed."""

    seconds: float
    text: str

    @property
    def is_command(self) -> bool:
        """Whether it is typed, and not printed."""
        return self.text.startswith("$ ")


def lines_of(events: Sequence[tuple[float, str]]) -> list[Line]:
    """The lines of what was typed and printed."""
    return [Line(seconds, line) for seconds, text in events for line in text.removesuffix("\n").split("\n")]


def drawn(events: Sequence[tuple[float, str]], title: str) -> str:
    """The picture."""
    lines = lines_of(events)
    columns = max(len(line.text) for line in lines)
    width = round(columns * _CHARACTER + 2 * _MARGIN)
    height = _BAR + len(lines) * _LINE + _MARGIN
    total = lines[-1].seconds + len(lines[-1].text) * _KEY_SECONDS + _LAST_SECONDS
    shapes = "\n".join(_shape(number, line, total, columns * _CHARACTER) for number, line in enumerate(lines))
    steps = "\n".join(_animations(lines, total))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img" aria-label="{html.escape(title)}">
<title>{html.escape(title)}</title>
<style>
text {{ font: 14px {_FONT}; fill: #d7dde5; white-space: pre }}
.typed {{ fill: #ffffff; font-weight: 600 }}
.prompt {{ fill: #7ee787 }}
.curtain {{ fill: #14191f; visibility: hidden }}
@media (prefers-reduced-motion: no-preference) {{
{steps}
}}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#14191f"/>
<circle cx="20" cy="18" r="5" fill="#ff5f57"/><circle cx="38" cy="18" r="5" fill="#febc2e"/>\
<circle cx="56" cy="18" r="5" fill="#28c840"/>
{shapes}
</svg>
"""


def _shape(number: int, line: Line, total: float, width: float) -> str:
    """A line; over one that is typed lies a curtain that moves away key by key."""
    y = _BAR + (number + 1) * _LINE - 5
    animation = f'style="animation: l{number} {total:.2f}s infinite"'
    length = f' textLength="{len(line.text) * _CHARACTER:.1f}"' if line.text else ""
    start = f'<text x="{_MARGIN}" y="{y}" xml:space="preserve"{length}'
    if not line.is_command:
        return f"{start} {animation}>{html.escape(line.text)}</text>"
    text = f'<tspan class="prompt">$</tspan><tspan class="typed">{html.escape(line.text[1:])}</tspan>'
    curtain = f'<rect class="curtain" x="{_MARGIN}" y="{y - 14}" width="{width:.0f}" height="{_LINE}" {animation}/>'
    return f"{start}>{text}</text>{curtain}"


def _animations(lines: Sequence[Line], total: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        begin = line.seconds / total * 100
        if line.is_command:
            end = begin + len(line.text) * _KEY_SECONDS / total * 100
            yield (
                f"@keyframes l{number} {{ 0% {{ visibility: visible }} {begin:.3f}% {{ visibility: visible; "
                f"transform: none; animation-timing-function: steps({len(line.text)}) }} "
                f"{end:.3f}% {{ visibility: visible; transform: translateX({len(line.text) * _CHARACTER:.1f}px) }} "
                f"{end + 0.001:.3f}%, 100% {{ visibility: hidden }} }}"
            )
        else:
            yield (
                f"@keyframes l{number} {{ 0%, {begin:.3f}% {{ visibility: hidden }} "
                f"{begin + 0.001:.3f}%, 100% {{ visibility: visible }} }}"
            )
