"""The names and signatures of the documented API are here, under the same names.

``symbols.json`` holds them by module: for what is called its parameters, each with its
kind and, if it has one, its default as Python writes it; null for what is read.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import tau_kernel

SYMBOLS: Final[dict[str, dict[str, list[list[str]] | None]]] = json.loads(
    (Path(__file__).parent / "symbols.json").read_text()
)
KINDS: Final[dict[object, str]] = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


@cache
def module_named(leaf: str) -> list[str]:
    walked = pkgutil.walk_packages(tau_kernel.__path__, "tau_kernel.")
    return [info.name for info in walked if info.name.rpartition(".")[2] == leaf]


def found(leaf: str, symbol: str) -> tuple[object, Any]:
    """Give the owner of a symbol and what it holds under that name, unbound.

    A field that is only declared is found as None.
    """
    for name in module_named(leaf):
        owner: Any = importlib.import_module(name)
        *parents, last = symbol.split(".")
        for parent in parents:
            owner = getattr(owner, parent, None)
        if owner is None:
            continue
        declared = (vars(base).get("__annotations__", {}) for base in _bases(owner))
        try:
            return owner, inspect.getattr_static(owner, last)
        except AttributeError:
            if any(last in names for names in declared):
                return owner, None
    pytest.fail(f"{leaf} has no {symbol}")


def _bases(owner: object) -> tuple[type, ...]:
    return owner.__mro__ if inspect.isclass(owner) else ()


def parameters(target: object) -> Iterator[inspect.Parameter]:
    plain = (
        target.__func__ if isinstance(target, staticmethod | classmethod) else target
    )
    assert callable(plain)
    for parameter in inspect.signature(plain).parameters.values():
        if parameter.name not in {"self", "cls"}:
            yield parameter


CASES: Final = [
    pytest.param(leaf, symbol, expected, id=f"{leaf}.{symbol}")
    for leaf, symbols in SYMBOLS.items()
    for symbol, expected in symbols.items()
]


@pytest.mark.parametrize(("leaf", "symbol", "expected"), CASES)
def test_the_documented_symbol_is_here(
    leaf: str, symbol: str, expected: list[list[str]] | None
) -> None:
    _, target = found(leaf, symbol)
    if expected is None:
        assert not inspect.isfunction(target), "it is read, not called"
        return
    actual = {one.name: one for one in parameters(target)}
    for name, kind, *default in expected:
        assert name in actual
        one = actual.pop(name)
        assert KINDS[one.kind] == kind, name
        assert (one.default is not one.empty) == bool(default), name
        if default and (value := _literal(default[0])) is not None:
            assert one.default == value, name
    variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    ours = [one for one in actual.values() if one.kind not in variadic]
    assert all(one.default is not one.empty for one in ours), "required, undocumented"
    order = [name for name, kind, *_ in expected if kind == "positional"]
    assert [p.name for p in parameters(target) if p.name in order] == order


def _literal(source: str) -> object:
    try:
        return ast.literal_eval(source)
    except ValueError:
        # A name, whose value the documentation does not give.
        return None
