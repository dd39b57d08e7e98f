"""The Containerfile, parsed instead of built."""

import json
import re
import shlex

from tests.packaging.manifests import DEPLOY, container
from tests.programs import ROOT

FILE = DEPLOY / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Keyword and rest, with continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    return [(keyword, rest) for keyword, rest in split]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    result: list[list[tuple[str, str]]] = []
    for keyword, rest in instructions():
        if keyword == "FROM":
            result.append([])
        if result:
            result[-1].append((keyword, rest))
    return result


def test_build_and_runtime_stages_share_a_base_image() -> None:
    bases = [rest.split()[0] for keyword, rest in instructions() if keyword == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    (base,) = [rest.partition("=")[2] for keyword, rest in instructions() if keyword == "ARG"]
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", base)


def test_installation_requires_locked_hashes() -> None:
    runs = " && ".join(rest for keyword, rest in instructions() if keyword == "RUN")
    installs = [command for command in re.split(r"\s*&&\s*", runs) if " install " in command]
    assert len(installs) == 2
    assert "--require-hashes -r /build/requirements.txt" in installs[0]
    assert "--no-index --no-deps" in installs[1]
    assert not re.search(r"curl|wget|apt|http", runs)
    assert "ADD" not in {keyword for keyword, _rest in instructions()}


def test_runs_as_the_user_of_the_deployment() -> None:
    last = dict(stages()[-1])
    assert last["USER"] == "65532:65532"
    keywords = [keyword for keyword, _rest in stages()[-1]]
    assert "RUN" not in keywords[keywords.index("USER") :]
    assert "pip" not in last["RUN"]


def test_commands_of_the_manifests_are_on_the_path() -> None:
    program = container("deployment.yaml")["command"][0]
    last = dict(stages()[-1])
    links = shlex.split(last["RUN"])
    assert links[:2] == ["ln", "-s"]
    assert links[-1] == "/usr/local/bin/"
    assert f"/opt/pilothouse/bin/{program}" in links
    assert json.loads(last["CMD"]) == [program]
    assert "ENTRYPOINT" not in last


def test_only_lock_and_wheel_are_copied() -> None:
    allowed = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").split("\n*\n")[1].split()
    copied = {
        rest.split()[0] for keyword, rest in instructions() if keyword == "COPY" and not rest.startswith("--from=")
    }
    assert {pattern.removeprefix("!") for pattern in allowed} == copied
    assert (ROOT / "requirements.txt").is_file()
