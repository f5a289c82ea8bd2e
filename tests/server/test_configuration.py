from __future__ import annotations

from pathlib import Path

import pytest

from mrs.errors import UsageError
from mrs.server.configuration import ServeConfiguration
from mrs.server.configuration_sources import load_configuration, shown_options


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mrs.toml"
    path.write_text('models = ["a", "b"]\nmax-seqs = 3\nport = 3\nthreads = 3\n')
    return path


def test_flags_come_before_environment_before_file_before_default(file: Path) -> None:
    loaded = load_configuration({"port": 1}, {"MRS_PORT": "2", "MRS_MAX_SEQS": "2"}, file)
    options = loaded.options
    assert (options.port, options.max_seqs, options.threads, options.host) == (
        1,
        2,
        3,
        "127.0.0.1",
    )
    origins = loaded.origins
    assert (origins["port"], origins["max_seqs"], origins["threads"], origins["host"]) == (
        "flag",
        "environment",
        str(file),
        "default",
    )


def test_lists_are_separated_by_commas_in_the_environment() -> None:
    options = load_configuration({}, {"MRS_MODELS": "a, b:2,", "MRS_API_KEY": "k1,k2"}).options
    assert options.models == ("a", "b:2")
    assert [key.get_secret_value() for key in options.api_key] == ["k1", "k2"]


def test_a_table_of_aliases_is_a_list_of_them(file: Path) -> None:
    file.write_text('[alias]\n"gpt-4o" = "smol"\n')
    assert load_configuration({}, {}, file).options.alias == ("gpt-4o=smol",)


@pytest.mark.parametrize("variable", ["KEEP_ALIVE_INTERVAL", "MRS_KEEP_ALIVE_INTERVAL"])
def test_the_interval_has_two_variables(variable: str) -> None:
    assert load_configuration({}, {variable: " 2500 "}).options.keep_alive_interval == 2500


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "10s", "ten", "1" * 5000])
def test_a_bad_interval_is_refused_by_name_and_value(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_configuration({}, {"KEEP_ALIVE_INTERVAL": text})
    assert "KEEP_ALIVE_INTERVAL" in caught.value.message
    assert text[:10] in caught.value.message
    assert len(caught.value.message) < 300


def test_an_empty_variable_counts_for_nothing() -> None:
    assert load_configuration({}, {"MRS_PORT": ""}).origins["port"] == "default"


def test_an_unknown_key_is_refused_with_the_nearest_name(file: Path) -> None:
    file.write_text("max_seq = 3\n")
    with pytest.raises(UsageError, match="'max_seq'") as caught:
        load_configuration({}, {}, file)
    assert "'max_seqs'" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 99999", "port in .*mrs.toml cannot be 99999"),
        ('max_seqs = "x"', "max_seqs in .*mrs.toml cannot be 'x'"),
        ("max-seqs = 0", "max-seqs in .*mrs.toml cannot be 0"),
        ('tls_cert = "a.pem"', "tls_cert and tls_key belong together"),
        ("port = ", "not TOML"),
        ("port = nan", "port in .* cannot be nan"),
    ],
)
def test_a_bad_value_is_named_with_its_place(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_configuration({}, {}, file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml cannot be read"):
        load_configuration({}, {}, tmp_path / "nothing.toml")


def test_a_bad_key_is_not_told() -> None:
    with pytest.raises(UsageError) as caught:
        load_configuration({}, {"MRS_API_KEY": "my secret"})
    assert "secret" not in caught.value.message
    assert "MRS_API_KEY" in caught.value.message


def test_keys_are_not_shown() -> None:
    loaded = load_configuration({"api_key": ("secret",)}, {})
    assert shown_options(loaded)["api_key"] == ["***"]
    assert "secret" not in repr(loaded.options)


def test_every_default_is_a_value_that_can_be_given() -> None:
    defaults = ServeConfiguration()
    values = {
        name: value for name, value in defaults.model_dump(mode="json").items() if value is not None
    }
    assert load_configuration(values, {}).options == defaults
