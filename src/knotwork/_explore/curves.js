/* The curves of an additive model. An edit changes coefficients of B-splines, so that the model predicts what is drawn. */

const N_GRID = 240, LEAST_FUNCTIONS = 44, MOST_FUNCTIONS = 150, WIDEST = 0.04, HANDLE_ROOM = 27, MARGIN = 0.12;
const decode = (text) => new Float64Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/* ---- Curves ------------------------------------------------------------------------------------------------- */

/* The place of each spline on the axis: the mean of its inner knots. A line has these values as coefficients. */
function centresOf(knots, degree) {
  const t = [...Array(degree).fill(0), ...knots, ...Array(degree).fill(1)];
  return Array.from({ length: knots.length + degree + 1 }, (_, i) => t.slice(i, i + degree).reduce((sum, u) => sum + u, 0) / degree);
}
/* Insert a knot: the curve remains, and has one coefficient more (Boehm). */
function withKnot(knots, degree, values, u) {
  const t = [...Array(degree + 1).fill(0), ...knots, ...Array(degree + 1).fill(1)];
  let k = degree;
  while (t[k + 1] <= u) k++;
  return Array.from({ length: values.length + 1 }, (_, i) => {
    if (i <= k - degree) return values[i];
    if (i > k) return values[i - 1];
    const share = (u - t[i]) / (t[i + degree] - t[i]);
    return share * values[i] + (1 - share) * values[i - 1];
  });
}
/* A curve gets knots in its widest intervals, so that edits can be local. */
function refined(stored) {
  const knots = Array.from(decode(stored.knots)), values = Array.from(decode(stored.knotValues)), [low, high] = stored.domain;
  let fitted = stored.coefficients.map((text) => Array.from(decode(text)));
  while (stored.degree > 1 && fitted[0].length < MOST_FUNCTIONS && Number.isFinite(high - low)) {
    const ends = [0, ...knots, 1];
    let widest = 0;
    for (let i = 1; i + 1 < ends.length; i++) if (ends[i + 1] - ends[i] > (ends[widest + 1] - ends[widest]) * 1.000001) widest = i;
    if (fitted[0].length >= LEAST_FUNCTIONS && ends[widest + 1] - ends[widest] < WIDEST) break;
    const value = Number((low + ((ends[widest] + ends[widest + 1]) / 2) * (high - low)).toPrecision(7)), u = (value - low) / (high - low);
    if (!(u > ends[widest] && u < ends[widest + 1])) break;
    fitted = fitted.map((each) => withKnot(knots, stored.degree, each, u));
    knots.splice(widest, 0, u);
    values.splice(widest, 0, value);
  }
  return { knots, values, fitted };
}
const curves = data.curves.map((stored, index) => {
  const { knots, values, fitted } = refined(stored);
  return { ...stored, index, knots, knotValues: values, fitted, now: fitted.map((each) => each.slice()),
           missingNow: stored.missing && stored.missing.slice(), centres: centresOf(knots, stored.degree), size: fitted[0].length };
});
const ownKnots = (curve) => decode(data.curves[curve.index].knots);
const design = (curve, points) => numerics.design("bspline", points, curve.knots, curve.degree).rows;
function evaluate(curve, points, coefficients) {
  const rows = design(curve, points);
  return Float64Array.from(points, (_, i) => numerics.linear(rows, i * curve.size, curve.size, 0, coefficients));
}
const valueOf = (curve, u) => curve.domain[0] * (1 - u) + curve.domain[1] * u;
const valueText = (curve, u) => (curve.isDate ? dayText(valueOf(curve, u), curve.domain[1] - curve.domain[0]) : significant(valueOf(curve, u)));
/* Changed coefficients with six digits: what is drawn is what is saved. */
function rounded(curve, fit, values) {
  const all = curve.fitted.flat(), unit = Math.max(...all) - Math.min(...all) || 1;
  const decimals = Math.min(Math.max(5 - Math.floor(Math.log10(unit)), 0), 100);
  return values.map((value, i) => (value === curve.fitted[fit][i] ? value : Number(value.toFixed(decimals)) + 0));
}
const isChanged = (curve, fit) => curve.now[fit].some((value, i) => value !== curve.fitted[fit][i])
  || (curve.missing !== null && curve.missingNow[fit] !== curve.missing[fit]);

/* ---- Scores -------------------------------------------------------------------------------------------------- */

const rows = data.rows && { n: data.rows.count, target: decode(data.rows.target), sums: data.rows.sums.map(decode), values: data.rows.values.map(decode), designs: new Map() };
const METRIC = data.isClass ? "log loss" : "R²";

/* What the edits of a curve add to the sum of each row. */
function difference(curve, fit) {
  if (!rows.designs.has(curve.index)) rows.designs.set(curve.index, design(curve, rows.values[curve.index].map((u) => (Number.isNaN(u) ? 0 : u))));
  const matrix = rows.designs.get(curve.index), change = curve.now[fit].map((value, i) => value - curve.fitted[fit][i]);
  const missing = curve.missing === null ? 0 : curve.missingNow[fit] - curve.missing[fit];
  return Float64Array.from(rows.values[curve.index], (u, i) => (Number.isNaN(u) ? missing : numerics.linear(matrix, i * curve.size, curve.size, 0, change)));
}
function editedSums() {
  return rows.sums.map((sums, fit) => {
    const out = sums.slice();
    for (const curve of curves) if (isChanged(curve, fit)) difference(curve, fit).forEach((value, i) => { out[i] += value; });
    return out;
  });
}
/* R2, or the mean negative logarithm of the probability of the class. */
function scoreOf(sums) {
  if (!data.isClass) {
    const mean = rows.target.reduce((sum, y) => sum + y, 0) / rows.n;
    let error = 0, spread = 0;
    rows.target.forEach((y, i) => { error += (y - sums[0][i]) ** 2; spread += (y - mean) ** 2; });
    return spread > 0 ? 1 - error / spread : NaN;
  }
  let loss = 0;
  rows.target.forEach((code, i) => {
    const scores = sums.length === 1 ? [0, sums[0][i]] : sums.map((each) => each[i]), most = Math.max(...scores);
    loss += most + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - most), 0)) - scores[code];
  });
  return loss / rows.n;
}
const before = rows ? scoreOf(rows.sums) : NaN;

/* ---- State --------------------------------------------------------------------------------------------------- */

const view = { curve: 0, fit: data.outputs.length - 1, width: 0.1, from: 0, to: 1 };
const curve = () => curves[view.curve];
const coefficients = () => curve().now[view.fit];
let shownHash = "";
const changes = new Changes((hash) => { readHash(hash); choose(view.curve, false); });

function editsText(space) {
  const out = [];
  for (const each of curves) {
    each.now.forEach((values, fit) => {
      if (!isChanged(each, fit)) return;
      const edit = { column: each.key };
      if (data.outputs.length > 1) edit.class = data.outputs[fit];
      if (each.knots.length > ownKnots(each).length) edit.knots = each.knotValues;
      edit.coefficients = values;
      if (each.missing !== null && each.missingNow[fit] !== each.missing[fit]) edit.missing = each.missingNow[fit];
      out.push(edit);
    });
  }
  return JSON.stringify({ format: data.format, curves: out }, null, space);
}
function writeHash() {
  const parts = new URLSearchParams(), edits = new URLSearchParams();
  parts.set("curve", view.curve);
  if (data.outputs.length > 1) parts.set("class", view.fit);
  for (const each of curves) {
    each.now.forEach((values, fit) => {
      if (!isChanged(each, fit)) return;
      const missing = each.missing === null ? "" : `.${each.missingNow[fit]}`.replace(".", "_m");
      edits.set(`e${each.index}_${fit}`, values.join("_") + missing);
    });
  }
  shownHash = `#${[parts, edits].map(String).filter(Boolean).join("&")}`;
  changes.remember(shownHash, String(edits));
  try {
    history.replaceState(null, "", shownHash);
  } catch {
    // A frame of a notebook has no address: the state lives in the page alone.
  }
}
function readHash(text) {
  const parts = new URLSearchParams(text.replace(/^#/, "")), number = (name) => Number(parts.get(name) ?? NaN);
  if (curves[number("curve")]) view.curve = number("curve");
  if (data.outputs[number("class")] !== undefined) view.fit = number("class");
  for (const each of curves) {
    each.now.forEach((_, fit) => {
      const [values, missing] = (parts.get(`e${each.index}_${fit}`) ?? "").split("_m"), read = values.split("_").map(Number);
      const isValid = values !== "" && read.length === each.size && read.every(Number.isFinite);
      each.now[fit] = isValid ? read : each.fitted[fit].slice();
      if (each.missing !== null) each.missingNow[fit] = isValid && Number.isFinite(Number(missing ?? NaN)) ? Number(missing) : each.missing[fit];
    });
  }
}

/* ---- Edits --------------------------------------------------------------------------------------------------- */

function setCoefficients(values) {
  curve().now[view.fit] = rounded(curve(), view.fit, values);
}
/* Move the curve by `change` at a coefficient's place; its neighbours follow, the less the further they are. */
function pull(start, place, change) {
  const its = curve(), weights = start.map((_, i) => {
    const distance = Math.abs(its.centres[i] - its.centres[place]) / view.width;
    return distance < 1 ? 0.5 * (1 + Math.cos(Math.PI * distance)) : 0;
  });
  const [at] = evaluate(its, [its.centres[place]], weights);
  setCoefficients(start.map((value, i) => (weights[i] ? value + (change * weights[i]) / at : value)));
}
/* The coefficients whose functions are not zero somewhere in the stretch. */
function inStretch() {
  const { knots, degree, size } = curve(), t = [...Array(degree + 1).fill(0), ...knots, ...Array(degree + 1).fill(1)];
  return Array.from({ length: size }, (_, i) => i).filter((i) => t[i] < view.to && t[i + degree + 1] > view.from);
}
/* The closest rising values, in squares: neighbours that fall get their mean (pool adjacent violators). */
function rising(values) {
  const pools = [];
  for (const value of values) {
    pools.push({ sum: value, n: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).n > pools.at(-1).sum / pools.at(-1).n) {
      const { sum, n } = pools.pop();
      pools.at(-1).sum += sum; pools.at(-1).n += n;
    }
  }
  return pools.flatMap(({ sum, n }) => Array(n).fill(sum / n));
}
const SHAPES = {
  Flat: (values) => values.map(() => values.reduce((sum, value) => sum + value, 0) / values.length),
  Straight: (values, places) => values.map((_, i) => values[0] + ((values.at(-1) - values[0]) * (places[i] - places[0])) / ((places.at(-1) - places[0]) || 1)),
  Rising: rising,
  Falling: (values) => rising(values.map((value) => -value)).map((value) => -value),
};
function reshape(name) {
  const places = inStretch(), values = coefficients().slice();
  if (!places.length) return;
  const made = SHAPES[name](places.map((i) => values[i]), places.map((i) => curve().centres[i]));
  places.forEach((i, k) => { values[i] = made[k]; });
  setCoefficients(values);
  update();
  say(`${curve().title}: ${name.toLowerCase()} from ${valueText(curve(), view.from)} to ${valueText(curve(), view.to)}. ${scoreText()}`);
}

/* ---- Chart --------------------------------------------------------------------------------------------------- */

const chart = $("chart"), layer = make("g", {}, chart);
const shapes = {
  stretch: make("rect", { class: "stretch" }, layer), grid: make("path", { class: "grid" }, layer), zero: make("path", { class: "zero" }, layer),
  labels: make("g", {}, layer), band: make("path", { class: "band" }, layer), bars: make("path", { class: "bars" }, layer),
  ticks: make("path", { class: "stem" }, layer), ghost: make("path", { class: "ghost" }, layer), line: make("path", { class: "curve" }, layer),
  axis: make("g", {}, layer), heading: make("text", { class: "heading" }, layer), readout: make("text", { class: "readout" }, layer), handles: make("g", {}, layer),
};
let box = null, range = null, held = null;
const grid = Float64Array.from({ length: N_GRID + 1 }, (_, i) => i / N_GRID);

function layOut() {
  const width = Math.max(chart.clientWidth || 800, 240), narrow = width < 560, height = narrow ? 380 : 520;
  box = { width, narrow, left: narrow ? 44 : 58, right: narrow ? 8 : 14, top: 26, bottom: height - 44, height };
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.style.height = `${height}px`;
  layer.setAttribute("class", narrow ? "narrow" : "");
  set(shapes.heading, { x: narrow ? 2 : box.left, y: 16 });
  set(shapes.readout, { x: narrow ? 2 : width - box.right, y: 16 });
}
const inner = () => box.width - box.left - box.right;
const px = (u) => box.left + u * inner();
const py = (value) => box.bottom - ((value - range[0]) / (range[1] - range[0])) * (box.bottom - box.top);

function draw() {
  const its = curve(), fitted = its.fitted[view.fit], values = evaluate(its, grid, coefficients()), old = evaluate(its, grid, fitted);
  const margins = grid.map((u) => interpolated(its.margins[view.fit], u));
  if (!held) {  // the axis stays while a point is held
    const every = [...values, ...old.map((value, i) => value + margins[i]), ...old.map((value, i) => value - margins[i]), 0];
    const low = Math.min(...every), high = Math.max(...every), room = MARGIN * (high - low) || 1;
    range = [low - 2.2 * room, high + room];
  }
  const ticks = writing.axisTicks(range[0], range[1], 6);
  box.left = Math.max(14 + 6.8 * Math.max(...ticks.map(([, text]) => text.length)), 40);
  const xs = grid.map(px);
  set(shapes.grid, { d: ticks.map(([value]) => `M${box.left} ${n1(py(value))}H${box.width - box.right}`).join("") });
  writeLabels(shapes.labels, ticks.map(([value, text]) => ({ x: box.left - 7, y: n1(py(value)) + 4, text, anchor: "end" })));
  set(shapes.zero, { d: `M${box.left} ${n1(py(0))}H${box.width - box.right}` });
  const upper = old.map((value, i) => py(value + margins[i])), lower = old.map((value, i) => py(value - margins[i]));
  set(shapes.band, { d: `${path(xs, upper)}${path(xs.slice().reverse(), lower.slice().reverse()).replace("M", "L")}Z` });
  set(shapes.ghost, { d: isChanged(its, view.fit) ? path(xs, old.map(py)) : "" });
  set(shapes.line, { d: path(xs, values.map(py)) });
  set(shapes.ticks, { d: Array.from(ownKnots(its), (u) => `M${n1(px(u))} ${box.bottom}v-6`).join("") });
  set(shapes.bars, { d: rows ? barsOf(rows.values[its.index]) : "" });
  set(shapes.stretch, { x: px(view.from), y: box.top, width: Math.max(px(view.to) - px(view.from), 0), height: box.bottom - box.top, visibility: view.from > 0 || view.to < 1 ? "visible" : "hidden" });
  const most = box.narrow ? 3 : 6, low = its.domain[0], span = its.domain[1] - low;
  const below = its.isDate ? writing.dateTicks(...its.domain, most) : writing.axisTicks(...its.domain, most);
  writeLabels(shapes.axis, [...below.map(([value, text]) => ({ x: n1(px((value - low) / span)), y: box.bottom + 17, text, anchor: "middle" })),
                            { x: box.left + inner() / 2, y: box.height - 4, text: cut(its.title, Math.floor(inner() / 7)), anchor: "middle" }]);
  shapes.heading.textContent = box.narrow ? effectText() : `${effectText()}; the band is the interval of the fit${rows ? ", the bars are held-out rows" : ""}`;
  drawHandles(its);
}
const effectText = () => (data.isClass ? `Effect on the log odds${data.outputs.length > 1 ? ` of ${cut(data.outputs[view.fit], 20)}` : ""}` : `Effect on ${cut(data.targetName, 30)}`);
function interpolated(values, u) {
  const at = u * (values.length - 1), i = Math.min(Math.floor(at), values.length - 2);
  return values[i] + (at - i) * (values[i + 1] - values[i]);
}
function barsOf(values) {
  const counts = new Float64Array(48);
  for (const u of values) if (!Number.isNaN(u)) counts[Math.min(Math.floor(48 * u), 47)]++;
  const top = Math.max(...counts, 1), width = inner() / 48;
  return Array.from(counts, (n, i) => (n ? `M${n1(box.left + i * width)} ${box.bottom}v${n1(-Math.max((46 * n) / top, 1))}h${n1(width - 0.6)}V${box.bottom}z` : "")).join("");
}
/* Points to drag: at the places of coefficients, as many as have room side by side. */
function handlePlaces(its) {
  const last = its.size - 1, room = HANDLE_ROOM / inner(), kept = [0];
  for (let i = 1; i < last; i++) if (its.centres[i] - its.centres[kept.at(-1)] >= room && 1 - its.centres[i] >= room) kept.push(i);
  return [...kept, last];
}
function drawHandles(its) {
  const places = handlePlaces(its), heights = evaluate(its, places.map((i) => its.centres[i]), coefficients());
  resize(shapes.handles, places.length, (group) => {
    const handle = make("g", { class: "knot pull", role: "slider", tabindex: "0", "aria-orientation": "vertical" }, group);
    make("circle", { class: "hit", r: 15 }, handle);
    make("circle", { class: "handle", r: 6 }, handle);
  });
  places.forEach((place, k) => {
    const handle = shapes.handles.children[k], x = n1(px(its.centres[place])), y = n1(py(heights[k]));
    for (const circle of handle.children) set(circle, { cx: x, cy: y });
    set(handle, { "data-place": place, "aria-label": `Effect at ${valueText(its, its.centres[place])}`, "aria-valuenow": heights[k],
                  "aria-valuemin": range[0], "aria-valuemax": range[1], "aria-valuetext": `${significant(heights[k])}. ${scoreText()}` });
  });
}

/* ---- Texts and controls ---------------------------------------------------------------------------------------- */

const say = (text) => { $("live").textContent = text; };
let after = before;
const scoreText = () => (rows ? `${METRIC} ${fixed(after, 3)}, ${signed(after - before, 3)}` : "");
const card = {};
function buildScores() {
  const whats = { main: rows ? `${METRIC} on ${rowsOf(rows.n, "held-out ")}` : "", change: rows ? `against the fit (${fixed(before, 3)})` : "", edited: "edited curves" };
  for (const [key, what] of Object.entries(whats)) {
    card[key] = element("div", { className: "value" });
    $("scores").append(element("div", { className: key === "main" ? "wide" : "", hidden: !what }, element("div", { className: "what", textContent: what }), card[key]));
  }
}
function showTexts() {
  const its = curve(), change = after - before, better = data.isClass ? -change : change, n = curves.reduce((sum, each) => sum + each.now.some((_, fit) => isChanged(each, fit)), 0);
  card.main.textContent = fixed(after, 3);
  card.change.textContent = signed(change, 4);
  card.change.className = `value ${Math.abs(change) >= 0.00005 ? (better > 0 ? "good" : "bad") : ""}`;
  card.edited.textContent = String(n);
  $("bar-score").textContent = rows ? `${METRIC} ${fixed(after, 3)}` : "";
  $("bar-change").textContent = rows ? `${signed(change, 4)} by edits` : "";
  $("column-name").textContent = its.title;
  $("column-note").textContent = `${valueText(its, 0)} to ${valueText(its, 1)} · ${counted(ownKnots(its).length, "knot")}`;
  const edits = counted(n, "edited curve");
  $("finding").textContent = n === 0 ? "The curve as it was fitted." : rows ? `${edits}: ${METRIC} ${fixed(before, 4)} before, ${fixed(after, 4)} after, on ${rowsOf(rows.n, "held-out ")}.` : `${edits}. Held-out rows, kw.explore_model(model, X, y), would show what edits cost.`;
  $("line").textContent = `edited = model.with_edits("edits.json"${rows ? ", X, y" : ""})\n${rows ? "print(edited.edit_scores_)\n" : ""}edited.save("edited.knotwork")`;
  $("edits").textContent = editsText();
  $("export-edits").disabled = n === 0;
  $("reset").disabled = !isChanged(its, view.fit);
  for (const name of ["from", "to"]) { $(name).value = String(view[name]); $(`${name}-value`).textContent = valueText(its, view[name]); }
  $("width").value = String(view.width);
  $("width-value").textContent = `± ${percent(view.width, 0)} of the axis`;
  $("missing-label").hidden = its.missing === null;
  if (its.missing !== null && document.activeElement !== $("missing")) $("missing").value = String(Number(its.missingNow[view.fit].toPrecision(6)));
  $("fit-class").value = String(view.fit);
  const largest = Math.max(...curves.map((each) => each.importance));
  Array.from($("list").children).forEach((item) => {
    const index = Number(item.firstChild.dataset.index), each = curves[index];
    if (index === view.curve) item.firstChild.setAttribute("aria-current", "true"); else item.firstChild.removeAttribute("aria-current");
    item.firstChild.children[1].textContent = each.now.some((_, fit) => isChanged(each, fit)) ? "edited" : `± ${each.importance < 1e-3 * largest ? 0 : significant(each.importance, 3)}`;
  });
}
function update() {
  after = rows ? scoreOf(editedSums()) : NaN;
  draw();
  showTexts();
  if (!held) writeHash();
}
let waiting = false;
function requestUpdate() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; update(); });
}
function choose(index, isNew = true) {
  view.curve = index;
  if (isNew) { view.from = 0; view.to = 1; }
  update();
}
function buildList() {
  const order = curves.map((_, i) => i).sort((a, b) => curves[b].importance - curves[a].importance || a - b);
  const all = curves.flatMap((each) => each.fitted[view.fit]), low = Math.min(...all), high = Math.max(...all);  // one scale
  for (const index of order) {
    const its = curves[index], svg = make("svg", { viewBox: "0 0 64 22", "aria-hidden": "true" });
    const values = evaluate(its, grid, its.fitted[view.fit]);
    make("path", { class: "spark", d: path(grid.map((u) => 64 * u), values.map((value) => 20 - (18 * (value - low)) / (high - low || 1))) }, svg);
    const name = element("span", { className: "name", title: its.name }, element("span", { className: "owner", textContent: its.owner ?? its.name }));
    if (its.part && !its.isDate) name.append(element("span", { className: "part", textContent: ` ${its.part}` }));
    const button = element("button", { type: "button" }, name, element("span", { className: "about" }), svg);
    button.dataset.index = index; button.dataset.name = its.name;
    button.addEventListener("click", () => choose(index));
    $("list").append(element("li", {}, button));
  }
  if (data.others.length) {
    $("others").append(element("details", {}, element("summary", { textContent: `${counted(data.others.length, "more term")}: categories and pairs, which are not edited` }),
                               element("p", { textContent: data.others.join(", "), tabIndex: 0 })));
  }
  view.curve = order[0];
}

/* ---- Pointer and keyboard ---------------------------------------------------------------------------------------- */

const toChart = (event) => {
  const frame = chart.getBoundingClientRect();
  return { x: (event.clientX - frame.left) * (box.width / frame.width), y: (event.clientY - frame.top) * (box.height / frame.height) };
};
const perPixel = () => (range[1] - range[0]) / (box.bottom - box.top);
chart.addEventListener("pointerdown", (event) => {
  const node = event.target.closest(".knot");
  if (!node || event.button !== 0) return;
  held = { node, place: Number(node.dataset.place), y: toChart(event).y, start: coefficients().slice() };
  node.classList.add("held");
  chart.setPointerCapture(event.pointerId);
  node.focus({ focusVisible: false });
  event.preventDefault();
});
chart.addEventListener("pointermove", (event) => {
  const { x, y } = toChart(event);
  if (held) {
    pull(held.start, held.place, (held.y - y) * perPixel());
    requestUpdate();
    return;
  }
  const u = (x - box.left) / inner(), its = curve(), isInside = u >= 0 && u <= 1;
  shapes.readout.textContent = isInside ? `${valueText(its, u)}: ${significant(evaluate(its, [u], coefficients())[0])}` : "";
  shapes.heading.setAttribute("visibility", isInside && box.width < 900 ? "hidden" : "visible");
});
const release = () => {
  if (!held) return;
  held.node.classList.remove("held");
  held = null;
  update();
};
chart.addEventListener("pointerup", release);
chart.addEventListener("pointercancel", release);
chart.addEventListener("pointerleave", () => { shapes.readout.textContent = ""; shapes.heading.setAttribute("visibility", "visible"); });
shapes.handles.addEventListener("keydown", (event) => {
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key], node = event.target.closest(".knot");
  if (!step || !node) return;
  pull(coefficients().slice(), Number(node.dataset.place), step * (event.shiftKey ? 0.002 : 0.02) * (range[1] - range[0]));
  update();
  event.preventDefault();
});

function connect() {
  for (const name of Object.keys(SHAPES)) {
    const button = element("button", { type: "button", textContent: name });
    button.addEventListener("click", () => reshape(name));
    $("shape").append(button);
  }
  $("width").addEventListener("input", () => { view.width = Number($("width").value); update(); });
  $("from").addEventListener("input", () => { view.from = Math.min(Number($("from").value), view.to); update(); });
  $("to").addEventListener("input", () => { view.to = Math.max(Number($("to").value), view.from); update(); });
  $("missing").addEventListener("change", () => {
    const value = Number($("missing").value);
    if ($("missing").value !== "" && Number.isFinite(value)) { curve().missingNow[view.fit] = value; update(); }
  });
  $("reset").addEventListener("click", () => {
    const its = curve();
    its.now[view.fit] = its.fitted[view.fit].slice();
    if (its.missing !== null) its.missingNow[view.fit] = its.missing[view.fit];
    update();
  });
  $("fit").hidden = data.outputs.length < 2;
  data.outputs.forEach((label, fit) => $("fit-class").append(element("option", { value: String(fit), textContent: label })));
  $("fit-class").addEventListener("change", () => { view.fit = Number($("fit-class").value); update(); });
  $("search").addEventListener("input", searchList);
  $("export-edits").addEventListener("click", () => save("edits.json", `${editsText(1)}\n`, "application/json"));
  $("export-svg").addEventListener("click", () => save(fileName(curve().name, ".svg"), svgText(), "image/svg+xml"));
  $("export-png").addEventListener("click", async () => save(fileName(curve().name, ".png"), await pngOf(svgText()), "image/png"));
  $("copy-line").addEventListener("click", () => copy($("line").textContent, $("copy-line")));
  addEventListener("hashchange", (event) => {
    const { hash } = new URL(event.newURL);
    if (hash === shownHash) return;
    readHash(hash);
    choose(view.curve, false);
  });
  new ResizeObserver(() => {
    if (Math.abs(chart.clientWidth - box.width) < 1) return;
    layOut();
    draw();
  }).observe(chart);
}
const svgText = () => pictureOf(chart, { title: `${curve().title}: ${effectText()}`, detail: $("finding").textContent, caption: `${data.table}, ${data.targetName}. knotwork ${data.version}` });

numerics.page = { data, view, curves, score: () => ({ before, after }), editsText, svgText, pngOf, evaluate: (index, points) => Array.from(evaluate(curves[index], points, curves[index].now[view.fit])), isReady: false };

$("subtitle").textContent = `${data.table} · ${data.targetName}${rows ? ` · ${rowsOf(rows.n, "held-out ")}` : ""}`;
document.title = `${data.table}: Knotwork curves`;
$("footer").textContent = `Made by knotwork ${data.version}. The model predicts the sum of these curves. An edit changes coefficients of a curve's B-splines, and the model predicts exactly what is drawn.`;
buildList();
buildScores();
connect();
changes.connect();
readHash(location.hash);
layOut();
choose(view.curve);
numerics.page.isReady = true;
