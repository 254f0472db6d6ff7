"""The networks of `cases` in PyTorch, with channels first.

Padding, biases and dropout are the Keras layers'.
"""

import torch
from torch import nn


def build(case):
  """Returns a module from float images [b, channels, height, width] to logits."""
  return {
    "digits_mlp": _digits_mlp,
    "cifar10_cnn": _cifar10_cnn,
    "fashion_mnist_cnn": _fashion_mnist_cnn,
    "resnet50": _resnet50,
  }[case.network](case)


def _digits_mlp(case):
  return nn.Sequential(
    nn.Flatten(),
    nn.Linear(64, 128),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(128, 64),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(64, case.classes),
  )


def _cifar10_cnn(case):
  layers, channels = [], case.shape[2]
  for width, padding in ((32, "same"), (64, "valid")):
    layers += [
      nn.BatchNorm2d(channels),
      nn.Conv2d(channels, width, 3, padding="same"),
      nn.ReLU(),
      nn.Conv2d(width, width, 3, padding=padding),
    ]
    layers += [nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)]
    channels = width
  return nn.Sequential(
    *layers,
    nn.Flatten(),
    nn.LazyLinear(512),
    nn.ReLU(),
    nn.Dropout(0.5),
    nn.Linear(512, case.classes),
  )


def _fashion_mnist_cnn(case):
  layers, channels = [], case.shape[2]
  for width in (64, 128, 256):
    layers += [
      nn.BatchNorm2d(channels),
      nn.Conv2d(channels, width, 5, padding="same"),
      nn.ELU(),
      nn.MaxPool2d(2),
      nn.Dropout(0.25),
    ]
    channels = width
  return nn.Sequential(
    *layers,
    nn.Flatten(),
    nn.LazyLinear(256),
    nn.ELU(),
    nn.Dropout(0.5),
    nn.Linear(256, case.classes),
  )


class _Bottleneck(nn.Module):
  """The first ResNet's block: the first convolution has the stride, as in keras.applications."""

  def __init__(self, channels, width, stride, shortcut):
    super().__init__()
    self.convolutions = nn.Sequential(
      nn.Conv2d(channels, width, 1, stride),
      nn.BatchNorm2d(width),
      nn.ReLU(),
      nn.Conv2d(width, width, 3, padding=1),
      nn.BatchNorm2d(width),
      nn.ReLU(),
      nn.Conv2d(width, 4 * width, 1),
      nn.BatchNorm2d(4 * width),
    )
    self.shortcut = (
      nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride), nn.BatchNorm2d(4 * width))
      if shortcut
      else nn.Identity()
    )

  def forward(self, x):
    return torch.relu(self.convolutions(x) + self.shortcut(x))


def _resnet50(case):
  layers = [
    nn.Conv2d(case.shape[2], 64, 7, 2, padding=3),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.MaxPool2d(3, 2, padding=1),
  ]
  channels = 64
  for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
    for block in range(blocks):
      layers.append(_Bottleneck(channels, width, stride if block == 0 else 1, block == 0))
      channels = 4 * width
  return nn.Sequential(
    *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, case.classes)
  )
