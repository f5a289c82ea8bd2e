"""Is the server there, does it take requests, and how busy is it?"""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel

from mrs import __version__
from mrs.server.lifecycle import Lifecycle
from mrs.server.model_catalog import ModelCatalog

_LOAD = ("running", "waiting", "slots", "kv_bytes", "generated_tokens", "prefilled_tokens")


class Alive(BaseModel):
    """The answer of the probes."""

    status: str


class Health(BaseModel):
    """How the server does.

    Attributes:
        status: ``ok``, ``loading``, ``stalled``, ``draining`` or ``failed``.
        model: the default model; the next line is of it, too.
        running: sequences that are being generated.
        waiting: sequences in the queue.
        slots: most sequences that can run at once.
        kv_bytes: memory that the key-value cache holds now.
        generated_tokens: tokens drawn since the start.
        prefilled_tokens: prompt tokens computed since the start.
    """

    status: str
    version: str
    model: str
    max_model_len: int
    running: int
    waiting: int
    slots: int
    kv_bytes: int
    generated_tokens: int
    prefilled_tokens: int


def health_router(models: ModelCatalog, lifecycle: Lifecycle) -> APIRouter:
    """Return the health routes."""
    router = APIRouter(tags=["health"])

    @router.get("/", include_in_schema=False)
    @router.get("/health", responses={503: {"model": Health}})
    async def get_health(response: Response) -> Health:
        """State, model and load; 503 while requests are not taken."""
        response.status_code = _status_code(lifecycle.ready)
        return Health(
            status=lifecycle.status,
            version=__version__,
            model=models.default.name,
            max_model_len=models.state(models.default.name).description.max_model_len,
            **_load(models),
        )

    @router.get("/health/live", responses={503: {"model": Alive}})
    async def get_live(response: Response) -> Alive:
        """200 for as long as the process answers; 503 when only a restart can help."""
        response.status_code = _status_code(lifecycle.alive)
        return Alive(status="ok" if lifecycle.alive else "failed")

    @router.get("/health/ready", responses={503: {"model": Alive}})
    async def get_ready(response: Response) -> Alive:
        """200 while requests are taken, 503 before the model is warm and while draining."""
        response.status_code = _status_code(lifecycle.ready)
        return Alive(status=lifecycle.status)

    return router


def _load(models: ModelCatalog) -> dict[str, int]:
    """The load of all engines together."""
    stats = [engine.stats() for engine in models.engines().values()]
    return {name: sum(getattr(each, name) for each in stats) for name in _LOAD}


def _status_code(ready: bool) -> int:
    return 200 if ready else 503
