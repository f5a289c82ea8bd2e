from __future__ import annotations

import pytest

from mrs.export.parity.proof import ParityMode
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from tests.cli.conftest import Mrs
from tests.export.gguf_files import write_llama


@pytest.fixture
def tiny(repository: ModelRepository, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random llama with a context of 128."""
    folder = tmp_path_factory.mktemp("source")
    source = str(write_llama(folder / "tiny.gguf"))
    # Measured: what is not has no 8-bit KV cache.
    request = ExportRequest(source, quant="fp32", name="tiny", parity=ParityMode.ALWAYS)
    return str(export_model(request, repository, SilentProgress()).version.reference)


SHORT = ("-p", "20", "-n", "4", "-r", "2", "-t", "1")


def test_a_row_for_each_test(mrs: Mrs, tiny: str) -> None:
    found = mrs("bench", tiny, *SHORT, "-d", "0,30", "-b", "1,2", "--json")
    assert found.code == 0, found.err
    rows = found.json["results"]
    assert [(row["test"], row["batch"]) for row in rows] == [
        ("pp20", 1), ("tg4", 1), ("pp20", 2), ("tg4", 2),
        ("pp20 @ d30", 1), ("tg4 @ d30", 1), ("pp20 @ d30", 2), ("tg4 @ d30", 2),
    ]  # fmt: skip
    for row in rows:
        assert row["tokens_per_second"] > 0
        assert len(row["samples"]) == 2
        assert (row["model"], row["quant"], row["threads"]) == (tiny, "fp32", 1)


def test_the_type_of_the_cache_is_named(mrs: Mrs, tiny: str) -> None:
    found = mrs("bench", tiny, *SHORT, "--kv-cache-type", "int8", "--json")
    assert found.code == 0, found.err
    assert {row["kv_cache_type"] for row in found.json["results"]} == {"int8"}


def test_people_get_a_table(mrs: Mrs, tiny: str) -> None:
    found = mrs("bench", tiny, *SHORT)
    assert found.code == 0, found.err
    assert [line.split()[0] for line in found.out.splitlines()] == ["model", tiny, tiny]
    assert "pp20" in found.out


def test_nothing_is_measured_that_is_not_asked_for(mrs: Mrs, tiny: str) -> None:
    found = mrs("bench", tiny, "-p", "0", "-n", "4", "-r", "1", "-o", "json")
    assert [row["test"] for row in found.json["results"]] == ["tg4"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-p", "12,x"), "--prompt is '12,x'"),
        (("-n", "-4"), "--generate is '-4'"),
        (("-b", "0"), "--batch holds 0; the least is 1"),
        (("-d", ""), "--depth is ''"),
        (("-p", "0", "-n", "0"), "nothing to measure"),
        (("-p", "500"), "needs 502 tokens; tiny:1 has 128"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused(
    mrs: Mrs, tiny: str, options: tuple[str, ...], message: str
) -> None:
    found = mrs("bench", tiny, *options)
    assert found.code == 2
    assert message in found.err
