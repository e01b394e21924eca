"""The provider that runs a GGUF file on this machine, with llama.cpp.

The model lives in a process of its own (`local_process`, `local_worker`): loading holds
the interpreter's lock for longer than an interrupt may wait, and a crash in native code
must not end the kernel. What goes to and fro is in `local_wire`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator
from pathlib import Path

from tau_kernel.errors import ConfigError

from .local_install import local_model_path
from .local_process import WORKERS, LocalJob
from .local_wire import ChunkReader, request_body
from .model import ErrorEvent, Model, ModelContext, StreamEvent, StreamOptions

__all__ = ["stream"]


async def stream(
    model: Model, context: ModelContext, options: StreamOptions
) -> AsyncGenerator[StreamEvent, None]:
    """Give the answer of a local model, token by token.

    Leaving it early stops the generation: at the next token, or at once where the
    model is still being loaded or reading the prompt.

    Raises:
        ConfigError: The model or the library is not installed, or the file is not
            the one it should be.
    """
    path = _model_file(model)
    body = request_body(model, context, options)
    worker = WORKERS.worker(path, model.context_window)
    job = LocalJob(worker, body, is_default=not model.source)
    answer = ChunkReader(model)
    job.start()
    try:
        while (item := await job.items.get()) is not None:
            if isinstance(item, ErrorEvent):
                yield item
                return
            for event in answer.read(item):
                yield event
                if isinstance(event, ErrorEvent):
                    return
    finally:
        job.stop()
    yield answer.last_event()


def _model_file(model: Model) -> Path:
    if importlib.util.find_spec("xllamacpp") is None:
        msg = (
            f"model {model.name!r} needs the package xllamacpp, which is not "
            "installed\nRun `pip install 'tau-kernel[local]'`, then "
            "`tau-kernel local install`."
        )
        raise ConfigError(msg)
    path = Path(model.source) if model.source else local_model_path()
    if path is None:
        msg = (
            f"model {model.name!r} has no file yet: the default local model is not "
            "installed\nRun `tau-kernel local install`, or name a file: "
            "local:FILE.gguf."
        )
        raise ConfigError(msg)
    if not path.is_file():
        msg = (
            f"model {model.name!r} names the file {str(path)!r}, which does not exist\n"
            "Name an existing GGUF file: local:FILE.gguf."
        )
        raise ConfigError(msg)
    return path
