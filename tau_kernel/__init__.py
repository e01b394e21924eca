"""A Jupyter kernel whose cells are prompts to an agent.

The package has one door per folder; this one carries only the version. Programs
start from ``tau_kernel.sdk``, Jupyter from ``python -m tau_kernel``, and people
from the command ``tau-kernel``.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
