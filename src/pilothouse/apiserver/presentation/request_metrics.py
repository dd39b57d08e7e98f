"""``/metrics`` of the API server: how many requests of which kind, and how long they took.

A few of kube-apiserver's series under their names, enough to see who asks for what.
"""

from pilothouse.api.wire import Response
from pilothouse.apiserver.routing import RequestInfo

_TEXT = {"content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-cache, private"}


class RequestMetrics:
    """Counts requests of one server."""

    def __init__(self) -> None:
        self._total: dict[tuple[str, str, str, str, str, str], int] = {}
        self._seconds: dict[tuple[str, str, str, str, str], float] = {}
        self._open = 0

    def observe(self, info: RequestInfo, status: int, seconds: float) -> None:
        """One request was answered."""
        verb = info.verb.upper()
        labels = (verb, info.group, info.version, info.resource, info.subresource)
        key = (*labels, str(status))
        self._total[key] = self._total.get(key, 0) + 1
        self._seconds[labels] = self._seconds.get(labels, 0.0) + seconds

    def stream_opened(self) -> None:
        """A watch began."""
        self._open += 1

    def stream_closed(self) -> None:
        """A watch ended."""
        self._open -= 1

    def response(self) -> Response:
        """The text exposition."""
        lines = [
            "# HELP apiserver_request_total Counter of apiserver requests broken out for each verb, group, version, "
            "resource, subresource and HTTP response code.",
            "# TYPE apiserver_request_total counter",
        ]
        for key, count in sorted(self._total.items()):
            verb, group, version, resource, subresource, code = key
            labels = _labels(verb, group, version, resource, subresource)
            lines.append(f'apiserver_request_total{{code="{code}",{labels}}} {count}')
        lines += [
            "# HELP apiserver_request_duration_seconds_sum Time spent on requests.",
            "# TYPE apiserver_request_duration_seconds_sum counter",
        ]
        lines += [
            f"apiserver_request_duration_seconds_sum{{{_labels(*key)}}} {seconds:.6f}"
            for key, seconds in sorted(self._seconds.items())
        ]
        lines += [
            "# HELP apiserver_longrunning_requests Gauge of all active long-running apiserver requests.",
            "# TYPE apiserver_longrunning_requests gauge",
            f'apiserver_longrunning_requests{{verb="WATCH"}} {self._open}',
            "",
        ]
        return Response(200, _TEXT, "\n".join(lines).encode())


def _labels(verb: str, group: str, version: str, resource: str, subresource: str) -> str:
    return (
        f'group="{group}",resource="{_escaped(resource)}",subresource="{_escaped(subresource)}",'
        f'verb="{verb}",version="{version}"'
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
