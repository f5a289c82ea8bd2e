"""All that `mrs serve` can be told, whether by flags, by the environment or by a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)

from mrs.server.settings import MIB, RequestLimits

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Names = tuple[Text, ...]


def _key(text: Any) -> Any:
    # A key with white space in it could not be sent in a header as it is.
    if isinstance(text, str) and not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("a key has printable ASCII characters and no spaces")
    return text


Key = Annotated[SecretStr, BeforeValidator(_key), Field(min_length=1)]


def _alias_list(value: Any) -> Any:
    """A table of aliases, as a file may hold it, is the list that flags make."""
    if isinstance(value, Mapping):
        return tuple(f"{alias}={model}" for alias, model in value.items())
    return value


class ServeConfiguration(BaseModel):
    """The options of `mrs serve`, under the names of its flags; their help tells what they do."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    # Models
    models: Names = ()
    repo: Path | None = None
    quant: Literal["auto", "keep", "q8", "q4", "w8a8", "fp32"] = "auto"
    lazy: bool = False
    idle_unload: float | None = Field(None, ge=0)
    alias: Annotated[Names, BeforeValidator(_alias_list)] = ()
    accept_any_model: bool = False
    generation_config: bool = True
    tool_format: Text | None = None

    # Engine
    max_seqs: int = Field(16, ge=1)
    max_model_len: int | None = Field(None, ge=2)
    max_waiting: int = Field(256, ge=0)
    step_timeout: float = Field(120.0, gt=0)
    threads: int | None = Field(None, ge=1)
    kv_cache_bytes: int | None = Field(None, ge=1)
    kv_cache_type: Literal["fp32", "int8"] = "fp32"
    prefix_cache_bytes: int | None = Field(None, ge=0)
    speculative: Literal["off", "prompt-lookup"] = "off"
    draft_model: Text | None = None
    max_guesses: int = Field(6, ge=1, le=15)

    # Network
    host: Text = "127.0.0.1"
    port: int = Field(1234, ge=0, le=65535)
    allowed_host: Names = ()
    cors_origin: Names = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None

    # Access
    api_key: tuple[Key, ...] = ()
    api_key_file: Path | None = None
    admin_key: tuple[Key, ...] = ()
    admin_key_file: Path | None = None
    public_health: bool = True
    insecure: bool = False

    # Limits
    max_body_bytes: int = Field(32 * MIB, ge=1024)
    max_messages: int = Field(RequestLimits.messages, ge=1)
    max_tools: int = Field(RequestLimits.tools, ge=0, le=512)
    max_choices: int = Field(RequestLimits.choices, ge=1, le=RequestLimits.choices)
    max_stops: int = Field(RequestLimits.stops, ge=0, le=RequestLimits.stops)
    max_schema_bytes: int = Field(RequestLimits.schema_bytes, ge=0)
    max_header_bytes: int = Field(64 * 1024, ge=1024)
    read_timeout: float = Field(60.0, gt=0)
    request_timeout: float | None = Field(None, gt=0)
    keep_alive_interval: int = Field(10_000, ge=1, lt=10**12)
    drain_timeout: float = Field(25.0, ge=0)

    # Stored responses
    responses_db: Path | None = None
    responses_max_age: float = Field(30 * 24 * 3600.0, gt=0)
    responses_max_bytes: int = Field(1024 * MIB, ge=1)

    # Logs, metrics and traces
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = True
    log_payloads: bool = False
    metrics: bool = True
    otel: bool = False

    @model_validator(mode="after")
    def _certificate_and_key_belong_together(self) -> ServeConfiguration:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together")
        return self
