from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mrs.cli.version_diff import Figure, lock_differences, weight_differences
from mrs.export.locked import Difference
from mrs.model_repo.lock import ModelLock, TensorRecord
from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.export.gguf_files import write_llama
from tests.model_repo.samples import make_lock, publish, write_files


def table(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


@pytest.fixture
def exported(mrs: Mrs, tmp_path: Path) -> None:
    """tiny:1 in 8 bits and tiny:2 in float32, both measured."""
    gguf = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0")
    for quant in ("q8", "fp32"):
        assert mrs("export", str(gguf), "--quant", quant).code == 0


@pytest.mark.usefixtures("exported")
def test_figures_stand_side_by_side(mrs: Mrs) -> None:
    result = mrs("compare", "tiny:1", "tiny:2")
    assert (result.code, result.err) == (0, "")
    rows = table(result.out)
    assert rows[0] == ["tiny:1", "tiny:2", "B / A"]
    shown = {row[0]: row[1:] for row in rows if row}
    card = mrs("models", "show", "tiny:1", "--json").json
    assert shown["mean KL"] == [f"{card['parity']['mean_kl']:g} nats", "0 nats", "0.000"]
    assert shown["top-1"][1] == "100 %"
    with_int8_cache = card["int8_cache"]["float32_kl"]
    assert shown["mean KL with int8 KV cache"][0] == f"{with_int8_cache:g} nats"
    facts = {row[0]: row[1] for row in table(mrs("models", "show", "tiny:1").out) if len(row) == 2}
    assert facts["mean KL with int8 KV cache"] == f"{with_int8_cache:g}"
    assert shown["decode"][0] == f"{card['speed']['decode_tokens_per_second']:g} tok/s"
    assert shown["option quant"] == ["q8", "fp32"]
    assert shown["blk.*.attn_q.weight"] == [
        "2 × Q8_0 as int8-block32, exact",
        "2 × Q8_0 as float32, exact",
    ]


@pytest.mark.usefixtures("exported")
def test_json_holds_the_same_numbers(mrs: Mrs) -> None:
    result = mrs("compare", "tiny:1", "tiny:2", "--json").json
    figures = {figure["name"]: figure for figure in result["figures"]}
    first, second = result["a"], result["b"]
    assert (first["reference"], second["reference"]) == ("tiny:1", "tiny:2")
    size = figures["size"]
    assert (size["a"], size["b"]) == (first["size"], second["size"])
    assert size["ratio"] == pytest.approx(second["size"] / first["size"])
    assert size["b_is_better"] is False
    assert figures["mean KL"]["b_is_better"] is True
    assert (result["same_artifact"], result["same_text"]) == (False, True)
    assert {"what": "option quant", "a": "q8", "b": "fp32"} in result["differences"]
    assert "blk.*.ffn_up.weight" in {each["what"] for each in result["weights"]}


@pytest.mark.usefixtures("exported")
def test_both_can_be_measured_now(mrs: Mrs) -> None:
    result = mrs("compare", "tiny:1", "tiny:2", "--measure", "--json")
    assert (result.code, result.err) == (0, "")
    for side in ("a", "b"):
        assert result.json[side]["speed"]["decode_tokens_per_second"] > 0


def test_a_version_is_the_same_as_itself(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    publish(repository)
    result = mrs("compare", "tiny:1", "tiny:2")
    assert "The artifacts are the same, byte for byte." in result.out
    assert "Differs" not in result.out
    assert mrs("compare", "tiny:1", "tiny:2", "--json").json["same_artifact"] is True


def test_figures_of_two_texts_are_not_to_be_compared(mrs: Mrs, repository: ModelRepository) -> None:
    for number in (1, 2):
        path = publish(repository).path / "mrs.lock"
        lock = json.loads(path.read_text())
        lock["parity"] = {
            "text_sha256": str(number) * 64,
            "tokens": 10,
            "mean_kl": 0.1,
            "max_kl": 1.0,
            "top1": 90.0,
            "perplexity": 20.0,
            "reference_perplexity": 19.0,
        }
        path.write_text(json.dumps(lock))
    assert "measured on different texts" in mrs("compare", "tiny:1", "tiny:2").err


def test_nothing_of_the_export_extra_is_needed(
    mrs: Mrs, repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(repository)
    for module in ("onnx", "onnx_ir", "gguf", "safetensors"):
        monkeypatch.setitem(sys.modules, module, None)
    assert mrs("compare", "tiny", "tiny").code == 0


def test_what_cannot_run_is_an_error_of_the_runtime(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    assert mrs("compare", "tiny", "tiny", "--measure").code == 7


def test_both_versions_must_exist(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    assert mrs("compare", "tiny", "other").code == 5


def test_a_lock_cannot_control_the_terminal(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    path = publish(repository).path / "mrs.lock"
    path.write_text(path.read_text().replace("llama", r"\u001b]0;owned\u0007"))
    result = mrs("compare", "tiny:1", "tiny:2")
    assert r"\x1b]0;owned\x07" in result.out
    assert "\x1b" not in result.out


# --- what differs ---------------------------------------------------------------------------------


@pytest.fixture
def lock(tmp_path: Path) -> ModelLock:
    write_files(tmp_path / "version")
    return make_lock(tmp_path / "version")


def changed(lock: ModelLock, **fields: Any) -> ModelLock:
    return lock.model_copy(update=fields)


def test_tokenizer_and_template_are_named(lock: ModelLock) -> None:
    old = {file.path: file.sha256 for file in lock.files}["tokenizer.json"]
    files = [
        file.model_copy(update={"sha256": "1" * 64}) if file.path == "tokenizer.json" else file
        for file in lock.files
    ]
    templates = ("chat_template.jinja", "additional_chat_templates/tools.jinja")
    files += [files[0].model_copy(update={"path": path}) for path in templates]
    assert lock_differences(lock, changed(lock, files=tuple(files))) == [
        Difference("file additional_chat_templates/tools.jinja", None, files[0].sha256),
        Difference("chat template", None, files[0].sha256),
        Difference("tokenizer", old, "1" * 64),
    ]


def test_facts_of_the_model_are_compared(lock: ModelLock) -> None:
    model = lock.model.model_copy(update={"context_length": 4096})
    assert lock_differences(lock, changed(lock, model=model)) == [
        Difference("model context_length", "2048", "4096")
    ]


def test_layers_are_one_group_and_the_rest_is_not_shown(lock: ModelLock) -> None:
    def stored(kinds: str) -> ModelLock:
        records = {
            f"blk.{layer}.attn_q.weight": TensorRecord(
                source_type="Q4_K", stored_as=f"int{kind}", exact=kind == "4"
            )
            for layer, kind in enumerate(kinds)
        }
        return changed(lock, quantization=lock.quantization | records)

    assert weight_differences(stored("444"), stored("444")) == []
    assert weight_differences(stored("444"), stored("484")) == [
        Difference(
            "blk.*.attn_q.weight",
            "3 × Q4_K as int4, exact",
            "2 × Q4_K as int4, exact; 1 × Q4_K as int8, rounded",
        )
    ]
    assert weight_differences(stored("4"), lock) == [
        Difference("blk.*.attn_q.weight", "1 × Q4_K as int4, exact", None)
    ]


@pytest.mark.parametrize(
    ("values", "smaller", "ratio", "better"),
    [
        ((2, 1), True, 0.5, True),
        ((2, 1), False, 0.5, False),
        ((1, 2), True, 2, False),
        ((1, 1), True, 1, None),
        ((0, 1), True, None, False),
        ((None, 1), True, None, None),
        ((1, None), True, None, None),
    ],
)
def test_better_is_what_the_figure_is_for(
    values: tuple[float | None, float | None],
    smaller: bool,
    ratio: float | None,
    better: bool | None,
) -> None:
    figure = Figure("f", "", values, smaller)
    assert (figure.ratio, figure.better) == (ratio, better)
