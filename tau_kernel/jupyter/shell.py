"""IPython's shell, told when the user's own code is on the stack."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any

from ipykernel.zmqshell import ZMQInteractiveShell

if TYPE_CHECKING:
    from .interrupts import Interrupts

__all__ = ["TauShell"]


class TauShell(ZMQInteractiveShell):
    """Runs Python cells; an interrupt raises inside them and nowhere else."""

    #: Set by the kernel once it exists.
    interrupts: Interrupts | None = None

    async def run_code(
        self,
        code_obj: CodeType,
        result: Any = None,  # noqa: ANN401 - IPython's signature
        *,
        async_: bool = False,
    ) -> bool:
        """Run compiled code, as IPython does.

        Awaiting code is cancelled from the loop: KeyboardInterrupt raised in a task's
        step would leave the loop.
        """
        if async_ or self.interrupts is None:
            return await super().run_code(code_obj, result, async_=async_)
        with self.interrupts.user_code():
            return await super().run_code(code_obj, result, async_=async_)
