"""What every test may rely on: a home of its own, and honest skips.

A test that needs Chromium or the embedded model carries its marker and is skipped,
with the reason, on a machine without; with ``TAU_REQUIRE_ALL=1`` it fails there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tau_kernel.models import local_model_path

Require: TypeAlias = Callable[[bool, str], None]

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
#: What would change the answers of the code under test, or spend money.
_FOREIGN_VARIABLES: Final = (
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "TAU_MODEL",
)


def _require(condition: bool, reason: str) -> None:
    if condition:
        return
    if os.environ.get("TAU_REQUIRE_ALL") == "1":
        pytest.fail(f"TAU_REQUIRE_ALL=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def _browser() -> str | None:
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail, what this machine cannot run."""
    if item.get_closest_marker("browser"):
        _require(_browser() is not None, "no Chromium is installed")
    if item.get_closest_marker("local_model"):
        runs = importlib.util.find_spec("xllamacpp") is not None
        _require(runs, "xllamacpp is not installed")
        _require(local_model_path() is not None, "the local model is not installed")


@pytest.fixture(scope="session", autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's sessions, keys and IPython files out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAU_HOME", str(tmp_path_factory.mktemp("tau-home")))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        for name in _FOREIGN_VARIABLES:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def require() -> Require:
    """Give the check that skips a test, or fails it where nothing may be skipped."""
    return _require


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Give the path of the browser; for tests marked ``browser``."""
    found = _browser()
    assert found is not None, "mark this test with pytest.mark.browser"
    return Path(found)
