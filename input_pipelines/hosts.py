"""Which part of a set each host reads: together all of it, no example twice."""


def part_of(input_context):
  """(index, count) of this host among those that read; (0, 1) for None."""
  if input_context is None:
    return 0, 1
  return input_context.input_pipeline_id, input_context.num_input_pipelines


def seen_here(start, input_context):
  """How many examples this host has seen, of `start` that all hosts have seen together."""
  return start // part_of(input_context)[1]


def even_range(count, index, parts):
  """(start, stop) of part `index` of `count` things, in parts whose sizes differ by one at most."""
  return count * index // parts, count * (index + 1) // parts
