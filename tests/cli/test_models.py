from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys

import pytest

from mrs.cli.options import complete_reference
from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.model_repo.samples import publish


def table(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_an_empty_repository_tells_how_to_fill_it(mrs: Mrs, repository: ModelRepository) -> None:
    result = mrs("models", "list")
    assert (result.code, result.out) == (0, "")
    assert str(repository.root) in result.err
    assert "mrs export" in result.err
    assert mrs("models", "list", "--json").json == {
        "repository": str(repository.root),
        "models": [],
        "broken": [],
    }


def test_the_list_has_a_row_for_each_version(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository, "b", quant="fp32")
    publish(repository, "a")
    assert table(mrs("models", "list").out) == [
        ["NAME", "VERSION", "ARCHITECTURE", "QUANT", "SIZE", "CONTEXT", "SOURCE"],
        ["a", "1", "llama", "q8", "934 bytes", "2048", "tiny.gguf"],
        ["b", "1", "llama", "fp32", "934 bytes", "2048", "tiny.gguf"],
    ]


def test_the_list_as_json_names_what_a_program_needs(mrs: Mrs, repository: ModelRepository) -> None:
    version = publish(repository)
    (model,) = mrs("models", "list", "--json").json["models"]
    assert model == {
        "reference": "tiny:1",
        "name": "tiny",
        "version": 1,
        "path": str(version.path),
        "size": 934,
        "kind": "decoder",
        "architecture": "llama",
        "quantization": "q8",
        "context_length": 2048,
        "chat_template": None,
        "source": {"kind": "file", "identifier": "tiny.gguf"},
        "input_digest": version.lock.input_digest,
    }


def test_a_broken_version_is_listed_with_its_reason(mrs: Mrs, repository: ModelRepository) -> None:
    (publish(repository).path / "mrs.lock").unlink()
    publish(repository)
    result = mrs("models", "list")
    assert result.code == 0
    assert [row[1:3] for row in table(result.out)[1:]] == [["1", "broken"], ["2", "llama"]]
    assert "tiny:1 is broken: " in result.err
    listed = mrs("models", "list", "--json").json
    assert [model["reference"] for model in listed["models"]] == ["tiny:2"]
    assert listed["broken"][0]["error"]["code"] == "version_corrupt"


def test_a_lock_cannot_control_the_terminal(mrs: Mrs, repository: ModelRepository) -> None:
    path = publish(repository).path / "mrs.lock"
    path.write_text(path.read_text().replace("llama", r"\u001b]0;owned\u0007\n"))
    for command in (["list"], ["show", "tiny"]):
        result = mrs("models", *command)
        assert r"\x1b]0;owned\x07\n" in result.out
        assert "\x1b" not in result.out


def test_the_repository_option_wins_over_the_variable(
    mrs: Mrs, repository: ModelRepository, tmp_path: object
) -> None:
    other = ModelRepository(repository.root.parent / "other")
    publish(other, "there")
    result = mrs("models", "list", "--repo", str(other.root), "--json")
    assert [model["name"] for model in result.json["models"]] == ["there"]


def test_the_card_shows_where_a_version_comes_from_and_what_is_in_it(
    mrs: Mrs, repository: ModelRepository
) -> None:
    version = publish(repository)
    card = mrs("models", "show", "tiny").out
    assert card.startswith("tiny:1\n")
    assert "ab" * 32 in card
    rows = table(card)
    for row in (
        ["architecture", "llama"],
        ["context", "2048 tokens"],
        ["quant", "q8"],
        ["mrs", "0.1.0"],
        ["path", str(version.path)],
        ["1 tensor", "Q8_0 as int8-block32", "exact"],
        ["cpu/model.onnx", "5 bytes", version.lock.files[0].sha256[:16]],
    ):
        assert row in rows


def test_the_card_as_json_holds_the_whole_lock(mrs: Mrs, repository: ModelRepository) -> None:
    version = publish(repository)
    shown = mrs("models", "show", "tiny:1", "--json").json
    assert shown["reference"] == "tiny:1"
    assert shown["lock"] == version.lock.model_dump(mode="json")


@pytest.mark.parametrize("command", ["show", "verify", "remove"])
def test_an_unknown_model_exits_with_5(mrs: Mrs, repository: ModelRepository, command: str) -> None:
    publish(repository)
    result = mrs("models", command, "tiyn")
    assert result.code == 5
    assert result.err.startswith("error[model_not_found]: ")
    assert "Did you mean tiny?" in result.err


def test_sound_versions_verify(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    publish(repository)
    result = mrs("models", "verify")
    assert result.code == 0
    assert table(result.out) == [
        ["ok", "tiny:1", "4 files, 934 bytes"],
        ["ok", "tiny:2", "4 files, 934 bytes"],
    ]
    assert result.err.startswith("Verify tiny:1 ... done in ")


def test_a_damaged_version_exits_with_5_and_tells_each_problem(
    mrs: Mrs, repository: ModelRepository
) -> None:
    publish(repository).tokenizer_path.unlink()
    publish(repository).graph_path.write_bytes(b"Graph")
    result = mrs("models", "verify")
    assert result.code == 5
    assert "damaged  tiny:1\n  tokenizer.json is missing.\n" in result.out
    assert "  cpu/model.onnx has SHA-256 " in result.out
    assert "error[version_corrupt]: 2 of 2 versions damaged.\n" in result.err
    shown = mrs("models", "verify", "--json")
    assert shown.code == 5
    assert shown.json["ok"] is False
    assert [version["ok"] for version in shown.json["versions"]] == [False, False]
    assert shown.json["versions"][0]["problems"][0]["kind"] == "missing"
    assert shown.err == ""


def test_quick_verification_does_not_read_contents(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository).graph_path.write_bytes(b"Graph")
    assert mrs("models", "verify", "tiny", "--quick").code == 0
    assert mrs("models", "verify", "tiny").code == 5


def test_one_unreadable_version_does_not_keep_others_from_being_verified(
    mrs: Mrs, repository: ModelRepository
) -> None:
    (publish(repository).path / "mrs.lock").write_text("{")
    publish(repository)
    for references in ([], ["tiny:1", "tiny:2"]):
        result = mrs("models", "verify", *references, "--json")
        assert result.code == 5
        assert [version["ok"] for version in result.json["versions"]] == [False, True]


def test_a_folder_verifies(mrs: Mrs, repository: ModelRepository) -> None:
    copy = repository.root.parent / "copy"
    shutil.copytree(publish(repository).path, copy)
    assert mrs("models", "verify", str(copy)).out.startswith("ok  ")


def test_nothing_to_verify_is_no_failure(mrs: Mrs) -> None:
    assert mrs("models", "verify").code == 0
    assert mrs("models", "verify", "--json").json == {"ok": True, "versions": []}


def test_nothing_is_removed_unasked(
    mrs: Mrs, repository: ModelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(repository)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: PTH123, SIM115
    result = mrs("models", "remove", "tiny")
    assert result.code == 2
    assert "help: Add --yes." in result.err
    assert len(repository.versions()) == 1


@pytest.mark.parametrize(
    ("answer", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 1), (b"\n", 1, 1)]
)
def test_on_a_terminal_the_answer_decides(
    repository: ModelRepository, answer: bytes, code: int, left: int
) -> None:
    publish(repository)
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from mrs.cli.app import main; main()",
            *["models", "remove", "tiny"],
        ],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert result.returncode == code
    assert f"Remove tiny:1 from {repository.root}? [y/N]" in result.stderr
    assert result.stdout == ""
    assert len(repository.versions()) == left


def test_a_removal_tells_what_it_freed(mrs: Mrs, repository: ModelRepository) -> None:
    version = publish(repository)
    size = version.size + (version.path / "mrs.lock").stat().st_size
    result = mrs("models", "remove", "tiny:1", "--yes", "--json")
    assert result.json == {"removed": "tiny:1", "bytes_freed": size}
    assert repository.versions() == []


def test_a_name_with_several_versions_is_not_removed(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    publish(repository)
    result = mrs("models", "remove", "tiny", "--yes")
    assert result.code == 5
    assert "help: Name one of them: tiny:1, tiny:2." in result.err


def test_a_collection_tells_what_it_did(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    assert mrs("models", "gc").err == "There is nothing to delete.\n"
    for dead in ("a", "b"):
        (repository.root / ".staging" / dead).mkdir()
        (repository.root / ".staging" / dead / "weights").write_bytes(bytes(500))
    with repository.stage("tiny"):
        assert mrs("models", "gc").err == (
            "Deleted 2 unfinished exports: 1.0 kB freed.\nLeft alone: 1 running export.\n"
        )
    assert mrs("models", "gc", "--json").json == {
        "stages": 0,
        "trashed": 0,
        "empty_models": 0,
        "living_stages": 0,
        "bytes_freed": 0,
    }


def test_a_repository_that_is_a_file_exits_with_6(mrs: Mrs, repository: ModelRepository) -> None:
    repository.root.touch()
    result = mrs("models", "list")
    assert result.code == 6
    assert result.err.startswith(f"error[storage_error]: {repository.root}: Not a directory.")


def test_references_are_completed(repository: ModelRepository) -> None:
    assert complete_reference("") == []
    publish(repository, "smollm2")
    publish(repository, "qwen")
    assert complete_reference("s") == ["smollm2", "smollm2:1"]
    assert complete_reference("smollm2:") == ["smollm2:1"]
