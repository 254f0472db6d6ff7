"""Published figures of shipped workloads."""

from trainer.compare import published, workloads


def test_published_figures_are_of_shipped_cases():
  cases = workloads.load(["gin_configs/compare/articles.gin"])
  known = {(case.workload.name, case.workload.mode) for case in cases}
  sizes = {(case.workload.name, case.batch_size) for case in cases}
  units = {(case.workload.name, case.workload.shown_unit) for case in cases}
  for figure in published.read():
    assert (figure.workload, figure.mode) in known
    assert figure.batch_size is None or (figure.workload, figure.batch_size) in sizes
    assert figure.quantity == "speed-up" or (figure.workload, figure.quantity) in units
    assert figure.source


def test_published_figures_are_those_of_the_articles():
  found = {(each.workload, each.hardware, each.over): each.value for each in published.read()}
  assert found["convolution", "CPU of Colab", ""] == 2.44
  assert found["convolution", "K80", ""] == 0.28
  assert found["convolution", "TPU of Colab", ""] == 0.00122
  assert found["CIFAR-10 CNN", "TPU v2", ""] == 6
