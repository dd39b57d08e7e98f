"""Watch events with spans: the client removes them, however the stream is split."""

from collections.abc import AsyncIterator, Mapping

from opentelemetry.trace import SpanContext, TraceFlags
from tests.tables import cases
from tests.tracing.spans import Spans

from pilothouse.env import Env
from pilothouse.tracing.commits import Commits
from pilothouse.tracing.watches import TracedStream, with_traceparent

CONTEXT = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))
ADDED = b'{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"7"}}}\n'
OTHER = b'{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"b","resourceVersion":"8"}}}\n'
BOOKMARK = b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"7"}}}\n'
ERROR = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'
TRACED = ADDED[:-2] + b',"traceparent":"00-%032x-%016x-01"}\n' % (0xABC, 0xDEF)


class Given:
    """A stream of these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {}
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def close(self) -> None:
        """Nothing to end."""


@cases(
    "line, expected",
    {
        "traced object": (ADDED, TRACED),
        "other object": (OTHER, OTHER),
        "a bookmark": (BOOKMARK, BOOKMARK),
        "an error": (ERROR, ERROR),
        "not JSON": (b"x\n", b"x\n"),
    },
)
def test_traceparent_is_added_to_events(line: bytes, expected: bytes) -> None:
    commits = Commits()
    commits.remember("7", CONTEXT, 0)
    assert with_traceparent(line, commits) == expected


@cases(
    "pieces",
    {
        "lines": [TRACED, OTHER],
        "one chunk": [TRACED + OTHER],
        "byte by byte": [bytes((item,)) for item in TRACED + OTHER],
        "split within a line": [TRACED[:-20], TRACED[-20:] + OTHER[:10], OTHER[10:]],
    },
)
async def test_traceparent_is_removed_from_events(env: Env, pieces: list[bytes]) -> None:
    spans = Spans(env)
    stream = TracedStream(Given(pieces), spans.env.tracing)
    assert [line async for line in stream] == [ADDED, OTHER]
    commit = spans.pipeline.commits.get("7")
    assert commit is not None
    assert (commit.context.trace_id, commit.context.span_id) == (0xABC, 0xDEF)
    assert spans.pipeline.commits.get("8") is None


async def test_incomplete_line_is_passed_on(env: Env) -> None:
    stream = TracedStream(Given([ADDED, b'{"type":']), Spans(env).env.tracing)
    assert [piece async for piece in stream] == [ADDED, b'{"type":']


@cases(
    "text",
    {
        "invalid trace ID": b"00-00000000000000000000000000000000-0000000000000000-01",
        "unsupported version": TRACED[-58:-3].replace(b"00-", b"01-", 1),
    },
)
async def test_invalid_traceparent_is_ignored(env: Env, text: bytes) -> None:
    line = ADDED[:-2] + b',"traceparent":"%b"}\n' % text
    spans = Spans(env)
    assert [piece async for piece in TracedStream(Given([line]), spans.env.tracing)] == [ADDED]
    assert len(spans.pipeline.commits) == 0
