"""The outcome of a container's command, if it is understood: ``sleep 5``, ``sh -c "echo x; exit 3"``. Pure.

``shell`` interprets scripts; nothing is executed. For other commands the restart policy of the pod decides, and whether
the container is a server.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from pilothouse.nodes.container_environment import Environment, expand
from pilothouse.nodes.shell import SHELLS, Result, Value, run_words
from pilothouse.nodes.shell_words import Unclear

MAX_CONTAINERS = 10
"""The commands of more containers of a pod (or init containers) are not interpreted: each may take milliseconds."""
_MAX_LINES = 1000
_LONGEST = 1 << 16
"""The behavior of a command with more words and characters, before or after its expansion, is not derived."""
_LONGEST_CACHED = 4096

SERVERS = frozenset(
    {
        "apache2", "apache2-foreground", "caddy", "cassandra", "consul", "echoserver", "elasticsearch", "envoy", "etcd",
        "ghost", "grafana", "haproxy", "hello-app", "http-echo", "httpd", "jenkins", "jetty", "kafka", "keycloak",
        "mariadb", "mariadbd", "memcached", "minio", "mongo", "mongod", "mosquitto", "mysql", "mysqld", "nats",
        "nats-server", "nginx", "pause", "postgres", "prometheus", "rabbitmq", "rabbitmq-server", "redis",
        "redis-server", "registry", "sshd", "tomcat", "traefik", "valkey", "valkey-server", "vault", "whoami",
        "wordpress", "zookeeper",
    }
)  # fmt: skip
"""Images, and programs, that run until they are stopped."""
_AGNHOST_SERVERS = frozenset(
    {
        "grpc-health-checking", "guestbook", "liveness", "net", "netexec", "no-snat-test-proxy", "pause", "porter",
        "serve-hostname", "test-webserver", "webhook",
    }
)  # fmt: skip
_AGNHOST = "agnhost"


class Outcome(msgspec.Struct, frozen=True):
    """How a container ends; infinite ``seconds`` if it does not. ``output``: its lines, each with the seconds after the
    start."""

    seconds: float
    code: int
    output: tuple[tuple[float, str], ...] = ()
    message: str = ""


def outcome_of(words: tuple[str, ...], environment: Environment = ()) -> Outcome | None:
    """The behavior of a container with this command and these arguments, None if it cannot be determined."""
    length = sum(map(len, words)) + sum(len(name) + len(value) for name, value in environment)
    return (_cached_outcome if length <= _LONGEST_CACHED else _outcome)(words, environment)


def refers_to_variables(words: Sequence[str]) -> bool:
    """Whether the environment of the container matters."""
    return any("$" in word for word in words)


def _outcome(words: tuple[str, ...], environment: Environment) -> Outcome | None:
    if not words:
        return None
    if _server_of(words):
        return Outcome(float("inf"), 0)
    room = _LONGEST - len(words)
    if room < sum(map(len, words)):
        return None
    known = dict(environment)
    values: list[Value] = []
    for position, word in enumerate(words):
        expanded = expand(word, known, room)
        room -= len(expanded or word)
        # What is no reference for the kubelet is a command substitution for the shell.
        values.append(word if expanded is None and _is_script(words, position) else expanded)
    try:
        result = run_words(values, known)
    except (Unclear, RecursionError):
        return None
    return Outcome(result.seconds, result.code, _lines(result), result.message)


_cached_outcome = lru_cache(maxsize=256)(_outcome)


def runs_on(words: Sequence[str], image: str) -> bool:
    """Whether the container is a server by its program or, where that is the image's own, by its image."""
    name = _name_of(image)
    if not words or words[0].startswith("-"):
        return name in SERVERS or name == _AGNHOST
    return _server_of(words) or (name == _AGNHOST and words[0] in _AGNHOST_SERVERS)


def reads_input(words: Sequence[str]) -> bool:
    """Whether it is a shell that executes what it reads, as in ``kubectl run -it --image busybox -- sh``."""
    name, *options = words
    return name.rpartition("/")[2] in SHELLS and all(
        option.startswith("-") and (option.startswith("--") or "c" not in option) for option in options
    )


def _server_of(words: Sequence[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name == _AGNHOST:
        return len(words) == 1 or words[1] in _AGNHOST_SERVERS
    return name in SERVERS or (name.startswith("python") and tuple(words[1:3]) == ("-m", "http.server"))


def _is_script(words: Sequence[str], at: int) -> bool:
    return at > 0 and words[at - 1].startswith("-") and words[at - 1].endswith("c")


def _name_of(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _lines(result: Result) -> tuple[tuple[float, str], ...]:
    lines: list[tuple[float, str]] = []
    begun: tuple[float, str] | None = None
    for seconds, text in result.output:
        for piece in text.splitlines(keepends=True):
            at, begin = begun or (seconds, "")
            begun = (at, begin + piece)
            if piece.endswith("\n"):
                lines.append((at, begun[1].rstrip("\r\n")))
                begun = None
        if len(lines) >= _MAX_LINES:
            break
    if begun is not None:
        lines.append(begun)
    return tuple(lines[:_MAX_LINES])
