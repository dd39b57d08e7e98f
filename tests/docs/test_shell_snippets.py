"""The shell snippets of the documentation run as written, page by page, in a new directory with kubectl.

What a page presumes is set up before (``PAGES``), and what can't be run here is named with the reason (``NOT_RUN``).
Programs that serve run until the page starts the next one, or ends.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.test_operator_pages import operator_at
from tests.programs import ROOT, environment, free_port

ASSETS = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
_SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FAILS = re.compile(r"^seed \d+ fails|, [1-9]\d* failed$")
"""Output with an exit code other than 0."""
_YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Page(NamedTuple):
    """How the snippets of a page are run."""

    before: str = ""
    """Commands that create the preconditions of the page."""
    replaced: tuple[tuple[str, str], ...] = ()
    """Of the page's own text: names and places that differ here."""
    fewer: tuple[tuple[str, str], ...] = ()
    """The same for slow commands, without ``--soak``."""


_CLUSTER = "serve up --kubeconfig=$HOME/.kube/config\n"
_WITH_POD = (
    _CLUSTER + "kubectl create deployment web --image=nginx && kubectl wait deployment web --for=condition=Available\n"
)
PAGES = {
    "README.md": Page(),
    "docs/README.md": Page(),
    "docs/audit.md": Page("yaml 0 > policy.yaml"),
    "docs/bugs.md": Page(),
    "docs/ci.md": Page(
        "pilothouse create cluster && kubectl create namespace test-1\n"
        "kubectl create deployment web --namespace=test-1 --image=nginx\n"
        "kubectl wait deployment web --namespace=test-1 --for=condition=Available\n"
        "mkdir manifests && cp examples/replicaset.yaml manifests",
        (
            ("--at 30s", "--at 0s"),
            ("pilothouse create cluster --in", "pilothouse delete cluster; pilothouse create cluster --in"),
            ("slot=", "pilothouse delete cluster --all; RUNNER_NAME=runner-1; slot="),
        ),
    ),
    "docs/clusters.md": Page("pilothouse create cluster dev"),
    "docs/controllers/certificatesigningrequest_signing.md": Page(_CLUSTER),
    "docs/decision-log.md": Page(
        "serve up --no-manager --kubeconfig=kubeconfig\n"
        "kubectl --kubeconfig kubeconfig create -f examples/replicaset.yaml"
    ),
    "docs/etcd.md": Page(
        'yaml 0 | sed "s#secret: .*#secret: $(head -c 32 /dev/urandom | base64)}#" > encryption.yaml\n'
        "export KUBECONFIG=$PWD/.pilothouse/kubeconfig",
        (
            ("http://127.0.0.1:2379", "$ETCD"),
            ("'/events#http://127.0.0.1:3379'", "/events#$ETCD"),
            ("node-7", "node-1"),
            ("etcd &", "etcd"),
        ),
    ),
    "docs/history.md": Page(_WITH_POD + "kubectl create namespace shop", (("--at 5m", "--at 0s"),)),
    "docs/operator-concepts.md": Page(
        _CLUSTER + "kubectl create configmap page --from-literal=a=b --field-manager=OpenAPI-Generator\n"
        "kubectl label configmap page app=backup --field-manager=OpenAPI-Generator\n"
        "show=$(kubectl get --help | grep -o -m1 -e --show-managed-fields || true)",  # not in kubectl v1.20
        (
            ("--show-managed-fields", "$show"),
            ("jq '", "command jq '"),
            (
                "kubectl replace -f -",
                "kubectl replace -f -\nkubectl get configmap page -o yaml $show | grep 'operation: Apply'",
            ),
        ),
    ),
    "docs/operators.md": Page(
        "cp examples/backup_crd.yaml certificates.yaml; cp examples/replicaset.yaml site.yaml",
    ),
    "docs/recordings.md": Page(_WITH_POD, (("~/.kube/config  ", "~/.kube/config --for 1s "),)),
    "docs/simulate-reports.md": Page(fewer=(("--seeds 1-5", "--seeds 1-1"), ("=20s,40s,2m", "=20s"))),
    "docs/simulate.md": Page(
        "yaml 9 > workers.yaml",
        (("--seeds 1-1000", "--seeds 1-3"),),
        (
            ("--seeds 1-8", "--seeds 1-1"),
            ("--seeds 1-20", "--seeds 1-1"),
            ("--seeds 1-2 ", "--seeds 1-1 "),
            ("=20s,40s,2m", "=20s"),
            ("pilothouse simulate examples/scenarios/sizing", "true pilothouse simulate examples/scenarios/sizing"),
            ("pilothouse simulate workers.yaml", "true pilothouse simulate workers.yaml"),
        ),
    ),
    "docs/snapshots.md": Page(
        "serve up --nodes=10 --kubeconfig=$HOME/.kube/config && kubectl label node node-3 pool=old",
        (("/tmp/copy", "copy"),),
    ),
    "docs/tracing.md": Page(),
    "docs/tutorial-operator.md": Page("yaml 0 > home.yaml; export KUBECONFIG=$PWD/.pilothouse/kubeconfig"),
    "docs/ui.md": Page(),
    "docs/why.md": Page(
        "echo '{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}' > policy.yaml\n"
        + _WITH_POD.replace(
            "serve up",
            "serve up --decision-log=decisions.log --audit-policy-file=policy.yaml --audit-log-path=audit.log",
        )
        + "cp ~/.kube/config kubeconfig",
        (("pod/web-7887448d46-kfclg", "deployment/web"), ("/var/log/pilothouse", "."), ("/var/log/kubernetes", ".")),
    ),
}
SAME_OUTPUT = ("docs/simulate.md",)
"""Pages that show what is printed, in every line: it depends on seeds only."""
NOT_RUN = {
    "python3 -m venv": "installs what is tested here; scripts/try_wheel does it in CI",
    'mkdir "$environment/path"': "the same",
    "export PATH=$environment/path": "the same",
    'pip install "pilothouse @': "from the repository of a release",
    "pip install 'pilothouse[": "the extras are installed",
    "docker ": "containers",
    "python deploy/ha/ha.py": "tests/robustness",
    "pytest tests/robustness": "runs of half an hour",
    "kubectl --kubeconfig ha/kubeconfig": "tests/robustness",
    "$ kubectl --client-certificate": "`auth whoami` is not in kubectl v1.20",
    "$ pilothouse simulate examples/scenarios/sizing/rollout-rate.yaml": "four rollouts of 3,000 pods",
    "$ pilothouse bugs run --all": "tests/simulate runs all of them",
    "pilothouse up --etcd-snapshot backup.db --etcd-prefix": "the backup has another prefix",
}
"""Beginnings of lines, with the reason."""
ELSEWHERE = {
    "CONTRIBUTING.md": "CI runs these commands",
    "docs/controllers/adding.md": "tests/docs/test_adding.py",
    "docs/controllers/selinux_warning.md": "shows an output only",
    "docs/finding-bugs.md": "tests/testing/test_buggy_operator.py",
    "docs/operator-session.md": "tests/docs/test_recorded_sessions.py",
    "docs/releasing.md": "tests/packaging",
    "docs/simulate-scenarios.md": "tests/simulate runs the scenarios",
    "docs/top.md": "tests/cli/screen: it needs a terminal",
    "examples/go/README.md": "tests/clients/test_example_suites.py",
    "examples/java/README.md": "tests/clients/test_example_suites.py",
    "examples/javascript/README.md": "tests/clients",
    "examples/rust/README.md": "tests/clients/test_example_suites.py",
}
"""Pages whose snippets are run by other tests."""
_PRELUDE = r"""
set -eu -o pipefail
end() {
  set +ex
  for pid in *.pid; do if [ -f "$pid" ]; then kill "$(cat "$pid")"; fi; done
  unset XDG_STATE_HOME KUBECONFIG
  if [ -d "$HOME/.local/state" ]; then "$PYTHON" -m pilothouse delete cluster --all; fi
  wait
} 2>> end.log
trap end EXIT
yaml() { cat "yaml-$1"; }
background() {  # NAME PATTERN COMMAND...: runs until the next of the name; it has begun when it prints the pattern
  local name=$1 pattern=$2; shift 2
  if [ -f "$name.pid" ]; then kill "$(cat "$name.pid")"; wait "$(cat "$name.pid")" || true; fi
  "$@" > "$name.log" 2>&1 & echo $! > "$name.pid"
  for _ in $(seq 300); do
    if grep -Eq "$pattern" "$name.log"; then return; fi
    kill -0 "$(cat "$name.pid")" || break
    sleep 0.1
  done
  return 1
}
serve() { background presumed 'is ready' "$PYTHON" -m pilothouse "$@" --port=0; }
pilothouse() {
  case "$*" in
    *--wait*) "$PYTHON" -m pilothouse "$@" ;;
    up* | apiserver*) background server 'is ready|server ready' "$PYTHON" -m pilothouse "$@" --port=0 ;;
    replay*) background server 'kubectl' "$PYTHON" -m pilothouse "$@" --port=0 ;;
    run*) background operator 'started|Starting' "$PYTHON" -m pilothouse "$@" ;;
    manager*) background manager 'Started|Starting' "$PYTHON" -m pilothouse "$@" ;;
    *) "$PYTHON" -m pilothouse "$@" ;;
  esac
}
etcd() {
  background etcd 'serving' "$ASSETS/etcd" --data-dir=etcd --listen-client-urls="$ETCD" \
    --advertise-client-urls="$ETCD" --listen-peer-urls="$PEER"
}
etcdctl() {
  "$PYTHON" -c "from pathlib import Path; from tests.etcd_snapshots import save; save('$ETCD', Path('$3'))"
}
jq() { for _ in $(seq 100); do if [ -s "${!#}" ]; then break; fi; sleep 0.1; done; command jq "$@"; }
"""


def pages() -> dict[str, list[str]]:
    """The shell snippets of each page that has some."""
    result = {}
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        snippets = _SHELL.findall(page.read_text("utf-8"))
        if snippets and not page.is_relative_to(ROOT / "docs/reference"):
            result[str(page.relative_to(ROOT))] = snippets
    return result


def commands(snippet: str) -> list[str]:
    """What a snippet has one type, with continued lines and here-documents joined."""
    lines = snippet.replace("\\\n", " ").splitlines()
    if not snippet.startswith("$ "):
        return ["\n".join(line for line in lines if not line.startswith(tuple(NOT_RUN)))]
    result: list[str] = []
    document = ""
    for line in lines:
        if document:
            result[-1] += f"\n{line}"
            document = "" if line == document else document
        elif _FAILS.search(line) and result:
            result[-1] = f"! {result[-1]}"
        elif line.startswith("$ ") and not line.startswith(tuple(NOT_RUN)):
            result.append(line.removeprefix("$ "))
            document = line.rpartition("<<")[2] if "<<" in line else ""
    return result


def outputs(snippet: str) -> list[str]:
    """The lines that a snippet shows as printed by commands that are run."""
    result: list[str] = []
    run = False
    for line in snippet.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            run = not line.startswith(tuple(NOT_RUN))
        elif run and line.strip() not in ("...", "…", ""):
            result.append(line)
    return result if snippet.startswith("$ ") else []


def script(page: str, snippets: list[str], *, whole: bool) -> str:
    """Everything that a page has one type; in place of the whole with fewer seeds."""
    text = "\n".join(command for snippet in snippets for command in commands(snippet))
    for words, others in (*PAGES[page].replaced, *(() if whole else PAGES[page].fewer)):
        assert words in text, f"{page} no longer says {words!r}"
        text = text.replace(words, others)
    text = re.sub(r"^(.*)# rejected$", r"! \1", text, flags=re.MULTILINE)
    return f"{_PRELUDE}{PAGES[page].before}\nset -x\n{text}\n"


def test_every_page_with_snippets_is_listed() -> None:
    result = pages()
    assert sorted(result) == sorted([*PAGES, *ELSEWHERE])
    text = "\n".join(snippet for page in PAGES for snippet in result[page])
    assert [line for line in NOT_RUN if f"\n{line}" not in f"\n{text}"] == []


@pytest.mark.real(cluster="none")  # pages start what they need
@pytest.mark.slow
@pytest.mark.skipif(not (ASSETS / "kubectl").is_file(), reason="no kubectl in KUBEBUILDER_ASSETS")
@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    whole = bool(pytestconfig.getoption("--soak"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "website_operator.py").write_text(operator_at(6), encoding="utf-8")
    (tmp_path / ".kube").mkdir()
    for number, text in enumerate(_YAML.findall((ROOT / page).read_text("utf-8"))):
        (tmp_path / f"yaml-{number}").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", script(page, pages()[page], whole=whole)],
        cwd=tmp_path,
        env=environment(
            tmp_path,
            PATH=f"{ASSETS}:{os.environ['PATH']}",
            ASSETS=str(ASSETS),
            PYTHON=sys.executable,
            PYTHONPATH=f"{ROOT / 'src'}:{ROOT}",
            ETCD=f"http://127.0.0.1:{free_port()}",
            PEER=f"http://127.0.0.1:{free_port()}",
        ),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    logs = "".join(f"--- {log.name}\n{log.read_text('utf-8')[-3000:]}" for log in tmp_path.glob("*.log"))
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n--- output\n{done.stdout[-3000:]}\n{logs}"
    if page in SAME_OUTPUT and whole:
        printed = set(done.stdout.splitlines())
        missing = [line for snippet in pages()[page] for line in outputs(snippet) if line not in printed]
        assert missing == [], f"{page} shows what is not printed; it is\n{done.stdout}"
