"""The kernel's conversation: opened on its own thread, with the first prompt.

Everything here that touches the session runs on the session's thread; the kernel's
main thread only waits for futures.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from tau_kernel.agent import AgentSession, CompactionSettings, Limits
from tau_kernel.config import Config, load_config
from tau_kernel.errors import CallerError, ConfigError
from tau_kernel.extensions import AgentTool, UiDelegate
from tau_kernel.legacy import ImportedSession, read_session
from tau_kernel.messages import JsonObject
from tau_kernel.models import (
    Model,
    ModelSettings,
    default_model_name,
    resolve_model,
    warm,
)
from tau_kernel.sdk import SessionConfig, create_agent_session
from tau_kernel.sessions import FileSession, FileSessionCatalog
from tau_kernel.tools import BUILTIN_TOOLS
from tau_kernel.tree import InMemorySessionLog, SessionLog

from .notebook_note import note_notebook, notebook_of
from .session_thread import SessionThread

__all__ = ["Conversation", "ConversationOptions"]

#: Seconds that the outputs of forks have to leave when the conversation ends.
_LAST_WORDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationOptions:
    """What the kernel was started with.

    Args:
        model: A model's name in place of the configured default.
        home: The folder in place of ``TAU_HOME``.
        tools: Tools beside the built-in ones, each as ``"package.module:name"``.
    """

    model: str | None = None
    home: str | None = None
    tools: Sequence[str] = ()


class Conversation:
    """One session and the file it is kept in; opened once, when it is first needed."""

    def __init__(
        self, thread: SessionThread, options: ConversationOptions, dialogs: UiDelegate
    ) -> None:
        """Prepare a conversation that does not exist yet."""
        self.thread = thread
        self._options = options
        self._dialogs = dialogs
        self._started_in = Path.cwd()
        self._session: AgentSession | None = None
        self._opening = asyncio.Lock()
        self._chosen = options.model
        self._is_warm = False
        self._unrecorded: list[JsonObject] = []
        self._kept: set[asyncio.Task[None]] = set()

    @property
    def session(self) -> AgentSession | None:
        """The session, or None before the first prompt."""
        return self._session

    def config(self) -> Config:
        """Read the configuration afresh, so that a mended file counts at once.

        Raises:
            ConfigError: The file or a variable is wrong.
        """
        environ = dict(os.environ)
        if home := self._options.home or environ.get("TAU_HOME"):
            # A Python cell may change the directory; the folder stays the same.
            environ["TAU_HOME"] = str(self._started_in / Path(home).expanduser())
        return load_config(environ)

    def model(self, name: str | None, config: Config) -> Model:
        """Find the model that a cell names, or else the default one.

        Raises:
            ConfigError: No such model, or none is configured.
        """
        chosen = name or self._chosen
        if not chosen:
            chosen = default_model_name(config.environ_model, config.default_model)
        return resolve_model(chosen, _settings(config))

    def choose_model(self, name: str) -> None:
        """Let cells that name no model use this one, which must exist."""
        self._chosen = name

    def warm(self) -> None:
        """Prepare the configured model in the background, at the first call.

        What is wrong with it is told by the first prompt.
        """
        if not self._is_warm:
            self._is_warm = True
            self.thread.run(asyncio.to_thread(self._warm))

    def _warm(self) -> None:
        with contextlib.suppress(ConfigError):
            warm(self.model(None, self.config()))

    def model_names(self) -> list[str]:
        """Give the names that a cell may choose from; none if the file is broken."""
        try:
            return ["echo", "local", *self.config().models]
        except ConfigError:
            return ["echo", "local"]

    def tool_names(self) -> list[str]:
        """Give the names of the tools that a cell may choose from, if they load."""
        names = [tool.name for tool in BUILTIN_TOOLS]
        for spec in self._options.tools:
            with contextlib.suppress(ConfigError):
                names.append(_load_tool(spec).name)
        return names

    async def open(
        self, model: Model, config: Config, *, is_kept: bool = True
    ) -> AgentSession:
        """Give the session; create it with its file when first something is kept.

        Args:
            model: Who answers from the start.
            config: What else the session is made of.
            is_kept: Whether this submission leaves a trace; if it does not and there
                is no session, it gets one that is forgotten.

        Raises:
            ConfigError: A tool cannot be loaded.
            StorageError: The home cannot be written.
        """
        async with self._opening:
            if self._session is None and not is_kept:
                return await self._begin(model, config, InMemorySessionLog())
            if self._session is None:
                wanted = config.environ_session
                log = None if wanted is None else self._found(wanted)
                self._session = await self._begin(model, config, log)
                for data in self._unrecorded:
                    self._session.session_log.append_custom_entry("cell", data)
                self._unrecorded.clear()
            self._session.set_limits(Limits(**config.session_limits))
            return self._session

    async def _begin(
        self, model: Model, config: Config, log: SessionLog | None
    ) -> AgentSession:
        cwd = Path.cwd()
        # Before the file exists: a tool that cannot be loaded must leave none behind.
        tools = tuple(_load_tool(spec) for spec in self._options.tools)
        if log is None:
            log = FileSessionCatalog(config.home / "sessions").create(
                str(cwd), model.id, model.provider, name=None
            )
        session = create_agent_session(
            SessionConfig(
                model=model,
                log=log,
                system_prompt=config.system_prompt or "",
                tools=(*BUILTIN_TOOLS, *tools),
                cwd=cwd,
                limits=Limits(**config.session_limits),
                # A cell could neither show a compaction nor be interrupted in one.
                compaction=CompactionSettings(enabled=False),
                model_resolver=lambda name: self.model(name, self.config()),
            )
        )
        if isinstance(log, FileSession) and config.environ_notebook is not None:
            note_notebook(log, config.environ_notebook)
        session.set_ui_delegate(self._dialogs)
        session.set_headless_ui_defaults(dict(config.ui_defaults))
        await session.emit_session_start("startup")
        return session

    def catalog(self) -> FileSessionCatalog:
        """Give the catalog of the stored conversations."""
        return FileSessionCatalog(self.config().home / "sessions")

    async def resume(self, ref: str) -> AgentSession:
        """Go on with a stored conversation in place of this one, which is closed.

        Args:
            ref: Its id, the start of that, its file, or which of them was written
                last, but for this one: ``last`` of this directory's, ``notebook`` of
                this notebook's.

        Raises:
            SessionRefError: No session matches, or more than one does.
            SessionLockedError: Another process writes it.
        """
        async with self._opening:
            return await self._change_to(self._found(ref))

    async def fork(self) -> AgentSession:
        """Go on in a copy of this conversation, which is closed and stays as it is.

        Raises:
            CallerError: There is no conversation yet.
        """
        async with self._opening:
            if self._session is None:
                msg = "there is no conversation to fork yet; run a prompt first"
                raise CallerError(msg)
            log = self._session.session_log
            return await self._change_to(self.catalog().fork(log, str(Path.cwd())))

    async def import_copy(self, path: Path) -> ImportedSession:
        """Go on in a copy of a session file from elsewhere, which is only read.

        Args:
            path: A file of τ, v1 or older, or of pi.

        Raises:
            CallerError: There is no such file.
            SessionDamagedError: It is no session, or it is damaged; this conversation
                goes on.
        """
        async with self._opening:
            backend = self.model(None, self.config()).provider
            cwd = str(Path.cwd())
            read = await asyncio.to_thread(read_session, path, cwd=cwd, backend=backend)
            await self._change_to(self.catalog().fork(read.log, cwd))
            return read

    def _found(self, ref: str) -> SessionLog:
        catalog = self.catalog()
        if ref not in {"last", "notebook"}:
            return catalog.resolve_ref(ref)
        notebook = self.config().environ_notebook if ref == "notebook" else None
        if ref == "notebook" and notebook is None:
            msg = "the server told this kernel no notebook; see /resume"
            raise CallerError(msg)
        current = None if self._session is None else self._session.session_log.id
        for info in catalog.list(str(Path.cwd())):
            is_other = info.error is None and info.id != current
            if is_other and notebook in {None, notebook_of(Path(info.ref))}:
                return catalog.load(info.ref)
        of = f"from {notebook!r} " if notebook else ""
        msg = f"no other session was made {of}in {str(Path.cwd())!r}; see /resume"
        raise CallerError(msg)

    async def _change_to(self, log: SessionLog) -> AgentSession:
        config = self.config()
        try:
            session = await self._begin(self.model(None, config), config, log)
        except BaseException:
            _close(log)
            raise
        await self.close()
        self._session = session
        return session

    async def record_python(self, data: JsonObject) -> None:
        """Keep beside the conversation that a Python cell ran; never model input.

        What runs before the first prompt is written with that.
        """
        if self._session is None:
            self._unrecorded.append(data)
        else:
            self._session.session_log.append_custom_entry("cell", data)

    def keep(self, work: Coroutine[None, None, None]) -> None:
        """Run what outlives its cell; on the session's thread, until `close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    async def close(self) -> None:
        """End the turn, sync the file and release its lock."""
        session = self._session
        if session is None:
            return
        await session.emit_session_shutdown("quit")
        if self._kept:
            await asyncio.wait(self._kept, timeout=_LAST_WORDS)
        _close(session.session_log)


def _close(log: SessionLog) -> None:
    if isinstance(log, FileSession):
        log.sync()
        log.close()


def _settings(config: Config) -> dict[str, ModelSettings]:
    return {name: ModelSettings(**entry) for name, entry in config.models.items()}


def _load_tool(spec: str) -> AgentTool:
    module_name, _, name = spec.partition(":")
    try:
        return cast("AgentTool", getattr(importlib.import_module(module_name), name))
    except (ImportError, AttributeError) as error:
        msg = (
            f"tool {spec!r} cannot be loaded: {error}\n"
            "name it as package.module:attribute, importable by this kernel"
        )
        raise ConfigError(msg) from error
