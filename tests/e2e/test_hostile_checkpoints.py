"""Whatever a checkpoint is, `mrs export` says what is wrong with it and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command_process import Commands, permissions_bind
from tests.export.checkpoints import raw_gguf
from tests.export.gguf_files import (
    MetadataItem,
    TensorItem,
    Typed,
    llama_metadata,
    llama_weights,
    write_gguf,
    write_llama,
)

_HUGE = 1 << 60
# Python and its imports take 100 MB; a chat template may use as much until it is stopped.
_MOST_MEMORY = 300_000_000


@dataclass(frozen=True)
class Hostile:
    """A checkpoint that cannot be exported.

    Attributes:
        make: writes it into a folder and returns its path.
        exit_code: what the command must end with.
        code: the error's code.
        names: what the message must name: the thing, the value, or both.
    """

    make: Callable[[Path], Path]
    exit_code: int
    code: str
    names: tuple[str, ...]


def raw(data: bytes) -> Callable[[Path], Path]:
    """A file of these bytes."""

    def make(folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(data)
        return path

    return make


def llama(**metadata: MetadataItem) -> Callable[[Path], Path]:
    """The tiny llama with other metadata; ``__`` in a key stands for a dot."""

    def make(folder: Path) -> Path:
        changed = {key.replace("__", "."): value for key, value in metadata.items()}
        return write_llama(folder / "model.gguf", metadata=changed)

    return make


def weights(change: Callable[[dict[str, TensorItem]], object]) -> Callable[[Path], Path]:
    """The tiny llama after ``change`` of its tensors."""

    def make(folder: Path) -> Path:
        tensors: dict[str, TensorItem] = {**llama_weights()}
        change(tensors)
        return write_gguf(folder / "model.gguf", llama_metadata(), tensors)

    return make


def template(source: str) -> Callable[[Path], Path]:
    """The tiny llama with this chat template."""
    return llama(tokenizer__chat_template=source)


def pipe(folder: Path) -> Path:
    path = folder / "model.gguf"
    os.mkfifo(path)
    return path


def plain_folder(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.mkdir()
    return path


def with_nan(tensors: dict[str, TensorItem]) -> None:
    norm = np.ones(64, np.float32)
    norm[7] = np.nan
    tensors["blk.1.ffn_norm.weight"] = norm


TENSOR = [raw_gguf.tensor("token_embd.weight", (1 << 30, 1 << 30))]
CUT_STRING = raw_gguf.entry("general.name", raw_gguf.STRING, raw_gguf.string("x", claim=_HUGE))
LONG_LIST = raw_gguf.array("tokenizer.ggml.tokens", raw_gguf.STRING, _HUGE, raw_gguf.string("x"))
WEB_PAGE = b"<!DOCTYPE html><html><body>404: no such model</body></html>" * 1000
ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"

HOSTILE = {
    # --- no checkpoint at all ---
    "empty": Hostile(raw(b""), 4, "checkpoint_corrupt", ("model.gguf", "empty")),
    "web page": Hostile(raw(WEB_PAGE), 4, "checkpoint_corrupt", ("model.gguf", "web page")),
    "zeros": Hostile(raw(bytes(5000)), 4, "checkpoint_corrupt", ("model.gguf", "zero bytes")),
    "folder": Hostile(plain_folder, 3, "source_not_found", ("model.gguf", "config.json")),
    "pipe": Hostile(pipe, 2, "invalid_usage", ("model.gguf", "regular file")),
    "missing": Hostile(lambda f: f / "model.gguf", 3, "source_not_found", ("model.gguf",)),
    # --- headers that lie ---
    "tensor count": Hostile(
        raw(raw_gguf.gguf_bytes(tensor_count=_HUGE)), 4, "checkpoint_corrupt", (str(_HUGE),)
    ),
    "metadata count": Hostile(
        raw(raw_gguf.gguf_bytes(metadata_count=_HUGE)), 4, "checkpoint_corrupt", (str(_HUGE),)
    ),
    "string length": Hostile(
        raw(raw_gguf.gguf_bytes([raw_gguf.ARCHITECTURE, CUT_STRING])),
        4,
        "checkpoint_corrupt",
        ("general.name", str(_HUGE)),
    ),
    "list length": Hostile(
        raw(raw_gguf.gguf_bytes([raw_gguf.ARCHITECTURE, LONG_LIST])),
        4,
        "checkpoint_corrupt",
        ("tokenizer.ggml.tokens", str(8 * _HUGE)),
    ),
    "tensor size": Hostile(
        raw(raw_gguf.gguf_bytes(tensors=TENSOR, data=bytes(64))),
        4,
        "checkpoint_corrupt",
        ("token_embd.weight", "missing"),
    ),
    # --- models that mrs does not know ---
    "architecture": Hostile(
        raw(
            raw_gguf.gguf_bytes(
                [raw_gguf.entry("general.architecture", raw_gguf.STRING, raw_gguf.string("mamba"))]
            )
        ),
        4,
        "unsupported_architecture",
        ("mamba", "llama"),
    ),
    "tokenizer": Hostile(
        llama(tokenizer__ggml__model="rwkv"), 4, "unsupported_tokenizer", ("'rwkv'", "gpt2")
    ),
    # --- models that contradict themselves ---
    "tensor missing": Hostile(
        weights(lambda tensors: tensors.pop("blk.1.ffn_down.weight")),
        4,
        "checkpoint_corrupt",
        ("blk.1.ffn_down.weight",),
    ),
    "tensor shape": Hostile(
        weights(lambda t: t.update({"blk.1.ffn_up.weight": np.ones((64, 64), np.float32)})),
        4,
        "checkpoint_corrupt",
        ("blk.1.ffn_up.weight", "[64, 64]", "[96, 64]"),
    ),
    "tensor NaN": Hostile(
        weights(with_nan), 4, "checkpoint_corrupt", ("blk.1.ffn_norm.weight", "NaN")
    ),
    "layers": Hostile(
        llama(llama__block_count=1 << 27), 4, "checkpoint_corrupt", ("llama.block_count", "1024")
    ),
    "context": Hostile(
        llama(llama__context_length=(1 << 32) - 1),
        4,
        "checkpoint_corrupt",
        ("llama.context_length", str((1 << 32) - 1)),
    ),
    "no heads": Hostile(
        llama(llama__attention__head_count=0),
        4,
        "checkpoint_corrupt",
        ("llama.attention.head_count", "0"),
    ),
    "epsilon NaN": Hostile(
        llama(llama__attention__layer_norm_rms_epsilon=float("nan")),
        4,
        "checkpoint_corrupt",
        ("layer_norm_rms_epsilon", "nan"),
    ),
    "rope base 0": Hostile(
        llama(llama__rope__freq_base=0.0), 4, "checkpoint_corrupt", ("rope.freq_base", "0.0")
    ),
    "rope base infinite": Hostile(
        llama(llama__rope__freq_base=float("inf")),
        4,
        "checkpoint_corrupt",
        ("rope.freq_base", "inf"),
    ),
    # --- bad vocabularies ---
    "tokens twice": Hostile(
        llama(tokenizer__ggml__tokens=["a"] * 268), 4, "checkpoint_corrupt", ("Tokens 0 and 1",)
    ),
    "vocabulary too large": Hostile(
        llama(
            tokenizer__ggml__tokens=[*llama_metadata()["tokenizer.ggml.tokens"], "more"],  # type: ignore[misc]
            tokenizer__ggml__token_type=[1] * 269,
        ),
        4,
        "checkpoint_corrupt",
        ("269", "268"),
    ),
    "merge": Hostile(
        llama(tokenizer__ggml__merges=["no such"]), 4, "checkpoint_corrupt", ("Merge 0", "'no'")
    ),
    "end token": Hostile(
        llama(tokenizer__ggml__eos_token_id=9999),
        4,
        "checkpoint_corrupt",
        ("eos_token_id", "9999"),
    ),
    "types": Hostile(
        llama(tokenizer__ggml__token_type=Typed([1, 2, 3], "INT32")),
        4,
        "checkpoint_corrupt",
        ("268 tokens", "3 token types"),
    ),
    # --- hostile chat templates ---
    "template escape": Hostile(
        template("{{ messages.__class__.__mro__[1].__subclasses__() }}"),
        4,
        "chat_template_error",
        ("chat template", "__class__"),
    ),
    "template loop": Hostile(template(ENDLESS), 4, "chat_template_error", ("chat template",)),
    "template syntax": Hostile(
        template("{% for m in messages %}"), 4, "chat_template_error", ("chat template",)
    ),
    "template include": Hostile(
        template("{% include '/etc/passwd' %}"), 4, "chat_template_error", ("chat template",)
    ),
}


def assert_refused(commands: Commands, path: Path, repo: Path, hostile: Hostile) -> None:
    size = path.stat().st_size if path.is_file() else 0
    result = commands.mrs("export", path, "--repo", repo)
    print(f"{path}: {result.err.splitlines()[-2:]} peak {result.peak / 1e6:.0f} MB")
    assert result.code == hostile.exit_code, result.err
    assert f"error[{hostile.code}]: " in result.err
    message = result.err.partition(f"error[{hostile.code}]: ")[2]
    for name in hostile.names:
        assert name in message
    assert "Traceback" not in result.err
    assert result.out == ""
    assert result.peak < _MOST_MEMORY + size
    assert left_in(repo) == []


def left_in(repo: Path) -> list[str]:
    """All files but the lock of the repository."""
    files = (path for path in repo.rglob("*") if path.is_file())
    return [str(path.relative_to(repo)) for path in files if path.name != ".lock"]


@pytest.mark.parametrize("name", HOSTILE)
def test_is_refused_by_name_and_leaves_nothing(
    commands: Commands, tmp_path: Path, name: str
) -> None:
    path = HOSTILE[name].make(tmp_path)
    assert_refused(commands, path, tmp_path / "repo", HOSTILE[name])


@pytest.fixture(scope="module")
def real_copy(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("copy") / "model.gguf"
    path.write_bytes(smollm2_gguf.read_bytes())
    return path


def test_a_truncated_real_file_is_refused_wherever_it_ends(
    commands: Commands, real_copy: Path, tmp_path: Path
) -> None:
    """Shorter and shorter: one byte of the last tensor, half, and inside the header."""
    end = real_copy.stat().st_size
    for size, names in (
        (end - 1, ("output_norm.weight", "1 bytes are missing")),
        (end // 2, ("truncated",)),
        (1_000_000, ("truncated",)),
        (5_000, ("truncated",)),
        (20, ("truncated",)),
    ):
        os.truncate(real_copy, size)
        hostile = Hostile(lambda _: real_copy, 4, "checkpoint_corrupt", ("model.gguf", *names))
        assert_refused(commands, real_copy, tmp_path / "repo", hostile)


@pytest.mark.skipif(not permissions_bind(), reason="root may read everything")
def test_an_unreadable_file_is_refused(commands: Commands, tmp_path: Path) -> None:
    path = write_llama(tmp_path / "model.gguf")
    path.chmod(0)
    hostile = Hostile(lambda _: path, 2, "invalid_usage", ("model.gguf", "Permission denied"))
    assert_refused(commands, path, tmp_path / "repo", hostile)


def test_with_json_the_error_is_the_document_on_stdout(commands: Commands, tmp_path: Path) -> None:
    path = HOSTILE["tensor missing"].make(tmp_path)
    result = commands.mrs("export", path, "--repo", tmp_path / "repo", "--json")
    assert result.code == 4
    assert result.json["error"]["code"] == "checkpoint_corrupt"
    assert "blk.1.ffn_down.weight" in result.json["error"]["message"]
    assert result.json["error"]["hint"]
