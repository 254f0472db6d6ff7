"""Finds the bindings that nobody uses: a misspelt scope, a class that is never made, a macro that
is not mentioned.

A binding is alive if gin gave it to a call (it is operative), or if gin will give it to one:
starting from the roots, references in the values of live bindings are followed. `run.train_input_fn
= @train/digits.input_fn` makes all bindings of digits.input_fn alive that count in the scope train:
those with no scope, and those in train. What functions call inside themselves is known once they
were called, or traced.
"""

from trainer.config import gin_internals, text


def find(roots):
  """The keys (scope, complete selector, parameter) of the bindings that are not used, sorted.

  Args:
    roots: selectors of functions that are called without a scope. What they are given by their
      callers does not make a binding dead.
  """
  alive, entered = set(), set()
  called = gin_internals.operative()
  work = [((), selector, True) for root in roots for selector in gin_internals.matching(root)]
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
        # Once it was called, it is known what callers gave in place of the binding.
        if is_root or taken is None or name in taken:
          alive.add((outer, selector, name))
          # What a macro refers to is followed from where the macro is used.
          if selector != "gin.macro":
            work += [(*step, False) for step in _followed(value, scope, scope)]
  return sorted(
    (key for key, _ in gin_internals.each_binding() if key not in alive),
    key=lambda key: (key[1], key[0], key[2]),
  )


def _followed(value, scope, caller_scope):
  """(scope, selector) of what a value refers to.

  A reference with a scope is called in that scope alone. One without is called in the scope in
  which the value is used; what a macro evaluates itself is called in the scope of the macro's name.
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


def shown(key, places):
  """ "scope/selector.parameter = value  (a.gin:12)" of a binding."""
  scope, selector, name = key
  value = gin_internals.bindings()[scope, selector][name]
  written = text.value_text(value) or repr(value)
  written = written if len(written) <= 60 else written[:57] + "..."
  return f"{text.key_text(*key)} = {written}" + (f"  ({places[key]})" if key in places else "")
