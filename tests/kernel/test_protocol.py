"""The protocol's own conformance suite, on the installed kernelspec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import jupyter_kernel_test
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the suites' kernels say what they are told."""
    home = tmp_path_factory.mktemp("home")
    (home / "config.json").write_text('{"default_model": "echo"}')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAU_HOME", str(home))
        yield


class TestTheMessages(jupyter_kernel_test.KernelTests):
    kernel_name = "tau"
    language_name = "tau"
    file_extension = ".md"
    code_hello_world = "%%python\nprint('hello, world')"
    code_stderr = "%%python\nimport sys\nprint('test', file=sys.stderr)"
    code_generate_error = "%%python\nraise ValueError('as asked')"
    code_page_something = "%%python\nint?"
    code_execute_result: ClassVar = [
        {"code": "%%python\n40 + 2", "result": "42"},
        {"code": "%%py\n'τ'", "result": "'τ'"},
    ]
    code_display_data: ClassVar = [
        {
            "code": "%%python\nfrom IPython.display import *\ndisplay(HTML('τ'))",
            "mime": "text/html",
        },
        {"code": "/help", "mime": "text/markdown"},
    ]
    code_clear_output = (
        "%%python\nfrom IPython.display import clear_output\nclear_output()"
    )
    code_inspect_sample = "%%python\nzip"
    code_history_pattern = "*40 + 2"
    supported_history_operations = ("tail", "range", "search")
    code_stdin = "%%python\nprint(input('prompt'))"
    completion_samples: ClassVar = [
        {"text": "/he", "matches": {"/help"}},
        {"text": "%%tau model=ec", "matches": {"echo"}},
        {"text": "%%python\nzi", "matches": {"zip"}},
    ]
    complete_code_samples: ClassVar = ["a prompt", "%%python\n1", "/help"]
    incomplete_code_samples: ClassVar = ["```\nopen", "more \\", "%%python\ndef f():"]
    invalid_code_samples: ClassVar = ["%%tau nonsense=1\nx", "%%python\n1 1"]


class TestTheWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "tau"
    support_iopub_welcome = True
