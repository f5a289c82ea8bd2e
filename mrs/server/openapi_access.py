"""What the OpenAPI description says of the keys that this server asks for."""

from __future__ import annotations

from typing import Any

from mrs.server.access_keys import AccessPolicy
from mrs.server.key_check import is_admin, is_public

_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}


def describe_access(document: dict[str, Any], policy: AccessPolicy) -> None:
    """Add the ways to send a key, and the replies to a request without a good one."""
    if policy.keys:
        document["components"]["securitySchemes"] = _SCHEMES
    for path, operations in document["paths"].items():
        for operation in operations.values():
            content = operation["responses"].get("400", {}).get("content", _ERROR)
            if policy.keys and not is_public(path, policy):
                operation["security"] = [{name: []} for name in _SCHEMES]
                refusal = "No API key of this server."
                operation["responses"]["401"] = {"description": refusal, "content": content}
            if is_admin(path) and (policy.keys.has_admin or not policy.open_admin):
                refusal = "No key that may administrate."
                operation["responses"]["403"] = {"description": refusal, "content": content}
