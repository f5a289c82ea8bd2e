"""Help whose options stand under headings, drawn without Rich."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_OTHERS = "Options"


class GroupedHelpCommand(TyperCommand):
    """A command that shows each option under its ``rich_help_panel``, in their first order."""

    # Typer's context and formatter are those of its own copy of Click, which has no public name.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, those without a heading last."""
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                heading = getattr(parameter, "rich_help_panel", None) or _OTHERS
                groups.setdefault(heading, []).append(record)
        others = groups.pop(_OTHERS, [])
        for heading, records in {"Arguments": arguments, **groups, _OTHERS: others}.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
