"""``/v1/system``: the machine, and whether it is well."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread
from fastapi import APIRouter

from mrs.server.admin.doctor import Report, diagnose
from mrs.server.admin.system_info import SystemInfo, system_info


def system_router(repository: Path | None) -> APIRouter:
    """Return the routes.

    Args:
        repository: the folder of the models, for the doctor to look at; None for none.
    """
    router = APIRouter(tags=["system"])

    @router.get("/v1/system/info")
    async def get_system_info() -> SystemInfo:
        """Processor, memory and versions."""
        return await anyio.to_thread.run_sync(system_info)

    @router.post("/v1/system/doctor")
    async def run_doctor() -> Report:
        """Look at everything that a server needs."""
        from mrs.model_repo.repository import ModelRepository

        found = None if repository is None else ModelRepository(repository)
        return await anyio.to_thread.run_sync(partial(diagnose, found))

    return router
