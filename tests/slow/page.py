"""Drops an image on the server's page in a browser. Checks that the classes and their bars appear.

    python -m tests.slow.page --screenshot=out/page.png --browser=/usr/bin/chromium

Needs playwright (`pip install playwright`) and a Chromium; --browser is an installed one, instead
of playwright's own. The command trains the digits, which takes seconds, and drops a test image of a
seven, then a file that is no image.
"""

import argparse
import base64
import sys
import tempfile

import numpy as np
from sklearn import datasets

from tests.slow import serve_under_load

# Dropping a file as a browser does: a drop event with the file.
_DROP = """([content, name, type]) => {
  const bytes = Uint8Array.from(atob(content), c => c.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, {type}));
  document.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
}"""


def png_of_a_digit(place):
  """Returns (bytes of a PNG file, its class)."""
  import tensorflow as tf

  digits = datasets.load_digits()
  pixels = (digits.images[place][:, :, np.newaxis] * 255 / 16).round().astype(np.uint8)
  return tf.io.encode_png(pixels).numpy(), int(digits.target[place])


def drop(page, content, name, kind):
  page.evaluate(_DROP, [base64.b64encode(content).decode(), name, kind])


def check(page, address, screenshot):
  """Raises AssertionError unless the page works."""
  said = []
  page.on("pageerror", lambda error: said.append(str(error)))
  page.goto(address)
  page.wait_for_function("document.getElementById('about').textContent.includes('engine')")
  print("about:", page.inner_text("#about"))
  assert page.is_hidden("#result")
  content, label = png_of_a_digit(7)
  drop(page, content, "seven.png", "image/png")
  page.wait_for_selector("#classes li")
  rows = page.eval_on_selector_all(
    "#classes li",
    """rows => rows.map(row => [row.firstChild.textContent, row.lastChild.textContent,
                            row.querySelector("i").getBoundingClientRect().width])""",
  )
  print("\n".join(f"  {name:<3} {share:>8}  {width:.0f} px" for name, share, width in rows))
  assert len(rows) == 10, rows
  assert rows[0][0] == str(label), rows[0]
  widths = [width for _, _, width in rows]
  assert widths == sorted(widths, reverse=True), widths
  assert widths[0] > 50, widths
  assert page.evaluate("document.getElementById('image').naturalWidth") == 8
  page.screenshot(path=screenshot)
  drop(page, b"no image", "notes.txt", "text/plain")
  page.wait_for_function("document.getElementById('error').textContent")
  print("a text is dropped:", page.inner_text("#error"))
  assert page.is_hidden("#result")
  assert not said, said


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--screenshot", default="page.png")
  parser.add_argument("--browser", help="path of a Chromium")
  arguments = parser.parse_args()
  try:
    from playwright import sync_api
  except ImportError:
    sys.exit("playwright is not installed: `pip install playwright`")
  with tempfile.TemporaryDirectory() as folder, sync_api.sync_playwright() as playwright:
    export_base = serve_under_load.train_digits(folder)
    with serve_under_load.server(export_base, "tensorflow") as (address, _, _):
      # Without Chromium's sandbox, which does not start for root.
      browser = playwright.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox"])
      check(browser.new_page(viewport={"width": 900, "height": 760}), address, arguments.screenshot)
      browser.close()
  print(f"Screenshot: {arguments.screenshot}")


if __name__ == "__main__":
  main()
