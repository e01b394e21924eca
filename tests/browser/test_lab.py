"""What a person sees of answers in JupyterLab, and what no answer may do there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import RunNotebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_TABLE: Final = """\
Four of them do:

| Planet | Rings first seen | Mostly made of |
|---|---|---|
| Saturn | 1610, by Galileo | bright water ice |
| Uranus | 1977, as a star went behind them | dark, sooty ice |
| Jupiter | 1979, by *Voyager 1* | fine dust |
| Neptune | 1984, as arcs around a star | dust and dark ice |

**Saturn's** alone are visible in a small telescope.
"""
_YEARS: Final = '{"Saturn": 1610, "Uranus": 1977, "Jupiter": 1979, "Neptune": 1984}'
_PYTHON: Final = """\
%%python
import json

years = json.loads(tau.last.text).values()
print(max(years) - min(years), "years lie between the first and the last.")"""

_MALICE: Final = """\
![the picture](ADDRESS/markdown.png)

<img src="ADDRESS/block.png">

In a line, <img src="ADDRESS/inline.png" onerror="window.wasReached = true">.

<script>window.wasReached = true; fetch("ADDRESS/script")</script>

The end.
"""


class _Listener:
    """A server that answers every request with an empty picture and notes it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        owner = self

        class Exchange(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.paths.append(self.path)
                picture = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
                self.send_response(200)
                self.send_header("Content-Type", "image/svg+xml")
                self.send_header("Content-Length", str(len(picture)))
                self.end_headers()
                self.wfile.write(picture)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
                """Print nothing: the output of a test is its own."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def listener() -> Iterator[_Listener]:
    """Give a server of somebody who wants to know who reads an answer."""
    listener = _Listener()
    thread = threading.Thread(target=listener.http.serve_forever, args=(0.01,))
    thread.start()
    yield listener
    listener.http.shutdown()
    thread.join()
    listener.http.server_close()


def _output(notebook: Locator, cell: int) -> Locator:
    return notebook.locator(".jp-Cell").nth(cell).locator(".jp-OutputArea-output")


def test_an_answer_appears_under_its_cell_as_rendered_markdown(
    run_notebook: RunNotebook,
) -> None:
    answer = "## Of course\n\nThis is **bold**.\n\n- one\n- two\n"
    notebook = run_notebook("Show me Markdown.", answers=[{"text": answer}])
    output = _output(notebook, 0)
    expect(output.locator("h2")).to_contain_text("Of course")
    expect(output.locator("strong")).to_have_text("bold")
    expect(output.locator("li")).to_have_text(["one", "two"])


def test_a_python_cell_goes_on_with_the_answer_above_it(
    run_notebook: RunNotebook, page: Page
) -> None:
    notebook = run_notebook(
        "Which planets of the solar system have rings? A table, please.",
        "Only the years, as a JSON object.",
        _PYTHON,
        answers=[{"text": _TABLE}, {"text": _YEARS}],
    )
    expect(_output(notebook, 0).locator("td").first).to_have_text("Saturn")
    expect(_output(notebook, 1)).to_have_text(_YEARS)
    said = "374 years lie between the first and the last."
    expect(_output(notebook, 2)).to_contain_text(said)
    if file := os.environ.get("TAU_SCREENSHOT"):
        _take_picture(page, notebook, file)


def test_what_a_model_wrote_fetches_nothing_when_it_is_shown(
    run_notebook: RunNotebook, page: Page, listener: _Listener
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    malice = _MALICE.replace("ADDRESS", listener.address)
    notebook = run_notebook("Show me a picture.", answers=[{"text": malice}])
    output = _output(notebook, 0)
    expect(output.get_by_role("link", name="the picture")).to_be_visible()
    expect(output).to_contain_text("The end.")
    # A picture of our own comes last: it shows that one would have been noticed, and
    # that those before it had their chance.
    output.evaluate(
        """(node, source) => new Promise((resolve, reject) => {
            const image = new Image();
            image.onload = resolve;
            image.onerror = reject;
            image.src = source;
            node.append(image);
        })""",
        f"{listener.address}/own.svg",
    )
    foreign = [url for url in requests if url.startswith(listener.address)]
    assert foreign == [f"{listener.address}/own.svg"]
    assert listener.paths == ["/own.svg"]


def test_html_that_a_model_wrote_is_shown_and_never_obeyed(
    run_notebook: RunNotebook, page: Page, listener: _Listener
) -> None:
    malice = _MALICE.replace("ADDRESS", listener.address)
    notebook = run_notebook("Show me a script.", answers=[{"text": malice}])
    output = _output(notebook, 0)
    expect(output).to_contain_text("<script>window.wasReached = true;")
    expect(output).to_contain_text(f'<img src="{listener.address}/block.png">')
    expect(output.locator("img, script")).to_have_count(0)
    assert page.evaluate("'wasReached' in window") is False


def _take_picture(page: Page, notebook: Locator, file: str) -> None:
    """Save how the notebook looks: its kernel's name, and its cells with outputs."""
    page.add_style_tag(
        content="""
        .jp-Notebook .jp-mod-active { visibility: hidden; }
        .jp-NotebookPanel-toolbar > * { visibility: hidden !important; }
        .jp-NotebookPanel-toolbar > [data-jp-item-name="kernelName"] {
            visibility: visible !important;
        }
        """
    )
    panel = page.locator(".jp-NotebookPanel").bounding_box()
    # The active cell is an empty one, made by running the one before it.
    last = notebook.locator(".jp-Cell").nth(-2).bounding_box()
    assert panel is not None
    assert last is not None
    border, margin = 2, 12
    page.screenshot(
        path=file,
        clip={
            "x": panel["x"] + border,
            "y": panel["y"],
            "width": panel["width"] - 2 * border,
            "height": last["y"] + last["height"] + margin - panel["y"],
        },
    )
