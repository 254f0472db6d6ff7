"""The page of a model as a browser shows it; a few lines of script stand for the server."""

import html
import json
import re
import subprocess

import pytest

from tests.trainer.plot import test_rendered
from trainer.serving import page

pytestmark = pytest.mark.skipif(test_rendered.BROWSER is None, reason="needs Chromium")

_SERVER = """<script>
const about_ = ABOUT, answer_ = ANSWER;
window.asked = [];
window.fetch = async (url, options) => {
  if (url.endsWith("/about")) return {ok: true, json: async () => about_};
  asked.push(JSON.parse(options.body));
  const refused = answer_.error !== undefined;
  return {ok: !refused, json: async () => refused ? answer_ : {predictions: [answer_]}};
};
</script>"""
_TABLE = {
  "age": {"dtype": "float64", "optional": True},
  "rooms": {"dtype": "int64", "optional": False},
  "job": {"dtype": "string", "optional": True},
}


@pytest.fixture
def tried(tmp_path):
  """Returns what the page shows and has asked after a script that fills the form."""

  def tried(raw, answer, script, image=None):
    about = {"raw": raw, "image": image, "class_names": ["no", "<yes>"], "engine": "tensorflow"}
    server = _SERVER.replace("ABOUT", json.dumps(about)).replace("ANSWER", json.dumps(answer))
    after = f"""<script>setTimeout(async () => {{
      const form = document.getElementById("form");
      {script}
      if (!form.hidden) form.requestSubmit();
      await new Promise(done => setTimeout(done, 100));
      document.title = JSON.stringify({{
        asked,
        rows: [...document.querySelectorAll("#classes li")].map(row => row.innerText),
        error: document.getElementById("error").innerText,
        shown: ["drop", "form", "result", "image", "optional"].filter(
          id => document.getElementById(id).checkVisibility()),
        fields: [...form.querySelectorAll("input, textarea")].map(each => each.localName),
      }});
    }}, 100);</script></body>"""
    text = page.html("a model").replace("<head>", f"<head>{server}").replace("</body>", after)
    (tmp_path / "page.html").write_text(text)
    done = subprocess.run(
      [
        *(test_rendered.BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
        *("--virtual-time-budget=5000", f"--user-data-dir={tmp_path / 'profile'}"),
        f"file://{tmp_path}/page.html",
      ],
      capture_output=True,
      text=True,
      timeout=120,
      check=True,
    )
    return json.loads(html.unescape(re.search("<title>(.*?)</title>", done.stdout, re.S)[1]))

  return tried


def test_a_table_has_a_field_for_each_column(tried):
  found = tried(
    _TABLE,
    {"class": 1, "probabilities": [0.25, 0.75]},
    'form.elements.rooms.value = " 3 "; form.elements.job.value = "smith";',
  )
  (asked,) = found["asked"]
  assert asked["signature_name"] == "from_raw"
  assert asked["instances"] == [{"age": None, "rooms": 3, "job": "smith"}]
  assert [row.split("\n") for row in found["rows"]] == [["<yes>", "75.0 %"], ["no", "25.0 %"]]
  assert found["shown"] == ["form", "result", "optional"]
  assert found["fields"] == ["input"] * 3


def test_a_text_has_an_area(tried):
  raw = {"text": {"dtype": "string", "optional": False}}
  found = tried(raw, {"score": 0.123456789}, 'form.elements.text.value = "Good,\\nand more";')
  assert found["asked"][0]["instances"] == [{"text": "Good,\nand more"}]
  assert found["fields"] == ["textarea"]
  assert found["rows"][0].split() == ["score", "0.123457"]
  assert "optional" not in found["shown"]


def test_a_number_that_is_none_is_said(tried):
  found = tried(_TABLE, 1, 'form.elements.rooms.value = "1,5";')
  assert found["error"] == "rooms must be a number; it is 1,5."
  assert not found["asked"]
  assert "result" not in found["shown"]


def test_what_the_server_refuses_is_shown(tried):
  found = tried(_TABLE, {"error": "'rooms' is too large."}, 'form.elements.rooms.value = "9";')
  assert found["error"] == "'rooms' is too large."


def test_an_image_has_a_place_to_drop_it(tried):
  assert tried({}, 1, "", image="image")["shown"] == ["drop"]


_DROP = """
const dropped = new DataTransfer();
dropped.items.add(new File([new Uint8Array(1)], "a.png", {type: "image/png"}));
document.dispatchEvent(new DragEvent("drop", {dataTransfer: dropped, bubbles: true}));
await new Promise(done => setTimeout(done, 200));
"""


def test_a_class_for_each_pixel_is_shown_as_it_is(tried):
  answer = {"class": [[0, 1], [1, 1]], "probabilities": [[[0.5, 0.5]] * 2] * 2}
  found = tried({}, answer, _DROP, image="image")
  assert found["asked"][0]["signature_name"] == "from_bytes"
  assert found["rows"][0].split() == ["class", "[[0,1],[1,1]]"]
  assert found["shown"] == ["drop", "result", "image"]


def test_a_model_of_features_says_what_to_use(tried):
  found = tried({}, 1, "")
  assert found["shown"] == []
  assert found["error"].endswith("use /v1/models/a%20model:predict.")
