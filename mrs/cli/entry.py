"""Where the ``mrs`` script enters: quiet about a Ctrl-C from the first moment on."""

from __future__ import annotations

import sys
from typing import NoReturn

from mrs.cli.exit_codes import EXIT_INTERRUPTED


def main() -> NoReturn:
    """Import the command line, which takes a moment, and run it."""
    try:
        from mrs.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    run()
