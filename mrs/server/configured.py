"""From the options of `mrs serve` to the settings of its application."""

from __future__ import annotations

import secrets
import ssl

from mrs.errors import UsageError
from mrs.model_repo.repository import default_root
from mrs.model_repo.version import ModelVersion
from mrs.runtime.speculation.options import SpeculationOptions
from mrs.server.access_keys import AccessKey, AccessPolicy, KeyRing, access_key, read_keys
from mrs.server.configuration import ServeConfiguration
from mrs.server.conversation.tool_formats import format_named
from mrs.server.http_server import HttpOptions
from mrs.server.model_source import EngineOptions
from mrs.server.responses.location import responses_file
from mrs.server.settings import RequestLimits, ServerSettings, allowed_hosts, is_loopback


def server_settings(options: ServeConfiguration, address: str) -> ServerSettings:
    """The settings of the application.

    Args:
        options: what the user wants.
        address: the numeric address that the server listens on.

    Raises:
        UsageError: a file of keys cannot be read, or everybody on the network could use the server
            although nobody said so.
    """
    loopback = is_loopback(address)
    keys = KeyRing(_keys(options))
    if not (loopback or keys or options.insecure):
        raise UsageError(
            f"{address} can be reached from other machines, and there is no key: whoever reaches "
            "it could use the models.",
            hint=f"Add --api-key mrs-{secrets.token_hex(16)} (or --api-key-file), or --insecure to "
            "let everybody in.",
            param="api_key",
        )
    return ServerSettings(
        allowed_hosts=allowed_hosts(options.host, address, options.allowed_host),
        max_body_bytes=options.max_body_bytes,
        keep_alive_interval=options.keep_alive_interval / 1000,
        repository=(options.repo or default_root()).expanduser(),
        read_timeout=options.read_timeout,
        request_timeout=options.request_timeout,
        limits=RequestLimits(
            messages=options.max_messages,
            tools=options.max_tools,
            choices=options.max_choices,
            stops=options.max_stops,
            schema_bytes=options.max_schema_bytes,
        ),
        access=AccessPolicy(keys, options.public_health, open_admin=loopback),
        responses_db=responses_file(options.responses_db),
        responses_max_age=options.responses_max_age,
        responses_max_bytes=options.responses_max_bytes,
        cors_origins=options.cors_origin,
        access_log=options.access_log,
        log_payloads=options.log_payloads,
        metrics=options.metrics,
        tracing=options.otel,
    )


def http_options(options: ServeConfiguration) -> HttpOptions:
    """How HTTP is spoken."""
    certificate = None
    if options.tls_cert is not None and options.tls_key is not None:
        certificate = (options.tls_cert, options.tls_key)
    return HttpOptions(
        drain_timeout=options.drain_timeout,
        max_head_bytes=options.max_header_bytes,
        read_timeout=options.read_timeout,
        certificate=certificate,
    )


def engine_options(options: ServeConfiguration, draft: ModelVersion | None = None) -> EngineOptions:
    """How the models are loaded.

    Args:
        options: what the user chose.
        draft: the draft model that they name.

    Raises:
        UsageError: there is a draft model for several models.
    """
    if draft is not None and len(options.models) > 1:
        raise UsageError(
            "--draft-model guesses for one model, and several are served.",
            hint="Serve them apart, or leave --draft-model out.",
        )
    return EngineOptions(
        max_seqs=options.max_seqs,
        max_model_len=options.max_model_len,
        max_waiting=options.max_waiting,
        step_timeout=options.step_timeout,
        threads=options.threads,
        kv_cache_bytes=options.kv_cache_bytes,
        kv_cache_type=options.kv_cache_type,
        prefix_cache_bytes=options.prefix_cache_bytes,
        generation_config=options.generation_config,
        speculation=SpeculationOptions(
            prompt_lookup=options.speculative == "prompt-lookup",
            draft=draft,
            most=options.max_guesses,
        ),
        tool_format=_checked_tool_format(options.tool_format),
    )


def _checked_tool_format(name: str | None) -> str | None:
    return None if name is None else format_named(name).name


def check_tls(options: ServeConfiguration) -> None:
    """Try the certificate before anything else is done.

    Raises:
        UsageError: certificate or key cannot be read, or do not belong together.
    """
    if options.tls_cert is None or options.tls_key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            options.tls_cert,
            options.tls_key,
            password=lambda: "",  # Else it would ask on the terminal.
        )
    except ssl.SSLError as error:
        raise UsageError(
            f"{options.tls_cert} and {options.tls_key} are no certificate and its key: "
            f"{error.reason or error}.",
            hint="Both are PEM files; the key has no password.",
        ) from error
    except OSError as error:
        raise UsageError(
            f"The certificate {options.tls_cert} or its key {options.tls_key} cannot be read: "
            f"{error.strerror}."
        ) from error


def _keys(options: ServeConfiguration) -> list[AccessKey]:
    keys = [access_key(key.get_secret_value()) for key in options.api_key]
    keys += [access_key(key.get_secret_value(), admin=True) for key in options.admin_key]
    if options.api_key_file is not None:
        keys += read_keys(options.api_key_file)
    if options.admin_key_file is not None:
        keys += read_keys(options.admin_key_file, admin=True)
    return keys
