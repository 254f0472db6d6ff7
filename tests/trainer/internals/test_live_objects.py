"""All objects of some classes are found, and no other object is asked for its class."""

from trainer.internals import live_objects


class Mine:
  pass


class Deeper(Mine):
  pass


class Other:
  @property
  def __class__(self):
    raise AssertionError("a proxy was asked")


def test_objects_of_classes_and_of_those_below():
  mine, deeper, other = Mine(), Deeper(), Other()
  assert {id(each) for each in live_objects.of(Mine)} == {id(mine), id(deeper)}
  assert {id(each) for each in live_objects.of(Deeper, Other)} == {id(deeper), id(other)}
