"""Start the kernel (``python -m tau_kernel -f FILE``) or install it.

Jupyter runs this module with a connection file; a person may run it with
``install``, as for other kernels.
"""

from __future__ import annotations

import sys


def _main(argv: list[str]) -> None:
    if argv[:1] == ["install"]:
        # Only a person who installs needs the command line's libraries: they
        # would lengthen every start of the kernel.
        from tau_kernel.cli import main  # noqa: PLC0415

        main(argv)
    else:
        # ipykernel takes a third of a second to import; installing goes without.
        from tau_kernel.jupyter import launch  # noqa: PLC0415

        launch(argv)


if __name__ == "__main__":
    _main(sys.argv[1:])
