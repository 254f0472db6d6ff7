"""The gin configuration of a run: read, bind, check, write down."""

from trainer.config.loading import clear, dead_bindings, load, operative_text, parsed_text, save

__all__ = ["clear", "dead_bindings", "load", "operative_text", "parsed_text", "save"]
