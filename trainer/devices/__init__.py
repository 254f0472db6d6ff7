"""Where a run computes: CPUs, GPUs, TPUs and machines, and whether what is installed fits them."""
