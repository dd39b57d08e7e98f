"""The cluster of ``deploy/ha`` with links that can be cut, and programs that can be killed and stopped."""

import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ha
from tests.programs import Program, environment, free_port
from tests.robustness.network import CUT, OPEN, Network

import programs as declared

ETCD, API_SERVERS, MANAGERS, SCHEDULERS = declared.ETCD, declared.API_SERVERS, declared.MANAGERS, declared.SCHEDULERS
KINDS = {"etcd": ETCD, "apiserver": API_SERVERS, "manager": MANAGERS, "scheduler": SCHEDULERS}
QUOTA = 48 * 1024 * 1024
_ETCD_FLAGS = (
    f"--quota-backend-bytes={QUOTA}",
    # Members that were away for a while then get a snapshot in place of what they have missed.
    "--snapshot-count=1000",
    "--log-level=error",
)
_API_FLAGS = ("--etcd-compaction-interval=2m", "--history-retention=30m")


class Cluster:
    """All programs, restarted when they exit unless they are kept down."""

    def __init__(self, directory: Path, *, elections: tuple[str, ...] = ()) -> None:
        """``elections`` are flags for managers and schedulers."""
        self.directory = directory
        self._elections = elections
        self.network = Network()
        self.kills: Counter[str] = Counter()
        """SIGKILLs by kind of program."""
        self.ended: Counter[str] = Counter()
        """Programs that exited by themselves: name and exit code."""
        self._ports: dict[tuple[str, str], int] = {}
        self._reached: dict[tuple[str, str, str], str] = {}
        self._running: dict[str, Program] = {}
        self._down: set[str] = set()
        self._lock = threading.Lock()
        self._members: dict[str, str] = {}
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="supervisor", daemon=True)
        self.layout = declared.Layout(
            listen="127.0.0.1",
            port=self._port,
            reach=self._reach,
            keys=str(directory / "keys"),
            data=lambda name: str(directory / name),
        )

    def __enter__(self) -> Self:
        self.network.__enter__()
        for name in ETCD:
            port = self.network.connect_peers(name, self._port(name, "peer"), self._member)
            self._reached["", name, "peer"] = f"127.0.0.1:{port}"
        for callers, targets, kind in (
            (API_SERVERS, ETCD, "client"),
            ((*MANAGERS, *SCHEDULERS), (declared.BALANCER,), "https"),
        ):
            for caller in callers:
                for to in targets:
                    port = self.network.connect(f"{caller}>{to}", self._port(to, kind))
                    self._reached[caller, to, kind] = f"127.0.0.1:{port}"
        declared.prepare(self.layout, self.directory / "keys")
        self._commands = {program.name: self._command(program) for program in declared.programs(self.layout)}
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._keeper.join(10)
        for program in self._running.values():
            program.kill()
        self.network.__exit__(kind, error, trace)

    def _command(self, program: declared.Program) -> list[str]:
        more: tuple[str, ...] = ()
        if program.name in ETCD:
            more = _ETCD_FLAGS
        elif program.name in API_SERVERS:
            more = _API_FLAGS
        elif program.name in (*MANAGERS, *SCHEDULERS):
            more = self._elections
        return [*ha.command_of(program, ha.find_etcd("")), *more]

    def _port(self, name: str, kind: str) -> int:
        return self._ports.setdefault((name, kind), free_port())

    def _reach(self, caller: str, to: str, kind: str) -> str:
        return self._reached.get((caller, to, kind)) or f"127.0.0.1:{self._port(to, kind)}"

    @property
    def address(self) -> str:
        """The address of the load balancer."""
        return self.layout.reach("", declared.BALANCER, "https")

    @property
    def token(self) -> str:
        """The administrator's kubeconfig."""
        return (self.directory / "keys" / "admin.token").read_text()

    # Programs

    def _keep(self) -> None:
        while not self._over.is_set():
            with self._lock:
                for name, command in self._commands.items():
                    running = self._running.get(name)
                    if running is not None and running.code is not None:
                        if running.code != -signal.SIGKILL:
                            self.ended[f"{name}: {running.code}"] += 1
                        running = None
                    if running is None and name not in self._down:
                        home = environment(self.directory, PATH=os.environ["PATH"])
                        self._running[name] = Program(self.directory, name, command, environment=home)
            self._over.wait(0.2)

    def kill(self, name: str, *, down_seconds: float = 0.0) -> bool:
        """Send SIGKILL, and restart it later. False if it is not running."""
        kind = name.partition("-")[0]
        with self._lock:
            program = self._running.get(name)
            if program is None or program.code is not None:
                return False
            self._down.add(name)
            program.kill()
            self.kills[kind] += 1
        self._over.wait(down_seconds)
        with self._lock:
            self._down.discard(name)
        return True

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send SIGSTOP or SIGCONT."""
        with self._lock:
            program = self._running.get(name)
            if program is not None and program.code is None:
                program.send(number)

    def log(self, name: str) -> str:
        """The output of a program over all its starts."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.directory.glob(f"{name}-*.log")))

    # etcd

    def _member(self, number: str) -> str:
        """The name of the etcd member with that id; "" until the ids are known."""
        return self._members.get(number, "")

    def learn_members(self) -> None:
        """Read the member ids, which distinguish links between members, and make the members reconnect."""
        deadline = time.monotonic() + 60
        while len(self._members) < len(ETCD):
            assert time.monotonic() < deadline, "etcd does not name its members"
            time.sleep(0.2)
            try:
                result = self.etcd(ETCD[0], "cluster/member/list", {}, seconds=2.0)["members"]
            except OSError:
                continue
            self._members = {f"{int(item['ID']):x}": item["name"] for item in result if "name" in item}
        unknown = [f">{name}" for name in ETCD]
        self.network.set(unknown, CUT)
        self.network.set(unknown, OPEN)

    def etcd(self, name: str, path: str, body: Any, *, seconds: float = 10.0) -> Any:
        """Send a request to a member, over its JSON gateway."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port(name, 'client')}/v3/{path}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.loads(answer.read())

    def partition(self, rng: random.Random) -> tuple[str, list[str]]:
        """Groups of links that fail together: (description, names)."""
        one = rng.choice(ETCD)
        others = [item for item in ETCD if item != one]
        server = rng.choice(API_SERVERS)
        cases: list[tuple[str, list[str]]] = [
            ("member from members", [f"{one}>{item}" for item in others] + [f"{item}>{one}" for item in others]),
            ("member from member", [f"{one}>{others[0]}", f"{others[0]}>{one}"]),
            ("member to members", [f"{one}>{item}" for item in others]),
            ("server from member", [f"{server}>{one}"]),
            ("server from all members", [f"{server}>{item}" for item in ETCD]),
            ("manager from servers", [f"{rng.choice(MANAGERS)}>{declared.BALANCER}"]),
            ("scheduler from servers", [f"{rng.choice(SCHEDULERS)}>{declared.BALANCER}"]),
        ]
        return rng.choice(cases)

    def until_ready(self, seconds: float) -> None:
        """Wait until both API servers are ready."""
        deadline = time.monotonic() + seconds
        for name in API_SERVERS:
            while not ha.is_ready(self.layout.reach("", name, "https")):
                assert time.monotonic() < deadline, f"{name} is not ready:\n{self.log(name)[-4000:]}"
                time.sleep(0.2)
