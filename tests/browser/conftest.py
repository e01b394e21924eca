"""A browser, and JupyterLab servers for it to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

import nbformat
import pytest
from jupyter_server import JupyterServer
from kernel_process import write_script
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tau_kernel.messages import JsonObject

#: Milliseconds that the browser may take for anything; a busy machine is slow.
_BOUND: Final = 60_000

#: Takes the sources of the cells and, as `answers`, what the model says in turn;
#: gives the notebook, all of whose cells were run.
RunNotebook: TypeAlias = Callable[..., Locator]


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Browser]:
    """Give one browser for a module's tests.

    While it is there its event loop runs in this thread, and no other one can: it is
    gone before the next module's tests.
    """
    expect.set_options(timeout=_BOUND)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Give a page that shares nothing with those of other tests."""
    # Two pixels for one, so that a picture of the page is sharp.
    context = browser.new_context(
        viewport={"width": 1200, "height": 1400}, device_scale_factor=2
    )
    context.set_default_timeout(_BOUND)
    yield context.new_page()
    context.close()


@pytest.fixture
def run_notebook(page: Page, tmp_path: Path) -> Iterator[RunNotebook]:
    """Give what opens a notebook of τ in JupyterLab and runs its cells by keys."""
    with ExitStack() as stack:

        def run(*sources: str, answers: list[JsonObject]) -> Locator:
            root, home = tmp_path / "root", tmp_path / "home"
            root.mkdir()
            _write_notebook(root / "talk.ipynb", sources)
            model = write_script(tmp_path / "script.jsonl", *answers)
            server = JupyterServer(root=root, home=home, model=model)
            stack.enter_context(server)
            page.goto(server.page_url("talk.ipynb"))
            return _run_cells(page, len(sources))

        yield run


def _write_notebook(path: Path, sources: tuple[str, ...]) -> None:
    spec = {"name": "tau", "display_name": "τ", "language": "tau"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    nbformat.write(notebook, path)


def _run_cells(page: Page, count: int) -> Locator:
    # A cell that is run before the kernel has answered is not run at all.
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    notebook = page.locator(".jp-Notebook")
    notebook.locator(".jp-Cell").first.click()
    for number in range(1, count + 1):
        page.keyboard.press("Shift+Enter")
        prompt = notebook.locator(".jp-InputPrompt").nth(number - 1)
        expect(prompt).to_have_text(f"[{number}]:")
    return notebook
