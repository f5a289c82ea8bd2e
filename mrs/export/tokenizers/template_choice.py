"""Which chat template an export takes, tried before it is written."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import tokenizers

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError, UsageError
from mrs.export.checkpoints.json_section import read_json
from mrs.export.tokenizers.bundled_templates import (
    BUNDLED_TEMPLATES,
    BundledTemplate,
    recognized_template,
)
from mrs.export.tokenizers.small_file import read_text
from mrs.export.tokenizers.template_files import (
    MAX_TEMPLATE_BYTES,
    ChatTemplates,
    templates_of,
)
from mrs.export.tokenizers.token_types import turn_ends
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets

NO_TEMPLATE = "none"
PATHLESS_TEMPLATES = frozenset({*BUNDLED_TEMPLATES, NO_TEMPLATE})
"""What ``--chat-template`` may name besides a file."""


@dataclass(frozen=True)
class WantedTemplate:
    """The template that the user asks for.

    Attributes:
        option: what names it in the lock: the name of a bundled one, ``none``, or the digest of
            a file.
        templates: what it is; without ``default`` the model shall have none.
        bundled: the bundled template, if it is one.
    """

    option: str
    templates: ChatTemplates
    bundled: BundledTemplate | None = None


def wanted_template(value: str) -> WantedTemplate:
    """Find what ``--chat-template`` names.

    Args:
        value: the name of a bundled template, ``none``, or a file: Jinja, or JSON with a
            ``chat_template`` as `tokenizer_config.json` has it.

    Raises:
        UsageError: there is neither such a name nor such a file.
        CheckpointError, StorageError: the file cannot be used.
    """
    if value == NO_TEMPLATE:
        return WantedTemplate(NO_TEMPLATE, ChatTemplates())
    if value in BUNDLED_TEMPLATES:
        bundled = BUNDLED_TEMPLATES[value]
        return WantedTemplate(value, _bundled(bundled), bundled)
    path = Path(value).expanduser()
    if not path.is_file():
        raise UsageError(
            f"--chat-template names neither a file nor a bundled template: {value}.",
            hint=f"Bundled: {', '.join(sorted(BUNDLED_TEMPLATES))}; or {NO_TEMPLATE}.",
            param="chat_template",
        )
    templates = _from_file(path)
    return WantedTemplate(f"sha256:{_digest(templates)}", templates)


def with_chat_template(
    assets: TokenizerAssets, architecture: str, wanted: WantedTemplate | None
) -> TokenizerAssets:
    """The assets with the template that the model shall have: all compiled, the usual one tried.

    In this order: what the user asks for; what the checkpoint brings; a bundled one whose tokens
    the vocabulary has. ``template_origin`` says which.

    Raises:
        ChatTemplateError: a template does not compile, or fails on the simplest conversation.
    """
    if wanted is not None:
        loaded = tokenizers.Tokenizer.from_buffer(assets.tokenizer_json)
        assets = _with_templates(assets, wanted.templates, wanted.bundled, loaded)
    elif assets.chat_template is None and not assets.named_templates:
        assets = _with_recognized(assets, architecture)
    if assets.chat_template is not None:
        _compile(assets.chat_template, assets.template_origin or "chat template", try_out=True)
    for name, source in assets.named_templates.items():
        _compile(source, f"chat template {name!r}")  # What it needs to be tried, nobody knows.
    return assets


def _with_recognized(assets: TokenizerAssets, architecture: str) -> TokenizerAssets:
    loaded = tokenizers.Tokenizer.from_buffer(assets.tokenizer_json)
    special = {token.content for token in loaded.get_added_tokens_decoder().values()}
    bundled = recognized_template(special.__contains__, architecture)
    if bundled is None:
        return assets
    return _with_templates(assets, _bundled(bundled), bundled, loaded)


def _with_templates(
    assets: TokenizerAssets,
    templates: ChatTemplates,
    bundled: BundledTemplate | None,
    loaded: tokenizers.Tokenizer,
) -> TokenizerAssets:
    ends = {*turn_ends(templates.default or "", loaded.get_vocab(with_added_tokens=True))}
    ends.update(() if bundled is None else bundled.ends)
    ids = {id_ for token in ends if (id_ := loaded.token_to_id(token)) is not None}
    return replace(
        assets,
        chat_template=templates.default,
        named_templates=dict(templates.named),
        template_origin=templates.origin,
        eos_token_ids=(*assets.eos_token_ids, *sorted(ids.difference(assets.eos_token_ids))),
    )


def _bundled(template: BundledTemplate) -> ChatTemplates:
    return ChatTemplates(template.source, {}, f"bundled: {template.name}")


def _from_file(path: Path) -> ChatTemplates:
    origin = f"file: {path.name}"
    if path.suffix == ".json":
        section = read_json(path, MAX_TEMPLATE_BYTES)
        templates = templates_of(section.values.get("chat_template"), origin)
    else:
        templates = templates_of(read_text(path, MAX_TEMPLATE_BYTES), origin)
    if templates.default is None:
        raise UsageError(
            f"{path} holds no chat template.",
            hint=f"To export the model without one, say --chat-template {NO_TEMPLATE}.",
            param="chat_template",
        )
    return templates


def _digest(templates: ChatTemplates) -> str:
    digest = hashlib.sha256()
    for text in (templates.default or "", *(f"\0{k}\0{v}" for k, v in templates.named.items())):
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _compile(source: str, label: str, *, try_out: bool = False) -> None:
    try:
        template = ChatTemplate(source)
        if try_out:
            template.try_out()
    except ChatTemplateError as error:
        raise ChatTemplateError(
            f"{error.message} ({label})",
            hint="Export with another one: --chat-template FILE, the name of a bundled one, "
            f"or {NO_TEMPLATE}.",
        ) from error
