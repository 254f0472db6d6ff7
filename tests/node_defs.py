"""The operations of a traced function, and of all functions in it."""


def operations(concrete_function):
  """[NodeDef] of a traced function and of all functions in it."""
  graph = concrete_function.graph.as_graph_def()
  return [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
