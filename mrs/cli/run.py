"""``mrs run``: one answer, or a conversation, on the terminal and in this process."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mrs.cli.model_argument import ModelArgument, QuantizationOption, find_model
from mrs.cli.options import (
    KvCacheType,
    KvCacheTypeOption,
    Quantization,
    RepoOption,
    open_repository,
)

_USUAL = {"temperature": 0.7, "top_p": 0.95}


def run(
    model: ModelArgument,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="Answer this and exit; '-' reads it from standard input."
        ),
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System message of the conversation.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most tokens of an answer.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=2.0,
            help="0 always takes the likeliest token. By default what the model's authors use, "
            "else 0.7.",
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1.0,
            help="Draw from the likeliest share of the mass. By default what the model's authors "
            "use, else 0.95.",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Draw from the K likeliest tokens.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The same seed gives the same answer.")
    ] = None,
    max_model_len: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Most tokens of a conversation and its answer."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="By default one for each processor."),
    ] = None,
    kv_cache_type: KvCacheTypeOption = KvCacheType.FP32,
    repo: RepoOption = None,
    quant: QuantizationOption = Quantization.AUTO,
    as_json: Annotated[
        bool, typer.Option("--json", help="With PROMPT: write the answer and its figures as JSON.")
    ] = False,
) -> None:
    """Talk to a model here, without a server.

    MODEL is in the model repository, or is exported into it first: a .gguf file or a package.

    With PROMPT, the answer goes to standard output. Without, a conversation starts: /help lists
    its commands, Ctrl-C stops an answer, Ctrl-D ends the conversation.

    \b
    Examples:
      mrs run smollm2-135m-instruct "Why is the sky blue?"
      mrs run smollm2-135m-instruct
      cat notes.txt | mrs run smollm2-135m-instruct - --system "Summarise the text."
    """
    from mrs.cli.chat import Chat, converse
    from mrs.cli.console import print_json, write_answer
    from mrs.errors import UsageError

    if as_json and prompt is None:
        raise UsageError("--json needs a PROMPT.", hint="Pass one, or '-' to read it from a pipe.")
    version = find_model(
        model,
        open_repository(repo),
        quant,
        silent=as_json,
        int8_cache=kv_cache_type is KvCacheType.INT8,
    )

    from mrs.runtime.loading import load_served
    from mrs.runtime.sampling.defaults import with_defaults

    loaded = load_served(
        version,
        max_seqs=1,
        max_model_len=max_model_len,
        threads=threads,
        kv_cache_type=kv_cache_type.value,
    )
    defaults = loaded.sampling_defaults
    if "temperature" not in defaults:  # With their own, authors mean no other top_p than theirs.
        defaults = {**_USUAL, **defaults}
    sampling = with_defaults(
        defaults,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        max_tokens=max_tokens,
    )
    try:
        chat = Chat(loaded, sampling, system)
        if prompt is None:
            converse(chat)
            return
        question = sys.stdin.read() if prompt == "-" else prompt
        answer = chat.ask(question, on_text=None if as_json else write_answer)
        if as_json:
            print_json(answer.as_dict())
        else:
            sys.stdout.write("\n")
    finally:
        loaded.close()
