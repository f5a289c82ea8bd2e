"""The flags of `mrs serve` and the model of its options say the same."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from mrs.cli.app import app
from mrs.server.configuration import ServeConfiguration
from mrs.server.configuration_sources import LIST_OPTIONS
from tests.cli.conftest import Mrs
from tests.options_table import documented_tables, options_tables

_COMMAND_LINE_ONLY = {"config", "as_json", "help"}


@pytest.fixture(scope="module")
def parameters() -> dict[str, Any]:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {parameter.name: parameter for parameter in command.params}


def test_every_option_is_a_flag_and_every_flag_an_option(parameters: dict[str, Any]) -> None:
    assert set(parameters) - _COMMAND_LINE_ONLY == set(ServeConfiguration.model_fields)


def test_defaults_agree(parameters: dict[str, Any]) -> None:
    defaults = ServeConfiguration().model_dump(mode="json")
    for name, value in defaults.items():
        default = parameters[name].default
        assert (default or []) == value if name in LIST_OPTIONS else default == value, name


def test_every_flag_is_explained_under_a_heading(parameters: dict[str, Any]) -> None:
    for name in set(parameters) - _COMMAND_LINE_ONLY - {"models", "repo", "quant"}:
        assert parameters[name].help.endswith("."), name
        assert parameters[name].rich_help_panel, name


def test_the_help_is_grouped(mrs: Mrs) -> None:
    shown = mrs("serve", "--help").out
    headings = [line for line in shown.splitlines() if line.endswith(":") and line[:1].isupper()]
    assert headings[:3] == ["Arguments:", "Models:", "Engine:"]
    assert shown.index("Access:") < shown.index("--api-key KEY") < shown.index("Limits")


def test_config_show_is_a_file_for_config(mrs: Mrs, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("MRS_MAX_SEQS", "4")
    shown = mrs("config", "show", "--origin")
    assert "max_seqs = 4  # environment" in shown.out
    file = tmp_path / "mrs.toml"
    file.write_text(shown.out)
    monkeypatch.delenv("MRS_MAX_SEQS")
    assert mrs("config", "show", "--config", str(file), "--json").json["max_seqs"] == 4


def test_config_schema_explains_every_option(mrs: Mrs) -> None:
    schema = mrs("config", "schema").json
    assert set(schema["properties"]) == set(ServeConfiguration.model_fields)
    assert all(each["description"] for each in schema["properties"].values())
    assert schema["additionalProperties"] is False


def test_the_documentation_has_every_option() -> None:
    assert documented_tables() == options_tables(), "run: python -m tests.options_table"
