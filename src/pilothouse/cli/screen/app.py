"""The application: views, keys, prompts, and its requests to the cluster.

Feeds and samples run as tasks of the application. A change only sets a timer, so that the screen is drawn at most ten
times a second, and less often where drawing takes long: it never takes more than a tenth of the time.
"""

import asyncio
import datetime
from collections.abc import Coroutine
from typing import Any

from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Input, Static

from pilothouse.api.kinds import Kind
from pilothouse.cli.program import UserError
from pilothouse.cli.resource_arguments import find_resource, revision_at
from pilothouse.cli.screen.details import PARTS, ObjectReference, TextView, part_lines
from pilothouse.cli.screen.grid import Grid
from pilothouse.cli.screen.keys import HELP, PROMPTS
from pilothouse.cli.screen.metrics import MANAGER, SCHEDULER, Programs
from pilothouse.cli.screen.model import KIND_OF, Model, split_key
from pilothouse.cli.screen.program_views import ControllersView, SchedulerView
from pilothouse.cli.screen.views import (
    SIGNS,
    Cell,
    ClusterView,
    EventsView,
    PodsView,
    View,
    WorkloadsView,
)
from pilothouse.cli.terminal import escaped
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.machinery.durations import parse_duration
from pilothouse.machinery.times import TimeError, format_time, parse_time
from pilothouse.ui.rows import TABLES

FRAME_SECONDS = 0.1
_SHARE = 10
"""The minimum pause between two drawings, as a multiple of the duration of one."""
_SAMPLE_SECONDS = 2.0
_STEP = datetime.timedelta(seconds=10)
_EVENT = next({name: index for index, name in enumerate(table.columns)} for table in TABLES if table.name == "events")


class TopApp(App[None]):
    """The application. ``client`` has the user's credentials; for forbidden resources the error is shown."""

    CSS = """
    #head, #foot { height: auto; max-height: 4; }
    #head.past { background: $warning 30%; }
    Grid { height: 1fr; }
    Input { display: none; border: none; height: 1; padding: 0; }
    Input.open { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        *(Binding(str(number), f"view({number})", show=False) for number in range(1, 7)),
        *(Binding(part[0], f"part('{part}')", show=False) for part in PARTS),
        Binding("escape", "back", show=False),
        Binding("space", "toggle_pods", show=False),
        # With priority, so that the prompt has the focus before the next key is read: pasted keys arrive at once.
        Binding("slash", "ask('search')", show=False, priority=True),
        Binding("colon", "ask('open')", show=False, priority=True),
        Binding("N", "ask('namespace')", show=False, priority=True),
        Binding("t", "ask('time')", show=False, priority=True),
        Binding("left_square_bracket", "step(-1)", show=False),
        Binding("right_square_bracket", "step(1)", show=False),
        Binding("n", "now", show=False),
        Binding("o", "sort", show=False),
        Binding("O", "reverse", show=False),
        Binding("d", "theme", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "quit", show=False),
    ]

    def __init__(
        self, client: Client, env: Env, *, server: str = "", namespace: str = "", fallback: str = "", at: str = ""
    ) -> None:
        super().__init__()
        self.model = Model(client, env, self._changed)
        self._client = client
        self._env = env
        self._server = server
        self._namespace, self._scope, self._fallback = namespace, namespace, fallback
        self._at = at
        self._revision = ""
        self._moment: datetime.datetime | None = None
        self._programs = Programs(client, env)
        self._views: dict[int, View] = {
            1: ClusterView(self.model, self.time),
            2: WorkloadsView(self.model, self.time),
            3: EventsView(self.model, self.time),
            4: ControllersView(self.model, self._programs, self.time),
            5: SchedulerView(self.model, self._programs, self.time),
            6: PodsView(self.model, self.time),
        }
        self._number = 1
        self._search = ""
        self._orders: dict[int, tuple[int, bool]] = {}
        self._cursors: dict[int, int] = {}
        self._object: ObjectReference | None = None
        self._part = "yaml"
        self._text: TextView | None = None
        self._prompt = ""
        self._message = ""
        self._timer: asyncio.TimerHandle | None = None
        self._drew_seconds = 0.0
        self._dirty: dict[str, dict[str, None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self.grid = Grid(self._views[1])

    def time(self) -> float:
        """Now, or the selected time, in seconds since the epoch."""
        return (self._moment or self._env.now()).timestamp()

    def compose(self) -> ComposeResult:
        """The screen: a header, the lines, a footer, and a prompt when needed."""
        yield Static(id="head", markup=False)
        yield self.grid
        yield Static(id="foot", markup=False)
        yield Input()

    def on_mount(self) -> None:
        """Start reading."""
        self.grid.focus()
        self.set_interval(1.0, self._tick)
        self.set_interval(_SAMPLE_SECONDS, self._sample)
        self._show(1)
        if self._at:
            self._load(self._go(self._at))
        else:
            self._read("")

    async def on_unmount(self) -> None:
        """Stop all tasks."""
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._reading, self._loading):
            if task is not None:
                task.cancel()

    # Reading

    def _read(self, revision: str) -> None:
        """Watch the current state, or read the state at a resourceVersion."""
        if self._reading is not None:
            self._reading.cancel()
        self._revision = revision
        if revision:
            work = self.model.read_past(self._scope, self._fallback, revision)
        else:
            self._moment = None
            work = self.model.follow(self._scope, self._fallback)
        self._reading = asyncio.get_running_loop().create_task(work, name="rows of the screen")
        self._reading.add_done_callback(self._finished)
        self._sample()

    def _load(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one request at a time; a new one cancels the previous one."""
        if self._loading is not None:
            self._loading.cancel()
        self._loading = asyncio.get_running_loop().create_task(work, name="answer for the screen")
        self._loading.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """A failed task ends the application, which prints the error."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.call_later(_raise, error)

    def _sample(self) -> None:
        component = {4: MANAGER, 5: SCHEDULER}.get(self._number)
        if component and self._object is None and not self._revision:
            self.run_worker(self._take_sample(component), exclusive=True, group="sample")

    async def _take_sample(self, component: str) -> None:
        await self._programs.sample(component)
        self._changed()

    # Drawing

    def _changed(self) -> None:
        if self._timer is None and self.is_running:
            pause = max(FRAME_SECONDS, self._drew_seconds * _SHARE)
            self._timer = asyncio.get_running_loop().call_later(pause, self._draw)

    def _draw(self) -> None:
        self._timer = None
        if not self.is_running:
            return
        started = self._env.perf_counter()
        changes = self.model.take_changes()
        if self._text is None:
            self._views[self._number].update(changes)
        self.grid.redraw()
        self._draw_head()
        self._drew_seconds = self._env.perf_counter() - started

    def _tick(self) -> None:
        """Redraw ages."""
        if self._timer is None:
            self.grid.redraw()

    def _draw_head(self) -> None:
        head = self.query_one("#head", Static)
        names = "  ".join(
            f"[{number} {view.title}]" if number == self._number and self._text is None else f"{number} {view.title}"
            for number, view in self._views.items()
        )
        counts = self.model.pods_by_state
        pods = "  ".join(f"{sign} {counts[state]}" for state, sign in SIGNS.items() if counts.get(state))
        total = sum(counts.values())
        nodes = len(self.model.tables["nodes"])
        numbers = f"{_counted(nodes, 'node')}  {_counted(total, 'pod')}"
        second = f"{self._server}  {self._namespace or 'all namespaces'}  {numbers}  {pods}"
        lines = [names, second]
        if self._revision:
            at = "" if self._moment is None else f" ({format_time(self._moment)})"
            lines.append(f"THE PAST: resourceVersion {self._revision}{at}; n returns to now")
        if self._object is not None:
            parts = "  ".join(f"[{part[0]} {part}]" if part == self._part else f"{part[0]} {part}" for part in PARTS)
            lines.append(f"{self._object.title}   {parts}")
        head.set_class(bool(self._revision), "past")
        _set(head, lines)
        foot = []
        if self._search:
            foot.append(f"search: {self._search}")
        order, reverse = self._orders.get(self._number, (0, False))
        sorting = self._views[self._number].sorting
        if (order or reverse) and self._text is None:
            foot.append(f"sorted by {sorting[order]}{', reversed' if reverse else ''}")
        if not self.model.synced:
            foot.append("reading…")
        first = "   ".join([*foot, self._message or "? help"])
        _set(self.query_one("#foot", Static), [first, *list(self.model.errors())[:3]])

    def _show(self, number: int) -> None:
        """Redraw a view."""
        self._cursors[self._number] = self.grid.cursor
        self._number = number
        self._text, self._object = None, None
        view = self._views[number]
        self._arrange()
        self.grid.set_view(view, self._cursors.get(number, 0))
        self._sample()
        self._draw_head()

    def _arrange(self) -> None:
        order, reverse = self._orders.get(self._number, (0, False))
        view = self._text or self._views[self._number]
        view.show(search=self._search, namespace=self._namespace, sort=order, reverse=reverse)

    def _show_text(self, text: TextView) -> None:
        if self._text is None:
            self._cursors[self._number] = self.grid.cursor
        self._text = text
        text.set_width(self.size.width)
        self.grid.set_view(text)
        self._draw_head()

    def on_resize(self, _event: events.Resize) -> None:
        """The terminal was resized: wrap texts again."""
        if self._text is not None:
            self._text.set_width(self.size.width)
            self.grid.redraw()

    # Keys

    def action_view(self, number: int) -> None:
        """Show a view."""
        self._message = ""
        self._search = ""
        self._show(number)

    async def action_back(self) -> None:
        """Return from an object to its view; otherwise clear the search."""
        self._message = ""
        if self._text is None:
            self._search = ""
        self._show(self._number)

    def action_toggle_pods(self) -> None:
        """Show or hide the pods of a workload."""
        view = self._views[self._number]
        if isinstance(view, WorkloadsView) and self._text is None and len(view):
            view.toggle(view.key(self.grid.cursor))
            self.grid.redraw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        order, reverse = self._orders.get(self._number, (0, False))
        self._order((order + 1) % max(len(self._views[self._number].sorting), 1), reverse=reverse)

    def action_reverse(self) -> None:
        """Reverse the order."""
        order, reverse = self._orders.get(self._number, (0, False))
        self._order(order, reverse=not reverse)

    def _order(self, order: int, *, reverse: bool) -> None:
        if self._text is None and self._views[self._number].sorting:
            self._orders[self._number] = order, reverse
            self._arrange()
            self.grid.redraw()
            self._draw_head()

    def action_theme(self) -> None:
        """Switch between dark and light theme."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_help(self) -> None:
        """Show all keys."""
        self._object = None
        self._show_text(TextView("Help", [Cell(line) for line in HELP.splitlines()]))

    # Objects

    @on(Grid.Chosen)
    def _open_line(self, chosen: Grid.Chosen) -> None:
        self._load(self._open_key(chosen.key))

    async def _open_key(self, key: str) -> None:
        if key.startswith("queue "):
            return
        prefix, namespace, name = split_key(key)
        kind: Kind[Any] | None = KIND_OF[prefix]
        try:
            discovery = await self.model.discover()
            if prefix == "/events/" and key in self.model.tables["events"]:
                row = self.model.tables["events"][key]
                resources = [
                    resource for resource in discovery.preferred_resources() if resource.kind == row[_EVENT["kind"]]
                ]
                if resources:
                    reference = ObjectReference(
                        resources[0], row[_EVENT["namespace"]] if resources[0].namespaced else "", row[_EVENT["name"]]
                    )
                    await self._open(reference, "yaml")
                    return
            assert kind is not None, "each table has a kind"
            await self._open(ObjectReference(find_resource(discovery, kind.group_resource), namespace, name), "yaml")
        except (ApiError, OSError, UserError) as error:
            self._say(str(error))

    async def _open_words(self, text: str) -> None:
        words = text.split()
        type_, slash, name = words[0].partition("/")
        if len(words) == 2 and not slash:
            name = words[1]
        try:
            if not name or len(words) > 2:
                raise UserError(f"expected TYPE/NAME or TYPE NAMESPACE/NAME, got {text}")
            resource = find_resource(await self.model.discover(), type_)
            namespace, _slash, name = name.rpartition("/")
            if resource.namespaced:
                namespace = namespace or self._namespace or self._fallback or "default"
            await self._open(ObjectReference(resource, namespace if resource.namespaced else "", name), "yaml")
        except (ApiError, OSError, UserError) as error:
            self._say(str(error))

    def action_part(self, part: str) -> None:
        """Show YAML, events, history or explanation of the current object or the one at the cursor."""
        if self._object is not None:
            self._load(self._open(self._object, part))
        elif self._text is None and len(self._views[self._number]):
            key = self._views[self._number].key(self.grid.cursor)
            if key:
                self._load(self._open_part(key, part))

    async def _open_part(self, key: str, part: str) -> None:
        await self._open_key(key)
        if part != "yaml" and self._object is not None:
            await self._open(self._object, part)

    async def _open(self, reference: ObjectReference, part: str) -> None:
        self._object, self._part = reference, part
        text = TextView(reference.title, [Cell("reading…", "dim")])
        self._show_text(text)
        now = self._moment or self._env.now()
        discovery = await self.model.discover()
        lines = await part_lines(self._client, discovery, reference, part, revision=self._revision, now=now)
        text.replace(lines)
        if self._text is text:
            self.grid.set_view(text)

    # Prompts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that open a prompt are characters in an open one."""
        return action != "ask" or not self._prompt

    def action_ask(self, prompt: str) -> None:
        """Open a prompt for a line of text."""
        self._prompt, self._message = prompt, ""
        typed = self.query_one(Input)
        typed.placeholder = PROMPTS[prompt]
        if prompt == "namespace":
            typed.placeholder += f": {', '.join(map(escaped, self.model.namespaces()[:20]))}"
        typed.value = self._search if prompt == "search" else ""
        typed.add_class("open")
        self.screen.set_focus(typed)

    def _end_prompt(self) -> None:
        self._prompt = ""
        self.query_one(Input).remove_class("open")
        self.grid.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._prompt == "search" and event.value != self._search:
            self._search = event.value
            self._arrange()
            self.grid.redraw()
            self._draw_head()

    def on_key(self, event: events.Key) -> None:
        """Escape closes a prompt."""
        if self._prompt and event.key == "escape":
            event.stop()
            event.prevent_default()
            if self._prompt == "search":
                self._search = ""
                self._arrange()
                self.grid.redraw()
            self._end_prompt()
            self._draw_head()

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        prompt, text = self._prompt, event.value.strip()
        self._end_prompt()
        if prompt == "namespace":
            self._namespace = text
            if self._scope not in ("", text) or any(
                feed.restricted and feed.namespace != text for feed in self.model.feeds
            ):
                # The prompt closes without waiting for the API server.
                self._scope = text
                self._read(self._revision)
            self._show(self._number)
        elif prompt == "open" and text:
            self._load(self._open_words(text))
        elif prompt == "time":
            self._load(self._go(text))
        self._draw_head()

    def _say(self, message: str) -> None:
        self._message = message
        self._draw_head()

    # The past

    def action_now(self) -> None:
        """Return to the current state."""
        self._load(self._go(""))

    def action_step(self, steps: int) -> None:
        """Move ten seconds back or forward."""
        moment = (self._moment or self._env.now()) + steps * _STEP
        self._load(self._go("" if moment >= self._env.now() else format_time(moment)))

    async def _go(self, text: str) -> None:
        """Show a past time; with an empty text the current state."""
        self._message = ""
        if not text:
            if self._revision or self._reading is None:
                self._read("")
        else:
            try:
                now = self._env.now()
                revision = await revision_at(self._client, text, now)
                self._moment = _moment(text, now)
                self._read(revision)
            except (UserError, ApiError, OSError) as error:
                self._message = str(error)
                if self._reading is None:
                    self._read("")
        reference = self._object
        if reference is not None:
            await self._open(reference, self._part)
        self._draw_head()


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _raise(error: BaseException) -> None:
    raise error


def _moment(text: str, now: datetime.datetime) -> datetime.datetime | None:
    """The time of a past state, for ages; None if only its resourceVersion is known."""
    if text.isdigit():
        return None
    try:
        return parse_time(text)
    except TimeError:
        return now - datetime.timedelta(seconds=parse_duration(text))


def _set(widget: Static, lines: list[str]) -> None:
    text = Text("\n".join(map(escaped, lines)), no_wrap=True, overflow="ellipsis")
    widget.update(text)
