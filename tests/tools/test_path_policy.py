"""No path leads out of what is allowed, whatever links there are or become."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tau_kernel.errors import ToolError
from tau_kernel.tools import PathPolicy

if TYPE_CHECKING:
    from .conftest import Desk

SECRET = "the secret"


def test_a_path_outside_is_refused_with_the_rule_and_what_to_do(desk: Desk) -> None:
    (desk.outside / "a.txt").write_text(SECRET)
    with pytest.raises(ToolError) as caught:
        desk.call("read", path="../outside/a.txt")
    wrong, rule, remedy = str(caught.value).split("\n")
    assert wrong == (
        f"path '../outside/a.txt' leads to {str(desk.outside / 'a.txt')!r}, "
        f"outside of {str(desk.root)!r}"
    )
    assert "only the working directory" in rule
    assert "ask the user" in remedy


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("read", {}),
        ("write", {"content": "x"}),
        ("edit", {"old_string": "the", "new_string": "x"}),
        ("grep", {"pattern": "the"}),
        ("find", {}),
        ("ls", {}),
    ],
)
@pytest.mark.parametrize("path", ["{out}", "in/../../outside", "link", "deep/link/.."])
def test_no_tool_leaves_the_working_directory(
    desk: Desk, tool: str, params: dict[str, str], path: str
) -> None:
    (desk.root / "in").mkdir()
    (desk.root / "deep").mkdir()
    (desk.outside / "in").mkdir()
    (desk.root / "link").symlink_to(desk.outside)
    (desk.root / "deep/link").symlink_to("../../outside/in")
    with pytest.raises(ToolError, match="outside of"):
        desk.call(tool, path=path.format(out=desk.outside), **params)


def test_a_name_that_only_begins_like_the_root_is_outside(desk: Desk) -> None:
    beside = desk.root.with_name("workshop")
    beside.mkdir()
    with pytest.raises(ToolError, match="outside of"):
        desk.call("ls", path="../workshop")


def test_absolute_paths_and_tildes_work_inside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.file("a.txt", "here")
    monkeypatch.setenv("HOME", str(desk.root))
    assert desk.call("read", path=str(path)) == "here"
    assert desk.call("read", path="~/a.txt") == "here"
    with pytest.raises(ToolError, match="does not exist"):
        desk.call("read", path="~no-such-user/a.txt")


def test_allowed_folders_and_files_are_open_as_well(desk: Desk, tmp_path: Path) -> None:
    (desk.outside / "a.txt").write_text("beside")
    single = tmp_path / "single.txt"
    single.write_text("one file")
    wider = type(desk)(
        root=desk.root, outside=desk.outside, allowed=(desk.outside, single)
    )
    assert wider.call("read", path="../outside/a.txt") == "beside"
    assert wider.call("read", path=str(single)) == "one file"
    assert wider.call("ls", path=str(single)) == "single.txt"
    wider.call("write", path=str(single), content="changed")
    assert single.read_text() == "changed"
    with pytest.raises(ToolError, match="outside of"):
        wider.call("ls", path="..")


def test_the_root_of_the_file_system_may_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    policy = PathPolicy(root=Path("/"))
    assert policy.place("a.txt", tmp_path).real == tmp_path / "a.txt"
    assert policy.place("/", tmp_path).parts == ()


def test_links_in_a_circle_are_told(desk: Desk) -> None:
    (desk.root / "a").symlink_to("b")
    (desk.root / "b").symlink_to("a")
    with pytest.raises(ToolError, match="symbolic link in a circle"):
        desk.call("read", path="a")


@pytest.mark.parametrize(
    "path", ["a\0b", "\ud800", "x" * 300, "a/" * 3000, "x" * 10**6]
)
def test_what_is_no_path_is_refused(desk: Desk, path: str) -> None:
    with pytest.raises(ToolError, match="path ") as caught:
        desk.call("read", path=path)
    assert len(str(caught.value)) < 10_000


NAMES = st.sampled_from(["a", "b", "c", "secret.txt"])
STEPS = st.lists(st.one_of(NAMES, st.just("..")), min_size=1, max_size=6)
KINDS = st.sampled_from(["folder", "file", "relative link", "absolute link"])
FARM = st.lists(st.tuples(KINDS, STEPS, STEPS), max_size=14)


def plant(root: Path, farm: list[tuple[str, list[str], list[str]]]) -> None:
    """Make what can be made of a farm; what cannot, as in a loop, is left out."""
    top = root.parent
    for kind, at, target in farm:
        path = root.joinpath(*(part for part in at if part != ".."))
        # Planting must not leave the farm either; that is what is under test.
        with contextlib.suppress(OSError):
            # pathlib's `resolve` raises where links form a circle.
            if not Path(os.path.realpath(path.parent)).is_relative_to(root):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            match kind:
                case "folder":
                    path.mkdir()
                case "file":
                    path.write_text("inside")
                case "relative link":
                    path.symlink_to(Path(*target))
                case _:
                    path.symlink_to(top.joinpath(*target))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(farm=FARM, path=STEPS, is_absolute=st.booleans())
def test_no_farm_of_links_leads_out(
    tmp_path_factory: pytest.TempPathFactory,
    make_desk: type[Desk],
    farm: list[tuple[str, list[str], list[str]]],
    path: list[str],
    is_absolute: bool,
) -> None:
    top = tmp_path_factory.mktemp("top")
    desk = make_desk(root=top / "a", outside=top / "b")
    desk.root.mkdir()
    (desk.outside / "c").mkdir(parents=True)
    for place in (top, desk.outside, desk.outside / "c"):
        (place / "secret.txt").write_text(SECRET)
    plant(desk.root, farm)
    before = snapshot(desk.outside) | {"top": (top / "secret.txt").read_bytes()}
    names = {path.name for path in top.iterdir()}
    target = str(desk.root.joinpath(*path)) if is_absolute else "/".join(path)
    for tool, params in (
        ("read", {}),
        ("ls", {}),
        ("edit", {"old_string": "s", "new_string": "x"}),
        ("write", {"content": "written"}),
        ("write", {"content": "written", "path": f"{target}/new/file"}),
    ):
        with contextlib.suppress(ToolError):
            result = desk.result(tool, **{"path": target, **params})
            assert SECRET not in str(result.content)
            real = Path(str(result.details["path"]))  # type: ignore[index,call-overload] # an object
            assert real.is_relative_to(desk.root)
    assert snapshot(desk.outside) | {"top": (top / "secret.txt").read_bytes()} == before
    assert {path.name for path in top.iterdir()} == names


@settings(max_examples=15, deadline=None)
@given(farm=FARM)
def test_searches_do_not_follow_links(
    tmp_path_factory: pytest.TempPathFactory,
    make_desk: type[Desk],
    farm: list[tuple[str, list[str], list[str]]],
) -> None:
    top = tmp_path_factory.mktemp("top")
    desk = make_desk(root=top / "a", outside=top / "b")
    desk.root.mkdir()
    desk.outside.mkdir()
    (desk.outside / "secret.txt").write_text(SECRET)
    plant(desk.root, farm)
    assert SECRET not in desk.call("grep", pattern="secret")


@contextlib.contextmanager
def swapping(folder: Path, away: Path, link: Path) -> Iterator[None]:
    """Put a link in the place of a folder and back, as fast as it goes."""
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            # Each fails where a write has made the folder anew in between.
            for old, new in ((folder, away), (link, folder), (folder, link)):
                with contextlib.suppress(OSError):
                    old.rename(new)
            if away.exists():
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    away.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
def test_a_folder_that_becomes_a_link_meanwhile_does_not_lead_out(desk: Desk) -> None:
    folder = desk.file("dir/a.txt", "inside").parent
    (desk.outside / "a.txt").write_text(SECRET)
    link = desk.root / "link"
    link.symlink_to(desk.outside)
    seen: set[str] = set()
    with swapping(folder, desk.root / "away", link):
        for _ in range(150):
            with contextlib.suppress(ToolError):
                seen.add(desk.call("read", path="dir/a.txt"))
            with contextlib.suppress(ToolError):
                desk.call("write", path="dir/a.txt", content="inside")
            with contextlib.suppress(ToolError):
                desk.call("ls", path="dir")
    assert seen == {"inside"}
    assert [path.name for path in desk.outside.iterdir()] == ["a.txt"]
    assert (desk.outside / "a.txt").read_text() == SECRET
