"""The Jupyter head: a kernel process whose cells are prompts.

Everything that speaks of Jupyter's messages, IPython or ZeroMQ stands in here. The
conversation itself is `tau_kernel.agent`'s affair.
"""

from __future__ import annotations

from .app import TauKernelApp, launch
from .install import install_kernelspec, is_installed_in, shipped_path
from .kernel import TauKernel

__all__ = [
    "TauKernel",
    "TauKernelApp",
    "install_kernelspec",
    "is_installed_in",
    "launch",
    "shipped_path",
]
