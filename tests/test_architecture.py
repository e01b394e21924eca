"""The promises of the tree: who imports whom, through which door, how large.

Where a rule has an exception, the table that holds it says why.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
CORE: Final = ROOT / "tau_kernel"
WIDGETS: Final = ROOT / "widgets" / "tau_widgets"

#: Each unit may import the units it names, and itself.
ALLOWED: Final[dict[str, set[str]]] = {
    "errors": set(),
    "config": {"errors"},
    "messages": {"errors"},
    "models": {"errors", "messages"},
    "tree": {"errors", "messages", "models"},
    "flows": {"errors", "messages", "tree"},
    "submissions": {"errors", "messages", "flows"},
    "tags": {"errors", "submissions"},
    "sessions": {"errors", "messages", "tree", "tags"},
    "legacy": {"errors", "messages", "models", "tree"},
}
ALLOWED["extensions"] = {"errors", "messages", "models", "tree", "flows"} | {
    "submissions",
    "tags",
}
ALLOWED["agent"] = ALLOWED["extensions"] | {"sessions", "extensions"}
ALLOWED["tools"] = {"errors", "messages", "extensions"}
ALLOWED["shipped"] = {"errors", "messages", "flows", "submissions"} | {
    "tags",
    "extensions",
}
ALLOWED["sdk"] = set(ALLOWED)
ALLOWED["notebook"] = {"errors", "config", "messages", "models"} | {
    "tree",
    "sessions",
    "submissions",
}
ALLOWED["tau_widgets"] = {"messages", "tree", "flows", "submissions", "tags"}
ALLOWED["jupyter"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["__main__"] = set(ALLOWED)
ALLOWED["__init__"] = set()

#: Names that only heads may import, and the units that are heads.
JUPYTER: Final = {
    "IPython",
    "anywidget",
    "comm",
    "ipykernel",
    "ipywidgets",
    "jupyter_client",
    "jupyter_core",
    "nbclient",
    "nbconvert",
    "nbformat",
    "tornado",
    "traitlets",
    "zmq",
}
HEADS: Final = {
    "jupyter": JUPYTER,
    "cli": JUPYTER,
    "tau_widgets": {"IPython", "anywidget", "comm", "ipywidgets", "traitlets"},
    "notebook": {"nbclient", "nbformat"},
}

MODULE_LINES: Final = 400
TEST_MODULE_LINES: Final = 800
CLASS_LINES: Final = 250
CLASS_METHODS: Final = 20
FUNCTION_LINES: Final = 50
POSITIONAL: Final = 5
#: The documented API gives these their many members.
MANY_METHODS: Final = {"AgentSession", "ExtensionAPI", "ExtensionContext"}
#: The documented API or ipykernel gives these their many positional parameters.
MANY_PARAMETERS: Final = {"AgentSession.__init__", "TauKernel.do_history"}
#: One name for each implementation of a Protocol.
SHARED_CLASS_NAMES: Final[set[str]] = set()

PLAN_WORDS: Final = re.compile(
    r"\b(sub)?phase\b|\bstep\b|\bsprint\b|\bmilestone\b|\bTO"
    r"DO\b|\bFIX"
    r"ME\b|\bnow\b|\bno longer\b|\bported from\b|\bpreviously\b"
    r"|\b(issue|ticket)\s*#?\d+|(?<!\w)#\d+",
    re.IGNORECASE,
)
BANNER: Final = re.compile(r"[-=#*~_+─═]{4,}")
URL: Final = re.compile(r"https?://\S+")

SOURCES: Final = sorted([*CORE.rglob("*.py"), *WIDGETS.rglob("*.py")])
TESTS: Final = sorted((ROOT / "tests").rglob("*.py"))
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)
each_module = pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name_of)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path: Path) -> tuple[str, ...]:
    """The dotted package that a module stands in, as parts."""
    top = CORE.parent if path.is_relative_to(CORE) else WIDGETS.parent
    return path.relative_to(top).parts[:-1]


def unit_of(path: Path) -> str:
    if path.is_relative_to(WIDGETS):
        return "tau_widgets"
    return path.relative_to(CORE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The dotted modules that ``path`` imports, relative ones resolved."""
    package = package_of(path)
    found: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *(node.module or "").split(".")]).rstrip(".")
            # `from tau_kernel import tree` names its unit only in the alias.
            names = [a.name for a in node.names] if module == "tau_kernel" else [""]
            found |= {f"{module}.{name}".rstrip(".") for name in names}
    return found


def code_lines(path: Path) -> set[int]:
    """The numbers of the lines that hold code: no docstring, comment or blank."""
    text = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER} | {
        tokenize.INDENT,
        tokenize.DEDENT,
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            doc = node.body[0]
            lines -= set(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return lines


def functions(
    tree: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function under ``tree`` with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}."
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        yield from functions(node, name)


def comments(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]


@each_source
def test_imports_follow_the_table_and_use_the_doors(path: Path) -> None:
    unit = unit_of(path)
    assert unit in ALLOWED, f"{unit} has no line in the table of imports"
    for name in imported(path):
        top, *rest = name.split(".")
        if top == "tau_widgets" and unit != "tau_widgets":
            assert "tau_widgets" in ALLOWED[unit], f"{unit} may not import {name}"
            assert not rest or len(rest) == 1, f"import the door, not {name}"
        elif top == "tau_kernel" and rest and rest != ["__version__"]:
            assert rest[0] in ALLOWED[unit] | {unit}, f"{unit} may not import {name}"
            assert rest[0] == unit or len(rest) == 1, f"import the door, not {name}"


@each_source
def test_only_heads_know_jupyter(path: Path) -> None:
    tops = {name.split(".")[0] for name in imported(path)}
    assert not (tops & JUPYTER) - HEADS.get(unit_of(path), set())


@each_source
def test_every_folder_has_a_door_with_a_list_of_names(path: Path) -> None:
    door = path.parent / "__init__.py"
    assert door.is_file(), f"{name_of(path.parent)} has no __init__.py"
    assigned = [
        ast.unparse(target)
        for node in parse(door).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    assert "__all__" in assigned, f"{name_of(door)} has no __all__"


@each_module
def test_modules_stay_readable(path: Path) -> None:
    limit = TEST_MODULE_LINES if path in TESTS else MODULE_LINES
    size = len(code_lines(path))
    assert size <= limit, f"{size} lines of code, over {limit}: split this module"


@each_source
def test_classes_stay_readable(path: Path) -> None:
    lines = code_lines(path)
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        size = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
        assert size <= CLASS_LINES, f"{node.name} has {size} lines of code"
        methods = [
            m.name
            for m in node.body
            if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        assert len(methods) <= CLASS_METHODS or node.name in MANY_METHODS, (
            f"{node.name} has {len(methods)} methods, over {CLASS_METHODS}"
        )


@each_source
def test_functions_stay_readable(path: Path) -> None:
    lines = code_lines(path)
    for name, node in functions(parse(path)):
        size = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
        assert size <= FUNCTION_LINES, f"{name} has {size} lines of code"
        arguments = [a.arg for a in [*node.args.posonlyargs, *node.args.args]]
        taken = [a for a in arguments if a not in {"self", "cls"}]
        assert len(taken) <= POSITIONAL or name in MANY_PARAMETERS, (
            f"{name} takes {len(taken)} positional parameters, over {POSITIONAL}"
        )


def test_no_two_classes_share_a_name() -> None:
    seen: dict[str, Path] = {}
    for path in SOURCES:
        if unit_of(path) == "legacy":
            continue
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and node.name not in SHARED_CLASS_NAMES:
                first = seen.setdefault(node.name, path)
                assert first == path, f"{node.name} in {name_of(first)}, {path.name}"


@each_module
def test_comments_give_reasons_and_no_plans(path: Path) -> None:
    for line, comment in comments(path):
        text = URL.sub("", comment)
        words = [found[0] for found in PLAN_WORDS.finditer(text)]
        assert not words, f"line {line}: {words} in {comment!r}"
        assert not BANNER.search(text), f"line {line}: a banner"


@each_notebook
def test_examples_are_committed_clean_and_short(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert list(notebook["metadata"]) == ["kernelspec"]
    assert notebook["metadata"]["kernelspec"]["name"] == "tau"
    cells = notebook["cells"]
    assert len(cells) < 15
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert cell["metadata"] == {}
