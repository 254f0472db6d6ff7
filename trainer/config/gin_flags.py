"""The flags of every command that reads gin files. Only the main files of commands import this."""

from collections.abc import Sequence

from absl import flags

from trainer.config import loading, trust

GIN_FILE = flags.DEFINE_multi_string(
  "gin_file",
  [],
  "A gin file: a path, as given or below the folder of the packages, or gs://... Repeat the flag "
  "for several.",
)
GIN_BINDINGS = flags.DEFINE_multi_string(
  "gin_bindings",
  [],
  'Gin that comes after the files: "run.train_steps = 1000". Repeat the flag for several.',
)
GIN_MODULES = flags.DEFINE_list(
  "gin_modules",
  [trust.FOLDER],
  "Packages of your own that gin files may import and name, beside Octet's; . means all packages "
  "of the working directory.",
)


def load(more_files: Sequence[str] = ()) -> None:
  """Loads the configuration of the flags, see `trainer.config.load`.

  Args:
    more_files: gin files to load after --gin_file.
  """
  loading.load([*GIN_FILE.value, *more_files], GIN_BINDINGS.value, modules=GIN_MODULES.value)
