"""Reads gin files into statements: finds them, expands includes, checks the syntax.

It imports and binds nothing; `trainer.config.binding` does that.

    read("gin_configs/digits.gin").statements   # bindings, imports, block headers; a File for
                                                # each include

It tries a path as given, then below the folder of Octet's own files, so `gin_configs/digits.gin`
works in any working directory. `trainer.io.storage` reads addresses such as gs://bucket/a.gin, and
only they need TensorFlow.
"""

import dataclasses
import difflib
import io
import os
import pathlib
import tokenize
from collections.abc import Iterable, Sequence
from typing import Any

from gin import config_parser

from trainer import errors

# The folder of the package trainer.
ROOT = pathlib.Path(__file__).resolve().parents[2]

# The folder of Octet's gin_configs, models and input_pipelines is the clone, or, in an
# installation, a separate package, because a program may have its own models/.
PACKAGE = "octet_trainer"
SHIPPED = ROOT / PACKAGE if (ROOT / PACKAGE / "gin_configs").is_dir() else ROOT

# Replaces the file's name for bindings of the command line.
COMMAND_LINE = "--gin_bindings"


@dataclasses.dataclass(frozen=True)
class Reference:
  """`@scope/selector` or `@scope/selector()` as written, before a lookup.

  Attributes:
    name: the scope and the selector.
    evaluate: whether it has brackets; with them gin calls it.
  """

  name: str
  evaluate: bool

  def __str__(self) -> str:
    return f"@{self.name}{'()' * self.evaluate}"


@dataclasses.dataclass(frozen=True)
class Macro:
  """`%name` as written: a macro or a constant."""

  name: str

  def __str__(self) -> str:
    return f"%{self.name}"


@dataclasses.dataclass(frozen=True)
class File:
  """A parsed gin file, or the parsed text of one --gin_bindings.

  Attributes:
    name: the path, or COMMAND_LINE.
    statements: gin's BindingStatement, BlockDeclaration and ImportStatement, in order, and a File
      for each include.
  """

  name: str
  statements: tuple


class _AsWritten(config_parser.ParserDelegate):
  """Makes gin's parser keep references as written: their modules have no import yet."""

  def configurable_reference(self, scoped_configurable_name, evaluate):
    return Reference(scoped_configurable_name, evaluate)

  def macro(self, macro_name):
    return Macro(macro_name)


def read(path: str | os.PathLike[str], included_from: Sequence[str] = ()) -> File:
  """Reads and parses a gin file.

  Args:
    path: the file's path.
    included_from: the places ("a.gin:3") of the includes that led here, outermost first.

  Raises:
    SettingError: the file or a file that it includes does not exist or is not valid gin.
  """
  path = os.fspath(path)
  if any(place.rpartition(":")[0] == path for place in included_from):
    raise errors.SettingError(
      f"{included_from[-1]}: the file includes itself: {' → '.join(included_from)} → {path}."
    )
  return parse(_text(_find(path, included_from), path), path, included_from)


def parse(text: str, name: str = COMMAND_LINE, included_from: Sequence[str] = ()) -> File:
  """Parses gin text.

  Args:
    text: the content of a file.
    name: the file's name in error messages.
    included_from: see `read`.

  Raises:
    SettingError: the text, or an included file, is not valid gin.
  """
  source = io.StringIO(text)
  source.name = name  # gin's parser reads the file's name from here.
  statements = []
  parser: Any = None
  try:
    parser = config_parser.ConfigParser(source, _AsWritten())
    for statement in parser:
      if isinstance(statement, config_parser.IncludeStatement):
        included = place(statement.location)
        if not statement.filename.endswith(".gin"):
          # An error shows the line: no include may show lines of files of another kind.
          raise errors.SettingError(
            f"{included}: include '{statement.filename}': expected a gin file, NAME.gin."
          )
        statement = read(statement.filename, (*included_from, included))
      statements.append(statement)
  except SyntaxError as error:
    raise _syntax_error(name, error.lineno, _explain(error.msg), text) from None
  except tokenize.TokenError as error:
    raise _syntax_error(
      name,
      error.args[1][0],
      f"the statement has no end ({error.args[0]}): is a bracket or a quote left open?",
      text,
    ) from None
  except (RecursionError, MemoryError):  # The parser's, for brackets within brackets.
    raise _syntax_error(
      name, parser.current_token.start[0], "there are too many brackets within brackets", ""
    ) from None
  except TypeError as error:  # A list or dict as a key of a dict: gin does not check that.
    raise _syntax_error(name, parser.current_token.start[0], str(error), text) from None
  return File(name, tuple(statements))


def place(location: Any) -> str:
  """Returns where a statement is, "a.gin:12" or "--gin_bindings", from its gin Location."""
  return (
    location.filename
    if location.filename == COMMAND_LINE
    else f"{location.filename}:{location.line_num}"
  )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
  """Returns " Did you mean a or b?" with the candidates that resemble name; "" if none does."""
  near = difflib.get_close_matches(name, sorted(set(candidates)), n=3, cutoff=0.75)
  return f" Did you mean {' or '.join(near)}?" if near else ""


def _explain(message):
  """Shortens gin's message for a syntax error to one sentence."""
  marker = "Failed to parse token "
  if marker in message:
    token = message.partition(marker)[2].strip("'")
    return (
      f'{token} is not a value: strings need quotes ("{token}"), functions an @ and macros a % in '
      "front; gin has True, False and None."
    )
  return message.splitlines()[0].rstrip(".") + "."


def _syntax_error(name, line_number, message, text):
  lines = text.splitlines()
  line = lines[line_number - 1].strip() if line_number and line_number <= len(lines) else ""
  where = name if name == COMMAND_LINE else f"{name}:{line_number}"
  return errors.SettingError(f"{where}: {message}" + (f"\n  {line}" if line else ""))


def _is_remote(path):
  return "://" in path


def _find(path, included_from):
  """Returns the path to open; raises SettingError with the searched folders."""
  if _is_remote(path):
    return path
  for candidate in (path, os.path.join(SHIPPED, path)):
    if os.path.isfile(candidate):
      return candidate
  by = f" (included at {included_from[-1]})" if included_from else ""
  if os.path.isdir(path):
    raise errors.SettingError(f"--gin_file={path}{by} is a folder: give the file.")
  shipped = [str(file.relative_to(SHIPPED)) for file in SHIPPED.glob("gin_configs/**/*.gin")]
  near = did_you_mean(path, shipped) or did_you_mean(
    f"gin_configs/{os.path.basename(path)}", shipped
  )
  folders = (
    [os.path.dirname(path)] if os.path.isabs(path) else dict.fromkeys([os.getcwd(), str(SHIPPED)])
  )
  raise errors.SettingError(
    f"There is no gin file {path}{by}. Looked in {' and in '.join(folders)}.{near} (--gin_file)"
  )


def _text(found, name):
  try:
    if not _is_remote(found):
      return pathlib.Path(found).read_text(encoding="utf-8-sig")  # Windows' editors add a mark
    import tensorflow as tf

    from trainer.io import storage

    try:
      return storage.read(found).removeprefix("\ufeff")
    except tf.errors.OpError as error:
      raise errors.SettingError(
        f"Cannot read the gin file {name}: {error.message} (--gin_file)"
      ) from error
  except UnicodeDecodeError:
    raise errors.SettingError(f"{name} is not a text file in UTF-8 (--gin_file).") from None
  except OSError as error:
    raise errors.SettingError(
      f"Cannot read the gin file {name}: {error.strerror} (--gin_file)"
    ) from error
