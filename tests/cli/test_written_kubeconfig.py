"""The kubeconfigs that programs write and remove."""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.test_kubeconfig_text import USUAL, addition
from tests.tables import cases

from pilothouse.cli import written_kubeconfig
from pilothouse.cli.program import UserError
from pilothouse.cli.written_kubeconfig import (
    MARK,
    Server,
    add_context,
    check_context,
    merged_kubeconfig,
    own_kubeconfig,
    remove_context,
)

pytestmark = pytest.mark.real_loop(timeout=20)

GONE = "https://127.0.0.1:1"


def server(url: str) -> Server:
    return Server(url, lambda name: addition(url, name))


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The address of an open port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


async def entered_and_left(opened: contextlib.AbstractAsyncContextManager[Any]) -> None:
    async with opened:
        pass


def url_in(path: Path, name: str = "pilothouse") -> str:
    clusters = yaml.safe_load(path.read_text())["clusters"]
    return str(next(cluster["cluster"]["server"] for cluster in clusters if cluster["name"] == name))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# A file that is all ours


async def test_own_file_is_created_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "kubeconfig"
    async with own_kubeconfig(path, server(GONE)) as written:
        assert written == path
        assert url_in(path) == GONE
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
        assert path.read_text().startswith(f"{MARK}\n")
        assert [entry.name for entry in path.parent.iterdir()] == ["kubeconfig"]
    assert not path.parent.exists()
    async with own_kubeconfig(path, server(GONE), kept=True):
        pass
    assert url_in(path) == GONE


async def test_concurrently_removed_directory_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "kubeconfig"
    opened = os.open

    def removed_once(name: Path, *rest: int) -> int:
        monkeypatch.setattr(os, "open", opened)
        path.parent.rmdir()
        return opened(name, *rest)

    monkeypatch.setattr(os, "open", removed_once)
    async with own_kubeconfig(path, server(GONE)):
        assert url_in(path) == GONE
    assert not path.parent.exists()


async def test_existing_or_used_directory_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a" / "kubeconfig"
    path.parent.mkdir()
    await entered_and_left(own_kubeconfig(path, server(GONE)))
    assert list(path.parent.iterdir()) == []
    path.parent.rmdir()
    async with own_kubeconfig(path, server(GONE)):
        (path.parent / "other").write_text("")
    assert [entry.name for entry in path.parent.iterdir()] == ["other"]


async def test_file_of_a_stopped_server_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kubeconfig"
    for url in (GONE, "http://[bad", "https://127.0.0.1:2"):
        async with own_kubeconfig(path, server(url), kept=True) as written:
            assert (written, url_in(path)) == (path, url)
    assert capsys.readouterr().err == ""


async def test_file_of_a_running_server_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kubeconfig"
    with running() as first:
        async with own_kubeconfig(path, server(first), explicit=False):
            async with own_kubeconfig(path, server("https://127.0.0.1:2"), explicit=False) as beside:
                assert beside == tmp_path / "kubeconfig-2"
                assert (url_in(path), url_in(beside)) == (first, "https://127.0.0.1:2")
            assert url_in(path) == first
            assert not beside.exists()
            assert capsys.readouterr().err == (
                f"note: {path} is for {first}, where a server is listening; "
                f"the kubeconfig of https://127.0.0.1:2 is {beside}\n"
            )
            with pytest.raises(UserError, match=f"is for {first}, where a server is listening; name another file with"):
                async with own_kubeconfig(path, server(GONE), explicit=True):
                    pass
            async with own_kubeconfig(path, server(GONE), explicit=True, exclusive=True) as replaced:
                assert (replaced, url_in(path)) == (path, GONE)
    assert list(tmp_path.iterdir()) == []


async def test_file_for_another_server_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    first, second = server(GONE), server("https://127.0.0.1:2")
    async with own_kubeconfig(path, first), own_kubeconfig(path, second, kept=True):
        pass
    assert url_in(path) == "https://127.0.0.1:2"


async def test_file_changed_by_kubectl_is_still_ours(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with own_kubeconfig(path, server(GONE), kept=True):
        document = yaml.safe_load(path.read_text())
        document["contexts"][0]["context"]["namespace"] = "other"
        path.write_text(yaml.safe_dump(document))  # which drops the comment
    async with own_kubeconfig(path, server("https://127.0.0.1:2")):
        assert url_in(path) == "https://127.0.0.1:2"
    assert not path.exists()


@pytest.mark.parametrize("content", ["precious: true\n", USUAL, "", "\x00", "a: ["])
async def test_foreign_file_is_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine"
    path.write_text(content)
    with pytest.raises(UserError, match=r"was not written by pilothouse and is not overwritten; .* --write-kubeconfig"):
        async with own_kubeconfig(path, server(GONE)):
            pytest.fail("it was taken")
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory; name a file with --kubeconfig"):
        async with own_kubeconfig(tmp_path, server(GONE)):
            pytest.fail("it was taken")


async def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text(f"{MARK}\n")
    (tmp_path / "kubeconfig").symlink_to(tmp_path / "victim")
    async with own_kubeconfig(tmp_path / "kubeconfig", server(GONE)):
        assert (tmp_path / "victim").read_text() == f"{MARK}\n"


@pytest.mark.parametrize("kind", [own_kubeconfig, merged_kubeconfig])
async def test_directory_writable_by_others_is_rejected(tmp_path: Path, kind: Any) -> None:
    """With an exchanged kubeconfig the user's kubectl runs other programs."""
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="every user may replace files in"):
        await entered_and_left(kind(tmp_path / "kubeconfig", server(GONE)))
    tmp_path.chmod(0o1777)  # as /tmp
    await entered_and_left(kind(tmp_path / "kubeconfig", server(GONE)))


# A context in the user's file


@pytest.mark.parametrize("linked", [False, True])
async def test_context_is_added_and_removed(tmp_path: Path, linked: bool) -> None:
    real = tmp_path / "config"
    real.write_text(USUAL)
    real.chmod(0o640)
    path = tmp_path / "link" if linked else real
    if linked:
        path.symlink_to(real)
    async with merged_kubeconfig(path, server(GONE)) as name:
        document = yaml.safe_load(path.read_text())
        assert (name, document["current-context"]) == ("pilothouse", "pilothouse")
        assert [context["name"] for context in document["contexts"]] == ["prod", "pilothouse"]
        assert mode(real) == 0o640
    assert path.is_symlink() is linked
    assert real.read_text() == USUAL
    assert not list(tmp_path.glob("*.lock"))


async def test_new_file_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    async with merged_kubeconfig(path, server(GONE)):
        assert (url_in(path), mode(path)) == (GONE, 0o600)
    assert not path.exists()
    async with merged_kubeconfig(path, server(GONE)):
        path.write_text(path.read_text() + "preferences: {colors: true}\n")
    assert yaml.safe_load(path.read_text())["preferences"] == {"colors": True}


async def test_two_servers_have_a_context_each(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(USUAL)
    with running() as first:
        async with merged_kubeconfig(path, server(first)):
            async with merged_kubeconfig(path, server("https://127.0.0.1:2")) as second:
                assert second == "pilothouse-2"
                assert (url_in(path), url_in(path, second)) == (first, "https://127.0.0.1:2")
            assert yaml.safe_load(path.read_text())["current-context"] == "pilothouse"
    assert path.read_text() == USUAL


async def test_users_cluster_with_the_same_name_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters:\n- name: pilothouse\n  cluster: {server: https://mine}\n")
    async with merged_kubeconfig(path, server(GONE)) as name:
        assert name == "pilothouse-1"
        assert url_in(path) == "https://mine"
    path.write_text("users:\n- name: pilothouse\n- name: pilothouse-1\n")
    with pytest.raises(UserError, match="has clusters, users or contexts named pilothouse and pilothouse-1"):
        async with merged_kubeconfig(path, server(GONE)):
            pytest.fail("it was put in")


async def test_leftovers_of_a_killed_process_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(USUAL)
    killed = merged_kubeconfig(path, server(GONE))
    await killed.__aenter__()
    async with merged_kubeconfig(path, server("https://127.0.0.1:2")) as name:
        assert (name, url_in(path)) == ("pilothouse", "https://127.0.0.1:2")
    remaining = path.read_text()
    await killed.__aexit__(None, None, None)
    assert path.read_text() == remaining, "the context was no longer its own"
    async with merged_kubeconfig(path, server(GONE)):
        path.write_text(path.read_text() + "# mine\n")
    assert path.read_text() == USUAL + "# mine\n"


def cluster_directory(tmp_path: Path, state: str) -> Path:
    directory = tmp_path / state / "pilothouse"
    directory.mkdir(parents=True)
    (directory / "cluster.json").write_text("{}")
    return directory


async def test_clusters_of_two_state_directories_keep_their_contexts(tmp_path: Path) -> None:
    path, first, second = tmp_path / "config", cluster_directory(tmp_path, "a"), cluster_directory(tmp_path, "b")
    path.write_text(USUAL)
    await add_context(path, server(GONE), "pilothouse", first)
    before = path.read_text()
    way_out = f"belongs to the cluster in {first} .*another name for the cluster, another kubeconfig .*--no-context"
    with pytest.raises(UserError, match=way_out):
        check_context(path, "pilothouse", second)
    with pytest.raises(UserError, match=way_out):
        await add_context(path, server("https://127.0.0.1:2"), "pilothouse", second)
    await remove_context(path, "pilothouse", second, "https://127.0.0.1:2")
    assert path.read_text() == before
    async with merged_kubeconfig(path, server("https://127.0.0.1:2")) as name:
        assert name == "pilothouse-2", "the cluster is stopped and keeps its context"
    check_context(path, "pilothouse", first)
    await add_context(path, server("https://127.0.0.1:3"), "pilothouse", first)
    assert url_in(path) == "https://127.0.0.1:3", "its own is replaced, at another port too"
    await remove_context(path, "pilothouse", first, GONE)
    assert path.read_text() == USUAL


async def test_context_of_a_deleted_cluster_directory(tmp_path: Path) -> None:
    path, first, second = tmp_path / "config", cluster_directory(tmp_path, "a"), cluster_directory(tmp_path, "b")
    with running() as url:
        await add_context(path, server(url), "pilothouse", first)
        (first / "cluster.json").unlink()
        with pytest.raises(UserError, match=f"belongs to the cluster in {first} "):
            check_context(path, "pilothouse", second)
    await add_context(path, server(GONE), "pilothouse", second)
    assert url_in(path) == GONE


async def test_renamed_contexts_are_those_of_their_cluster(tmp_path: Path) -> None:
    """As with ``kubectl config rename-context``, which changes the name of the context and the current one only."""
    path = tmp_path / "config"
    path.write_text(USUAL)
    owners = {name: cluster_directory(tmp_path, name) for name in ("x1", "x2", "x3", "x4")}
    for name, owner in owners.items():
        await add_context(path, server(GONE), f"pilothouse-{name}", owner)
        if name == "x2":
            document = yaml.safe_load(path.read_text())
            document["contexts"][-1]["name"] = document["current-context"] = "mine"
            path.write_text(yaml.safe_dump(document))
    check_context(path, "pilothouse-x2", owners["x2"])
    await add_context(path, server("https://127.0.0.1:2"), "pilothouse-x2", owners["x2"])  # it is started again
    document = yaml.safe_load(path.read_text())
    assert url_in(path, "pilothouse-x2") == "https://127.0.0.1:2"
    assert document["current-context"] == "mine"
    assert len(document["contexts"]) == 1 + 4

    await remove_context(path, "pilothouse-x2", owners["x2"], GONE)
    for section in ("contexts", "clusters", "users"):
        names = {entry["name"] for entry in yaml.safe_load(path.read_text())[section]}
        assert not names & {"mine", "pilothouse-x2"}
    for name in ("x1", "x3", "x4"):
        await remove_context(path, f"pilothouse-{name}", owners[name], GONE)
    left, before = yaml.safe_load(path.read_text()), yaml.safe_load(USUAL)
    assert left == before


async def test_renamed_context_becomes_current_again(tmp_path: Path) -> None:
    path, first, second = tmp_path / "config", cluster_directory(tmp_path, "a"), cluster_directory(tmp_path, "b")
    await add_context(path, server(GONE), "pilothouse-a", first)
    await add_context(path, server(GONE), "pilothouse-b", second)
    path.write_text(path.read_text().replace("- name: pilothouse-a\n  context:", "- name: mine\n  context:"))
    await remove_context(path, "pilothouse-b", second, GONE)
    assert yaml.safe_load(path.read_text())["current-context"] == "mine"


async def test_credentials_of_a_deleted_context_are_removed(tmp_path: Path) -> None:
    path, owner = tmp_path / "config", cluster_directory(tmp_path, "a")
    path.write_text(USUAL)
    await add_context(path, server(GONE), "pilothouse", owner)
    document = yaml.safe_load(path.read_text())
    document["contexts"].pop()  # kubectl config delete-context
    document["current-context"] = "prod"
    path.write_text(yaml.safe_dump(document))
    await remove_context(path, "pilothouse", owner, "https://127.0.0.1:2")
    assert yaml.safe_load(path.read_text()) == document, "another server"
    await remove_context(path, "pilothouse", owner, GONE)
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(USUAL)


@cases(
    "text",
    {
        "an empty file": "",
        "without contexts": "apiVersion: v1\nkind: Config\n",
        "with empty lists": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    },
)
async def test_file_of_the_user_without_contexts_stays(tmp_path: Path, text: str) -> None:
    path, owner = tmp_path / "config", cluster_directory(tmp_path, "a")
    path.write_text(text)
    await add_context(path, server(GONE), "pilothouse", owner)
    await remove_context(path, "pilothouse", owner, GONE)
    left = yaml.safe_load(path.read_text())
    assert not any(left.get(section) for section in ("clusters", "contexts", "users", "current-context"))


async def test_file_that_was_created_is_removed_with_its_last_context(tmp_path: Path) -> None:
    path, first, second = tmp_path / "config", cluster_directory(tmp_path, "a"), cluster_directory(tmp_path, "b")
    await add_context(path, server(GONE), "pilothouse-a", first)
    await add_context(path, server(GONE), "pilothouse-b", second)
    await remove_context(path, "pilothouse-a", first, GONE)
    assert path.exists()
    await remove_context(path, "pilothouse-b", second, GONE)
    assert not path.exists()


async def test_owner_of_a_context_is_kept_when_the_previous_one_is_removed(tmp_path: Path) -> None:
    path, first, second = tmp_path / "config", cluster_directory(tmp_path, "a"), cluster_directory(tmp_path, "b")
    await add_context(path, server(GONE), "pilothouse-a", first)
    await add_context(path, server(GONE), "pilothouse-b", second)
    await remove_context(path, "pilothouse-a", first, GONE)
    with pytest.raises(UserError, match=f"belongs to the cluster in {second} "):
        check_context(path, "pilothouse-b", first)


@pytest.mark.parametrize("content", ["- a\n", "a: [", "clusters: 5\n"])
async def test_invalid_kubeconfig_is_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(UserError, match=r"unable to add a context to .*; the file is not changed"):
        async with merged_kubeconfig(path, server(GONE)):
            pytest.fail("it was changed")
    assert path.read_text() == content


async def test_held_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text(USUAL)
    lock.touch()
    asyncio.get_running_loop().call_later(0.2, lock.unlink)
    async with merged_kubeconfig(path, server(GONE)):
        assert url_in(path) == GONE
    monkeypatch.setattr(written_kubeconfig, "_LOCK_SECONDS", 0.1)
    lock.touch()
    with pytest.raises(UserError, match=r"config\.lock exists: another program is changing .*/config, or crashed"):
        await entered_and_left(merged_kubeconfig(path, server(GONE)))
    assert path.read_text() == USUAL


async def test_failed_removal_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(written_kubeconfig, "_LOCK_SECONDS", 0.1)
    path = tmp_path / "config"
    async with merged_kubeconfig(path, server(GONE)):
        (tmp_path / "config.lock").touch()
    assert capsys.readouterr().err.startswith(f"note: the context pilothouse could not be taken out of {path}: ")


async def test_concurrent_writers_lose_no_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_kubeconfig, "_free_name", lambda _path, _document, server: f"c{server.port}")
    path = tmp_path / "config"
    path.write_text(USUAL)

    async def write(number: int, entered: asyncio.Event, leave: asyncio.Event) -> None:
        one = Server(f"https://127.0.0.1:{number}", lambda name: addition(f"https://127.0.0.1:{number}", name))
        async with merged_kubeconfig(path, one) as name:
            assert name == f"c{number}"
            entered.set()
            await leave.wait()

    leave = asyncio.Event()
    entered = [asyncio.Event() for _number in range(5)]
    tasks = [asyncio.create_task(write(number, event, leave)) for number, event in enumerate(entered, 2)]
    for event in entered:
        await event.wait()
    names = {cluster["name"] for cluster in yaml.safe_load(path.read_text())["clusters"]}
    assert names == {"prod", "dev", "c2", "c3", "c4", "c5", "c6"}
    leave.set()
    await asyncio.gather(*tasks)
    assert path.read_text() == USUAL


async def test_root_keeps_the_owner_of_a_file(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can change another user's file")
    path = tmp_path / "config"
    path.write_text(USUAL)
    os.chown(path, 4711, 4711)
    await entered_and_left(merged_kubeconfig(path, server(GONE)))
    assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4711)
