"""All metrics of one server, and where they are read."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator

from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry, Gauge, Info
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector

from mrs import __version__
from mrs.server.metrics.engine_collector import EngineCollector
from mrs.server.metrics.generation_metrics import GenerationMetrics
from mrs.server.metrics.http_metrics import HttpMetrics
from mrs.server.metrics.mistralrs_names import MistralrsNames
from mrs.server.model_catalog import ModelCatalog


class ServerMetrics:
    """The metrics, in a registry of their own.

    Args:
        models: whose engines are asked.

    Attributes:
        http: observes requests.
        generation: observes answers.
    """

    def __init__(self, models: ModelCatalog) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.http = HttpMetrics(self._registry)
        self.generation = GenerationMetrics(self._registry)
        self._registry.register(EngineCollector(models))
        tasks = Gauge("mrs_asyncio_tasks", "Tasks of the event loop.", registry=self._registry)
        tasks.set_function(_tasks)
        build = Info("mrs_build", "What runs here.", registry=self._registry)
        build.info({"version": __version__, "python": platform.python_version()})
        self._again = CollectorRegistry()
        self._again.register(MistralrsNames(self._collect))

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry) + generate_latest(self._again)

    def _collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()


def _tasks() -> float:
    """Of the loop that serves who asks; 0 outside of one."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return 0


def metrics_router(metrics: ServerMetrics) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["system"])

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def get_metrics() -> Response:
        """What Prometheus wants to know, in its text format."""
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return router
