#!/usr/bin/env python3
"""A highly available cluster of local processes: three etcd, two each of API server, manager and scheduler.

    python deploy/ha/ha.py start
    kubectl --kubeconfig ha/kubeconfig get nodes
    python deploy/ha/ha.py status
    kill -9 PID                       # any of them: it is started again, and what it has done goes on elsewhere
    python deploy/ha/ha.py stop

``compose`` prints the same programs for ``docker compose``: that is ``compose.yaml``. Needs etcd (``--etcd``,
``KUBEBUILDER_ASSETS`` or the PATH) and ``pilothouse[etcd]`` in the Python that runs this.
"""

import argparse
import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from programs import ADMIN, API_SERVERS, BALANCER, ETCD, MANAGERS, Layout, Program, kubeconfig, prepare, programs

HERE = Path(__file__).resolve().parent
PORTS = {
    (BALANCER, "https"): 0,
    **{(name, "https"): 1 + at for at, name in enumerate(API_SERVERS)},
    **{(name, "client"): 11 + at for at, name in enumerate(ETCD)},
    **{(name, "peer"): 21 + at for at, name in enumerate(ETCD)},
    **{(name, "https"): 31 + at for at, name in enumerate(MANAGERS)},
}
"""Of local processes, beyond ``--port``."""
DEFAULT_PORT = 6443
USUAL_PORTS = {"https": 6443, "client": 2379, "peer": 2380}
"""In compose, where every program has an address."""
RESTART_SECONDS = (0.2, 1.0, 3.0)
"""Before a program that has ended is started again; the last one for all that follow. One that has run for a minute
begins anew."""
STEADY_SECONDS = 60.0
STOP_SECONDS = 20.0
START_SECONDS = 120.0
IMAGE = "registry.example.com/pilothouse:v0.1.0"
ETCD_IMAGE = "registry.k8s.io/etcd:3.6.8-0"


def local(directory: Path, port: int) -> Layout:
    """Everything on this machine."""
    return Layout(
        listen="127.0.0.1",
        port=lambda name, kind: port + PORTS[name, kind],
        reach=lambda _caller, to, kind: f"127.0.0.1:{port + PORTS[to, kind]}",
        keys=str(directory / "keys"),
        data=lambda name: str(directory / name),
    )


def composed() -> Layout:
    """Each in a container of its own, with its name as address."""

    def port(name: str, kind: str) -> int:
        return 10257 if name in MANAGERS else USUAL_PORTS[kind]

    return Layout(
        listen="0.0.0.0",
        port=port,
        reach=lambda _caller, to, kind: f"{to}:{port(to, kind)}",
        keys="/keys",
        data=lambda _name: "/data",
    )


def command_of(program: Program, etcd: str) -> list[str]:
    """What is executed on this machine."""
    first, *flags = program.command
    starts = {
        "etcd": [etcd],
        "pilothouse": [sys.executable, "-m", "pilothouse"],
        "balancer.py": [sys.executable, str(HERE / "balancer.py")],
    }
    return [*starts[first], *flags]


class Supervisor:
    """Starts programs, and starts each again that ends, as systemd or a kubelet would."""

    def __init__(self, directory: Path, commands: dict[str, list[str]]) -> None:
        self._directory = directory
        self._commands = commands
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._since: dict[str, float] = {}
        self._failures = dict.fromkeys(commands, 0)
        self._starts = dict.fromkeys(commands, 0)
        self._stopping = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        due = dict.fromkeys(self._commands, 0.0)
        try:
            while not self._stopping:
                for name in self._commands:
                    now = time.monotonic()
                    process = self._running.get(name)
                    if process is not None and process.poll() is not None:
                        del self._running[name]
                        if now - self._since[name] > STEADY_SECONDS:
                            self._failures[name] = 0
                        due[name] = now + RESTART_SECONDS[min(self._failures[name], len(RESTART_SECONDS) - 1)]
                        self._failures[name] += 1
                        print(f"{name} has ended with {process.returncode}", flush=True)
                    elif process is None and due[name] <= now:
                        self._start(name)
                time.sleep(0.05)
        finally:
            self._end()

    def _start(self, name: str) -> None:
        with (self._directory / "logs" / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory
            )
        self._since[name] = time.monotonic()
        self._starts[name] += 1
        self._record()

    def _record(self) -> None:
        state = {
            "supervisor": os.getpid(),
            "programs": {
                name: {"pid": process.pid, "starts": self._starts[name], "command": self._commands[name]}
                for name, process in self._running.items()
            },
        }
        draft = self._directory / "state.new"
        draft.write_text(json.dumps(state, indent=2))
        draft.replace(self._directory / "state.json")

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _end(self) -> None:
        """In the reverse order, so that nobody loses what it needs to stop in order."""
        for name in reversed(self._commands):
            process = self._running.get(name)
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        (self._directory / "state.json").unlink(missing_ok=True)


def find_etcd(given: str) -> str:
    """The etcd to run."""
    if given:
        found = shutil.which(given)
        if found is None:
            raise SystemExit(f"--etcd={given}: there is no such program")
        return os.path.abspath(found)
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    for candidate in (os.path.join(assets, "etcd") if assets else "", shutil.which("etcd") or ""):
        if candidate and os.access(candidate, os.X_OK):
            return os.path.abspath(candidate)
    raise SystemExit("no etcd: name it with --etcd, or put it into KUBEBUILDER_ASSETS or on the PATH")


def port_of(directory: Path, given: int | None) -> int:
    """The port of the API: the given one, else that of the cluster in the directory.

    A cluster keeps its ports, because each member of etcd has stored the addresses of the others.
    """
    try:
        config = json.loads((directory / "keys" / f"{ADMIN}.kubeconfig").read_text())
    except FileNotFoundError:
        return given or DEFAULT_PORT
    used = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    if given not in (None, used) and any((directory / name).exists() for name in ETCD):
        raise SystemExit(
            f"{directory}: its members of etcd have stored the ports of --port={used}: "
            "omit --port, or use another --dir"
        )
    return given or used


def check_packages() -> None:
    """The programs are run by this Python."""
    for name in ("pilothouse", "grpc"):
        if find_spec(name) is None:
            raise SystemExit(f"{sys.executable} has no module {name}: pip install 'pilothouse[etcd]'")


def check_ports(at: Layout) -> None:
    """All ports are free. Otherwise another server could answer in place of a program that can't start."""
    for name, kind in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier start don't count
            port = at.port(name, kind)
            try:
                probe.bind((at.listen, port))
            except OSError as error:
                raise SystemExit(
                    f"{at.listen}:{port} is in use: choose other ports with --port=N, "
                    f"for N to N+{max(PORTS.values())} ({error.strerror})"
                ) from error


def failures(directory: Path, since: int) -> list[str]:
    """A line for each program that has ended: the last one of its log. ``since`` is a position in the supervisor's."""
    logs = directory / "logs"
    with (logs / "supervisor.log").open("rb") as log:
        log.seek(since)
        lines = log.read().decode(errors="replace").splitlines()
    ended = {name: line for line in lines if (name := line.partition(" has ended with ")[0]) != line}
    others = [line for line in lines if " has ended with " not in line]
    texts = []
    for name, line in sorted(ended.items()):
        words = (logs / f"{name}.log").read_text(errors="replace").strip().splitlines()
        texts.append(f"  {line}: {words[-1] if words else 'its log is empty'}")
    return others[-1:] + texts


def read_state(directory: Path) -> dict[str, dict[str, object]]:
    """The programs that run: pid, starts and command by name. ``supervisor`` is one of them."""
    try:
        state = json.loads((directory / "state.json").read_text())
    except FileNotFoundError:
        return {}
    own = {"pid": state["supervisor"], "starts": 1, "command": []}
    return {"supervisor": own, **state["programs"]}


def is_running(pid: int, command: list[str]) -> bool:
    """Whether the process is there, and still that program."""
    proc = Path("/proc")
    try:
        os.kill(pid, 0)
        if not (proc / "self").exists():
            return True
        words = command_of_process(proc / str(pid))
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False
    return words == command if command else any(word.endswith("ha.py") for word in words)


def command_of_process(proc: Path) -> list[str]:
    """The words with which it was started; none if it has ended and waits for its parent.

    Within execve(2) a process has no words either: Linux closes the files, upon which Popen returns, before it sets
    them. A thread of the kernel never has any.
    """
    for _ in range(100):
        if words := (proc / "cmdline").read_text().split("\0")[:-1]:
            return words
        if (proc / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
            break
        time.sleep(0.001)
    return []


def print_kubeconfig(keys: Path, server: str) -> str:
    """The administrator's, with everything in it."""
    try:
        authority = base64.b64encode((keys / "ca.crt").read_bytes()).decode()
    except FileNotFoundError as error:
        raise SystemExit(f"no certificate of the authority in {keys}: start the cluster first") from error
    cluster = {"server": server, "certificate-authority-data": authority}
    return json.dumps(kubeconfig(ADMIN, cluster, (keys / "admin.token").read_text()), indent=2) + "\n"


def is_ready(address: str, path: str = "/readyz") -> bool:
    """Whether an API server, or another program at its own path, answers 200."""
    unverified = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(f"https://{address}{path}", context=unverified, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def start(arguments: argparse.Namespace) -> None:
    """In the background; returns when all API servers are ready."""
    directory: Path = arguments.dir.resolve()
    if any(is_running(int(str(one["pid"])), []) for name, one in read_state(directory).items() if name == "supervisor"):
        raise SystemExit(f"{directory}: it is running; stop it first")
    end(directory)  # what a supervisor that was killed has left
    port, etcd = checked(directory, arguments)
    layout = local(directory, port)
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    prepare(layout, directory / "keys")
    command = [sys.executable, str(HERE / "ha.py"), "run", f"--dir={directory}", f"--port={port}", f"--etcd={etcd}"]
    with (directory / "logs" / "supervisor.log").open("ab") as log:
        since = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=directory
        )
    deadline = time.monotonic() + START_SECONDS
    waited_for = [layout.reach("", name, "https") for name in (*API_SERVERS, BALANCER)]
    while waited_for:
        waited_for = [address for address in waited_for if not is_ready(address)]
        if process.poll() is not None or time.monotonic() > deadline:
            end(directory)
            process.terminate()  # one that has not recorded itself yet
            process.wait()
            waiting = f"not ready: {', '.join(waited_for)}; the logs are in {directory / 'logs'}"
            raise SystemExit("\n".join([waiting, *failures(directory, since)]))
        time.sleep(0.1)
    (directory / "kubeconfig").touch(mode=0o600)
    (directory / "kubeconfig").write_text(
        print_kubeconfig(directory / "keys", layout.url("https", "", BALANCER, "https"))
    )
    print(f"{len(programs(layout))} programs run\n  kubectl --kubeconfig {directory / 'kubeconfig'} get nodes")


def checked(directory: Path, arguments: argparse.Namespace) -> tuple[int, str]:
    """The port of the API and the etcd of a cluster that can be started."""
    check_packages()
    port, etcd = port_of(directory, arguments.port), find_etcd(arguments.etcd)
    check_ports(local(directory, port))
    return port, etcd


def run(arguments: argparse.Namespace) -> None:
    """In the foreground."""
    directory: Path = arguments.dir.resolve()
    port, etcd = checked(directory, arguments)
    layout = local(directory, port)
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    prepare(layout, directory / "keys")
    Supervisor(directory, {each.name: command_of(each, etcd) for each in programs(layout)}).run()


def stop(arguments: argparse.Namespace) -> None:
    """End all; the data stays."""
    directory: Path = arguments.dir.resolve()
    print(f"{directory}: {'stopped; the data stays' if end(directory) else 'nothing runs'}")


def end(directory: Path) -> bool:
    """End all programs. Returns whether any ran."""
    state = read_state(directory)
    ran = False
    for name, one in state.items():
        pid, command = int(str(one["pid"])), one["command"]
        assert isinstance(command, list)
        if not is_running(pid, command):
            continue
        ran = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        # The supervisor stops all others, one after the other.
        deadline = time.monotonic() + STOP_SECONDS * (len(state) if name == "supervisor" else 1)
        while is_running(pid, command):
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
    (directory / "state.json").unlink(missing_ok=True)
    return ran


def status(arguments: argparse.Namespace) -> None:
    """What runs, and how often it was started."""
    directory: Path = arguments.dir.resolve()
    state = read_state(directory)
    if not state:
        print(f"{directory}: nothing runs")
    for name, one in state.items():
        command = one["command"]
        assert isinstance(command, list)
        running = "running" if is_running(int(str(one["pid"])), command) else "ended"
        print(f"{name:<12} {one['pid']!s:>8}  {running:<8} starts {one['starts']}")


def show_kubeconfig(arguments: argparse.Namespace) -> None:
    """Print it."""
    directory: Path = arguments.dir.resolve()
    server = arguments.server
    if not server:
        server = local(directory, port_of(directory, arguments.port)).url("https", "", BALANCER, "https")
    print(print_kubeconfig(arguments.keys or directory / "keys", server), end="")


def compose() -> dict[str, object]:
    """The document for ``docker compose``."""
    layout = composed()
    build = {
        "dockerfile_inline": f"FROM {IMAGE}\n"
        "USER 0\n"
        "RUN python -m pip --python /opt/pilothouse/bin/python install --no-cache-dir 'grpcio>=1.66,<2'\n"
        "USER 65532:65532\n"
    }
    ours: dict[str, object] = {"image": "pilothouse-ha", "build": build}
    keys, here = "keys:/keys", "./:/ha:ro"
    services: dict[str, object] = {
        "keys": {
            **ours,
            "user": "0:0",
            "command": ["sh", "-c", "python /ha/ha.py prepare && chown -R 65532:65532 /keys"],
            "volumes": [keys, here],
        }
    }
    after_keys = {"keys": {"condition": "service_completed_successfully"}}
    for program in programs(layout):
        first, *flags = program.command
        if first == "etcd":
            volumes = [f"{program.name}:/data"]
            services[program.name] = {
                "image": ETCD_IMAGE,
                "command": ["etcd", *flags],
                "volumes": volumes,
                "restart": "always",
                "healthcheck": healthcheck("etcdctl", "endpoint", "health"),
            }
            continue
        service = {
            **ours,
            "command": [first, *flags],
            "volumes": [keys, here],
            "depends_on": after_keys,
            "restart": "always",
        }
        if first == "balancer.py":
            service = {
                **ours,
                "command": ["python", "/ha/balancer.py", *flags],
                "volumes": [here],
                "ports": ["127.0.0.1:6443:6443"],
                "restart": "always",
            }
        # Schedulers and nodes listen nowhere.
        if program.name in (*API_SERVERS, *MANAGERS, BALANCER):
            path = "/healthz" if program.name in MANAGERS else "/readyz"
            address = f"127.0.0.1:{layout.port(program.name, 'https')}"
            service["healthcheck"] = healthcheck("python", "/ha/ha.py", "healthy", f"--address={address}{path}")
        services[program.name] = service
    return {"name": "pilothouse-ha", "services": services, "volumes": {name: {} for name in ("keys", *ETCD)}}


def healthcheck(*command: str) -> dict[str, object]:
    """A check that is run in the container. Compose only shows the outcome."""
    return {"test": ["CMD", *command], "interval": "10s", "timeout": "5s", "retries": 3, "start_period": "60s"}


def as_yaml(value: object, indent: str = "") -> str:
    """Dictionaries and lists in blocks, and texts as JSON has them."""
    if isinstance(value, dict) and value:
        return "".join(f"\n{indent}{name}:{as_yaml(each, indent + '  ')}" for name, each in value.items())
    if isinstance(value, list):
        return "".join(f"\n{indent}- {json.dumps(each)}" for each in value)
    return f" {json.dumps(value)}"


def show_compose(_arguments: argparse.Namespace) -> None:
    """Print it."""
    print("# Written by `python deploy/ha/ha.py compose`: three etcd, two each of API server, manager and scheduler.")
    print("# docs/etcd.md says how to run it.", end="")
    print(as_yaml(compose()))


def make_keys(_arguments: argparse.Namespace) -> None:
    """The tokens and kubeconfigs of compose."""
    prepare(composed(), Path("/keys"))


def check_health(arguments: argparse.Namespace) -> None:
    """Exit with 1 unless the address answers 200."""
    address, slash, path = arguments.address.partition("/")
    if not is_ready(address, slash + path or "/readyz"):
        raise SystemExit(f"{arguments.address} is not healthy")


COMMANDS = {
    "start": (start, "start the cluster in the background"),
    "run": (run, "run the cluster in the foreground"),
    "stop": (stop, "stop it; the data stays"),
    "status": (status, "list the programs"),
    "kubeconfig": (show_kubeconfig, "print the administrator's kubeconfig"),
    "compose": (show_compose, "print compose.yaml"),
    "healthy": (check_health, "exit with 1 unless --address, HOST:PORT/PATH, answers 200 over HTTPS"),
    "prepare": (make_keys, "in a container: make tokens and kubeconfigs in /keys"),
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A highly available cluster of local processes.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (work, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.set_defaults(work=work)
        command.add_argument(
            "--dir", type=Path, default=Path("ha"), help="directory of data, keys and logs (default ha)"
        )
        command.add_argument(
            "--port", type=int, help=f"port of the API; others follow it (default {DEFAULT_PORT}, or that of --dir)"
        )
        command.add_argument("--etcd", default="", help="the etcd to run")
        if name == "healthy":
            command.add_argument("--address", required=True, help="HOST:PORT, and a path; /readyz by default")
        if name == "kubeconfig":
            command.add_argument("--server", default="", help="URL of the API server in it")
            command.add_argument("--keys", type=Path, help="directory of the keys")
    arguments = parser.parse_args()
    try:
        arguments.work(arguments)
        sys.stdout.flush()  # here, not at exit, where an error can't be caught
    except BrokenPipeError:  # the reader of the output has exited, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    main()
