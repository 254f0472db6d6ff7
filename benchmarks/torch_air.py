"""The network and the training of gin_configs/cifar10_air94.gin in PyTorch.

Source: K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024), arXiv:2404.00498. The
parts are those of the paper: convolutions in the chosen precision, batch norm with statistics in
float32, Nesterov momentum with fast biases, slow weights every five steps, and images that are
mirrored in every second epoch and moved by up to two pixels.
"""

import torch
from torch import nn

WIDTHS = (64, 256, 256)
STEPS = 475
MOMENTUM = 0.85
LEARNING_RATE = 1.5  # for a mean over the batch
WEIGHT_DECAY = 0.00133
BIAS_FACTOR = 64.0
SMOOTHING = 0.2
SHIFT = 2


def network(dtype):
  """The module, from normalized images [b, 3, 32, 32] to logits [b, 10]."""
  layers = [nn.Conv2d(3, 24, 2), nn.GELU()]
  channels = 24
  for width in WIDTHS:
    layers += [
      _convolution(channels, width),
      nn.MaxPool2d(2),
      _Norm(width),
      nn.GELU(),
      _convolution(width, width),
      _Norm(width),
      nn.GELU(),
    ]
    channels = width
  layers += [nn.MaxPool2d(3), nn.Flatten(), nn.Linear(channels, 10, bias=False)]
  module = nn.Sequential(*layers).to(dtype)
  module[0].weight.requires_grad = False
  for layer in module:
    if isinstance(layer, _Norm):
      layer.float()
  return module


def _convolution(channels, width):
  layer = nn.Conv2d(channels, width, 3, padding="same", bias=False)
  nn.init.dirac_(layer.weight.data[:channels])
  return layer


class _Norm(nn.BatchNorm2d):
  def __init__(self, width):
    super().__init__(width, eps=1e-12, momentum=0.4)
    self.weight.requires_grad = False


class Training:
  """Trains on images in memory, a step for each call.

  Args:
    images: uint8 [n, 32, 32, 3].
    labels: int [n].
    batch_size: images in a step.
    dtype: of the convolutions: torch.float32 or torch.bfloat16.
    channels_last: whether the images lie in memory as [b, h, w, c].
    compiled: whether torch.compile compiles the network and the loss.
  """

  def __init__(self, images, labels, batch_size, dtype, channels_last=True, compiled=False):
    self._batch_size = batch_size
    self._format = torch.channels_last if channels_last else torch.contiguous_format
    mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
    deviation = torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1)
    images = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    images = ((images - mean) / deviation).to(dtype)
    mirrored = torch.rand(len(images)).view(-1, 1, 1, 1) < 0.5
    images = torch.where(mirrored, images.flip(-1), images)
    self._padded = nn.functional.pad(images, (SHIFT,) * 4, "reflect").contiguous(
      memory_format=self._format
    )
    self._labels = torch.from_numpy(labels).long()
    self.network = network(dtype).to(memory_format=self._format).train()
    norms = [layer.bias for layer in self.network if isinstance(layer, _Norm)]
    others = [
      value
      for layer in self.network
      if not isinstance(layer, _Norm)
      for value in layer.parameters()
      if value.requires_grad
    ]
    self._optimizer = torch.optim.SGD(
      [
        {
          "params": norms,
          "lr": LEARNING_RATE * BIAS_FACTOR,
          "weight_decay": WEIGHT_DECAY / BIAS_FACTOR,
        },
        {"params": others, "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY},
      ],
      momentum=MOMENTUM,
      nesterov=True,
    )
    self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, _triangle)
    self._slow = {name: value.clone() for name, value in self.network.state_dict().items()}
    self._loss = torch.compile(self._loss_of) if compiled else self._loss_of
    self._step = self._epoch = 0
    self._order = None

  def _loss_of(self, images, labels):
    logits = self.network(images).float() / 9
    return nn.functional.cross_entropy(logits, labels, label_smoothing=SMOOTHING)

  def __call__(self):
    """Trains a step, and returns its loss."""
    per_epoch = len(self._labels) // self._batch_size
    begin = self._step % per_epoch * self._batch_size
    if begin == 0:
      self._begin_epoch()
    rows = self._order[begin : begin + self._batch_size]
    images = self._images[rows].contiguous(memory_format=self._format)
    loss = self._loss(images, self._labels[rows])
    self._optimizer.zero_grad(set_to_none=True)
    loss.backward()
    self._optimizer.step()
    self._schedule.step()
    self._step += 1
    if self._step % 5 == 0:
      self._look_ahead(0.95**5 * (self._step / STEPS) ** 3)
    return loss.item()

  def _begin_epoch(self):
    """Moves each image, mirrors all of them in every second epoch, and draws an order."""
    size = self._padded.shape[-1] - 2 * SHIFT
    moved = torch.empty_like(self._padded[:, :, :size, :size])
    places = torch.randint(0, 2 * SHIFT + 1, [len(moved), 2])
    for row in range(2 * SHIFT + 1):
      for column in range(2 * SHIFT + 1):
        chosen = (places[:, 0] == row) & (places[:, 1] == column)
        moved[chosen] = self._padded[chosen, :, row : row + size, column : column + size]
    self._images = moved.flip(-1) if self._epoch % 2 else moved
    self._epoch += 1
    self._order = torch.randperm(len(moved))

  def _look_ahead(self, decay):
    with torch.no_grad():
      for name, value in self.network.state_dict().items():
        if value.is_floating_point():
          self._slow[name].lerp_(value, 1 - decay)
          value.copy_(self._slow[name])


def _triangle(step):
  rise = int(0.23 * STEPS)
  if step < rise:
    return 0.2 + 0.8 * step / rise
  return 1 - 0.93 * (step - rise) / (STEPS - rise)
