"""The HTML page of a model, on which the user drops an image and sees its classes; and the list."""

import html as html_lib
import json
import urllib.parse
from collections.abc import Sequence

_HEAD = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Octet</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
"""

_PAGE = """  h1 { font-size: 1.3rem; margin: 0; }
  #about { color: GrayText; margin: 0 0 1rem; }
  #drop { display: block; border: 2px dashed GrayText; border-radius: 12px; padding: 2.5rem 1rem;
          text-align: center; cursor: pointer; }
  #drop.over { border-color: #1a73e8; background: #1a73e81a; }
  #drop input { position: absolute; opacity: 0; width: 1px; }
  #drop:focus-within { outline: 3px solid #1a73e8; }
  #result { display: flex; gap: 1.5rem; margin-top: 1.5rem; align-items: flex-start; flex-wrap: wrap; }
  #result[hidden] { display: none; }
  #image { width: 12rem; height: 12rem; object-fit: contain; image-rendering: pixelated;
           border-radius: 8px; background: #8882; }
  #classes { flex: 1; min-width: 16rem; list-style: none; margin: 0; padding: 0; }
  #classes li { display: grid; grid-template-columns: 8rem 1fr 4rem; gap: .6rem; align-items: center; }
  .bar { background: #8883; border-radius: 4px; height: .9rem; overflow: hidden; }
  .bar i { display: block; height: 100%; background: #1a73e8; }
  .share { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
  #error { color: #c5221f; }
</style>
<h1 id="name"></h1>
<p id="about"></p>
<label id="drop"><input type="file" accept="image/*">Drop an image here, paste one, or click to choose.</label>
<p id="error" role="alert"></p>
<div id="result" hidden>
  <img id="image" alt="the image">
  <ol id="classes"></ol>
</div>
<script>
"use strict";
const NAME = __NAME__, SHOWN = 10;
const $ = id => document.getElementById(id);
const path = "/v1/models/" + encodeURIComponent(NAME);
let about = null;
$("name").textContent = NAME;

async function tell() {
  about = await (await fetch(path + "/about")).json();
  $("about").textContent = [about.model, about.global_step && "step " + about.global_step,
    "version " + about.version, "engine " + about.engine].filter(Boolean).join(" · ");
  if (!about.image)
    $("error").textContent = "This model takes something else than one image: use " + path + ":predict.";
}

async function predict(file) {
  $("error").textContent = "";
  $("image").src = URL.createObjectURL(file);
  $("classes").replaceChildren();
  $("result").hidden = false;
  if (!about) await tell();
  const url = await new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
  const start = performance.now();
  const answer = await fetch(path + ":predict", {method: "POST", body: JSON.stringify({
    signature_name: "from_bytes", instances: [{[about.image]: {b64: url.slice(url.indexOf(",") + 1)}}]})});
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  show(body.predictions[0], performance.now() - start);
}

function show(found, milliseconds) {
  if (!Array.isArray(found.probabilities)) {
    $("classes").textContent = JSON.stringify(found);
    return;
  }
  const name = place => (about.class_names || [])[place] || String(place);
  const sorted = found.probabilities.map((share, place) => [share, place]).sort((a, b) => b[0] - a[0]);
  $("classes").replaceChildren(...sorted.slice(0, SHOWN).map(([share, place]) => {
    const row = document.createElement("li"), title = document.createElement("span");
    const bar = document.createElement("span"), fill = document.createElement("i");
    const text = document.createElement("span");
    title.textContent = name(place);
    bar.className = "bar";
    fill.style.width = 100 * share + "%";
    bar.append(fill);
    text.className = "share";
    text.textContent = (100 * share).toFixed(1) + " %";
    row.append(title, bar, text);
    return row;
  }));
  document.title = name(sorted[0][1]);
}

function take(files) {
  if (files.length) predict(files[0]).catch(error => {
    $("error").textContent = error.message;
    $("result").hidden = true;
  });
}

$("drop").querySelector("input").addEventListener("change", event => take(event.target.files));
for (const kind of ["dragover", "dragleave", "drop"])
  document.addEventListener(kind, event => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files);
  });
document.addEventListener("paste", event => take(event.clipboardData.files));
tell().catch(error => { $("error").textContent = error.message; });
</script>
</html>
"""

_INDEX = """</style>
<h1>Models</h1>
<ul>
__ITEMS__</ul>
</html>
"""


def html(name: str) -> str:
  """Returns the page for a model of this name."""
  # The name stands inside a script, which "</script>" would end even within a string. So "<" is
  # escaped.
  return _HEAD + _PAGE.replace("__NAME__", json.dumps(name).replace("<", "\\u003c"))


def index(names: Sequence[str]) -> str:
  """Returns a page with a link to the page of each model."""
  items = "".join(
    f'<li><a href="/pages/{urllib.parse.quote(name)}">{html_lib.escape(name)}</a></li>\n'
    for name in names
  )
  return _HEAD + _INDEX.replace("__ITEMS__", items)
