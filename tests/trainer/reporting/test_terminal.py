"""What a person sees of a training on a terminal: its bytes are rendered, and the screen read."""

import contextlib
import fcntl
import io
import logging
import os
import pty
import re
import struct
import termios
import threading

import pytest
from absl import logging as absl_logging

from trainer import run_config
from trainer.cli import command
from trainer.loop import outer_loop, preemption, training_report
from trainer.reporting import console

pyte = pytest.importorskip("pyte", reason="needs the extra [test]")

FINAL_STEP = 2000
WARNING = "The variable dense_2/kernel is in the checkpoint with another shape: it is left out."
OF_A_LIBRARY = "a line of another library"
PRINTED = "a line that a hook prints"
LOGGED = re.compile(r"^\d\d:\d\d:\d\d ")
ETA = re.compile(r"\d+:\d\d:\d\d")


class Screen(pyte.Screen):
  """A screen of one long page that counts the lines which its width has cut."""

  wrapped = 0

  def draw(self, data):
    for character in data:
      self.wrapped += self.cursor.x == self.columns
      super().draw(character)

  def rows(self):
    return [row.rstrip() for row in self.display if row.strip()]


class Terminal:
  """A pseudo terminal that is sys.stdout and sys.stderr."""

  def __init__(self, columns):
    self.columns = columns
    self._master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 100, columns, 0, 0))
    self.file = open(slave, "w", encoding="utf-8")  # noqa: SIM115
    self._bytes = bytearray()
    # The kernel holds a few kilobytes only: without a reader the training would stand still.
    self._reader = threading.Thread(target=self._read)
    self._reader.start()

  def _read(self):
    while True:
      try:
        self._bytes += os.read(self._master, 65536)
      except OSError:  # EIO: the other end is closed
        return

  def close(self):
    """Returns the bytes that were written."""
    self.file.close()
    self._reader.join()
    os.close(self._master)
    return bytes(self._bytes)


@pytest.fixture
def terminal(monkeypatch):
  """Gives a function of the number of columns that makes a Terminal, where a command logs."""
  for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setenv("TERM", "xterm-256color")
  monkeypatch.setenv("COLORTERM", "truecolor")
  handler = absl_logging.get_absl_handler()
  monkeypatch.setattr(handler.python_handler, "formatter", command.LineFormatter())
  monkeypatch.setattr(logging.root, "handlers", [*logging.root.handlers, handler])
  monkeypatch.setattr(absl_logging.get_absl_logger(), "level", logging.INFO)
  absl_logging.get_absl_logger().manager._clear_cache()
  opened = []

  def make(columns):
    opened.append(Terminal(columns))
    # rich asks for the size of the process's own standard files.
    size = os.terminal_size((columns, 100))
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: size)
    show_on(opened[-1].file)
    return opened[-1]

  def show_on(file):
    monkeypatch.setattr("sys.stdout", file)
    monkeypatch.setattr("sys.stderr", file)
    monkeypatch.setattr(handler.python_handler, "stream", file)

  make.show_on = show_on
  yield make
  absl_logging.get_absl_logger().manager._clear_cache()
  for each in opened:
    if not each.file.closed:
      each.close()


def train(model_dir, **settings):
  """Reports a training of 2,000 steps that evaluates twice."""
  library = logging.getLogger("a library")
  library.propagate = False
  library.handlers = [logging.StreamHandler()]
  model_dir.mkdir(exist_ok=True)
  config = run_config.RunConfig(**settings)
  with contextlib.closing(
    training_report.TrainingReport(
      str(model_dir), config, start=0, final_step=FINAL_STEP, batch_size=32, writes=True
    )
  ) as report:
    for step in range(50, FINAL_STEP + 1, 50):
      seconds = 60 + step % 300
      report.add(
        outer_loop.LoopResult(step, 50, seconds, 1 / step, -1, 0.1, {"learning_rate": 1e-3}, False)
      )
      if step == 500:
        absl_logging.warning("%s", WARNING)
        library.warning(OF_A_LIBRARY)
        print(PRINTED)
      if step % 1000 == 0:
        report.pause()
        absl_logging.info("Evaluated 360 examples: %s", "loss = 0.04466, accuracy = 0.98333, " * 2)
  print("Done.")


def screens(data, columns):
  """Yields the Screen whenever a line has ended or is about to be drawn again."""
  screen = Screen(columns, 100)
  stream = pyte.ByteStream(screen)
  for piece in re.split(rb"(?<=\n)|(?=\r)", data):
    stream.feed(piece)
    yield screen


def is_bar(row):
  return "━" in row


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_one_line_below_the_log(tmp_path, terminal, columns):
  shown = terminal(columns)
  train(tmp_path)
  compared = 0
  for screen in screens(shown.close(), columns):
    rows = screen.rows()
    bars = [row for row in rows if is_bar(row)]
    assert len(bars) <= 1
    assert not bars or (rows[-1] == bars[0] and bars[0].startswith("train ")), rows
    logged = [row for row in rows if LOGGED.match(row) and "/2000" in row]
    step = re.search(r"step \d+", bars[0])[0] if bars else None
    if logged and f" {step}/" in logged[-1]:
      assert ETA.findall(bars[0])[-1] == ETA.findall(logged[-1])[-1]
      compared += 1
    assert not bars or len(bars[0]) <= columns - len("^C^C")  # which Ctrl-C writes behind the bar
  assert compared >= 10
  assert screen.wrapped == 0
  assert not any(map(is_bar, rows))
  assert rows[-1] == "Done."
  assert len([row for row in rows if re.search(r" step \d+/2000 .* ETA", row)]) == 20
  assert OF_A_LIBRARY in rows
  assert PRINTED in rows
  assert WARNING in " ".join(map(str.strip, rows))


def test_wide_terminal_shows_all_and_narrow_only_step_and_eta(tmp_path, terminal):
  lines = {}
  for columns in (40, 80, 160):
    shown = terminal(columns)
    train(tmp_path / str(columns))
    *_, screen = screens(shown.close(), columns)
    lines[columns] = next(row[9:] for row in screen.rows() if " step 2000/" in row)
  assert lines == {
    40: "step 2000/2000  ETA 0:00:00",
    80: "step 2000/2000  loss 0.00050641  7 examples/s  ETA 0:00:00",
    160: "step 2000/2000  loss 0.00050641  lr 0.001  7 examples/s  4,700 ms/step  input wait 0%  "
    "ETA 0:00:00",
  }


def test_narrowed_window_shows_numbers_without_a_bar(tmp_path, terminal):
  shown = terminal(30)
  train(tmp_path)
  seen = [screen.rows() for screen in screens(shown.close(), 30)]
  assert any(rows and rows[-1].startswith("step 1900/2000") for rows in seen)
  assert not any(map(is_bar, seen[-1]))


def test_no_color_is_a_bar_without_colors(tmp_path, terminal, monkeypatch):
  shown = terminal(100)
  monkeypatch.setenv("NO_COLOR", "1")
  train(tmp_path)
  data = shown.close()
  assert "━".encode() in data
  assert not re.search(rb"\x1b\[[\d;]+m", data)


def test_a_terminal_without_a_cursor_has_lines_only(tmp_path, terminal, monkeypatch):
  shown = terminal(100)
  monkeypatch.setenv("TERM", "dumb")
  train(tmp_path)
  data = shown.close()
  assert b"\x1b" not in data
  assert data.count(b"ETA") == 20


def test_a_file_has_whole_lines_without_control_characters(tmp_path, terminal, monkeypatch):
  file = io.StringIO()
  terminal.show_on(file)
  monkeypatch.setenv("FORCE_COLOR", "1")  # as CI systems do, where rich sees a terminal
  train(tmp_path)
  assert "\x1b" not in file.getvalue()
  assert "\r" not in file.getvalue()
  assert file.getvalue().count("lr 0.001") == 20
  assert WARNING in file.getvalue()


def test_print_to_a_file_stays_out_of_the_terminal(tmp_path, terminal, monkeypatch):
  shown, printed = terminal(100), io.StringIO()
  monkeypatch.setattr("sys.stdout", printed)
  train(tmp_path)
  assert printed.getvalue().splitlines() == [PRINTED, "Done."]
  assert PRINTED.encode() not in shown.close()


def test_a_second_training_of_the_process_has_no_second_line(terminal):
  shown = terminal(80)
  first, second = (console.LiveLine("━", console.of_errors()) for _ in range(2))
  first.show()
  second.show()
  assert (first.is_shown, second.is_shown) == (True, False)
  first.hide()
  second.show()
  assert second.is_shown
  second.hide()
  shown.close()


def test_process_that_exits_at_once_clears_line_and_cursor(terminal, monkeypatch):
  shown = terminal(80)
  line = console.LiveLine("━", console.of_errors())
  line.show()
  with monkeypatch.context() as patch:
    patch.setattr(os, "_exit", lambda code: None)
    preemption._end(130, "interrupted again")
  line.hide()
  before, message, _ = shown.close().partition(b"interrupted again\r\n")  # where it has ended
  *_, screen = screens(before + message, 80)
  assert screen.rows() == ["interrupted again"]
  assert not screen.cursor.hidden
