"""The gin configuration of a run: reads files, binds, checks, and lists the bindings in effect.

config.load(["gin_configs/digits.gin"], ["run.train_steps = 10"])
"""

from trainer.config.loading import (
  clear,
  dead_bindings,
  input_bindings,
  load,
  modules,
  operative_text,
  parsed_text,
)

__all__ = [
  "binding",
  "checks",
  "clear",
  "dead_bindings",
  "files",
  "gin_flags",
  "gin_internals",
  "gin_names",
  "input_bindings",
  "keras_names",
  "load",
  "modules",
  "operative_text",
  "parsed_text",
  "text",
  "trust",
  "unused_bindings",
]
