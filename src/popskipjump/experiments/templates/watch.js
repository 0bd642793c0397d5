"use strict";
const known = JSON.parse(document.getElementById("known").textContent);
const live = document.getElementById("known").dataset.live === "yes";
const get = (id) => document.getElementById(id);
const EVERY = 2000; // milliseconds between two looks at the run
let state = known.state, image = null, data = null, seen = -1, playing = null;

const number = (value) => value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 5 });

function draw(parent, width, height, label, parts) {
  const make = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [name, attributes, text] of parts) svg.append(make(name, attributes, text));
  parent.replaceChildren(svg);
}

function drawSigmoid(step) {
  const chart = step.chart, note = get("line-note");
  if (!chart) {
    get("sigmoid").replaceChildren();
    note.textContent = "No sigmoid was fitted in this iteration. The border was found at " +
      (step.position === null ? "an unknown place" : number(100 * step.position) + "% of the line") +
      ", counted from its adversarial end; the line is " + number(step.length) + " long.";
    return;
  }
  const { left, right, top, bottom, half, centre } = chart;
  const middle = (top + bottom) / 2;
  draw(get("sigmoid"), chart.width, chart.height, `P(adversarial) along the search line: fit, and ${chart.answers} answers`, [
    ["line", { class: "grid", x1: left, x2: right, y1: half, y2: half }],
    ["polyline", { class: "axis", points: `${left},${top} ${left},${bottom} ${right},${bottom}` }],
    ["text", { x: left - 3, y: top + 5, "text-anchor": "end" }, "1"],
    ["text", { x: left - 3, y: half + 3, "text-anchor": "end" }, "½"],
    ["text", { x: left - 3, y: bottom, "text-anchor": "end" }, "0"],
    ["text", { x: 7, y: middle, "text-anchor": "middle", transform: `rotate(-90 7 ${middle})` }, "P(adversarial)"],
    ["text", { x: left, y: chart.height - 5 }, "adversarial end"],
    ["text", { x: right, y: chart.height - 5, "text-anchor": "end" }, "image"],
    ["line", { class: "mark", x1: centre, x2: centre, y1: top, y2: bottom }],
    ["polyline", { class: "fit", points: chart.curve }],
    ...chart.dots.map(([x, y, r]) => ["circle", { class: "dot", cx: x, cy: y, r: r * 0.6 }]),
  ]);
  note.textContent = `The line is ${number(step.length)} long. Dots: ${chart.answers} answers, larger where more were ` +
    "asked, at the height of their adversarial share. Curve: the fitted sigmoid. Dashes: its centre, the border.";
}

function drawCurve(steps, now) {
  const usable = steps.filter((step) => step.distance !== null && step.distance > 0 && step.queries > 0);
  if (!usable.length) { get("curve").replaceChildren(); return; }
  const [width, height, left, right, top, bottom] = [300, 185, 40, 292, 8, 148];
  const ends = (values) => {
    const low = Math.min(...values), high = Math.max(...values);
    return high > low * 1.001 ? [low, high] : [low / 1.2, high * 1.2];
  };
  const [q0, q1] = ends(usable.map((step) => step.queries)), [d0, d1] = ends(usable.map((step) => step.distance));
  const x = (q) => left + (right - left) * Math.log(q / q0) / Math.log(q1 / q0);
  const y = (d) => bottom - (bottom - top) * Math.log(d / d0) / Math.log(d1 / d0);
  const at = (step) => `${x(step.queries).toFixed(1)},${y(step.distance).toFixed(1)}`;
  const here = usable.includes(now) ? [["circle", { class: "here", cx: x(now.queries), cy: y(now.distance), r: 5 }]] : [];
  const middle = (top + bottom) / 2;
  draw(get("curve"), width, height, "distance of the border point against queries", [
    ["polyline", { class: "axis", points: `${left},${top} ${left},${bottom} ${right},${bottom}` }],
    ["text", { x: left - 4, y: top + 7, "text-anchor": "end" }, d1.toPrecision(3)],
    ["text", { x: left - 4, y: bottom, "text-anchor": "end" }, d0.toPrecision(3)],
    ["text", { x: left, y: bottom + 13 }, number(Math.round(q0))],
    ["text", { x: right, y: bottom + 13, "text-anchor": "end" }, number(Math.round(q1))],
    ["text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "queries"],
    ["text", { x: 10, y: middle, "text-anchor": "middle", transform: `rotate(-90 10 ${middle})` }, `${state.norm} distance`],
    ["polyline", { class: "path", points: usable.map(at).join(" ") }],
    ...here,
  ]);
}

function show() {
  const steps = data ? data.steps : [];
  get("nothing").hidden = steps.length > 0;
  get("shown").hidden = steps.length === 0;
  const slider = get("slider");
  slider.max = Math.max(steps.length - 1, 0);
  if (get("newest").checked) slider.value = slider.max;
  if (!steps.length) {
    get("nothing").textContent = state.images.length ? "No iteration of this image has been written yet."
      : "This run keeps no iterations to look at.";
    return;
  }
  const step = steps[Math.min(Number(slider.value), steps.length - 1)];
  slider.setAttribute("aria-valuetext", `iteration ${step.step}`);
  get("iteration").textContent = `${step.step} of ${steps[steps.length - 1].step}`;
  get("queries").textContent = step.queries.toLocaleString("en");
  get("distance").textContent = number(step.distance);
  const result = data.result;
  get("result").textContent = result === null ? "under way" :
    `${data.label} → ${result.label === null ? "?" : result.label}, ${number(result.distance)} after ` +
    `${result.queries.toLocaleString("en")} queries (${result.status})`;
  const pictured = data.original !== null && step.point !== null;
  get("pictures").hidden = !pictured;
  get("changed").hidden = pictured;
  if (pictured) {
    get("original").src = data.original;
    get("point").src = step.point;
    get("difference").src = step.difference;
    get("cap-original").textContent = `image ${data.image}, label ${data.label}`;
    get("cap-difference").textContent = `difference ×${step.gain}`;
  } else {
    const items = step.changed.map((text) => {
      const item = document.createElement("li");
      item.textContent = `value ${text}`;
      return item;
    });
    get("changed").replaceChildren(...items);
  }
  drawSigmoid(step);
  drawCurve(steps, step);
}

function tell() {
  get("words").textContent = state.words;
  get("state").textContent = state.state;
  get("counts").textContent =
    `· ${state.finished} of ${state.asked} images are finished · ${state.queries.toLocaleString("en")} queries`;
  get("share").value = state.asked ? state.finished / state.asked : 0;
  const select = get("image");
  const listed = [...select.options].map((option) => option.value).join();
  if (listed !== state.images.join()) {
    select.replaceChildren(...state.images.map((id) => new Option(String(id), String(id))));
    if (image !== null && state.images.includes(image)) select.value = String(image);
  }
  if (image === null && state.images.length) choose(state.images[0]);
}

async function choose(id) {
  image = id;
  if (!live) {
    data = known.images[String(id)] || null;
    show();
    return;
  }
  const found = await fetch(`image/${id}.json`);
  if (image !== id) return;
  data = found.ok ? await found.json() : null;
  show();
}

async function look() {
  const trouble = get("trouble");
  try {
    const found = await fetch("state.json");
    const news = await found.json();
    if (!found.ok) throw new Error(news.error);
    trouble.hidden = true;
    const changed = news.changed !== seen || news.finished !== state.finished || news.state !== state.state;
    state = news;
    seen = news.changed;
    tell();
    if (changed && image !== null) await choose(image);
  } catch (error) {
    trouble.hidden = false;
    trouble.textContent = `The run cannot be read: ${error.message}. If \`psj watch\` was stopped, start it again.`;
  }
  setTimeout(look, EVERY);
}

function stop() {
  clearInterval(playing);
  playing = null;
  get("play").textContent = "Play";
}

get("image").addEventListener("change", (event) => { choose(Number(event.target.value)); });
get("slider").addEventListener("input", () => { get("newest").checked = false; show(); });
get("newest").addEventListener("change", show);
get("play").addEventListener("click", () => {
  if (playing !== null) { stop(); return; }
  const slider = get("slider");
  get("newest").checked = false;
  slider.value = 0;
  show();
  get("play").textContent = "Stop";
  playing = setInterval(() => {
    if (Number(slider.value) >= Number(slider.max)) { stop(); return; }
    slider.value = Number(slider.value) + 1;
    show();
  }, 400);
});
tell();
if (live) look();
