"""Put the kernelspec where Jupyter finds it.

The wheel brings a kernelspec with a bare ``python``, which is right inside one
environment; what is installed here names the interpreter by its absolute path, so
that a Jupyter of another environment starts the right one.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from jupyter_client.kernelspec import KernelSpecManager

from tau_kernel.errors import ConfigError

__all__ = ["KERNEL_NAME", "install_kernelspec", "is_installed_in", "shipped_path"]

KERNEL_NAME: Final = "tau"
_KERNELSPECS: Final = "share/jupyter/kernels"


def shipped_path(in_tree: str, in_wheel: str) -> Path:
    """Find data that ships with the package.

    Args:
        in_tree: Its path in the source tree, from the root.
        in_wheel: Its path under the environment's prefix.

    Returns:
        The existing file or folder.

    Raises:
        ConfigError: If it is in neither place.
    """
    # The tree is the newer one where both exist: an editable install, a checkout.
    tree = Path(__file__).parents[2] / in_tree
    if tree.exists():
        return tree
    for found in _installed_roots():
        if (found / in_wheel).exists():
            return found / in_wheel
    message = (
        f"{in_wheel} of tau-kernel is not in {sys.prefix}\n"
        f"run: {sys.executable} -m pip install --force-reinstall --no-deps tau-kernel"
    )
    raise ConfigError(message)


def _installed_roots() -> list[Path]:
    """List where the package's shared data may lie, the likeliest first."""
    try:
        files = importlib.metadata.files("tau-kernel") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    # `pip install --user` and `--target` put shared data elsewhere than sys.prefix.
    specs = [Path(str(f.locate())) for f in files if f.name == "kernel.json"]
    return [spec.resolve().parents[4] for spec in specs] + [Path(sys.prefix)]


def is_installed_in(prefix: Path) -> bool:
    """Tell whether a prefix has the kernelspec."""
    return (prefix / _KERNELSPECS / KERNEL_NAME / "kernel.json").is_file()


def install_kernelspec(*, prefix: Path | None, display_name: str | None = None) -> Path:
    """Install the kernelspec for this interpreter, in place of an older one.

    Args:
        prefix: The environment to install into; ``None`` for the user's own
            Jupyter folder.
        display_name: What launchers show; the shipped name if ``None``.

    Returns:
        The folder of the installed kernelspec.

    Raises:
        ConfigError: If that place cannot be written to.
    """
    shipped = shipped_path("kernelspec/tau", f"{_KERNELSPECS}/{KERNEL_NAME}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / KERNEL_NAME
        shutil.copytree(shipped, folder)
        spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        spec["argv"][0] = sys.executable
        if display_name is not None:
            spec["display_name"] = display_name
        text = json.dumps(spec, indent=2, ensure_ascii=False) + "\n"
        (folder / "kernel.json").write_text(text, encoding="utf-8")
        try:
            target = KernelSpecManager().install_kernel_spec(
                str(folder),
                KERNEL_NAME,
                user=prefix is None,
                prefix=None if prefix is None else str(prefix),
            )
        except OSError as error:
            message = (
                f"the kernelspec cannot be written to {error.filename or prefix}: "
                f"{error.strerror}\n"
                "choose another place: tau-kernel install --user"
            )
            raise ConfigError(message) from error
    return Path(target)
