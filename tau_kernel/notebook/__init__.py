"""Notebooks as documents: run one from the top, with progress."""

from __future__ import annotations

from .run import CellProgress, RunOutcome, run_notebook

__all__ = ["CellProgress", "RunOutcome", "run_notebook"]
