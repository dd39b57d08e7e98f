"""The widget that draws a view: headings and visible lines.

Only visible lines are drawn, so views may have any number of lines. Columns are as wide as the widest cell drawn so
far, and the last column takes the rest. Control characters are escaped.
"""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pilothouse.cli.screen.views import Cell, View
from pilothouse.cli.terminal import cell

STYLES = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "ready": Style(color="green"),
    "unready": Style(color="yellow"),
    "starting": Style(color="cyan"),
    "pending": Style(color="yellow"),
    "failing": Style(color="red", bold=True),
    "terminating": Style(color="magenta"),
    "succeeded": Style(color="blue"),
    "unknown": Style(color="red"),
    "added": Style(color="green"),
    "removed": Style(color="red"),
}
_WIDEST = 60
_HEADING = Style(bold=True, underline=True)
_CURSOR = Style(reverse=True)


class Grid(ScrollView, can_focus=True):
    """Draws ``view``. The cursor stays on its object when lines are added or removed."""

    BINDINGS = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class Chosen(Message):
        """A line was opened."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.cursor = 0
        self._cursor_key = ""
        self._widths: list[int] = []
        self._drawn: list[list[tuple[Cell, ...]]] = []

    def on_mount(self) -> None:
        """Start drawing."""
        self.set_view(self.view)

    def set_view(self, view: View, cursor: int = 0) -> None:
        """Show another view, from its first line."""
        self.view = view
        self.cursor = max(0, min(cursor, len(view) - 1))
        self._widths = [cell_len(name) for name in view.columns]
        self._remember()
        self._resize()
        self.scroll_to(0, 0, animate=False, force=True)
        self._reveal()
        self.refresh()

    def redraw(self) -> None:
        """Redraw after a change of the view or the time."""
        if self._cursor_key:
            index = self.view.index(self._cursor_key)
            if index >= 0:
                self.cursor = index
        self.cursor = max(0, min(self.cursor, len(self.view) - 1))
        self._remember()
        self._resize()
        drawn = self._visible()
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def _visible(self) -> list[list[tuple[Cell, ...]]]:
        top = self.scroll_offset.y
        end = min(top + self.size.height, len(self.view))
        return [[tuple(self.view.cells(index)), (Cell(str(self.cursor)),)] for index in range(top, end)]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the visible lines, with columns wide enough for all of them."""
        columns = len(self.view.columns)
        for cells, _cursor in self._visible():
            if len(cells) > 1:
                for index, cell_ in enumerate(cells[: columns - 1]):
                    self._widths[index] = max(self._widths[index], min(cell_len(cell(cell_.text)), _WIDEST))
        return super().render_lines(crop)

    def _resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.view) + self._heading_height)

    @property
    def _heading_height(self) -> int:
        return 1 if self.view.columns else 0

    def on_resize(self, _event: events.Resize) -> None:
        """Adapt to the new size of the terminal."""
        self._resize()
        self._reveal()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width = self.size.width
        if y < self._heading_height:
            cells: Sequence[Cell] = [Cell(name) for name in self.view.columns]
            return self._strip(cells, width, _HEADING)
        index = y - self._heading_height + self.scroll_offset.y
        if index >= len(self.view):
            return Strip.blank(width, self.rich_style)
        cells = self.view.cells(index)
        is_cursor = index == self.cursor and bool(self.view.columns)
        return self._strip(cells, width, _CURSOR if is_cursor else Style())

    def _strip(self, cells: Sequence[Cell], width: int, style: Style) -> Strip:
        columns = len(self.view.columns)
        base = self.rich_style + style
        segments = []
        for index, cell_ in enumerate(cells):
            text = cell(cell_.text)
            if len(cells) > 1 and index < columns - 1:
                size = self._widths[index]
                text = set_cell_size(text, size) + ("  " if size else "")
            segments.append(Segment(text, base + STYLES[cell_.style]))
        return Strip(segments).adjust_cell_length(width, base)

    # Moving

    def _remember(self) -> None:
        self._cursor_key = self.view.key(self.cursor) if len(self.view) else ""

    def _reveal(self) -> None:
        height = 1 + self._heading_height
        self.scroll_to_region(Region(0, self.cursor, 1, height), animate=False, force=True, immediate=True)

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        if not self.view.columns:
            self.scroll_relative(y=step, animate=False)
            return
        self.cursor = max(0, min(self.cursor + step, len(self.view) - 1))
        self._remember()
        self._reveal()
        self.refresh()

    def action_page(self, pages: int) -> None:
        """Move by a page."""
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_edge(self, last: int) -> None:
        """Move to the first or last line."""
        self.action_move(len(self.view) if last else -len(self.view))

    def action_choose(self) -> None:
        """Open the line at the cursor."""
        if self._cursor_key:
            self.post_message(self.Chosen(self._cursor_key))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; a second click opens the line."""
        index = event.y - self._heading_height + self.scroll_offset.y
        if self.view.columns and 0 <= index < len(self.view):
            again = index == self.cursor
            self.action_move(index - self.cursor)
            if again:
                self.action_choose()
