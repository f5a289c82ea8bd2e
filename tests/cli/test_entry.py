from __future__ import annotations

import subprocess
import sys

INTERRUPTED_IMPORT = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from mrs.cli.entry import main
main()
"""


def test_an_interrupt_during_the_imports_is_quiet() -> None:
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "mrs", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stdout.startswith("mrs ")
