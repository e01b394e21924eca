"""What a prompt takes from the variables of Python cells, and what it gives them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

from tau_kernel.errors import CallerError

__all__ = ["expand_names"]

_NAME: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def expand_names(text: str, variables: Mapping[str, object]) -> str:
    """Give `text` with each ``{{name}}`` replaced by the variable's `str`.

    What is put in is not looked at again.

    Raises:
        CallerError: There is no such variable; nothing was submitted.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in variables:
            near = difflib.get_close_matches(name, variables, n=1)
            hint = f"; is {near[0]!r} meant?" if near else ""
            msg = (
                f"expand=on: no variable {name!r} for {found[0]}{hint}\n"
                "set it in a %%python cell, or leave expand=on out"
            )
            raise CallerError(msg)
        return str(variables[name])

    return _NAME.sub(value, text)
