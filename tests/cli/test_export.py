from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mrs.cli.options import Quantization
from mrs.errors import SourceNotFoundError
from mrs.export.parity.proof import ParityMode
from mrs.export.parity.quality_gate import QualityGate
from mrs.export.pipeline import ExportOutcome, ExportRequest
from mrs.export.progress import Progress
from mrs.export.quantization.requested import QUANTIZATIONS
from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.export.gguf_files import write_llama
from tests.model_repo.samples import publish

Exporter = Callable[[ExportRequest, ModelRepository, Progress], ExportOutcome]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ExportRequest]:
    """Replace the export by one that publishes a sample; return what was asked of it."""
    asked: list[ExportRequest] = []

    def export(
        request: ExportRequest, repository: ModelRepository, progress: Progress
    ) -> ExportOutcome:
        asked.append(request)
        with progress.phase("Read checkpoint", total=1) as advance:
            advance(1)
        known = repository.versions()
        version = publish(repository, request.name or "tiny", reuse=not request.force)
        return ExportOutcome(version, reused=version in known, seconds=1.25)

    monkeypatch.setattr("mrs.export.pipeline.export_model", export)
    return asked


@pytest.mark.usefixtures("requests")
def test_the_reference_is_the_only_line_on_stdout(mrs: Mrs) -> None:
    result = mrs("export", "./m.gguf")
    assert (result.code, result.out) == (0, "tiny:1\n")
    assert result.err.startswith("Read checkpoint ... done in ")
    assert "Exported tiny:1 (934 bytes) in 1.2 s." in result.err


@pytest.mark.usefixtures("requests")
def test_json_is_all_there_is_with_json(mrs: Mrs, repository: ModelRepository) -> None:
    result = mrs("export", "./m.gguf", "--json")
    assert result.err == ""
    assert result.json["reference"] == "tiny:1"
    assert result.json["path"] == str(repository.root / "tiny" / "1")
    assert (result.json["reused"], result.json["seconds"]) == (False, 1.25)


@pytest.mark.usefixtures("requests")
def test_a_second_export_says_that_it_reused_the_first(mrs: Mrs) -> None:
    mrs("export", "./m.gguf")
    result = mrs("export", "./m.gguf")
    assert result.out == "tiny:1\n"
    assert "--force makes a new version" in result.err
    assert mrs("export", "./m.gguf", "--json").json["reused"] is True
    assert mrs("export", "./m.gguf", "--force").out == "tiny:2\n"


def test_the_options_reach_the_export(mrs: Mrs, requests: list[ExportRequest]) -> None:
    mrs("export", "pypi:some-model==1.0")
    mrs("export", "m.gguf", "--name", "mine", "--quant", "fp32", "--force")
    mrs("export", "m.gguf", "--context-length", "512")
    assert requests == [
        ExportRequest(source="pypi:some-model==1.0", parity=ParityMode.AUTO),
        ExportRequest(
            source="m.gguf", name="mine", quant="fp32", force=True, parity=ParityMode.AUTO
        ),
        ExportRequest(source="m.gguf", context_length=512, parity=ParityMode.AUTO),
    ]


def test_options_for_weights_reach_the_export(mrs: Mrs, requests: list[ExportRequest]) -> None:
    patterns = ("--quant-map", "*.ffn_down.weight=q8", "--quant-map", "output.*=keep")
    mrs("export", "m.gguf", "--quant", "q4", *patterns, "--imatrix", "m.imatrix")
    mrs("export", "m.gguf", "--quant", "q4", "--calibration-file", "text.txt")
    with_imatrix, with_text = requests
    assert with_imatrix.quant_map == ("*.ffn_down.weight=q8", "output.*=keep")
    assert with_imatrix.imatrix == Path("m.imatrix")
    assert (with_text.quant, with_text.calibration_file) == ("q4", Path("text.txt"))


def test_every_quantization_is_an_option() -> None:
    assert {each.value for each in Quantization} == set(QUANTIZATIONS)


def test_demands_on_quality_reach_the_export(mrs: Mrs, requests: list[ExportRequest]) -> None:
    mrs("export", "m.gguf", "--parity", "always", "--max-kl", "0.01", "--min-top1", "95")
    (request,) = requests
    assert request.parity is ParityMode.ALWAYS
    assert request.gate == QualityGate(max_kl=0.01, min_top1=95)


@pytest.mark.usefixtures("requests")
def test_a_version_of_an_older_mrs_has_no_figures(mrs: Mrs) -> None:
    assert "Against float32: parity not measured: an older mrs made it." in mrs("export", "m").err
    assert mrs("export", "m.gguf", "--json").json["parity"] is None


def test_figures_are_shown_and_written(mrs: Mrs, tmp_path: Path) -> None:
    gguf = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0")
    shown = mrs("export", str(gguf))
    written = mrs("export", str(gguf), "--json").json
    parity, speed = written["parity"], written["speed"]
    assert f"mean KL {parity['mean_kl']:g} (largest {parity['max_kl']:g})" in shown.err
    assert f"top-1 {parity['top1']:g} %" in shown.err
    assert f"decode {speed['decode_tokens_per_second']:g} tok/s" in shown.err
    card = mrs("models", "show", "tiny")
    assert f"{parity['perplexity']:g} (float32 {parity['reference_perplexity']:g})" in card.out


def test_a_model_that_fails_its_gate_has_its_own_exit_code(
    mrs: Mrs, tmp_path: Path, repository: ModelRepository
) -> None:
    gguf = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0")
    result = mrs("export", str(gguf), "--max-kl", "1e-9", "--json")
    assert result.code == 8
    error = result.json["error"]
    assert (error["code"], error["figures"]["max_kl"]) == ("quality_gate_failed", 1e-9)
    assert f"{error['figures']['parity']['mean_kl']}, above --max-kl 1e-09" in error["message"]
    assert repository.versions() == []


def test_a_locked_export_passes_or_lists_what_differs(mrs: Mrs, tmp_path: Path) -> None:
    gguf = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0")
    mrs("export", str(gguf), "--quant", "q8")
    passed = mrs("export", str(gguf), "--locked")
    assert (passed.code, passed.out) == (0, "tiny:1\n")
    assert "The export gives tiny:1 again, byte for byte." in passed.err
    failed = mrs("export", str(gguf), "--quant", "fp32", "--against", "tiny:1")
    assert (failed.code, failed.out) == (9, "")
    assert re.search(r"^option quant +q8 +fp32 *$", failed.err, re.MULTILINE)
    written = mrs("export", str(gguf), "--quant", "fp32", "--locked", "--json")
    assert (written.code, written.err.count("\n")) == (9, 2)
    assert written.json["error"]["differences"] == [
        {"what": "option quant", "locked": "q8", "now": "fp32"}
    ]


def test_the_repository_option_says_where_to(
    mrs: Mrs, requests: list[ExportRequest], tmp_path: Path
) -> None:
    mrs("export", "m.gguf", "--repo", str(tmp_path / "other"))
    assert ModelRepository(tmp_path / "other").resolve("tiny").number == 1


def test_a_bad_name_is_refused_before_anything_is_read(
    mrs: Mrs, requests: list[ExportRequest]
) -> None:
    result = mrs("export", "m.gguf", "--name", "My Model")
    assert result.code == 5
    assert "Perhaps: my-model" in result.err
    assert requests == []


def test_an_unknown_quantization_is_refused(mrs: Mrs, requests: list[ExportRequest]) -> None:
    result = mrs("export", "m.gguf", "--quant", "q9")
    assert result.code == 2
    assert "'q9'" in result.err
    assert requests == []


def test_an_error_of_the_export_has_its_exit_code(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SourceNotFoundError("No file m.gguf.", hint="Look again.")

    monkeypatch.setattr("mrs.export.pipeline.export_model", fail)
    result = mrs("export", "m.gguf")
    assert (result.code, result.out) == (3, "")
    assert result.err == "error[source_not_found]: No file m.gguf.\nhelp: Look again.\n"


@pytest.mark.parametrize("module", ["onnx_ir", "gguf"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    mrs: Mrs, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = mrs("export", "m.gguf")
    assert result.code == 7
    assert result.err == (
        f"error[runtime_unavailable]: `mrs export` needs {module}, which is not installed.\n"
        "help: Install what exports need: pip install 'mrs-onnx[export]'\n"
    )


def test_what_was_exported_before_needs_no_graph_library(
    mrs: Mrs, tmp_path: Path, repository: ModelRepository
) -> None:
    """They take most of a second to import."""
    gguf = write_llama(tmp_path / "tiny.gguf")
    assert mrs("export", str(gguf)).code == 0
    program = (
        "import sys; from mrs.cli.app import invoke; invoke(sys.argv[1:]); print(*sys.modules)"
    )
    again = [sys.executable, "-c", program, "export", str(gguf), "--repo", str(repository.root)]
    out = subprocess.run(again, capture_output=True, text=True, check=True).stdout.split()
    assert out[0] == "tiny:1"
    assert not {"onnx", "onnx_ir", "sympy", "onnxruntime"}.intersection(out)


def test_another_missing_module_is_a_bug(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'mrs.gone'", name="mrs.gone")

    monkeypatch.setattr("mrs.export.pipeline.export_model", fail)
    assert mrs("export", "m.gguf").code == 70


def test_the_chat_template_is_asked_for_by_name_or_file(
    mrs: Mrs, requests: list[ExportRequest]
) -> None:
    mrs("export", "./m.gguf", "--chat-template", "chatml")
    mrs("export", "./m.gguf")
    assert [request.chat_template for request in requests] == ["chatml", None]


def test_a_chat_template_that_is_not_there_is_told_before_the_source_is_looked_for(
    mrs: Mrs,
) -> None:
    result = mrs("export", "./nothing.gguf", "--chat-template", "nonsense")
    assert result.code == 2
    assert "nonsense" in result.err
    assert "chatml" in result.err


def test_where_the_chat_template_comes_from_is_told(mrs: Mrs, tmp_path: Path) -> None:
    result = mrs(
        "export", str(write_llama(tmp_path / "m.gguf")), "--chat-template", "vicuna",
        "--parity", "never",
    )  # fmt: skip
    assert "Chat template: bundled: vicuna." in result.err
