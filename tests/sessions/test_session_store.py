"""Session files: format, damage, locks, crashes and full disks."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau_kernel.errors import (
    CallerError,
    SessionDamagedError,
    SessionLockedError,
    StorageError,
)
from tau_kernel.messages import user_message
from tau_kernel.sessions import FileSession, FileSessionCatalog
from tau_kernel.tree import open_branch, session_log_is_addressable

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[FileSession]:
    with closing(FileSession.create(tmp_path, "/w/x", "echo", "local")) as made:
        yield made


def _script(code: str, *args: object) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]


def _run(code: str, *args: object) -> str:
    done = subprocess.run(
        _script(code, *args), cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_file_has_the_v1_layout_and_is_private(tmp_path: Path) -> None:
    base = tmp_path / "home" / "sessions"
    made = FileSession.create(base, "/w/x", "m", "b", system_prompt="sys", name="n")
    with closing(made) as session:
        lines = [json.loads(line) for line in session.path.read_text().splitlines()]
    header = lines[0]
    assert list(header) == ["type", "version", "id", "timestamp", "cwd", "parent"]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 1, "/w/x")
    kinds = [line["type"] for line in lines[1:]]
    assert kinds == ["model_change", "session_info", "message"]
    assert list(lines[1])[:4] == ["type", "id", "parentId", "timestamp"]
    stamp = header["timestamp"].replace(":", "-").replace(".", "-")
    expected = base / "--w-x--" / f"{stamp}_{header['id']}.jsonl"
    assert session.path == expected
    assert stat.S_IMODE(expected.stat().st_mode) == 0o600
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    assert (session.model, session.backend, session.session_name) == ("m", "b", "n")


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(st.dictionaries(st.text(), _JSON, max_size=3), max_size=5))
def test_what_was_appended_is_what_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]]
) -> None:
    base = tmp_path_factory.mktemp("sessions")
    with closing(FileSession.create(base, "/w", "m", "b")) as session:
        for record in records:
            session.append_custom_entry("note", record)
        before, cursor = session.entries(), session.cursor
    with closing(FileSession.load(session.path)) as loaded:
        assert (loaded.entries(), loaded.cursor) == (before, cursor)
        assert (loaded.read_only, loaded.notice) == (None, None)


def test_a_line_torn_at_any_byte_is_cut_off_kept_and_told(
    session: FileSession,
) -> None:
    session.append_message(user_message("kept"))
    whole = session.path.stat().st_size
    session.append_message(user_message("tör\N{GREEK SMALL LETTER TAU}n"))
    session.close()
    data = session.path.read_bytes()
    for end in range(whole + 1, len(data) - 1):
        session.path.write_bytes(data[:end])
        with closing(FileSession.load(session.path)) as loaded:
            assert len(loaded.view()) == 2
            assert f"{end - whole} bytes" in (loaded.notice or "")
            loaded.append_message(user_message("next"))
        with closing(FileSession.load(session.path)) as again:
            assert (len(again.view()), again.notice) == (3, None)
    aside = session.path.with_name(session.path.name + ".torn")
    assert data[whole : whole + 1] + b"\n" in aside.read_bytes()
    assert len(FileSessionCatalog(session.path.parents[1]).list()) == 1


def test_an_entry_that_lacks_only_its_newline_is_kept(session: FileSession) -> None:
    session.append_message(user_message("last"))
    session.close()
    session.path.write_bytes(session.path.read_bytes()[:-1])
    with closing(FileSession.load(session.path)) as loaded:
        loaded.append_message(user_message("next"))
        assert len(loaded.view()) == 3
    with closing(FileSession.load(session.path)) as again:
        assert (len(again.view()), again.read_only) == (3, None)


def test_a_header_that_lacks_only_its_newline_is_not_glued_to(
    session: FileSession,
) -> None:
    session.close()
    header = session.path.read_bytes().split(b"\n")[0]
    session.path.write_bytes(header)
    with closing(FileSession.load(session.path)) as loaded:
        loaded.append_message(user_message("next"))
    with closing(FileSession.load(session.path)) as again:
        assert (len(again.view()), again.read_only) == (1, None)


@pytest.mark.parametrize(
    "bad", [b"{broken", b"[]", b'{"type":"message"}', b"\0\0", b""]
)
def test_a_damaged_middle_opens_read_only_and_names_its_line(
    session: FileSession, bad: bytes
) -> None:
    for text in ("one", "two", "three"):
        session.append_message(user_message(text))
    session.close()
    lines = session.path.read_bytes().split(b"\n")
    lines[3] = bad
    session.path.write_bytes(b"\n".join(lines))
    data = session.path.read_bytes()
    loaded = FileSession.load(session.path)
    assert f"{session.path}:4 is damaged" in (loaded.read_only or "")
    assert len(loaded.view()) == 3
    assert loaded.view().roots() == [entry["id"] for entry in loaded.view()][::2]
    with pytest.raises(SessionDamagedError, match=r"jsonl:4 is damaged"):
        loaded.append_message(user_message("more"))
    assert (len(loaded.view()), session.path.read_bytes()) == (3, data)
    with closing(FileSession.fork(session.path.parents[1], "/w", loaded)) as fork:
        fork.append_message(user_message("more"))


@pytest.mark.parametrize(
    "header", [b"", b"\n", b"{}\n", b'{"type":"session","version":2}\n', b'{"ty']
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "--w--" / "x_1.jsonl"
    path.parent.mkdir()
    path.write_bytes(header)
    with pytest.raises(SessionDamagedError, match=r"x_1.jsonl:1 "):
        FileSession.load(path)
    (info,) = FileSessionCatalog(tmp_path).list()
    assert "x_1.jsonl:1 " in (info.error or "")
    assert path.read_bytes() == header


def test_a_second_process_is_told_to_fork(session: FileSession) -> None:
    code = """
    import sys
    from tau_kernel.errors import SessionLockedError
    from tau_kernel.sessions import FileSession
    try:
        FileSession.load(sys.argv[1])
    except SessionLockedError as error:
        print(error)
    print(len(FileSession.read(sys.argv[1]).view()))
    """
    told = _run(code, session.path)
    assert "export a fork" in told
    assert told.splitlines()[-1] == "1"
    session.close()
    assert "export a fork" not in _run(code, session.path)


@pytest.mark.slow
def test_kill_9_loses_no_entry_whose_append_had_returned(tmp_path: Path) -> None:
    code = """
    import sys
    from tau_kernel.messages import user_message
    from tau_kernel.sessions import FileSession
    session = FileSession.load(sys.argv[1])
    while True:
        print(session.append_message(user_message("x" * 3000)), flush=True)
    """
    with closing(FileSession.create(tmp_path, "/w", "m", "b")) as session:
        path = session.path
    acknowledged: set[str] = set()
    for count in (1, 7, 40, 111, 300):
        with subprocess.Popen(
            _script(code, path), cwd=_ROOT, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(count):
                acknowledged.add(child.stdout.readline().strip())
            child.kill()
            rest = child.stdout.read()
        acknowledged.update(rest.splitlines() if rest.endswith("\n") else ())
        with closing(FileSession.load(path)) as loaded:
            ids = {entry["id"] for entry in loaded.view()}
            assert acknowledged <= ids
            assert loaded.read_only is None


def test_a_forked_child_neither_writes_nor_holds_the_lock(session: FileSession) -> None:
    ready, started = os.pipe()
    release, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.append_message(user_message("from the child"))
        except SessionLockedError:
            session.close()
            os.write(started, b"r")
        os.close(go)
        os.read(release, 1)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"r"
        with pytest.raises(SessionLockedError):
            FileSession.load(session.path)
        session.append_message(user_message("from the parent"))
        session.close()
        with closing(FileSession.load(session.path)) as loaded:
            assert len(loaded.view()) == 2
    finally:
        os.write(go, b"g")
        os.waitpid(child, 0)
        for fd in (ready, started, release, go):
            os.close(fd)


def test_the_lock_ends_with_the_writer_though_its_child_lives(tmp_path: Path) -> None:
    code = """
    import os, sys
    from pathlib import Path
    from tau_kernel.sessions import FileSession
    session = FileSession.create(Path(sys.argv[1]), "/w", "m", "b")
    if os.fork() == 0:
        print(session.path, flush=True)
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), 9)
    """
    with subprocess.Popen(
        _script(code, tmp_path),
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        path = parent.stdout.readline().strip()
        parent.wait(timeout=20)
        FileSession.load(path).close()


def test_a_full_disk_leaves_file_and_memory_as_they_were(session: FileSession) -> None:
    code = """
    import resource, sys
    from tau_kernel.errors import StorageError
    from tau_kernel.messages import user_message
    from tau_kernel.sessions import FileSession
    session = FileSession.load(sys.argv[1])
    size = session.path.stat().st_size
    # Room for half a line: the write is short, as on a disk that fills up.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    cursor = session.cursor
    try:
        session.append_message(user_message("x" * 500))
    except StorageError as error:
        print(error)
    assert session.path.stat().st_size == size
    assert (session.cursor, len(session.view())) == (cursor, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    session.append_message(user_message("fits"))
    """
    session.close()
    assert str(session.path) in _run(code, session.path)
    with closing(FileSession.load(session.path)) as loaded:
        assert (len(loaded.view()), loaded.notice) == (2, None)


def test_a_program_that_writes_without_the_lock_is_noticed(
    session: FileSession,
) -> None:
    with session.path.open("ab") as other:
        other.write(b"x")
    with pytest.raises(StorageError, match="another program"):
        session.append_message(user_message("a"))
    assert len(session.view()) == 1


def test_a_deleted_file_is_noticed(session: FileSession) -> None:
    session.path.unlink()
    with pytest.raises(StorageError, match="deleted"):
        session.append_message(user_message("a"))


def test_a_closed_session_refuses_to_append(session: FileSession) -> None:
    session.sync()
    session.close()
    session.close()
    with pytest.raises(CallerError, match="closed"):
        session.append_message(user_message("a"))


def test_a_session_that_is_let_go_gives_its_lock_back(tmp_path: Path) -> None:
    path = FileSession.create(tmp_path, "/w", "m", "b").path
    FileSession.load(path).close()


def test_a_stored_session_and_its_branches_are_addressable(
    session: FileSession,
) -> None:
    assert session_log_is_addressable(session)
    assert session_log_is_addressable(open_branch(session, session.cursor, label="b"))
