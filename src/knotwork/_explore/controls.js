/* Scores, code and controls beside the chart, and what the reader does. */

/* ---- Numbers beside the chart -------------------------------------------------------------------------------- */

function element(kind, properties, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const score = {};
function buildScores() {
  const card = (key, what, className = "") => {
    score[key] = element("div", { className: "value" });
    score[`${key}What`] = element("div", { className: "what", textContent: what });
    $("scores").append(element("div", { className }, score[`${key}What`], score[key]));
  };
  card("main", `${SCORES.main} on held-out rows`, "wide");
  card("change", "against Std");
  card("ghost", "against the ghost");
  card("freedom", "degrees of freedom");
  card("other", `${SCORES.other}, held out`);
}

function showScores() {
  const { score: now, std, freedom, size } = fit, change = now.main - std.main;
  score.main.textContent = fixed(now.main, 3);
  score.mainWhat.textContent = Number.isFinite(now.main) ? `${SCORES.main} on ${rowsOf(data.rows.heldOut, "held-out ")}` : `${SCORES.main} needs held-out rows with different targets`;
  show(score.change, change);
  score.changeWhat.textContent = `against Std (${fixed(std.main, 3)})`;
  const compared = view.ghost && ghost !== null && ghost.column === view.column;
  show(score.ghost, compared ? now.main - ghost.score : NaN);
  score.freedom.textContent = view.all ? `≤ ${counted(freedom)}` : `${fixed(freedom, 1)} of ${size + 1}`;
  score.other.textContent = otherScore(now);
}
function show(card, change) {
  card.textContent = signed(change, 3);
  card.className = `value ${Number.isFinite(change) && Math.abs(change) >= 0.0005 ? (change > 0 ? "good" : "bad") : ""}`;
}

const knotList = (column, its) => its.map((u) => Number(toValue(column, u).toPrecision(12))).join(", ");
const literal = (text) => JSON.stringify(text);

const hasMovedKnots = (each) => each.placement === "custom" || each.placement === "learned";

/* The encoding as a name for a mapping, or null, and as Python that makes its encoder. */
function methodOf(each) {
  const plain = each.degree === DEFAULT_DEGREE || !familyOf(each).hasDegree;
  return plain ? data.methods[`${each.family}/${each.placement}`] ?? null : null;
}
function encoderCode(column, each, its) {
  const hasDegree = familyOf(each).hasDegree, isMoved = hasMovedKnots(each);
  const size = isMoved ? numerics.basisSize(each.family, its.length, each.degree) : each.size;
  const placement = isMoved ? `kw.knots.FixedPlacement([${knotList(column, its)}])` : literal(each.placement);
  const degree = hasDegree && each.degree !== DEFAULT_DEGREE ? `, degree=${each.degree}` : "";
  return hasDegree ? `kw.SplineEncoder(${literal(each.family)}, ${size}, placement=${placement}${degree})`
    : `kw.PiecewiseLinearEncoder(${size}, placement=${placement})`;
}
function lineOf(index) {
  const each = view.encodings[index], method = methodOf(each);
  return method ? `kw.make_encoder(${literal(method)}, size=${each.size})` : encoderCode(columnOf(index), each, presentKnots(index));
}
function mappingCode() {
  const entries = data.columns.map((stored, index) => {
    const each = view.encodings[index], method = methodOf(each);
    const value = method ? literal(`${method}@${each.size}`) : encoderCode(columnOf(index), each, presentKnots(index));
    return `        ${JSON.stringify(stored.key)}: ${value},`;
  });
  const task = JSON.stringify(data.task);
  return ["import knotwork as kw", "", "encoder = kw.make_encoder(", "    {", ...entries, "    },",
          '    default="Std",', `    task=${task},`, ")", "# encoder.fit_transform(X, y), with the numerical columns of X", ""].join("\n");
}

function labelOf(each) {
  const isMoved = hasMovedKnots(each);
  const method = isMoved ? null : methodOf(each);
  const family = familyOf(each).short;
  return method ? `${method}@${each.size}` : `${family}, ${isMoved ? (each.placement === "custom" ? "own knots" : "learned") : each.placement} @${each.size}`;
}

/* ---- Controls ------------------------------------------------------------------------------------------------ */

function choiceButtons(id, options, choose) {
  for (const option of options) {
    const button = element("button", { type: "button", textContent: option.label });
    button.dataset.value = option.value;
    if (option.title) button.title = option.title;
    button.addEventListener("click", () => choose(option.value));
    $(id).append(button);
  }
}
const press = (id, value) => {
  for (const button of $(id).querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
};

function buildControls() {
  choiceButtons("family", data.families.map(({ name, label }) => ({ value: name, label })), (family) => change({ family }));
  choiceButtons("placement", data.placements.map(({ name, label, unavailable }) => ({ value: name, label, title: unavailable })),
                (placement) => change({ placement }));
  choiceButtons("size", data.sizes.map((size) => ({ value: size, label: String(size) })), (size) => change({ size }));
  choiceButtons("degree", data.degrees.map((degree) => ({ value: degree, label: String(degree) })), (degree) => change({ degree }));
  choiceButtons("axis", [{ value: "values", label: "Values" }, { value: "rows", label: "Rows", title: "Equal room for equal numbers of rows" }],
                (axis) => { view.ranks = axis === "rows"; update(); });
  if (isClass && data.classes.length > 2) {
    $("positive").hidden = false;
    data.classes.forEach((label, code) => $("positive-class").append(element("option", { value: String(code), textContent: label })));
  }
  buildScores();
}

function showControls() {
  const each = encoding(), column = columnOf(view.column), family = familyOf(each), path_ = pathOf(view.column, each);
  press("family", each.family);
  press("placement", each.placement);
  press("size", numerics.basisSize(each.family, knots.length, each.degree));
  press("degree", family.hasDegree ? each.degree : "");
  press("axis", view.ranks ? "rows" : "values");
  for (const button of $("degree").querySelectorAll("button")) button.disabled = !family.hasDegree;
  for (const button of $("placement").querySelectorAll("button")) button.disabled = !(button.dataset.value in column.knots);
  const missing = data.placements.filter(({ name }) => !(name in column.knots));
  $("placement-note").hidden = missing.length === 0;
  $("placement-note").textContent = missing.map(({ label, unavailable }) => (unavailable ? `${unavailable}.` : `${label} knots were placed for the ${data.boosted} most important columns.`)).join(" ");
  $("ridge").value = String(Math.log10(view.ridge));
  $("ridge-value").textContent = significant(view.ridge);
  $("ghost").checked = view.ghost;
  $("all").setAttribute("aria-pressed", String(view.all));
  $("all").disabled = data.columns.length < 2;
  $("positive-class").value = String(view.positive);
  showLearning(each, path_);
  $("line").textContent = lineOf(view.column);
  $("remove-knot").disabled = selected < 0 || selected >= knots.length;
}

function showLearning(each, path_) {
  $("learn").disabled = $("frame").disabled = path_ === null;
  $("learn").textContent = playing ? "❚❚ Pause" : "▶ Learn";
  const paths = Object.keys(data.columns[view.column].paths), isLearned = paths.length > 0;
  const reason = data.learning.reason || (!isLearned ? `Knots were learned for the ${data.learning.columns} most important columns.`
    : `Knots were learned for degree ${data.learning.degree}, in this column for ${learnedSizes(paths)}.`);
  $("learn-note").textContent = path_ === null ? reason : "Knots of the torch layer on these rows, from equal distances, at the best coefficients of every step.";
  if (path_ === null) { $("frame-value").textContent = ""; return; }
  path_.decoded ??= decode(path_.values, Uint16Array);
  const last = nFrames(path_) - 1, frame = each.placement === "learned" ? each.frame ?? last : 0;
  $("frame").max = String(last);
  $("frame").value = String(Math.round(frame));
  $("frame").setAttribute("aria-valuetext", `step ${2 * Math.round(frame)} of ${2 * last}`);
  $("frame-value").textContent = each.placement === "learned" ? `${2 * Math.round(frame)} / ${2 * last}` : "";
}

/* Which sizes of which family were learned in time. */
function learnedSizes(paths) {
  return data.families.map(({ name, label }) => {
    const sizes = data.sizes.filter((size) => paths.includes(`${name}@${size}`));
    return sizes.length ? `${label} (${sizes.join(", ")})` : "";
  }).filter(Boolean).join(", ");
}

function buildList() {
  data.columns.forEach((stored, index) => {
    const svg = make("svg", { viewBox: "0 0 76 30", "aria-hidden": "true" });
    const button = element("button", { type: "button" }, element("span", { className: "name", textContent: stored.name, title: stored.name }),
                           element("span", { className: "about" }), svg, element("span", { className: "share" }));
    make("path", { d: drawBars(columnOf(index), 76, 0, 30, 29) }, svg);
    const largest = data.columns[0].importance || 1;
    button.lastChild.style.setProperty("--part", `${Math.round(100 * Math.min(stored.importance / largest, 1))}%`);
    button.addEventListener("click", () => chooseColumn(index));
    $("list").append(element("li", {}, button));
  });
  for (const { reason, names } of data.others) {
    $("others").append(element("details", {}, element("summary", { textContent: `${counted(names.length)} more: ${reason}` }),
                               element("p", { textContent: names.join(", "), tabIndex: 0 })));
  }
}

function showList() {
  Array.from($("list").children).forEach((item, index) => {
    const button = item.firstChild, current = index === view.column;
    if (current) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    const text = `${percent(data.columns[index].importance)} · ${labelOf(view.encodings[index])}`;
    if (button.children[1].textContent !== text) button.children[1].textContent = text;
  });
}

function showTexts() {
  const column = columnOf(view.column), { n } = groupsOf(column).training, missing = n[column.nGroups - 1];
  $("column-name").textContent = column.name;
  const distinct = column.centres.length, notes = [`${significant(column.domain[0])} to ${significant(column.domain[1])}`];
  if (distinct === 1) notes[0] = `constant: ${significant(toValue(column, column.centres[0]))}`;
  else if (distinct < 255) notes.push(`${distinct} different values`);
  const heaviest = Math.max(...n.subarray(0, distinct));
  if (distinct > 2 && heaviest > 0.5 * nTraining) notes.push(`${percent(heaviest / nTraining, 0)} of rows are ${significant(toValue(column, column.centres[n.indexOf(heaviest)]))}`);
  if (missing > 0) notes.push(`missing in ${percent(missing / nTraining)} of rows: encoded as zeros`);
  notes.push(`explains ${percent(column.importance)} of the held-out variance alone`);
  $("column-note").textContent = notes.join(" · ");
  const kind = isClass ? "logistic ridge fit" : "ridge fit";
  const what = view.all ? `an additive ${kind} of ${counted(data.columns.length)} columns` : `a ${kind} of one column`;
  $("claim").textContent = `This is ${what} on ${rowsOf(nTraining, "random ")}, scored on ${rowsOf(data.rows.heldOut, "held-out ")}. A network may rank encodings differently.`;
}

/* ---- Changes --------------------------------------------------------------------------------------------------- */

let waiting = false;
function requestUpdate() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; update(); });
}

/* Fit and draw everything. `numerics.frames` keeps how long the last frames took, for the benchmark. */
numerics.frames = [];
function update() {
  const started = performance.now();
  fit = view.all ? fitAll() : fitOne();
  const fitted = performance.now();
  draw();
  showScores();
  showControls();
  showList();
  numerics.frames.push({ fit: fitted - started, all: performance.now() - started });
  if (numerics.frames.length > 500) numerics.frames.shift();
  if (!moving && !held) writeHash();
}

/* The fit before a change becomes the ghost. */
function keepGhost() {
  if (fit && fit.curve) ghost = { column: view.column, curve: fit.curve, score: fit.score.main };
}
function beginChange() {
  stopPlaying();
  keepGhost();
}
/* Fit again from the start, without a ghost. */
function startAgain() {
  ghost = null; fit = null;
  showTexts();
  update();
}
const say = (text) => { $("live").textContent = text; };

function chooseColumn(index) {
  stopPlaying();
  view.column = index;
  selected = -1;
  view.ranks = columnOf(index).ranksByDefault;
  knots = knotsOf(index, encoding());
  hovered = null; hideReadouts();
  startAgain();
  say(`${data.columns[index].name}: held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
}

/* Change the family, placement, size or degree of the column. The reader's own knots keep their places under a new
   family or degree; a new size or placement moves them. */
function change(part) {
  beginChange();
  const old = encoding(), each = { ...old, ...part };
  const keepsKnots = old.placement === "custom" && !("placement" in part) && !("size" in part);
  if (!keepsKnots) {
    delete each.knots;
    if (!data.sizes.includes(each.size)) each.size = data.sizes.reduce((a, b) => (Math.abs(b - each.size) < Math.abs(a - each.size) ? b : a));
    if (each.placement === "custom" || (each.placement === "learned" && !pathOf(view.column, each))) each.placement = old.origin in columnOf(view.column).knots ? old.origin : "quantile";
    delete each.origin;
    if (each.placement !== "learned") delete each.frame;
  }
  view.encodings[view.column] = each;
  if (keepsKnots) each.size = numerics.basisSize(each.family, each.knots.length, each.degree);
  moveTo(knotsOf(view.column, each));
  say(`${labelOf(each)}`);
}

/* Move the knots to new places, at once if the reader prefers no motion. New knots come out of their neighbours. */
function moveTo(goal) {
  stopMoving();
  const from = goal.map((knot, k) => (knots.length ? knots[Math.min(Math.round((k * (knots.length - 1)) / Math.max(goal.length - 1, 1)), knots.length - 1)] : knot));
  if (calm.matches || !goal.length) { knots = goal; update(); return; }
  animate(MOVE_MS, (handle) => { moving = handle; }, (share) => {
    const eased = 1 - (1 - share) ** 3;
    knots = share === 1 ? goal : numerics.cleanKnots(goal.map((knot, k) => from[k] + eased * (knot - from[k])));
    update();
  });
}
function stopMoving() {
  cancelAnimationFrame(moving);
  moving = 0;
}
/* Draw frames for a time: `keep` gets the handle of the next one, 0 at the last, and `draw` the share of the time. */
function animate(milliseconds, keep, draw) {
  const started = performance.now();
  const step = (now) => {
    const share = Math.min(Math.max((now - started) / milliseconds, 0), 1);
    keep(share < 1 ? requestAnimationFrame(step) : 0);
    draw(share);
  };
  keep(requestAnimationFrame(step));
}

/* Knots become the reader's own; their former placement returns with a new size. */
function setKnots(next) {
  stopMoving();
  const old = encoding();
  knots = next;
  const each = { family: old.family, placement: "custom", size: numerics.basisSize(old.family, next.length, old.degree), degree: old.degree, knots: next };
  Object.defineProperty(each, "origin", { value: old.origin ?? old.placement, enumerable: false, configurable: true });
  view.encodings[view.column] = each;
}

/* Move knot k to a position of the axis; it stays between its neighbours. */
function placeKnot(k, position) {
  const column = columnOf(view.column), positions = [0, ...knots.map((u) => toPosition(column, u)), 1];
  const left = positions[k], right = positions[k + 2], gap = Math.min(1e-3, (right - left) / 4);
  const next = knots.slice();
  next[k] = fromPosition(column, Math.min(Math.max(position, left + gap), right - gap));
  const inOrder = next[k] > (k > 0 ? next[k - 1] : 0) && next[k] < (k + 1 < next.length ? next[k + 1] : 1);
  if (inOrder) setKnots(next);
}

function addKnot(position) {
  const column = columnOf(view.column), u = fromPosition(column, position);
  if (knots.length >= 59 || !(u > 0 && u < 1)) return;
  const near = knots.some((knot) => Math.abs(toPosition(column, knot) - position) < 2e-3);
  if (near) return;
  beginChange();
  setKnots(numerics.cleanKnots([...knots, u]));
  update();
  say(`Knot added at ${significant(toValue(column, u))}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
  shapes.handles.children[knots.indexOf(u)]?.focus();
}

/* For readers without a mouse or keyboard: a knot in the middle of the widest gap of the axis. */
function addToWidestGap() {
  const column = columnOf(view.column), positions = [0, ...knots.map((u) => toPosition(column, u)), 1];
  let widest = 0;
  for (let i = 1; i + 1 < positions.length; i++) if (positions[i + 1] - positions[i] > positions[widest + 1] - positions[widest]) widest = i;
  addKnot((positions[widest] + positions[widest + 1]) / 2);
}

function removeKnot(k) {
  beginChange();
  setKnots(knots.filter((_, i) => i !== k));
  update();
  say(`Knot removed; ${knots.length} left; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
  const rest = shapes.handles.children;
  if (rest.length) rest[Math.min(k, rest.length - 1)].focus(); else $("family").querySelector("button").focus();
}

/* ---- Pointer and keyboard ---------------------------------------------------------------------------------------- */

let held = null, hovered = null, selected = -1;  // the knot that is dragged, the value pointed at, the last knot in focus
const positionOf = (event) => {
  const frame = chart.getBoundingClientRect();
  return ((event.clientX - frame.left) * (box.width / frame.width) - box.left) / inner();
};
const knotIndex = (node) => Array.from(shapes.handles.children).indexOf(node);

chart.addEventListener("pointerdown", (event) => {
  const node = event.target.closest(".knot");
  if (!node || event.button !== 0) return;
  beginChange();
  // Grabbing a knot at its side must not move it.
  const k = knotIndex(node), offset = toPosition(columnOf(view.column), knots[k]) - positionOf(event);
  held = { node, k, offset, last: null };
  node.classList.add("held");
  chart.setPointerCapture(event.pointerId);
  node.focus({ focusVisible: false });
  event.preventDefault();
});
chart.addEventListener("pointermove", (event) => {
  if (held) {
    placeKnot(held.k, positionOf(event) + held.offset);
    hovered = knots[held.k];
    requestUpdate();
    return;
  }
  const position = positionOf(event);
  if (position < -0.02 || position > 1.02) { hovered = null; hideReadouts(); return; }
  showAt(fromPosition(columnOf(view.column), position));
});
const release = () => {
  if (!held) return;
  held.node.classList.remove("held");
  held = null;
  update();
};
chart.addEventListener("pointerup", release);
chart.addEventListener("pointercancel", release);
chart.addEventListener("pointerleave", () => { if (!held) { hovered = null; hideReadouts(); } });
chart.addEventListener("dblclick", (event) => {
  if (event.target.closest(".knot")) return;
  addKnot(positionOf(event));
});
shapes.handles.addEventListener("focusin", (event) => {
  const k = knotIndex(event.target.closest(".knot"));
  if (k >= 0) { selected = k; $("remove-knot").disabled = false; }
  if (k >= 0 && !held) showAt(knots[k]);
});
shapes.handles.addEventListener("focusout", () => { if (!held) { hovered = null; hideReadouts(); } });
shapes.handles.addEventListener("keydown", (event) => {
  const k = knotIndex(event.target.closest(".knot"));
  if (k < 0) return;
  const column = columnOf(view.column), step = event.shiftKey ? 0.001 : 0.01, at = toPosition(column, knots[k]);
  const moves = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageDown: -0.05, PageUp: 0.05, Home: -1, End: 1 };
  if (event.key in moves) {
    beginChange();
    placeKnot(k, at + moves[event.key]);
    hovered = knots[k];
    update();
  } else if (event.key === "Delete" || event.key === "Backspace") {
    removeKnot(k);
  } else if (event.key === "+" || event.key === "Insert") {
    addKnot((at + (k + 1 < knots.length ? toPosition(column, knots[k + 1]) : 1)) / 2);
  } else return;
  event.preventDefault();
});

/* What is at a value, in every panel at once. */
function showAt(u) {
  hovered = u;
  const { column, model } = fit, each = encoding(), row = numerics.design(each.family, [u], knots, each.degree).rows;
  const prediction = response(numerics.linear(row, 0, row.length, model.intercept, model.coefficients));
  const at = toPosition(column, u), near = { n: 0, sum: 0, squares: 0 }, heldNear = { n: 0, sum: 0, squares: 0 };
  column.centres.forEach((centre, g) => {
    if (Math.abs(toPosition(column, centre) - at) > NEARBY) return;
    for (const [sums, tallied] of [[near, fit.dots], [heldNear, fit.residuals]]) {
      sums.n += tallied.n[g]; sums.sum += tallied.sum[g]; sums.squares += tallied.squares[g];
    }
  });
  const x = n1(box.left + at * inner()), panel = panels.functions;
  set(shapes.cross, { visibility: "visible", d: `M${x} ${panels.fit.top}V${panels.residuals.bottom}` });
  const active = Array.from(row, (value, j) => ({ value, j })).filter(({ value }) => value > 0 && value !== 1);
  const inPanel = Math.min(Math.max(panels.fit.y(prediction), panels.fit.top), panels.fit.bottom);
  const discs = active.map(({ value, j }) => disc(x, panel.y(value * model.coefficients[j] * panel.scale), 3));
  set(shapes.spots, { visibility: "visible", d: disc(x, inPanel, 5) + discs.join("") });
  const name = familyOf(each).short[0], shown = (z) => (isClass ? fixed(z, 3) : significant(toTarget(z)));
  panels.fit.readout.textContent = `x = ${significant(toValue(column, u))} · fit ${shown(prediction)}${near.n ? ` · mean nearby ${shown(near.sum / near.n)}` : ""}`;
  const ones = Array.from(row).filter((value) => value === 1).length;
  const most = box.narrow ? 3 : 5, listed = active.slice(0, most).map(({ value, j }) => `${name}${j + 1} = ${fixed(value, 2)}`);
  panel.readout.textContent = [ones ? `${ones} × 1` : "", ...listed].filter(Boolean).join(" · ") || "all functions are 0 here";
  panels.knots.readout.textContent = `${rowsOf(near.n)} within ± 2 % of the axis`;
  const scale = isClass ? 1 : data.target.scale;
  panels.residuals.readout.textContent = heldNear.n ? `mean of ${counted(heldNear.n)} residuals ${significant((heldNear.sum / heldNear.n) * scale)}` : "no held-out rows nearby";
  for (const each_ of Object.values(panels)) each_.heading.setAttribute("visibility", box.narrow || box.width < 900 ? "hidden" : "visible");
}
function hideReadouts() {
  shapes.cross.setAttribute("visibility", "hidden");
  shapes.spots.setAttribute("visibility", "hidden");
  for (const panel of Object.values(panels)) {
    panel.readout.textContent = "";
    panel.heading.setAttribute("visibility", "visible");
  }
}

/* ---- Learning ------------------------------------------------------------------------------------------------------ */

let playing = 0;
function stopPlaying() {
  cancelAnimationFrame(playing);
  playing = 0;
}
function showFrame(frame) {
  const each = { ...encoding(), placement: "learned", frame };
  delete each.knots;
  view.encodings[view.column] = each;
  knots = knotsOf(view.column, each);
  update();
}
function play() {
  if (playing) { stopPlaying(); showFrame(Math.round(encoding().frame)); return; }
  stopMoving();
  keepGhost();
  const last = nFrames(pathOf(view.column, encoding())) - 1;
  if (calm.matches) { showFrame(last); return; }
  animate(PLAY_MS, (handle) => { playing = handle; }, (share) => showFrame(share * last));
}

/* ---- Export ---------------------------------------------------------------------------------------------------------- */

function save(name, kind, text) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([text], { type: kind })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const fileName = (ending) => `${data.table.replace(/\.\w+$/, "")}_${data.columns[view.column].name}`.replace(/[^\w-]+/g, "_").slice(0, 80) + ending;

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "visibility"];
function svgText() {
  const copy = chart.cloneNode(true), originals = chart.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((each, i) => {
    const style = getComputedStyle(originals[i]);
    each.setAttribute("style", KEPT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "tabindex", "role"]) each.removeAttribute(name);
    for (const { name } of Array.from(each.attributes)) if (name.startsWith("aria-")) each.removeAttribute(name);
  });
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.setAttribute("style", `background:${getComputedStyle(document.documentElement).getPropertyValue("--card")}`);
  return new XMLSerializer().serializeToString(copy);
}
/* The page as it was opened, with the present state in place of the first. */
function pageText() {
  const state = JSON.stringify({ hash: shownHash }).replace(/</g, "\\u003c");
  return `<!DOCTYPE html>\n${source.replace(/(<script type="application\/json" id="state">)[^<]*/, (_, tag) => tag + state)}\n`;
}
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";  // not every browser lets a file write to the clipboard
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function connect() {
  $("ridge").addEventListener("input", () => { view.ridge = 10 ** Number($("ridge").value); requestUpdate(); });
  $("ridge").addEventListener("pointerdown", keepGhost);
  $("ghost").addEventListener("change", () => { view.ghost = $("ghost").checked; update(); });
  $("all").addEventListener("click", () => { view.all = !view.all; startAgain(); });
  $("positive-class").addEventListener("change", () => {
    view.positive = Number($("positive-class").value);
    startAgain();
  });
  $("learn").addEventListener("click", play);
  $("add-knot").addEventListener("click", addToWidestGap);
  $("remove-knot").addEventListener("click", () => { if (selected >= 0 && selected < knots.length) removeKnot(selected); });
  $("frame").addEventListener("input", () => { stopPlaying(); showFrame(Number($("frame").value)); });
  $("search").addEventListener("input", () => {
    const text = $("search").value.trim().toLowerCase();
    Array.from($("list").children).forEach((item, i) => { item.hidden = !data.columns[i].name.toLowerCase().includes(text); });
  });
  $("export-python").addEventListener("click", () => { $("mapping").textContent = mappingCode(); $("dialog").showModal(); });
  $("export-svg").addEventListener("click", () => save(fileName(".svg"), "image/svg+xml", svgText()));
  $("export-page").addEventListener("click", () => save(fileName(".html"), "text/html", pageText()));
  $("copy-line").addEventListener("click", () => copy($("line").textContent, $("copy-line")));
  $("copy-mapping").addEventListener("click", () => copy($("mapping").textContent, $("copy-mapping")));
  $("save-mapping").addEventListener("click", () => save("encoder.py", "text/x-python", $("mapping").textContent));
  $("close-dialog").addEventListener("click", () => $("dialog").close());
  addEventListener("hashchange", (event) => {
    const { hash } = new URL(event.newURL);  // a frame may have written the address again since
    if (hash === shownHash) return;
    stopPlaying();
    readHash(hash);
    startAgain();
  });
  new ResizeObserver(() => {
    if (Math.abs(chart.clientWidth - box.width) < 1) return;
    layOut();
    draw();
  }).observe(chart);
}

/* The state of the page, its texts for export and its fit, for tests and for readers who open the console. */
numerics.page = { data, view, knots: () => Array.from(knots), fit: () => fit, svgText, pageText, mappingCode, lineOf, isReady: false };

function start() {
  const stored = JSON.parse($("state").textContent);
  $("subtitle").textContent = `${data.table} · ${data.targetName} · ${rowsOf(data.rows.all)}`;
  document.title = `${data.table}: Knotwork explorer`;
  $("footer").textContent = `Made by knotwork ${data.version}. Columns are ordered by the share of the target's held-out variance that each explains alone. Up to 255 groups of neighbouring values stand for the rows of a column.`;
  readHash(location.hash || stored.hash || "");
  document.body.classList.toggle("single", data.columns.length === 1 && data.others.length === 0);
  buildList();
  buildControls();
  layOut();
  showTexts();
  connect();
  update();
  numerics.page.isReady = true;
  numerics.page.readyAt = performance.now();
}
start();
