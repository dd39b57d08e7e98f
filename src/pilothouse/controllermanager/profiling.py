"""``/debug/pprof/``: profiles of CPU time and memory, and ``/debug/flags/v``: the log level.

The paths are those of Go's ``net/http/pprof``, with profiles of Python:

* ``profile?seconds=30``: the CPU profile of the main thread, in pprof's format (for ``go tool pprof URL``); with
  ``format=collapsed`` one line per stack, for flame graphs.
* ``goroutine``: the stacks of all tasks and threads. ``debug=2`` has a full stack for each task, otherwise tasks that
  wait at the same location are counted together.
* ``heap``: the memory of the process and the counts of Python's garbage collector; ``gc=1`` collects first, as with
  Go's ``net/http/pprof``; ``seconds=N`` traces allocations for N seconds.
* ``cmdline``: the command line.

Behind ``--profiling``, authentication and authorization. ``app`` adds the pages.
"""

import asyncio
import gc
import html
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from types import CodeType, FrameType

from pilothouse.controllermanager.pages import HTML, TEXT, Pages, Request, Response
from pilothouse.controllermanager.pprof import encode_profile
from pilothouse.env import Env, logging
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import tracemalloc

SAMPLES_PER_SECOND = 100
MAX_SECONDS = 300.0
_MAX_DEPTH = 200
_TOP = 50

Stack = tuple[CodeType, ...]
"""The innermost function first, as in pprof."""

_DESCRIPTIONS = {
    "cmdline": "The command line of this process",
    "goroutine": "Stacks of all tasks and threads; debug=2 for each task by itself",
    "heap": "Memory; gc=1 collects garbage first, seconds=N traces allocations for that time",
    "profile": "CPU profile; seconds=N says for how long, format=collapsed gives text",
}


def install(pages: Pages, env: Env) -> None:
    """Add the pages."""
    profiling = _Profiling(env)
    pages.add("/debug/pprof", lambda _request: Response(HTTPStatus.FOUND, "", HTML, (("location", "/debug/pprof/"),)))
    pages.add("/debug/pprof/", profiling.index, below=True)
    pages.add("/debug/pprof/cmdline", lambda _request: Response(HTTPStatus.OK, "\0".join(sys.orig_argv)))
    pages.add("/debug/pprof/goroutine", _tasks_page)
    pages.add("/debug/pprof/heap", profiling.heap)
    pages.add("/debug/pprof/profile", profiling.profile)
    pages.add("/debug/flags", _flags_index)
    pages.add("/debug/flags/", _flags_index, below=True)
    pages.add("/debug/flags/v", _verbosity)


class _Profiling:
    """One profile at a time: a second one would measure the first."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._busy = False

    def index(self, request: Request) -> Response:
        if request.path != "/debug/pprof/":
            return Response(HTTPStatus.NOT_FOUND, "Unknown profile\n", TEXT, (("x-go-pprof", "1"),))
        counts = {"goroutine": len(asyncio.all_tasks()) + threading.active_count(), "heap": len(gc.get_objects())}
        rows = "".join(
            f"<tr><td>{counts.get(name, 0)}</td><td><a href={name}>{name}</a></td><td>{html.escape(text)}</td></tr>\n"
            for name, text in _DESCRIPTIONS.items()
        )
        return Response(
            HTTPStatus.OK,
            "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/<br>\n<br>\n"
            "Types of profiles available:\n<table>\n<thead><td>Count</td><td>Profile</td><td></td></thead>\n"
            f'{rows}</table>\n<a href="goroutine?debug=2">full stack dump of every task</a>\n</body>\n</html>\n',
            HTML,
        )

    async def profile(self, request: Request) -> Response:
        """Sample the process for the requested time."""
        if not _can_sample():
            return Response(HTTPStatus.NOT_IMPLEMENTED, "profiles are of the main thread, on POSIX\n")
        seconds = _seconds(request, 30.0)
        if seconds is None or self._busy:
            return _cannot_profile_reason(self._busy)
        self._busy = True
        started = self._env.now()
        sampler = _Sampler()
        try:
            sampler.start()
            await asyncio.sleep(seconds)
        finally:
            self._busy = False
            sampler.stop()
        if request.first("format") == "collapsed" or request.first("debug") not in {"", "0"}:
            return Response(HTTPStatus.OK, "".join(collapsed(sampler.stacks)))
        body = encode_profile(
            sampler.stacks,
            time_nanos=int(started.timestamp() * 1e9),
            duration_nanos=int(seconds * 1e9),
            period_nanos=1_000_000_000 // SAMPLES_PER_SECOND,
        )
        attachment = ("content-disposition", 'attachment; filename="profile"')
        return Response(HTTPStatus.OK, body, "application/octet-stream", (attachment,))

    async def heap(self, request: Request) -> Response:
        """The memory now, or the allocations of the next seconds."""
        value = request.first("gc")
        if value.isdecimal() and int(value) > 0:
            gc.collect()
        lines = [f"# {name} = {value}" for name, value in _memory().items()]
        if request.first("seconds"):
            seconds = _seconds(request, 0.0)
            if seconds is None or self._busy:
                return _cannot_profile_reason(self._busy)
            self._busy = True
            was_started = not tracemalloc.is_tracing()
            try:
                if was_started:
                    tracemalloc.start()
                old = tracemalloc.take_snapshot()
                await asyncio.sleep(seconds)
                grown = tracemalloc.take_snapshot().compare_to(old, "lineno")
            finally:
                self._busy = False
                if was_started:
                    tracemalloc.stop()
            lines += ["", f"# allocated in {seconds:g} s and still there: bytes, blocks, where"]
            lines += [f"{d.size_diff} {d.count_diff} {d.traceback}" for d in grown[:_TOP] if d.size_diff > 0]
        return Response(HTTPStatus.OK, "\n".join([*lines, ""]))


def _cannot_profile_reason(busy: bool) -> Response:
    if busy:
        return Response(
            HTTPStatus.INTERNAL_SERVER_ERROR, "Could not enable CPU profiling: another profile is running\n"
        )
    return Response(HTTPStatus.BAD_REQUEST, f"seconds must be a number above 0, at most {MAX_SECONDS:g}\n")


def _seconds(request: Request, default: float) -> float | None:
    try:
        seconds = float(request.first("seconds") or default)
    except ValueError:
        return None
    return seconds if 0 < seconds <= MAX_SECONDS else None


class _Sampler:
    """Records the stack of the main thread each time the process has used a period of CPU time (SIGPROF, as Go's
    profiler).

    A sampling thread would need the interpreter's lock, which it would only get while the loop waits, so it would
    record nothing but waiting.
    """

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, 1 / SAMPLES_PER_SECOND, 1 / SAMPLES_PER_SECOND)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # Without a handler a pending signal would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        self.stacks[_stack_of(frame)] += 1


def _can_sample() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


def _stack_of(frame: FrameType | None) -> Stack:
    codes: list[CodeType] = []
    while frame is not None and len(codes) < _MAX_DEPTH:
        codes.append(frame.f_code)
        frame = frame.f_back
    return tuple(codes)


def collapsed(stacks: Counter[Stack]) -> Iterator[str]:
    """One line per stack, outermost function first, with its count."""
    lines: Counter[str] = Counter()
    for stack, times in stacks.items():
        lines[";".join(f"{code.co_qualname} ({_short(code)})" for code in reversed(stack))] += times
    for line in sorted(lines):
        yield f"{line} {lines[line]}\n"


def _short(code: CodeType) -> str:
    return f"{'/'.join(code.co_filename.split('/')[-2:])}:{code.co_firstlineno}"


def _memory() -> dict[str, object]:
    memory: dict[str, object] = {}
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                name, _colon, value = line.strip().partition(":")
                if name in {"VmRSS", "VmHWM", "VmSize", "Threads"}:
                    memory[name] = value.strip()
    except OSError:
        pass  # not Linux: only the collector's counts
    for generation, stats in enumerate(gc.get_stats()):
        memory[f"gc generation {generation}"] = " ".join(f"{name}={value}" for name, value in stats.items())
    memory["gc objects"] = len(gc.get_objects())
    return memory


# Tasks


def _tasks_page(request: Request) -> Response:
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    frames = sys._current_frames()
    threads = sorted(threading.enumerate(), key=lambda thread: thread.name)
    parts = [f"goroutine profile: total {len(tasks) + len(threads)} ({len(tasks)} tasks, {len(threads)} threads)"]
    if request.first("debug") == "2":
        parts += [f"task {task.get_name()}:\n{_waiting_in(task)}" for task in tasks]
    else:
        paths: dict[str, list[str]] = {}
        for task in tasks:
            paths.setdefault(_waiting_in(task), []).append(task.get_name())
        # The location with the most tasks first.
        for location, names in sorted(paths.items(), key=lambda item: (-len(item[1]), item[1])):
            task_names = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            parts.append(f"{len(names)} @ {task_names}\n{location}")
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        parts.append(f"thread {thread.name}:\n{stack}")
    return Response(HTTPStatus.OK, "\n\n".join([*parts, ""]))


def _waiting_in(task: asyncio.Task[object]) -> str:
    """The stack of a waiting task through all coroutines, outermost first."""
    lines = []
    awaited: object = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            lines.append(f"#\t{code.co_qualname}\t{code.co_filename}:{frame.f_lineno}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "\n".join(lines)


# Flags


def _flags_index(_request: Request) -> Response:
    return Response(
        HTTPStatus.OK,
        "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n"
        "\n<tr>v<br>\n\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n",
        HTML,
    )


async def _verbosity(request: Request) -> Response:
    """PUT sets the log level (apiserver ``pkg/server/routes/flags.go``, component-base ``logs``)."""
    if request.method != "PUT":
        return Response(HTTPStatus.NOT_ACCEPTABLE, "unsupported http method\n")
    text = (await request.body()).decode("utf-8", "replace")
    try:
        level = int(text)
    except ValueError:
        reason = f'failed set klog.logging.verbosity {text}: strconv.ParseInt: parsing "{text}": invalid syntax\n'
        return Response(HTTPStatus.BAD_REQUEST, reason)
    logging.set_verbosity(level)
    return Response(HTTPStatus.OK, f"successfully set klog.logging.verbosity to {text}\n")
