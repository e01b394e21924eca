"""Killed writers, failing disks and torn files: what had returned is there again.

Every fault is real or replaces one call of the operating system: SIGKILL, a limit on
the size of files, a file cut at each byte, and each call of a kind failing once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from tau_kernel.errors import SessionLockedError, StorageError, TauError
from tau_kernel.messages import user_message
from tau_kernel.sessions import FileSession, FileSessionCatalog, repair_session

KILLS = 300
#: A killed writer's file is read twice; a new one is begun before that takes long.
LONG_FILE = 1_000_000
#: Seconds after which a test gives up waiting for another process.
PATIENCE = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(FileSession.create(tmp_path / "base", "/w", "m", "b")) as session:
        session.append_message(user_message("start"))
    return session.path


def ids_in(path: Path) -> set[str]:
    """Load a session, which must be writable, and give the ids of its entries."""
    with closing(FileSession.load(path)) as session:
        assert session.read_only is None
        return {entry["id"] for entry in session.view()}


def fork_to(work: Callable[[], None]) -> int:
    """Run `work` in a forked process, and give the process."""
    pid = os.fork()
    if pid == 0:
        failed = 1
        with suppress(BaseException):
            work()
            failed = 0
        os._exit(failed)
    return pid


def write_for_ever(path: Path, told: int, seed: int) -> None:
    """Append entries of all sizes, and tell each id when its append has returned."""
    chance = random.Random(seed)
    session = FileSession.load(path)
    while True:
        size = chance.choice((0, 10, 3_000, 100_000))
        entry_id = session.append_message(user_message("x" * size))
        os.write(told, f"{entry_id}\n".encode())
        if chance.random() < 0.1:
            session.sync()
        if chance.random() < 0.2:
            moved = session.append_navigate(entry_id)
            os.write(told, f"{moved}\n".encode())


@pytest.mark.slow
def test_kill_9_at_any_moment_loses_no_entry_whose_append_had_returned(
    path: Path,
) -> None:
    chance = random.Random(9)
    kept = ids_in(path)
    for number in range(KILLS):
        if path.stat().st_size > LONG_FILE:
            path = FileSession.create(path.parents[1], "/w", "m", "b").path
            kept = ids_in(path)
        reading, told = os.pipe()
        pid = fork_to(partial(write_for_ever, path, told, number))
        os.close(told)
        with os.fdopen(reading, "rb") as acknowledged:
            lines = [acknowledged.readline() for _ in range(chance.randrange(25))]
            deadline = time.perf_counter() + chance.random() / 500
            while time.perf_counter() < deadline:
                pass
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            lines += acknowledged.readlines()
        kept |= {line.decode().strip() for line in lines if line.endswith(b"\n")}
        assert kept <= ids_in(path)


def test_kill_9_leaves_no_stale_lock(path: Path) -> None:
    reading, told = os.pipe()
    pid = fork_to(partial(write_for_ever, path, told, 0))
    assert os.read(reading, 1)
    with pytest.raises(SessionLockedError):
        FileSession.load(path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    FileSession.load(path).close()
    os.close(reading)
    os.close(told)


def write_a_run(path: Path, who: int, length: int) -> None:
    """Wait for the lock, then append entries that say who wrote them."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            session = FileSession.load(path)
        except SessionLockedError:
            assert time.monotonic() < deadline
            continue
        break
    with closing(session):
        for _ in range(length):
            session.append_custom_entry("run", {"who": who})


def test_what_processes_write_that_race_for_a_session_never_interleaves(
    path: Path,
) -> None:
    length = 50
    pids = [fork_to(partial(write_a_run, path, who, length)) for who in range(4)]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0, 0]
    entries = FileSession.read(path).view()
    runs = [
        entry["data"]["who"]
        for entry in entries
        if entry["type"] == "customEntry" and entry["customType"] == "run"
    ]
    firsts = runs[::length]
    assert sorted(firsts, key=str) == [0, 1, 2, 3]
    assert runs == [who for who in firsts for _ in range(length)]
    parents = [entry["parentId"] for entry in entries]
    assert parents == [None, *(entry["id"] for entry in entries)][:-1]


def test_a_program_that_a_writer_starts_does_not_keep_its_lock(path: Path) -> None:
    with (
        closing(FileSession.load(path)) as session,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as program,
    ):
        session.close()
        FileSession.load(path).close()
        assert program.poll() is None
        assert program.stdin is not None
        program.stdin.close()


def test_a_file_cut_at_any_byte_of_its_last_two_lines_keeps_the_lines_before(
    path: Path,
) -> None:
    ends: dict[int, int] = {}
    with closing(FileSession.load(path)) as session:
        for text in ("kept", "tör\N{GREEK SMALL LETTER TAU}n \U0001f600", "last"):
            session.append_message(user_message(text))
            ends[path.stat().st_size] = len(session.view())
    data = path.read_bytes()
    start, *_ = ends
    for size in range(start, len(data) + 1):
        path.write_bytes(data[:size])
        # An entry is whole with its last brace; its newline may still be missing.
        expected = max(count for end, count in ends.items() if end - 1 <= size)
        with closing(FileSession.load(path)) as loaded:
            assert (len(loaded.view()), loaded.read_only) == (expected, None)
            loaded.append_message(user_message("next"))
        with closing(FileSession.load(path)) as again:
            assert (len(again.view()), again.notice) == (expected + 1, None)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow past `size` bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_at_any_byte_of_a_line_takes_none_of_it(
    path: Path,
) -> None:
    with closing(FileSession.load(path)) as session:
        before = path.read_bytes()
        state = (session.entries(), session.cursor)
        for fits in range(170):
            with room_for(len(before) + fits), pytest.raises(StorageError):
                session.append_message(user_message("does not fit"))
            assert path.read_bytes() == before
            assert (session.entries(), session.cursor) == state
        session.append_message(user_message("fits"))
    assert len(ids_in(path)) == 3


def test_a_disk_that_fills_up_while_a_session_is_made_keeps_no_file(
    tmp_path: Path, path: Path
) -> None:
    base = tmp_path / "new"
    source = FileSession.read(path)
    for size in range(0, path.stat().st_size, 7):
        with room_for(size), pytest.raises(StorageError):
            FileSession.fork(base, "/w", source)
    for size in range(0, 250, 7):
        with room_for(size), pytest.raises(StorageError):
            FileSession.create(base, "/w", "m" * 200, "b")
    assert list(base.glob("*/*")) == []


def test_a_disk_that_fills_up_under_a_repair_keeps_no_copy(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"broken\n")
    damaged = path.read_bytes()
    for size in range(0, len(damaged) - 10, 7):
        with room_for(size), pytest.raises(StorageError):
            repair_session(path)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (damaged, [path])
    assert repair_session(path).kept == 2


def test_a_torn_line_that_cannot_be_put_aside_is_not_cut_off(path: Path) -> None:
    data = path.read_bytes() + b"x" * 50
    path.write_bytes(data)
    with room_for(40):
        session = FileSession.load(path)
    assert "refused by the disk" in (session.read_only or "")
    assert (len(session.view()), path.read_bytes()) == (2, data)
    assert len(ids_in(path)) == 2


class OneFault:
    """Stands in for one call of the system, and lets the nth of its calls fail."""

    def __init__(self, call: Callable[..., object], nth: int, *, short: bool) -> None:
        self._call = call
        self._nth = nth
        self._short = short
        self.calls = 0

    def __call__(self, *args: object, **more: object) -> object:
        self.calls += 1
        if self.calls - 1 != self._nth:
            return self._call(*args, **more)
        if not self._short:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fd, data = args
        assert isinstance(data, bytes)
        return self._call(fd, data[: len(data) // 2])


class Day:
    """A day in the life of a session, on a disk with one fault."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._session: FileSession | None = None
        self.failures: list[TauError] = []
        self.returned: dict[Path, set[str]] = {}

    def live(self) -> None:
        """Do all that touches the disk; what fails is tried once more."""
        self._twice(self._create)
        self._write()
        self._tear()
        self._twice(self._load)
        self._write()
        self._twice(self._fork)
        self._write()
        self._damage()
        self._twice(self._repair)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _twice(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TauError as error:
            self.failures.append(error)
            work()

    def _create(self) -> None:
        self._open(FileSession.create(self._base, "/w", "m", "b", name="n"))

    def _load(self) -> None:
        path = self._path()
        session = FileSession.load(path)
        if session.read_only is not None:
            session.close()
            # The disk refused it, so nothing was mended yet.
            raise StorageError(errno.EIO, session.read_only)
        self._open(session)

    def _fork(self) -> None:
        session = self._session
        assert session is not None
        self._open(FileSession.fork(self._base, "/v", session))

    def _open(self, session: FileSession) -> None:
        if self._session is not None:
            self._session.close()
        self._session = session
        self.returned.setdefault(session.path, set()).update(
            entry["id"] for entry in session.view()
        )

    def _write(self) -> None:
        for _ in range(3):
            self._twice(self._append)
        self._twice(self._sync)

    def _append(self) -> None:
        session = self._session
        assert session is not None
        before = (session.path.read_bytes(), session.entries(), session.cursor)
        try:
            entry_id = session.append_message(user_message("x" * 500))
        except TauError:
            after = (session.path.read_bytes(), session.entries(), session.cursor)
            assert after == before
            raise
        self.returned[session.path].add(entry_id)

    def _sync(self) -> None:
        assert self._session is not None
        self._session.sync()

    def _tear(self) -> None:
        path = self._path()
        with path.open("ab") as file:
            file.write(b'{"type":"message"')

    def _damage(self) -> None:
        with self._path().open("ab") as file:
            file.write(b"broken\n")

    def _repair(self) -> None:
        path = self._path()
        before = path.read_bytes()
        report = repair_session(path)
        assert path.read_bytes() == before
        self.returned[report.path] = self.returned[path]

    def _path(self) -> Path:
        assert self._session is not None
        self._session.close()
        return self._session.path


@contextmanager
def fault(
    module: ModuleType, name: str, nth: int, *, short: bool
) -> Iterator[OneFault]:
    with pytest.MonkeyPatch.context() as patch:
        one = OneFault(getattr(module, name), nth, short=short)
        patch.setattr(module, name, one)
        yield one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "short"),
    [
        pytest.param(os, "write", False, id="write"),
        pytest.param(os, "write", True, id="short write"),
        pytest.param(os, "fsync", False, id="fsync"),
        pytest.param(os, "rename", False, id="rename"),
        pytest.param(os, "open", False, id="open"),
        pytest.param(os, "mkdir", False, id="mkdir"),
        pytest.param(os, "ftruncate", False, id="ftruncate"),
        pytest.param(fcntl, "flock", False, id="lock"),
    ],
)
def test_any_single_call_may_fail_and_what_had_returned_is_loaded(
    tmp_path: Path, module: ModuleType, name: str, short: bool
) -> None:
    nth = failures = 0
    while True:
        base = tmp_path / str(nth)
        day = Day(base)
        with fault(module, name, nth, short=short) as one:
            day.live()
            day.close()
        if one.calls <= nth:
            break
        # Of an unlock that fails nobody is told: closing the file unlocks it too.
        assert len(day.failures) <= 1
        failures += len(day.failures)
        assert len(day.returned) == 3
        # The last damage is not mended in the file itself.
        for path, ids in day.returned.items():
            assert ids <= {entry["id"] for entry in FileSession.read(path).view()}
        left = {file.name for file in base.glob("*/*") if file not in day.returned}
        assert all(file.endswith(".torn") for file in left)
        nth += 1
    assert failures > 0


class Interrupt(Exception):  # noqa: N818 - as KeyboardInterrupt
    """What a signal raises wherever the process is."""


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupt


def write_interrupted(path: Path, told: int) -> None:
    """Append while signals raise at any moment; tell what returned, then go on."""
    chance = random.Random(3)
    interrupts = 0
    signal.signal(signal.SIGALRM, interrupt)
    session = FileSession.load(path)
    for _ in range(3_000):
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 2e-4))
            entry_id = session.append_message(user_message("x"))
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.write(told, f"{entry_id}\n".encode())
        except Interrupt:
            interrupts += 1
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    assert interrupts > 100
    entry_id = session.append_message(user_message("after"))
    os.write(told, f"{entry_id}\n".encode())


@pytest.mark.slow
def test_an_interrupt_at_any_moment_loses_nothing_and_leaves_a_writer(
    path: Path,
) -> None:
    reading, told = os.pipe()
    pid = fork_to(partial(write_interrupted, path, told))
    os.close(told)
    with os.fdopen(reading, "rb") as acknowledged:
        returned = set(acknowledged.read().decode().split())
    assert os.waitpid(pid, 0)[1] == 0
    assert returned <= ids_in(path)


def test_everything_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    base = tmp_path / "home" / "sessions"
    umask = os.umask(0)
    try:
        with closing(FileSession.create(base, "/w", "m", "b")) as session:
            session.append_message(user_message("private"))
        with session.path.open("ab") as file:
            file.write(b'{"torn')
        FileSession.load(session.path).close()
        with session.path.open("ab") as file:
            file.write(b"broken\n")
        FileSessionCatalog(base).repair(session.id)
    finally:
        os.umask(umask)
    files = list(session.path.parent.iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    folders = [session.path.parent, base, base.parent]
    assert {stat.S_IMODE(one.stat().st_mode) for one in folders} == {0o700}
