"""Polls ``/livez`` of a server until it is stopped, and prints each sample as a line of JSON.

    python livez_probe.py PORT PID FILE

Each line: ``at`` (monotonic seconds at the beginning), ``kept`` and ``fresh`` (seconds for an answer over a connection
that is kept, and, every third time, over a new one with its handshake: whatever holds up only those, does so for
longer), ``resident`` (bytes of the process PID), ``failure`` (or "").

The seconds are those that the server is to blame for: a machine with much to do lets both processes wait for a
processor, and Linux counts for how long (``schedstat``). Of the server's threads the one counts that waited longest: it
may be its loop, or a worker that holds the interpreter's lock, for which the loop then waits.
"""

import contextlib
import http.client
import itertools
import json
import os
import ssl
import sys
import time
from pathlib import Path

_PAUSE_SECONDS = 0.02
_FRESH = 3
"""A new connection for each request would take a fifth of a processor."""
_GIVE_UP_SECONDS = 30.0


def main(port: int, server: int, file: Path) -> None:
    """Measure forever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def connection() -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=_GIVE_UP_SECONDS, context=context)

    def waited() -> dict[str, int]:
        """For how many nanoseconds each thread of the server, and this one, could have run and had no processor."""
        result = {"probe": int(Path("/proc/self/schedstat").read_text().split()[1])}
        for thread in Path(f"/proc/{server}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                result[thread.name] = int((thread / "schedstat").read_text().split()[1])
        return result

    def without_processor(before: dict[str, int]) -> float:
        """Seconds since then in which other processes of the machine ran."""
        grown = {name: after - before.get(name, 0) for name, after in waited().items()}
        return (grown.pop("probe") + max(grown.values(), default=0)) / 1e9

    def measure(measured: http.client.HTTPSConnection) -> float:
        before, began = waited(), time.monotonic()
        measured.request("GET", "/livez")
        answer = measured.getresponse()
        body = answer.read()
        seconds = time.monotonic() - began
        if (answer.status, body) != (200, b"ok"):
            raise ValueError(f"{answer.status} {body!r}")
        return max(0.0, seconds - without_processor(before))

    kept = connection()
    page = os.sysconf("SC_PAGE_SIZE")
    with file.open("ab", buffering=0) as out:
        for number in itertools.count():
            at = time.monotonic()
            sample = {"at": at, "kept": 0.0, "fresh": 0.0, "failure": ""}
            fresh = connection()
            try:
                sample["kept"] = measure(kept)
                if number % _FRESH == 0:
                    sample["fresh"] = measure(fresh)
            except (OSError, ValueError, http.client.HTTPException) as error:
                sample["failure"] = f"{type(error).__name__}: {error}"
                kept.close()
            fresh.close()
            sample["resident"] = int(Path(f"/proc/{server}/statm").read_text().split()[1]) * page
            out.write(json.dumps(sample).encode() + b"\n")
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
