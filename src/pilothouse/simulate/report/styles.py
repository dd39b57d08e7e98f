"""The styles of pictures, in light and dark mode. Written without CSS variables, for SVG programs with incomplete CSS
support. The colors are those of Okabe and Ito, which are distinguishable with all kinds of color vision; bands, strips
and marks differ in pattern or shape, too. Pure."""

from pilothouse.simulate.report.markup import Markup

_TEXT = ("#1f2328", "#e6edf3")
_QUIET = ("#57606a", "#9aa4af")
_BAD = ("#b3261e", "#ff8a82")
_GROUND = ("#ffffff", "#0d1117")
_RULES: tuple[tuple[str, str, tuple[str, str], str], ...] = (
    # selector, property, values in light and dark mode, further declarations
    ("text", "fill", _TEXT, "font:11.5px system-ui,-apple-system,'Segoe UI',sans-serif"),
    (".page", "fill", _GROUND, ""),
    (".heading", "fill", _TEXT, "font-size:17px;font-weight:600"),
    (".subheading,.label,.tick,.value", "fill", _QUIET, ""),
    (".name,.strong", "fill", _TEXT, "font-weight:600"),
    (".name", "fill", _TEXT, "font-size:12.5px"),
    (".number", "fill", _TEXT, "font-size:10.5px;font-weight:600"),
    (".bad", "fill", _BAD, "font-weight:600"),
    (".ground", "fill", ("#f6f8fa", "#161b22"), ""),
    (".base", "stroke", ("#8c959f", "#6e7681"), "fill:none"),
    (".grid", "stroke", ("#d0d7de", "#30363d"), "fill:none;stroke-width:1"),
    (".ready", "stroke", _TEXT, "fill:none;stroke-width:1.8"),
    (".desired", "stroke", _QUIET, "fill:none;stroke-width:1;stroke-dasharray:1 3"),
    (".bound", "stroke", _BAD, "fill:none;stroke-width:1.6;stroke-dasharray:7 4"),
    (".unavailable", "fill", ("#d55e00", "#e8823a"), ""),
    (".failed", "fill", ("#8c4a0e", "#c58a5a"), "fill-opacity:.75"),
    (".pending", "stroke", ("#7139c4", "#c79bff"), "fill:none;stroke-width:1.5;stroke-dasharray:2 2"),
    (".terminating", "stroke", _QUIET, "fill:none;stroke-width:1.2"),
    (".band", "stroke", _GROUND, "stroke-width:.7"),
    (".r0", "fill", ("#8fbfe0", "#2f6a94"), ""),
    (".r1", "fill", ("#f0b840", "#9a6b00"), "fill:url(#r1)"),
    (".g1", "fill", ("#f0b840", "#9a6b00"), ""),
    (".r2", "fill", ("#4db894", "#0b7a5a"), ""),
    (".r3", "fill", ("#dba3c1", "#8d4f72"), "fill:url(#r3)"),
    (".g3", "fill", ("#dba3c1", "#8d4f72"), ""),
    (".r4", "fill", ("#b9d7a8", "#55743f"), ""),
    (".r5", "fill", ("#e39a66", "#9c4a10"), "fill:url(#r5)"),
    (".g5", "fill", ("#e39a66", "#9c4a10"), ""),
    (".hatch", "stroke", _GROUND, "stroke-width:1.6;stroke-opacity:.55"),
    (".node-ready", "fill", ("#a8d5c2", "#1d5a46"), ""),
    (".node-cordoned", "fill", ("#56b4e9", "#56b4e9"), "fill:url(#dots)"),
    (".dots", "fill", ("#cde8f8", "#1b4a66"), ""),
    (".dot", "fill", ("#0072b2", "#7cc7f2"), ""),
    (".node-not-ready", "fill", ("#d55e00", "#e8823a"), ""),
    (".node-unknown", "fill", _TEXT, "fill:url(#unknown)"),
    (".unknown-ground", "fill", ("#3d444d", "#c9d1d9"), ""),
    (".unknown-line", "stroke", ("#c9d1d9", "#3d444d"), "stroke-width:2"),
    (".node-gone", "stroke", _QUIET, "fill:none;stroke-dasharray:3 3"),
    (".rate", "fill", ("#3b7fb5", "#6db3e8"), ""),
    (".queue", "fill", ("#7a5bb0", "#b39ddb"), ""),
    (".queue", "stroke", ("#7a5bb0", "#b39ddb"), "stroke-width:.8"),
    (".range", "fill", ("#3b7fb5", "#6db3e8"), "fill-opacity:.35"),
    (".median", "fill", ("#0550ae", "#79b8ff"), ""),
    (".whisker", "stroke", ("#0550ae", "#79b8ff"), "fill:none;stroke-width:1.5"),
    (".event", "stroke", ("#0550ae", "#79b8ff"), "fill:none;stroke-width:1.5"),
    (".event.warning", "stroke", _BAD, "stroke-width:1.5"),
    ("path.event.warning:not(.span)", "fill", _BAD, ""),
    (".mark.action", "fill", ("#0550ae", "#79b8ff"), ""),
    (".mark.fault", "fill", ("#b35900", "#ffab57"), ""),
    (".mark.violation", "stroke", _BAD, "fill:none;stroke-width:3"),
    (".through", "stroke", _QUIET, "fill:none;stroke-width:1;stroke-opacity:.8"),
    (".through.action", "stroke", ("#0550ae", "#79b8ff"), "stroke-dasharray:5 3"),
    (".through.fault", "stroke", ("#b35900", "#ffab57"), "stroke-dasharray:2 2"),
    (".through.violation", "stroke", _BAD, "stroke-width:1.6"),
)
PATTERNS = Markup(
    "<defs>"
    + "".join(
        f'<pattern id="r{number}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" class="g{number}"/><path d="M3 0V6" class="hatch"/></pattern>'
        for number in (1, 3, 5)
    )
    + '<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<rect width="5" height="5" class="dots"/><circle cx="2.5" cy="2.5" r="1.1" class="dot"/></pattern>'
    '<pattern id="unknown" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="unknown-ground"/><path d="M3 0V6" class="unknown-line"/></pattern>'
    "</defs>"
)
"""The pattern definitions, once per document."""


def picture_css() -> str:
    """The style sheet of pictures."""
    light = "".join(
        f"{_scoped(selector)}{{{name}:{tones[0]}{f';{rest}' if rest else ''}}}"
        for selector, name, tones, rest in _RULES
    )
    dark = "".join(
        f"{_scoped(selector)}{{{name}:{tones[1]}}}"
        for selector, name, tones, rest in _RULES
        if f"{name}:url" not in rest
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def _scoped(selector: str) -> str:
    return ",".join(f"svg {part}" for part in selector.split(","))
