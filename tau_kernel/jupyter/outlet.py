"""Outputs of one cell, sent under that cell's own parent header."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tau_kernel.messages import JsonObject, JsonValue, clean_json

if TYPE_CHECKING:
    import zmq
    from jupyter_client.session import Session

    from .cell_request import CellRequest

__all__ = ["CellOutlet"]


class CellOutlet:
    """Publishes on iopub for one request; may be called from any thread.

    The request is named in each message, since "the latest cell" is another one when
    a second client runs something. A silent request publishes nothing.
    """

    def __init__(
        self,
        session: Session,
        socket: zmq.Socket[bytes],
        topic: bytes,
        request: CellRequest,
    ) -> None:
        """Publish through `socket`, which hands over to iopub's own thread.

        Args:
            session: Signs and packs.
            socket: The kernel's iopub socket.
            topic: The prefix of the kernel's iopub topics.
            request: Whose outputs these are.
        """
        self._session = session
        self._socket = socket
        self._topic = topic
        self._request = request

    def display(
        self,
        bundle: Mapping[str, JsonValue],
        metadata: JsonObject,
        display_id: str,
        *,
        update: bool,
    ) -> None:
        """Show a MIME bundle, or replace what the display of that id shows."""
        self._send(
            "update_display_data" if update else "display_data",
            {
                "data": clean_json(dict(bundle)),
                "metadata": clean_json(metadata),
                "transient": {"display_id": display_id},
            },
        )

    def stream(self, name: str, text: str) -> None:
        """Append `text` to ``stdout`` or ``stderr``."""
        self._send("stream", {"name": name, "text": clean_json(text)})

    def error(self, ename: str, evalue: str, traceback: list[str]) -> None:
        """Show an error."""
        content: JsonObject = {"ename": ename, "evalue": evalue}
        self._send("error", {**content, "traceback": [*traceback]})

    def page(self, text: str, provenance: JsonObject) -> None:
        """Show a note beside the answers; `provenance` as with them."""
        bundle: JsonObject = {"text/markdown": text, "text/plain": text}
        self.display(bundle, {"tau": provenance}, uuid.uuid4().hex, update=False)

    def _send(self, kind: str, content: JsonObject) -> None:
        if self._request.silent:
            return
        parent = dict(self._request.parent)
        message = self._session.msg(kind, content=content, parent=parent)
        # The session counts its messages without a lock, so that two threads may
        # draw the same id.
        message_id = f"{self._session.session}_{uuid.uuid4().hex}"
        message["header"]["msg_id"] = message["msg_id"] = message_id
        self._session.send(self._socket, message, ident=self._topic + kind.encode())
