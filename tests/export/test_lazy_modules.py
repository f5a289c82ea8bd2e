from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.export.gguf_files import write_llama

EXPORT = """
import sys
from pathlib import Path
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.parity.proof import ParityMode
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository

request = ExportRequest(sys.argv[1], quant="q8", name="tiny", parity=ParityMode.NEVER)
export_model(request, ModelRepository(Path(sys.argv[2])), SilentProgress())
"""
IS_LOADED = "assert ('sympy.core' in sys.modules) is {expected}\n"
USE = """
from onnx_ir import SymbolicDim
import sympy
assert (SymbolicDim("batch") + 1).value == "batch + 1"
assert sympy.Integer(6) / 4 == sympy.Rational(3, 2)
"""


def run(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def test_an_export_runs_without_sympy_which_is_there_for_others(tmp_path: Path) -> None:
    source = write_llama(tmp_path / "tiny.gguf")
    code = EXPORT + IS_LOADED.format(expected=False) + USE + IS_LOADED.format(expected=True)
    run(code, str(source), str(tmp_path / "repository"))


def test_a_module_that_does_not_exist_is_missed_as_always() -> None:
    run(
        "from mrs.export.lazy_modules import load_lazily\n"
        "load_lazily('no_such_module')\n"
        "try:\n"
        "    import no_such_module\n"
        "except ModuleNotFoundError as error:\n"
        "    assert error.name == 'no_such_module'\n"
        "else:\n"
        "    raise AssertionError\n"
    )
