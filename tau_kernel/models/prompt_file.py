"""The prompts that ship as text files, and the user's files that win over them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tau_kernel.errors import ConfigError

__all__ = ["read_prompt"]


def read_prompt(package: str, name: str, folder: Path | None = None) -> str:
    """Give a prompt, stripped: the user's, if there is one, else the shipped one.

    Args:
        package: The package in whose folder ``prompts`` the file ships.
        name: The file's name in both places.
        folder: Where the user's prompts are; None, or a folder that is not there, has
            none.

    Raises:
        ConfigError: The user's file is there and cannot be read as UTF-8, or says
            nothing.
    """
    if folder is not None and (own := folder / name).exists():
        return _own_text(own)
    return files(package).joinpath("prompts", name).read_text(encoding="utf-8").strip()


def _own_text(path: Path) -> str:
    advice = "Mend the file, or remove it for the prompt that ships."
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the prompt {str(path)!r} cannot be read: {error}\n{advice}"
        raise ConfigError(msg) from error
    if not text:
        msg = f"the prompt {str(path)!r} is empty\n{advice}"
        raise ConfigError(msg)
    return text
