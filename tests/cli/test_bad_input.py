"""What a user can get wrong: each is one clear message with the thing, the reason and the way out, and an exit code.

Commands that get further than their flags run as processes, with a home directory of their own. 0 is success, 1 a
failure, 2 a command line that can't be used.
"""

import json
import socket
from pathlib import Path

import pytest
from tests.programs import run_pilothouse
from tests.tables import cases

from pilothouse.cli import kube_controller_manager
from pilothouse.cli.dispatch import main

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"client-certificate": "missing.crt", "client-key": "missing.key"}}],
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "current-context": "here",
}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bogus", 'unknown command "bogus" for "pilothouse"'),
        ("managr", 'unknown command "managr" for "pilothouse" (did you mean manager?)'),
        ("dev", 'unknown command "dev" for "pilothouse": `pilothouse run FILE --dev` runs an operator'),
        ("manager --bogus", "unknown flag: --bogus"),
        (
            "manager --kube-api-qps=fast",
            'invalid argument "fast" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "fast": invalid syntax',
        ),
        (
            "manager --leader-elect-lease-duration=15",
            'invalid argument "15" for "--leader-elect-lease-duration" flag: time: missing unit in duration "15"',
        ),
        ("manager --leader-elect-lease-duration=5s", "leaseDuration must be greater than renewDeadline"),
        ("manager --controllers=replicaset,replicasets", '"replicasets" is not in the list of known controllers'),
        ("manager --secure-port=70000", "--secure-port 70000 must be between 0 and 65535"),
        ("manager now", '"pilothouse manager" does not take any arguments, got ["now"]'),
        ("up --nodes five", '--nodes must be a whole number, got "five"'),
        ("up --node=5", "unknown flag: --node (did you mean --nodes?)"),
        ("up --nodes=-1", "--nodes must not be negative, got -1"),
        ("up --port=70000", "--port must be between 0 and 65535"),
        ("up --kubeconfig=", "--kubeconfig must name a file"),
        ("create clster", "create clster? Did you mean `pilothouse create cluster`?"),
        ("delete clsuter dev", "delete clsuter? Did you mean `pilothouse delete cluster dev`?"),
        ("create dev", "`pilothouse create cluster dev`"),
        ("stop cluster", '"cluster" can\'t be the name of a cluster: name the cluster alone, without this word'),
        ("create cluster dev.", 'letters, digits, "-" and ".", the first and the last one a letter or digit'),
        ("start dev --nodes=-1", "--nodes must not be negative, got -1"),
        ("bugs lst", 'expected "pilothouse bugs list" or "pilothouse bugs run BUG", got lst'),
        ("new operatro x", 'expected "pilothouse new operator NAME", got operatro x\nSee "pilothouse new --help" for'),
        ("snapshot drian FILE", '"pilothouse snapshot drain FILE NODE...", got drian FILE'),
        ("up --wait", "--wait needs manifests to wait for: use -f or -k"),
        ("up --timeout=5s", "--timeout is for --wait"),
        (
            "up --authorization-mode=Node",
            "must be AlwaysAllow or Node,RBAC (RBAC for short), got Node\n",
        ),
        ("nodes --node-prefix=A_", '--node-prefix "A_" can\'t begin the name of a node'),
        (
            "up --admission-control-config-file=nothing",
            "--admission-control-config-file nothing: No such file or directory\n",
        ),
        ("up --node-cpu=lots", 'invalid argument "lots" for "--node-cpu" flag'),
        ("up --node-memory=-1Gi", "--node-memory must not be negative, got -1Gi"),
        ("nodes --node-pods=-1", "--node-pods must not be negative, got -1"),
        ("up --controllers=nope", '"nope" is not in the list of known controllers'),
        ("up --controllers=deploymnt", "known controllers (did you mean deployment?)"),
        ("up --in-memory --data-dir=x", "--in-memory and --data-dir can't be used together"),
        (
            "apiserver --authorization-mode=ABAC",
            "--authorization-mode must be AlwaysAllow or Node,RBAC (RBAC for short), got ABAC",
        ),
        (
            "apiserver --service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24",
            "at most one CIDR of each IP family is allowed",
        ),
        ("apiserver --replica-lag=-1s", "--replica-lag must not be negative"),
        ("apiserver --history-retention=0s", "--history-retention must be positive"),
        ("manager --decision-log=x --decision-log-maxsize=-1", "--decision-log-maxsize -1 can't be a negative number"),
        ("scheduler --decision-log-maxage=3", "--decision-log-maxage needs --decision-log"),
        ("apiserver --history-max-bytes=1000", "--history-max-bytes must be at least 1048576, got 1000"),
        ("apiserver --feature-gates=Migration=true", "--feature-gates: unrecognized feature gate: Migration"),
        (
            "up --feature-gates=CoordinatedLeaderElection=true",
            "--feature-gates: feature gate CoordinatedLeaderElection=true is not supported: leader election does not",
        ),
        ("nodes --nodes", "flag needs an argument: --nodes"),
    ],
)
def test_invalid_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = line.split()
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert message in err
    command = "pilothouse" if len(words) == 1 else f"pilothouse {words[0]}"
    assert err.endswith(f'\nSee "{command} --help" for usage.\n')
    assert "Traceback" not in err
    assert out == ""


def test_up_reads_manifests_from_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["up", "-f", "http://127.0.0.1:1/a.yaml"]) == 1
    assert capsys.readouterr() == ("", "Error: unable to read http://127.0.0.1:1/a.yaml: Connection refused\n")


def no_file(directory: Path) -> str:
    return str(directory / "nothing")


def bad_yaml(directory: Path) -> str:
    (directory / "config").write_text("clusters: [oops\n")
    return "config"


def not_a_config(directory: Path) -> str:
    (directory / "config").write_text("hello\n")
    return "config"


def no_context(directory: Path) -> str:
    (directory / "config").write_text(json.dumps({**KUBECONFIG, "current-context": "there"}))
    return "config"


def no_certificate(directory: Path) -> str:
    cluster = {"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}
    (directory / "config").write_text(json.dumps({**KUBECONFIG, "clusters": [cluster]}))
    return "config"


@pytest.mark.parametrize("command", ["manager", "scheduler", "nodes"])
@cases(
    "make, named",
    {
        "missing file": (no_file, ["nothing", "there is no such kubeconfig file"]),
        "a file that is not YAML": (bad_yaml, ["config", "not YAML", "line"]),
        "not a kubeconfig": (not_a_config, ["config", "malformed"]),
        "an unknown context": (no_context, ["config", "context 'there' does not exist; there is here"]),
        "a certificate that is missing": (no_certificate, ["user 'me'", "missing.crt", "No such file"]),
    },
)
def test_invalid_kubeconfig(tmp_path: Path, command: str, make: object, named: list[str]) -> None:
    assert callable(make)
    done = run_pilothouse(tmp_path, command, f"--kubeconfig={make(tmp_path)}")
    assert done.returncode == 1
    for words in named:
        assert words in done.stderr
    assert done.stderr.count("\n") == 1, "one line says it"


def test_missing_configuration_lists_the_alternatives(tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "manager")
    assert done.returncode == 1
    assert "no way to an API server: give --kubeconfig FILE or --master URL" in done.stderr


@cases(
    "words",
    {
        "manager": ["manager", "--master=http://127.0.0.1:1", "--secure-port={port}"],
        "apiserver": ["apiserver", "--port={port}"],
        "up": ["up", "--port={port}"],
    },
)
def test_port_in_use(tmp_path: Path, words: list[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = run_pilothouse(tmp_path, *(word.format(port=port) for word in words))
    assert done.returncode == 1
    assert f":{port}: another program does; stop it, or choose another port" in done.stderr
    assert "Traceback" not in done.stderr


def test_data_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_pilothouse(tmp_path, "up", "--data-dir=file")
    assert done.returncode == 1
    assert done.stderr.endswith("the data directory file can't be used: it is a file\n")


def test_the_alias_has_upstreams_exit_codes() -> None:
    assert kube_controller_manager(["--bogus"]) == 1
    assert kube_controller_manager(["--version"]) == 0


def test_unwritable_certificate_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    flags = ["--master=http://127.0.0.1:1", "--secure-port=10999", "--cert-dir=file/certificates"]
    done = run_pilothouse(tmp_path, "manager", *flags)
    assert done.returncode == 1
    assert "file/certificates: Not a directory; see --cert-dir" in done.stderr
