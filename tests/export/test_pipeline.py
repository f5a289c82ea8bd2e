"""Exports of tiny checkpoints: what they write, what they refuse, and what a refusal leaves."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrs.errors import MrsError, StorageError
from mrs.export.graph.weight_file import WeightFile
from mrs.export.pipeline import ExportOutcome, ExportRequest, export_model
from mrs.export.progress import Advance, Progress, SilentProgress
from mrs.model_repo.lock import TensorRecord
from mrs.model_repo.repository import ModelRepository
from tests.export.gguf_files import (
    CHATML_TEMPLATE,
    LlamaSize,
    TensorItem,
    Typed,
    bpe_vocabulary,
    llama_metadata,
    llama_weights,
    write_gguf,
    write_llama,
)

SILENT = SilentProgress()


def export(
    path: Path,
    root: Path,
    *,
    progress: Progress = SILENT,
    **request: Any,
) -> ExportOutcome:
    return export_model(ExportRequest(str(path), **request), ModelRepository(root), progress)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder by its relative path."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


class Recorder:
    """Notes the phases, their totals and how far each came; may break off at one."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.phases: list[tuple[str, int | None, int]] = []
        self._stop_at = stop_at

    @contextmanager
    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> Iterator[Advance]:
        done = 0

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            if label == self._stop_at:
                raise KeyboardInterrupt

        yield advance
        self.phases.append((label, total, done))


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "Tiny-Llama.Q8_0.gguf", dtype="Q8_0")


# --- the same input, the same bytes ---------------------------------------------------------------


def test_two_repositories_get_the_same_bytes(tmp_path: Path, gguf: Path) -> None:
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    copy = elsewhere / gguf.name
    copy.write_bytes(gguf.read_bytes())
    one = tree(export(gguf, tmp_path / "one").version.path)
    two = tree(export(copy, tmp_path / "two").version.path)
    assert one == two
    assert one.keys() == {
        "chat_template.jinja",
        "cpu/model.int8kv.onnx",
        "cpu/model.onnx",
        "cpu/model.onnx.data",
        "generation_config.json",
        "manifest.json",
        "mrs.lock",
        "tokenizer.json",
    }


def test_no_file_knows_where_it_was_made(tmp_path: Path, gguf: Path) -> None:
    here = str(tmp_path).encode()
    for name, data in tree(export(gguf, tmp_path / "repo").version.path).items():
        assert here not in data, name


def test_the_same_input_is_not_exported_again(tmp_path: Path, gguf: Path) -> None:
    first = export(gguf, tmp_path / "repo")
    recorder = Recorder()
    second = export(gguf, tmp_path / "repo", progress=recorder)
    assert [label for label, _, _ in recorder.phases] == [f"Hash {gguf.name}"]
    assert (first.reused, second.reused) == (False, True)
    assert first.version.reference == second.version.reference == "tiny-llama:1"


def test_force_makes_another_version_of_the_same_bytes(tmp_path: Path, gguf: Path) -> None:
    first = export(gguf, tmp_path / "repo")
    forced = export(gguf, tmp_path / "repo", force=True)
    assert (forced.reused, forced.version.reference) == (False, "tiny-llama:2")
    assert tree(first.version.path) == tree(forced.version.path)


def test_another_quantization_is_another_input(tmp_path: Path, gguf: Path) -> None:
    export(gguf, tmp_path / "repo", quant="q8")
    other = export(gguf, tmp_path / "repo", quant="fp32")
    assert (other.reused, other.version.reference) == (False, "tiny-llama:2")


def test_other_weights_are_another_input(tmp_path: Path, gguf: Path) -> None:
    export(gguf, tmp_path / "repo")
    write_llama(gguf, dtype="Q8_0", seed=1)
    assert not export(gguf, tmp_path / "repo").reused


def test_a_damaged_version_is_not_reused(tmp_path: Path, gguf: Path) -> None:
    first = export(gguf, tmp_path / "repo")
    weights = first.version.path / "cpu" / "model.onnx.data"
    weights.write_bytes(weights.read_bytes()[:-1])
    again = export(gguf, tmp_path / "repo")
    assert (again.reused, again.version.reference) == (False, "tiny-llama:2")


# --- what is written ------------------------------------------------------------------------------


def test_the_name_may_be_chosen(tmp_path: Path, gguf: Path) -> None:
    assert export(gguf, tmp_path / "repo", name="mine").version.reference == "mine:1"


def test_the_lock_says_what_went_in(tmp_path: Path, gguf: Path) -> None:
    inputs = export(gguf, tmp_path / "repo").version.lock.inputs
    (file,) = inputs.source.files
    assert (inputs.source.kind, inputs.source.identifier) == ("file", gguf.name)
    assert (file.path, file.size) == (gguf.name, gguf.stat().st_size)
    assert file.sha256 == hashlib.sha256(gguf.read_bytes()).hexdigest()
    assert inputs.options == {"quant": "auto"}
    makers = {"gguf", "numpy", "onnx", "onnx-ir", "protobuf", "tokenizers"}
    assert inputs.tools.keys() == {"mrs", *makers}


def test_the_lock_says_what_came_out(tmp_path: Path, gguf: Path) -> None:
    version = export(gguf, tmp_path / "repo").version
    files = tree(version.path)
    del files["mrs.lock"]
    assert {file.path: (file.size, file.sha256) for file in version.lock.files} == {
        name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
    }


def test_the_lock_describes_the_model(tmp_path: Path, gguf: Path) -> None:
    model = export(gguf, tmp_path / "repo").version.lock.model
    assert (model.architecture, model.context_length, model.vocab_size) == ("llama", 128, 268)
    assert (model.num_layers, model.num_kv_heads, model.head_dim) == (2, 2, 16)
    assert (model.bos_token_id, model.eos_token_ids, model.add_bos) == (1, (2,), False)


@pytest.mark.parametrize("tied", [True, False])
def test_the_lock_tells_how_every_tensor_is_stored(tmp_path: Path, tied: bool) -> None:
    gguf = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0", tied=tied)
    expected = {
        name: TensorRecord(source_type="Q8_0", stored_as="int8-block32", exact=True)
        if weight.ndim == 2
        else TensorRecord(source_type="F32", stored_as="float32", exact=True)
        for name, weight in llama_weights(tied=tied).items()
    }
    assert export(gguf, tmp_path / "repo").version.lock.quantization == expected


def test_four_bit_codes_are_kept_in_what_is_multiplied(tmp_path: Path) -> None:
    size = LlamaSize(hidden=512, heads=8, kv_heads=4, feed_forward=512)
    gguf = write_llama(tmp_path / "tiny.gguf", size=size, dtype="Q4_1")
    quantization = export(gguf, tmp_path / "repo").version.lock.quantization
    kept = TensorRecord(source_type="Q4_1", stored_as="int4-block32+offset-columns", exact=False)
    rounded = TensorRecord(source_type="Q4_1", stored_as="int8-block32", exact=False)
    matrices = {name for name, weight in llama_weights(size).items() if weight.ndim == 2}
    # What is looked up, and products too small for the columns.
    others = {name for name in matrices if "embd" in name or "output" in name or "down" in name}
    assert {name for name in matrices if quantization[name] == kept} == matrices - others
    assert {name for name in matrices if quantization[name] == rounded} == others


def test_generation_defaults(tmp_path: Path, gguf: Path) -> None:
    files = tree(export(gguf, tmp_path / "repo").version.path)
    assert json.loads(files["generation_config.json"]) == {
        "bos_token_id": 1,
        "eos_token_id": [2],
        "max_length": 128,
    }


def test_the_chat_template_is_kept_to_the_letter(tmp_path: Path) -> None:
    template = CHATML_TEMPLATE + "{# naïve\r\n☃ #}"
    gguf = write_llama(tmp_path / "t.gguf", metadata={"tokenizer.chat_template": template})
    files = tree(export(gguf, tmp_path / "repo").version.path)
    assert files["chat_template.jinja"] == template.encode()


def without_template(folder: Path) -> Path:
    metadata = llama_metadata()
    del metadata["tokenizer.chat_template"]
    return write_gguf(folder / "t.gguf", metadata, llama_weights())


def test_without_a_chat_template_there_is_one_that_the_control_tokens_call_for(
    tmp_path: Path,
) -> None:
    version = export(without_template(tmp_path), tmp_path / "repo").version
    assert b"<|im_start|>" in tree(version.path)["chat_template.jinja"]
    assert version.lock.model.chat_template == "bundled: chatml"
    assert "chat_template" not in version.lock.inputs.options


def test_a_model_may_have_no_chat_template(tmp_path: Path) -> None:
    gguf = without_template(tmp_path)
    version = export(gguf, tmp_path / "repo", chat_template="none").version
    assert "chat_template.jinja" not in tree(version.path)
    assert version.lock.model.chat_template is None
    assert version.lock.inputs.options["chat_template"] == "none"


def test_another_chat_template_makes_another_version(tmp_path: Path) -> None:
    gguf = write_llama(tmp_path / "t.gguf")
    (tmp_path / "own.jinja").write_text("{{ messages[0].content }}")
    repo = tmp_path / "repo"
    first, second = (
        export(gguf, repo, chat_template=template).version
        for template in (None, str(tmp_path / "own.jinja"))
    )
    assert first.number != second.number
    assert tree(second.path)["chat_template.jinja"] == b"{{ messages[0].content }}"
    assert second.lock.model.chat_template == "file: own.jinja"
    again = export(gguf, repo, chat_template=str(tmp_path / "own.jinja"))
    assert again.reused


def test_an_export_that_is_held_to_a_version_takes_its_bundled_template(tmp_path: Path) -> None:
    gguf = write_llama(tmp_path / "t.gguf")
    made = export(gguf, tmp_path / "repo", chat_template="llama3").version
    assert export(gguf, tmp_path / "repo", locked=True).version.reference == made.reference


def test_tensors_may_lie_at_any_byte(tmp_path: Path) -> None:
    """An alignment of 1 is legal, and leaves floats where no pointer to floats may point."""
    odd = {**llama_metadata(), "general.name": "odd"}
    aligned = write_gguf(tmp_path / "a.gguf", odd, llama_weights())
    packed = write_gguf(tmp_path / "p.gguf", odd, llama_weights(), alignment=1)
    one, two = (
        export(path, tmp_path / "repo", quant="fp32").version.path / "cpu" / "model.onnx.data"
        for path in (aligned, packed)
    )
    assert one.read_bytes() == two.read_bytes()


def test_a_vocabulary_may_have_fewer_tokens_than_the_embedding(tmp_path: Path) -> None:
    """Embeddings are padded to round sizes; the logits are as wide as they are."""
    weights: dict[str, TensorItem] = {**llama_weights()}
    weights["token_embd.weight"] = np.zeros((300, 64), dtype=np.float32)
    gguf = write_gguf(tmp_path / "t.gguf", llama_metadata(), weights)
    assert export(gguf, tmp_path / "repo").version.lock.model.vocab_size == 300


# --- what is refused ------------------------------------------------------------------------------


def tokens(count: int) -> list[str]:
    return [*bpe_vocabulary()[0], *(f"<extra{n}>" for n in range(count))]


def with_nan(values: np.ndarray[Any, np.dtype[np.float32]]) -> TensorItem:
    values = values.copy()
    values.flat[-1] = np.nan
    return values


LAST_NORM = "output_norm.weight"
LAST_MATRIX = "blk.1.ffn_down.weight"
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # name: (metadata to replace, tensors to replace or remove, what the error names)
    "missing tensor": ({}, {LAST_NORM: None}, LAST_NORM),
    "other shape": ({}, {LAST_MATRIX: np.ones((64, 64), np.float32)}, LAST_MATRIX),
    "unreadable type": ({}, {LAST_NORM: np.ones(64, np.float64)}, LAST_NORM),
    "NaN": ({}, {LAST_MATRIX: with_nan(llama_weights()[LAST_MATRIX])}, LAST_MATRIX),
    "superfluous tensor": ({}, {"blk.1.attn_sub_norm.weight": np.ones(64, np.float32)}, "sub_norm"),
    "more layers": ({"llama.block_count": 3}, {}, "blk.2.attn_norm.weight"),
    "no layers": ({"llama.block_count": 0}, {}, "llama.block_count"),
    "more tokens than rows": (
        {
            "tokenizer.ggml.tokens": tokens(1),
            "tokenizer.ggml.token_type": [1] * (268 + 1),
        },
        {},
        "269 tokens, the embedding only 268 rows",
    ),
    "template syntax": ({"tokenizer.chat_template": "{% for %}"}, {}, "template"),
    "no vocabulary": ({"tokenizer.ggml.model": Typed("none", "STRING")}, {}, "none"),
    "NaN in the header": (
        {"llama.rope.freq_base": float("nan")},
        {},
        "llama.rope.freq_base is nan",
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("quant", ["q8", "fp32"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_checkpoint_is_named_and_leaves_nothing(
    tmp_path: Path, case: str, quant: str
) -> None:
    metadata, changes, named = REFUSED[case]
    tensors = {**llama_weights(), **changes}
    tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    gguf = write_gguf(tmp_path / "t.gguf", {**llama_metadata(), **metadata}, tensors)
    with pytest.raises(MrsError) as caught:
        export(gguf, tmp_path / "repo", quant=quant)
    assert named in caught.value.message
    assert caught.value.exit_code == 4
    assert_nothing_is_left(tmp_path / "repo")


def assert_nothing_is_left(root: Path) -> None:
    assert not ModelRepository(root).names()
    assert tree(root).keys() <= {".lock"}


def test_a_refusal_leaves_other_versions_alone(tmp_path: Path, gguf: Path) -> None:
    before = tree(export(gguf, tmp_path / "repo").version.path)
    weights: dict[str, TensorItem] = {**llama_weights()}
    del weights[LAST_NORM]
    with pytest.raises(MrsError):
        export(write_gguf(gguf, llama_metadata(), weights), tmp_path / "repo")
    version = ModelRepository(tmp_path / "repo").resolve("tiny-llama")
    assert version.reference == "tiny-llama:1"
    assert tree(version.path) == before


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = WeightFile.append

    def full(self: WeightFile, *arguments: Any) -> Any:
        if self.size > 10_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(self, *arguments)

    monkeypatch.setattr(WeightFile, "append", full)
    with pytest.raises(StorageError, match="No space left"):
        export(gguf, tmp_path / "repo")
    assert_nothing_is_left(tmp_path / "repo")


# --- progress -------------------------------------------------------------------------------------


def test_progress_reaches_its_totals(tmp_path: Path, gguf: Path) -> None:
    recorder = Recorder()
    version = export(gguf, tmp_path / "repo", progress=recorder).version
    size = sum(file.size for file in version.lock.files)
    source = gguf.stat().st_size
    assert recorder.phases == [
        (f"Hash {gguf.name}", source, source),
        ("Read checkpoint", None, 0),
        ("Write weights", 2, 2),
        ("Hash files", size, size),
        ("Publish", None, 0),
    ]


def test_an_interrupted_export_leaves_nothing(tmp_path: Path, gguf: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        export(gguf, tmp_path / "repo", progress=Recorder(stop_at="Write weights"))
    assert_nothing_is_left(tmp_path / "repo")
