"""Finds unused bindings.

Usual causes are a misspelt scope, a class without a call, and a macro without a use.

A binding is used if gin passed it to a past call (it is operative), or will pass it to a later one.
To find the later ones, follow the references in the values of used bindings, from the roots on:
`run.train_input_fn = @train/digits.input_fn` uses the bindings of digits.input_fn in the scope
train and without a scope. The calls inside a function are unknown before its call or trace.
"""

from collections.abc import Mapping, Sequence

from trainer.config import gin_internals, text


def find(roots: Sequence[str], trains: bool = True) -> list[gin_internals.Key]:
  """Returns the keys of the unused bindings, sorted by selector.

  Args:
    roots: selectors of functions that the program calls without a scope. A binding of theirs counts
      as used even if the caller passes another value.
    trains: whether this run trains. If not, a function without a call may be one that a training
      calls: its bindings are left out, and macros.
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
        # After a call, gin knows whether it took the binding or the caller passed a value.
        if is_root or taken is None or name in taken:
          alive.add((outer, selector, name))
          # _followed follows a macro's references from each use of the macro, since the scope of
          # that place counts for them.
          if selector != "gin.macro":
            work += [(*step, False) for step in _followed(value, scope, scope)]
  return sorted(
    (
      key
      for key, _ in gin_internals.each_binding()
      if key not in alive
      and (trains or (key[1] != "gin.macro" and any(key[1] == selector for _, selector in called)))
    ),
    key=lambda key: (key[1], key[0], key[2]),
  )


def _followed(value, scope, caller_scope):
  """Yields (scope, selector) of each reference in a value.

  gin calls a reference with a scope in that scope alone. It calls a reference without a scope in
  the scope of the value's use. It calls a reference with brackets in a macro's value in the scope
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
  place = f"  ({places[key]})" if key in places else ""
  return f"{text.key_text(*key)} = {written}{place}"
