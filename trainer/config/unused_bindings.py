"""Finds the bindings that are never used.

Usual causes are a misspelt scope, a class that is never made, and a macro that is never mentioned.

A binding is used if gin passed it to a call that has happened (it is operative), or will pass it to
a later one. The latter are found by following the references in the values of used bindings, from
the roots on: `run.train_input_fn = @train/digits.input_fn` uses all bindings of digits.input_fn
that count in the scope train, which are those without a scope and those in train. What a function
calls inside is not known until it has been called, or traced.
"""

from collections.abc import Mapping, Sequence

from trainer.config import gin_internals, text


def find(roots: Sequence[str]) -> list[gin_internals.Key]:
  """Returns the keys of the bindings that are never used, sorted by selector.

  Args:
    roots: selectors of functions that are called without a scope. A binding of theirs counts as
      used even if the caller passes another value.
  """
  alive, entered = set(), set()
  called = gin_internals.operative_bindings()
  work: list[tuple[tuple[str, ...], str, bool]] = [
    ((), selector, True) for root in roots for selector in gin_internals.matching_selectors(root)
  ]
  work += [
    (tuple(scope.split("/")) if scope else (), selector, False) for scope, selector in called
  ]
  while work:
    scope, selector, is_root = visit = work.pop()
    if visit in entered:
      continue
    entered.add(visit)
    taken = called.get(("/".join(scope), selector))
    for length in range(len(scope) + 1):
      outer = "/".join(scope[:length])
      for name, value in gin_internals.bindings().get((outer, selector), {}).items():
        # If it was called, gin knows whether the binding was taken or the caller passed a value.
        if is_root or taken is None or name in taken:
          alive.add((outer, selector, name))
          # A macro's references are followed by _followed, from the place that uses the macro,
          # since the scope of that place counts for them.
          if selector != "gin.macro":
            work += [(*step, False) for step in _followed(value, scope, scope)]
  return sorted(
    (key for key, _ in gin_internals.each_binding() if key not in alive),
    key=lambda key: (key[1], key[0], key[2]),
  )


def _followed(value, scope, caller_scope):
  """Yields (scope, selector) of each reference in a value.

  A reference with a scope is called in that scope alone. One without a scope is called in the scope
  in which the value is used. A reference with brackets in a macro's value is called in the scope
  with the macro's name.
  """
  for reference in gin_internals.iterate_references(value):
    selector = reference.configurable.selector
    named = tuple(reference.scopes)
    if gin_internals.is_constant(reference):
      continue
    if gin_internals.is_macro(reference):
      yield named, selector
      for inner in gin_internals.bindings().get(("/".join(named), selector), {}).values():
        yield from _followed(inner, named, caller_scope)
    else:
      yield named or (scope if reference.evaluate else caller_scope), selector


def describe(key: gin_internals.Key, places: Mapping[gin_internals.Key, str]) -> str:
  """Returns a binding as "scope/selector.parameter = value  (a.gin:12)"."""
  scope, selector, name = key
  value = gin_internals.bindings()[scope, selector][name]
  written = text.value_text(value) or repr(value)
  written = written if len(written) <= 60 else written[:57] + "..."
  return f"{text.key_text(*key)} = {written}" + (f"  ({places[key]})" if key in places else "")
