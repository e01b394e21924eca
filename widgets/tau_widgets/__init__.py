"""Widgets that show a conversation of tau-kernel and ask on its behalf.

A widget shows and asks; the session decides.
"""

from __future__ import annotations

__all__: list[str] = []
