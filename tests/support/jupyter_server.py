"""A real JupyterLab server in a process of its own, on the loopback.

::

    with JupyterServer(root=tmp_path, home=tmp_path / "home", model="echo") as server:
        kernel = server.start_kernel()
        ...  # a websocket to server.channels_url(kernel), or a browser at server.url

It reads and writes no settings, workspaces or configuration of the person who runs
the tests, and asks nothing of the network.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import psutil

from tau_kernel.messages import JsonObject

__all__ = ["JupyterServer"]

#: Seconds that anything here may take; a busy machine is slow.
_BOUND: Final = 60.0
#: Seconds between two looks whether the server is ready.
_LOOK: Final = 0.1

#: Without these a first visit asks about news, which come from the network.
_SETTINGS: Final[Mapping[str, JsonObject]] = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


class JupyterServer:
    """A server with a token and a folder to serve; a context manager.

    Leaving ends the server and the kernels that it started.
    """

    def __init__(
        self,
        *,
        root: Path,
        home: Path,
        model: str,
        settings: Mapping[str, JsonObject] | None = None,
    ) -> None:
        """Prepare to start a server.

        Args:
            root: The folder that it serves, and where its kernels run.
            home: The ``TAU_HOME`` of its kernels; its own files go there too.
            model: The model of its kernels.
            settings: JupyterLab's settings by plug-in, as in
                ``{"apputils-extension/themes": {"theme": "JupyterLab Dark"}}``.
        """
        self.token = secrets.token_hex(16)
        self.port = 0
        self._root = root
        self._home = home
        self._model = model
        self._settings = {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def page_url(self, notebook: str, *, page: str = "lab/tree") -> str:
        """Give the address at which a browser sees a notebook, with the token.

        Args:
            notebook: Its path below the root.
            page: ``lab/tree``, or ``doc/tree`` for the notebook by itself.
        """
        return f"{self.url}/{page}/{quote(notebook)}?token={self.token}"

    def channels_url(self, kernel_id: str) -> str:
        """Give the address of the websocket with a kernel's channels."""
        return f"ws://127.0.0.1:{self.port}/api/kernels/{kernel_id}/channels"

    @property
    def headers(self) -> dict[str, str]:
        """What shows the server that a request may be made."""
        return {"Authorization": f"token {self.token}"}

    def start_kernel(self, name: str = "tau") -> str:
        """Start a kernel and give its id."""
        return str(self.request("POST", "/api/kernels", {"name": name})["id"])

    def request(self, method: str, path: str, body: JsonObject | None = None) -> Any:  # noqa: ANN401 - open JSON
        """Ask the server's REST interface, and give the JSON that it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_BOUND)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, body=data, headers=self.headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        assert response.status < 300, f"{method} {path}: {response.status} {text!r}"
        return json.loads(text) if text else None

    def __enter__(self) -> Self:
        self._write_settings()
        with (self._own / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._end(self._process)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._end(self._process)

    @property
    def _own(self) -> Path:
        return self._home / "jupyter"

    def _write_settings(self) -> None:
        for plugin, values in self._settings.items():
            file = self._own / "settings" / "@jupyterlab" / plugin
            file = file.with_name(f"{file.name}.jupyterlab-settings")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))

    def _command(self) -> list[str]:
        # Which port it got is in its runtime file: the one asked for may be taken.
        return [
            *(sys.executable, "-m", "jupyter", "lab"),
            *("--no-browser", "--allow-root", f"--ServerApp.port={_free_port()}"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={self._root}"),
            *(
                "--ServerApp.use_redirect_file=False",
                "--LabApp.extension_manager=readonly",
            ),
        ]

    def _environment(self) -> dict[str, str]:
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        own = {name: str(self._own / folder) for name, folder in folders.items()}
        tau = {"TAU_HOME": str(self._home), "TAU_MODEL": self._model}
        return {**os.environ, **own, **tau, "JUPYTER_TOKEN": self.token}

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _BOUND
        while not self._is_ready(process.pid):
            try:
                process.wait(_LOOK)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < end, f"no server in {_BOUND} s: {self._log}"
            else:
                msg = f"the server ended by itself: {self._log}"
                raise AssertionError(msg)

    def _is_ready(self, pid: int) -> bool:
        try:
            written = (self._own / "runtime" / f"jpserver-{pid}.json").read_bytes()
            self.port = int(json.loads(written)["port"])
            self.request("GET", "/api/status")
        except (OSError, json.JSONDecodeError):
            # There is no file, half a file, or nobody at the port.
            return False
        return True

    @property
    def _log(self) -> str:
        return (self._own / "log").read_text(errors="replace")[-4000:]

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End the server as a person would, and by force only what remains."""
        kernels = _descendants(process.pid)
        process.terminate()
        try:
            process.wait(_BOUND)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_BOUND)
        _, left = psutil.wait_procs(kernels, timeout=_BOUND)
        for kernel in left:
            kernel.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
