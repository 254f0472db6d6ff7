"""Sizes in bytes, as people read them."""


def readable(count):
  """`12 B`, `3.45 kB`, `6.71 MB`, `1.2 GB` of a number of bytes, in powers of 1,000."""
  for unit in ("B", "kB", "MB"):
    if count < 1000:
      return f"{count:.3g} {unit}"
    count /= 1000
  return f"{count:.3g} GB"
