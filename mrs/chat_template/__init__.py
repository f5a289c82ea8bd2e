"""Chat templates: Jinja from a model, rendered where it can do no harm."""

from mrs.chat_template.chat_template import ChatTemplate

__all__ = ["ChatTemplate"]
