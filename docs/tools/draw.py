"""Writes the drawings in docs/drawings.

    python -m docs.tools.draw

The imports of trainer/ determine rooms.svg; a test fails if it is out of date.
"""

import itertools
import pathlib
from collections.abc import Mapping

from docs.tools import layers, svg, syntax

ROOT = pathlib.Path(__file__).parents[2]
DRAWINGS = ROOT / "docs" / "drawings"

Graph = Mapping[str, set[str]]


def imports_of_rooms(folder: pathlib.Path) -> dict[str, set[str]]:
  """Returns room → rooms that it imports. A room is a package or a module of `trainer/`."""
  rooms: dict[str, set[str]] = {}
  for path in sorted(folder.rglob("*.py")):
    room = path.relative_to(folder).parts[0].removesuffix(".py")
    if room != "__init__":
      names = [name for name in syntax.imported(path.read_text()) if name.startswith("trainer.")]
      rooms.setdefault(room, set()).update(name.split(".")[1] for name in names)
  return {room: (found & set(rooms)) - {room} for room, found in rooms.items()}


def levels(graph: Graph) -> dict[str, int]:
  """Returns each node's height over the nodes without imports, by the longest way."""
  found: dict[str, int] = {}

  def level(node: str, above: tuple[str, ...]) -> int:
    if node in above:
      raise ValueError(f"The rooms import each other in a circle: {' → '.join((*above, node))}.")
    if node not in found:
      found[node] = 1 + max((level(other, (*above, node)) for other in graph[node]), default=-1)
    return found[node]

  for node in graph:
    level(node, ())
  return found


def without_detours(graph: Graph) -> dict[str, set[str]]:
  """Returns the graph without edges that longer ways already contain."""

  def reached(node: str) -> set[str]:
    return graph[node].union(*(reached(other) for other in graph[node]))

  below = {node: reached(node) for node in graph}
  return {
    node: {end for end in ends if not any(end in below[other] for other in ends)}
    for node, ends in graph.items()
  }


def rooms() -> str:
  """Returns the drawing of the imports between rooms."""
  graph = imports_of_rooms(ROOT / "trainer")
  of = levels(graph)
  edges = without_detours(graph)
  step, top = 46, 96
  boxes = {node: svg.Box(0, 0, node) for node in graph}
  found = layers.place(edges, of, {node: box.width for node, box in boxes.items()})
  highest = max(of.values())
  width, height = max(round(found.width), 520), top + step * highest + 30
  left = (width - found.width) / 2

  def y(level: int) -> float:
    return top + step * (highest - level)

  for node in graph:
    kind = "" if (ROOT / "trainer" / node).is_dir() else "other"
    boxes[node] = svg.Box(round(left + found.x[node]), y(of[node]), node, kind)
  parts = [
    svg.way(boxes[start], [(left + x, y(of[start] - index)) for index, x in enumerate(way)])
    for (start, _), way in found.ways.items()
  ]
  notes = ("An arrow leads to what is imported.", "Detours are left out. Yellow: one file.")
  parts += [svg.text(20, 46 + 16 * number, note, "note start") for number, note in enumerate(notes)]
  title = "The rooms of trainer/: imports run one way, downwards"
  return svg.drawing(title, width, height, parts + [box.svg() for box in boxes.values()])


def step() -> str:
  """Returns the drawing of a training step on eight cores."""
  title = "A training step on eight cores"
  columns = (150, 350, 650)
  names = ("core 0", "core 1", "core 7")
  data = svg.Box(400, 75, "input_fn: a global batch of 8 × 128", "other", 620)
  parts = [svg.text(500, 200, "…"), svg.text(500, 300, "…")]
  heads, tails = [], []
  for x, name in zip(columns, names, strict=True):
    box = svg.Box(x, 150, f"{name}\n128 examples", "other")
    forward = svg.Box(x, 220, "model_fn\nforward, loss")
    gradients = svg.Box(x, 290, "gradients")
    parts += [svg.arrow(data, box), svg.arrow(box, forward), svg.arrow(forward, gradients)]
    heads += [box, forward, gradients]
    tails.append(gradients)
  reduce = svg.Box(400, 360, "combine: the mean over the cores", "", 620)
  parts += [svg.arrow(tail, reduce) for tail in tails]
  rest = [
    svg.Box(400, 420, "accumulate (accumulate_steps) → clip (clip_norm)", "", 620),
    svg.Box(400, 480, "apply: each core changes its copy of the variables alike", "", 620),
    svg.Box(400, 540, "moving averages (ema_decay) → are loss and variables finite?", "", 620),
  ]
  chain = [reduce, *rest]
  parts += [svg.arrow(a, b) for a, b in itertools.pairwise(chain)]
  parts.append(svg.frame(60, 115, 680, 455))
  parts.append(
    svg.text(
      400,
      592,
      "in the dashed frame: one call of the device runs many steps (iterations_per_loop)",
      "note",
    )
  )
  parts.append(
    svg.text(
      400,
      612,
      "on virtual cores, GPUs and TPUs it is the same; on one core nothing is combined",
      "note",
    )
  )
  return svg.drawing(title, 800, 630, parts + [box.svg() for box in [data, *heads, *chain]])


def checkpoint() -> str:
  """Returns the drawing of a checkpoint's life."""
  train = svg.Box(130, 90, "training\nstep 2000")
  written = svg.Box(400, 90, "written in the background\nmodel.ckpt-2000.*", "other")
  noted = svg.Box(710, 90, "named in `checkpoint`\nonce it is whole", "other")
  evaluated = svg.Box(710, 190, "evaluated\nevaluations.json")
  resumed = svg.Box(130, 190, "the same command again:\nvariables, data position, seed")
  elsewhere = svg.Box(400, 190, "on other devices, in Keras,\nas a warm start")
  exported = svg.Box(
    330, 290, "exported, and run by another process\nexport/…/assets.extra/octet.json"
  )
  removed = svg.Box(710, 290, "removed by Retention\n(newest, best, every n)")
  parts = [
    svg.arrow(train, written),
    svg.arrow(written, noted),
    svg.arrow(noted, evaluated),
    svg.arrow(evaluated, exported),
    svg.arrow(evaluated, removed),
    svg.arrow(noted, elsewhere),
    svg.arrow(noted, resumed),
    svg.arrow(resumed, train),
  ]
  boxes = [train, written, noted, evaluated, exported, removed, resumed, elsewhere]
  parts += [box.svg() for box in boxes]
  parts.append(
    svg.text(
      430,
      350,
      "a process that is killed at any of these moments leaves the last whole checkpoint in force",
      "note",
    )
  )
  return svg.drawing("A checkpoint's life", 860, 370, parts)


ALL = {"rooms": rooms, "step": step, "checkpoint": checkpoint}


def main() -> None:
  """Writes all drawings."""
  for name, draw in ALL.items():
    (DRAWINGS / f"{name}.svg").write_text(draw())


if __name__ == "__main__":
  main()
