from __future__ import annotations

import pytest

from tests.cli.conftest import Mrs
from tests.load_test.scripted_server import answer, scripted_server


def test_a_row_for_each_load_prompt_and_answer(mrs: Mrs) -> None:
    with scripted_server(lambda body: answer("a", "b")) as server:
        options = ("-p", "8,16", "-n", "3", "--streams", "1,2", "--requests", "4")
        found = mrs("bench", "--serve", server.url, *options, "--json")
    assert found.code == 0, found.err
    rows = found.json["results"]
    assert [row["count"] for row in rows] == [1, 2, 1, 2]
    assert {(row["model"], row["requests"], row["failed"]) for row in rows} == {("scripted", 4, 0)}
    assert all(row["output_tokens"] == 3 and row["tokens_per_second"] > 0 for row in rows)
    assert len(server.requests) == 1 + 4 * 4  # The first one warms up.


def test_a_rate_is_measured_and_shown_to_people(mrs: Mrs) -> None:
    with scripted_server(lambda body: answer("a")) as server:
        options = ("--rate", "500", "--requests", "3", "--slo-ttft", "60000")
        found = mrs("bench", "--serve", server.url, *options)
    assert found.code == 0, found.err
    assert "500/s poisson" in found.out
    assert "0/3" in found.out


def test_failures_are_counted_and_told(mrs: Mrs) -> None:
    replies = iter([answer("a"), b"HTTP/1.1 429 Busy\r\n\r\nfull", answer("a")])
    with scripted_server(lambda body: next(replies)) as server:
        found = mrs("bench", "m", "--serve", server.url, "--requests", "2", "-n", "1")
    assert found.code == 0
    assert "1/2" in found.out
    assert "status 429: full" in found.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--serve", "ftp://x"), "no http:// or https:// URL"),
        (("--serve", "http://127.0.0.1:1", "-d", "5"), "--depth means nothing with --serve"),
        (("--serve", "http://127.0.0.1:1", "--streams", "1", "--rate", "2"), "two ways"),
        (("--serve", "http://127.0.0.1:1", "--rate", "0"), "--rate is '0'"),
        (("m", "--streams", "4"), "--streams means nothing without --serve"),
        ((), "MODEL is missing"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(mrs: Mrs, options: tuple[str, ...], message: str) -> None:
    found = mrs("bench", *options)
    assert found.code == 2
    assert message in found.err


def test_a_server_that_is_not_there_is_an_error(mrs: Mrs) -> None:
    found = mrs("bench", "m", "--serve", "http://127.0.0.1:1")
    assert found.code == 7
    assert "No answer from 127.0.0.1:1" in found.err
