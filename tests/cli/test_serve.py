from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from mrs.cli.serve import model_aliases, serve
from mrs.errors import ModelLoadError, ModelNotFoundError, UsageError
from mrs.export.pipeline import ExportOutcome, ExportRequest
from mrs.export.progress import Progress
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.runtime.loading import LoadedModel
from mrs.runtime.speculation.options import SpeculationOptions
from mrs.server.http_server import HttpServer
from tests.model_repo.samples import publish
from tests.server.fake_engine import FakeEncoder, FakeEngine
from tests.server.fake_models import FakeSource


@dataclass
class Loader:
    """Stands in for `load_served`."""

    calls: list[tuple[ModelVersion, dict[str, Any]]] = field(default_factory=list)
    closed: int = 0
    error: Exception | None = None

    def __call__(self, version: ModelVersion, **options: Any) -> LoadedModel:
        self.calls.append((version, options))
        if self.error is not None:
            raise self.error
        engine: Any = FakeEngine()
        engine.engine = SimpleNamespace(grammars=None)
        parts: dict[str, Any] = {
            "prompts": FakeEncoder(),
            "tokenizer": SimpleNamespace(token_bytes=lambda token: b""),
            "engine": engine,
        }
        return LoadedModel(
            name=version.name,
            max_model_len=2048,
            vocab_size=256,
            threads=2,
            close=self._close,
            **parts,
        )

    def _close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    yield
    for name in ("mrs", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    loader = Loader()
    monkeypatch.setattr("mrs.runtime.loading.load_served", loader)
    monkeypatch.delenv("KEEP_ALIVE_INTERVAL", raising=False)
    monkeypatch.setenv("MRS_RESPONSES_DB", ":memory:")
    return loader


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the server stop as soon as it is ready, as often as the one number says."""
    stops = [1]

    class StoppingServer(HttpServer):
        def __init__(self, *args: Any, on_ready: Callable[[], None], **options: Any) -> None:
            def ready_then_stop() -> None:
                on_ready()
                for _ in range(stops[0]):
                    self.stop()

            super().__init__(*args, on_ready=ready_then_stop, **options)

    monkeypatch.setattr("mrs.server.http_server.HttpServer", StoppingServer)
    return stops


@pytest.fixture
def run(repository: ModelRepository, loader: Loader, stops: list[int]) -> Callable[..., Any]:
    """Run ``serve`` with the sample model; the result is the exit code."""
    publish(repository)
    command = typer.Typer(rich_markup_mode=None)
    command.command()(serve)
    return lambda *arguments: command(list(arguments), standalone_mode=False) or 0


Run = Callable[..., Any]
FREE = ("--port", "0")


def test_tells_people_how_to_use_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tiny", *FREE) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "tiny:1 is ready at http://127.0.0.1:" in shown.err
    assert "2048 tokens of context, 16 slots" in shown.err
    assert "/v1/chat/completions -H 'Content-Type: application/json'" in shown.err
    assert 'OpenAI(base_url="http://127.0.0.1:' in shown.err
    assert "warning" not in shown.err


def test_tells_programs_in_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("tiny", *FREE, "--json")
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    ready = json.loads(line)
    assert ready["event"] == "ready"
    assert ready["url"].startswith("http://127.0.0.1:")
    assert not ready["url"].endswith(":0")
    assert (ready["model"], ready["reference"], ready["slots"]) == ("tiny", "tiny:1", 16)
    assert "Load" not in shown.err


def test_options_reach_the_engine(run: Run, loader: Loader) -> None:
    run("tiny", *FREE)
    more = ("--max-model-len", "99", "--threads", "2", "--prefix-cache-bytes", "1000")
    others = ("--kv-cache-bytes", "9000", "--no-generation-config", "--max-waiting", "5")
    others += ("--step-timeout", "7.5")
    guesses = ("--speculative", "prompt-lookup", "--draft-model", "tiny", "--max-guesses", "3")
    run("tiny:1", *FREE, "--max-seqs", "3", *more, *others, *guesses)
    usual = {
        "max_seqs": 16,
        "max_waiting": 256,
        "step_timeout": 120.0,
        "max_model_len": None,
        "threads": None,
        "kv_cache_bytes": None,
        "kv_cache_type": "fp32",
        "prefix_cache_bytes": None,
        "generation_config": True,
        "speculation": SpeculationOptions(),
        "alone": True,
    }
    draft = loader.calls[1][0]
    given = {
        "max_seqs": 3,
        "max_waiting": 5,
        "step_timeout": 7.5,
        "max_model_len": 99,
        "threads": 2,
        "kv_cache_bytes": 9000,
        "kv_cache_type": "fp32",
        "prefix_cache_bytes": 1000,
        "generation_config": False,
        "speculation": SpeculationOptions(prompt_lookup=True, draft=draft, most=3),
        "alone": True,
    }
    assert [(version.reference, options) for version, options in loader.calls] == [
        ("tiny:1", usual),
        ("tiny:1", given),
    ]


def test_the_model_is_closed_at_the_end(run: Run, loader: Loader) -> None:
    run("tiny", *FREE)
    assert loader.closed == 1


def test_being_stopped_twice_is_an_exit_code(run: Run, stops: list[int], loader: Loader) -> None:
    stops[0] = 2
    assert run("tiny", *FREE) == 130
    assert loader.closed == 1


def test_a_port_in_use_is_found_before_anything_is_loaded(run: Run, loader: Loader) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port}"):
            run("tiny", "--port", str(port))
    assert not loader.calls


def test_a_bad_interval_is_found_before_anything_is_loaded(
    run: Run, loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEP_ALIVE_INTERVAL", "soon")
    with pytest.raises(UsageError, match="soon"):
        run("tiny", *FREE)
    assert not loader.calls


def test_a_model_that_cannot_be_loaded_frees_the_port(run: Run, loader: Loader) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    loader.error = ModelLoadError("Broken.")
    with pytest.raises(ModelLoadError):
        run("tiny", "--port", str(port))
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_an_unknown_model_is_named(run: Run) -> None:
    with pytest.raises(ModelNotFoundError, match="nothing"):
        run("nothing", *FREE)


def test_a_network_address_needs_a_key(run: Run, loader: Loader) -> None:
    with pytest.raises(UsageError, match="can be reached from other machines") as caught:
        run("tiny", *FREE, "--host", "0.0.0.0")
    assert re.search(r"--api-key mrs-[0-9a-f]{32}", caught.value.hint)
    assert "--insecure" in caught.value.hint
    assert not loader.calls


def test_a_network_address_without_a_key_is_warned_of(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tiny", *FREE, "--host", "0.0.0.0", "--insecure")
    assert "warning: 0.0.0.0 can be reached from other machines" in capsys.readouterr().err


def test_with_a_key_nothing_is_warned_of_and_people_are_told_to_send_it(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("tiny", *FREE, "--host", "0.0.0.0", "--api-key", "secret")
    shown = capsys.readouterr().err
    assert "warning" not in shown
    assert "Authorization: Bearer YOUR_KEY" in shown
    assert "secret" not in shown


def test_models_can_come_from_a_file(run: Run, loader: Loader, tmp_path: Path) -> None:
    file = tmp_path / "mrs.toml"
    file.write_text('models = ["tiny"]\nport = 0\nmax_seqs = 5\n')
    run("--config", str(file))
    assert loader.calls[0][1]["max_seqs"] == 5


def test_no_model_is_a_usage_error(run: Run) -> None:
    with pytest.raises(UsageError, match="No model is named"):
        run(*FREE)


def test_a_bad_certificate_is_found_before_anything_is_loaded(
    run: Run, loader: Loader, tmp_path: Path
) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("nothing")
    with pytest.raises(UsageError, match="no certificate"):
        run("tiny", *FREE, "--tls-cert", str(file), "--tls-key", str(file))
    assert not loader.calls


def test_a_source_is_exported_first(
    run: Run, loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ExportRequest] = []

    def export(
        request: ExportRequest, repository: ModelRepository, progress: Progress
    ) -> ExportOutcome:
        asked.append(request)
        return ExportOutcome(publish(repository, "exported"), reused=False, seconds=1.0)

    monkeypatch.setattr("mrs.export.pipeline.export_model", export)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    run(str(file), *FREE, "--quant", "fp32")
    assert asked == [ExportRequest(source=str(file), quant="fp32")]
    assert loader.calls[0][0].reference == "exported:1"


def test_of_several_models_the_first_is_loaded(
    run: Run, repository: ModelRepository, loader: Loader, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(repository, "other")
    run("tiny", "other", *FREE, "--json")
    assert [version.reference for version, _ in loader.calls] == ["tiny:1"]
    assert json.loads(capsys.readouterr().out)["models"] == ["tiny", "other"]


def test_a_lazy_server_loads_nothing(run: Run, loader: Loader) -> None:
    run("tiny", *FREE, "--lazy")
    assert not loader.calls


@pytest.mark.parametrize("alias", ["gpt", "=tiny", "gpt=", "gpt=nothing", "default=tiny"])
def test_an_alias_that_cannot_be_is_refused(run: Run, loader: Loader, alias: str) -> None:
    with pytest.raises(UsageError):
        run("tiny", *FREE, "--alias", alias)
    assert not loader.calls


def test_a_model_has_the_name_that_the_user_wrote() -> None:
    source = FakeSource("tiny")
    models = [("org/tiny", source), ("other", FakeSource("other"))]
    assert model_aliases(["gpt=org/tiny"], models) == {"org/tiny": "tiny", "gpt": "tiny"}
