"""When it is time again."""

from trainer.hooks import every


class Clock:
  """Seconds that go by when a test says so."""

  def __init__(self):
    self.now = 100.0

  def __call__(self):
    return self.now


def due_steps(timer, steps):
  return [step for step in steps if timer.due(step)]


def test_multiples_that_are_reached_or_passed():
  assert due_steps(every.Every(steps=10), range(1, 31)) == [10, 20, 30]
  assert due_steps(every.Every(steps=10), [4, 8, 12, 16, 20, 24, 47]) == [12, 20, 47]


def test_multiples_are_those_of_the_global_step():
  assert due_steps(every.Every(steps=10, start=13), range(14, 35)) == [20, 30]
  assert due_steps(every.Every(steps=10, start=20), range(21, 32)) == [30]


def test_seconds_count_from_the_last_time():
  clock = Clock()
  timer = every.Every(seconds=5, clock=clock)
  seen = []
  for step, now in enumerate([104.9, 105.0, 109.0, 111.0, 116.0]):
    clock.now = now
    seen.append(timer.due(step))
  assert seen == [False, True, False, True, True]


def test_steps_or_seconds_whichever_comes_first():
  clock = Clock()
  timer = every.Every(steps=10, seconds=5, clock=clock)
  assert timer.due(10)
  clock.now += 6
  assert timer.due(11)
  assert not timer.due(12)


def test_neither_is_never():
  assert due_steps(every.Every(), range(1, 50)) == []


def test_steps_count_again_after_a_return_to_an_earlier_step():
  timer = every.Every(steps=100, at=(50,))
  assert due_steps(timer, range(10, 910, 10)) == [50, *range(100, 1000, 100)]
  assert due_steps(timer, range(10, 230, 10)) == [50, 100, 200]
  assert not timer.due(220)
  timer.restart(900)
  assert due_steps(timer, [105, 195, 205, 299, 300]) == [205, 300]
