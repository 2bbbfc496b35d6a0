/* Scores, code and controls beside the chart, and what the reader does. */

/* ---- Numbers beside the chart -------------------------------------------------------------------------------- */

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
  score.changeWhat.textContent = Number.isFinite(std.main) ? `against Std (${fixed(std.main, 3)})` : "categories have no line";
  $("bar-score").textContent = `${SCORES.main} ${fixed(now.main, 3)}`;
  $("bar-change").textContent = Number.isFinite(change) ? `${signed(change, 3)} over Std` : "";
  const compared = view.ghost && ghost !== null && ghost.column === view.column;
  show(score.ghost, compared ? now.main - ghost.score : NaN);
  score.freedom.textContent = view.all ? `≤ ${counted(freedom)}` : `${fixed(freedom, 1)} of ${size + 1}`;
  score.other.textContent = otherScore(now);
}
function show(card, change) {
  card.textContent = signed(change, 3);
  card.className = `value ${Number.isFinite(change) && Math.abs(change) >= 0.0005 ? (change > 0 ? "good" : "bad") : ""}`;
}

/* Values with no more digits than places of knots need: a ten-thousandth of the axis, less where knots are close. */
function tidy(column, its) {
  const [low, high] = column.domain, gaps = its.map((u, k) => u - (k > 0 ? its[k - 1] : 0));
  const step = 10 ** Math.floor(Math.log10((high - low) * Math.min(1e-4, ...gaps.map((gap) => gap / 500))));
  if (!its.length || !(step > 0) || !Number.isFinite(high - low)) return its.map((u) => toValue(column, u));
  const decimals = Math.round(-Math.log10(step));
  return its.map((u) => {
    const value = toValue(column, u), near = decimals > 0 ? Number(value.toFixed(Math.min(decimals, 100))) : Math.round(value / step) * step;
    return near > low && near < high ? near : value;
  });
}
const knotList = (column, its) => tidy(column, its).map((value) => Number(value.toPrecision(12))).join(", ");
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
  const { levels } = columnOf(index);
  if (levels) return levels.count ? "# Categories have no encoding: networks learn a vector for each." : 'kw.make_encoder("Std")  # two values need no encoding';
  const each = view.encodings[index], method = methodOf(each);
  return method ? `kw.make_encoder(${literal(method)}, size=${each.size})` : encoderCode(columnOf(index), each, presentKnots(index));
}
function mappingCode() {
  const entries = data.columns.flatMap((stored, index) => {
    if (stored.levels) return stored.levels.count ? [] : [`        ${JSON.stringify(stored.key)}: "Std",  # two values need no encoding`];
    const each = view.encodings[index], method = methodOf(each);
    const value = method ? literal(`${method}@${each.size}`) : encoderCode(columnOf(index), each, presentKnots(index));
    return [`        ${JSON.stringify(stored.key)}: ${value},`];
  });
  const task = JSON.stringify(data.task);
  return ["import knotwork as kw", "", "encoder = kw.make_encoder(", "    {", ...entries, "    },",
          '    default="Std",', `    task=${task},`, ")", "# encoder.fit_transform(X, y), with the numerical columns of X", ""].join("\n");
}

function labelOf(index) {
  const each = view.encodings[index], { levels } = data.columns[index];
  if (levels) return levels.count ? counted(levels.count, "category", "categories") : "two values";
  const isMoved = hasMovedKnots(each);
  const method = isMoved ? null : methodOf(each);
  const family = familyOf(each).short;
  return method ? `${method}@${each.size}` : `${family}, ${isMoved ? (each.placement === "custom" ? "own knots" : "learned") : each.placement} @${each.size}`;
}

/* What the page shows, in a sentence. */
function sentence() {
  const now = fixed(fit.score.main, 2), line = fixed(fit.std.main, 2), { levels, title } = columnOf(view.column), each = encoding();
  if (view.all) return `All ${counted(data.columns.length, "column")}: ${SCORES.main} ${line} with lines, ${now} with the chosen encodings`;
  if (levels) return `${title}: ${SCORES.main} ${now} by ${levels.count ? `the means of ${counted(levels.labels.length, "group")}` : "two means"}`;
  return `${title}: ${SCORES.main} ${line} as a line, ${now} as ${fit.size} ${familyOf(each).label}`;
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
  choiceButtons("sort", [{ value: "gain", label: "Gain", title: "What the encoding adds to a straight line" }, { value: "share", label: SCORES.main, title: "What the column explains alone" }],
                (by) => { sortedBy = by; sortList(); });
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
  document.body.classList.toggle("levels", Boolean(column.levels));
  for (const button of $("placement").querySelectorAll("button")) button.disabled = !(button.dataset.value in column.knots);
  const missing = data.placements.filter(({ name }) => !(name in column.knots));
  $("placement-note").hidden = missing.length === 0;
  if (column.levels) $("placement-note").textContent = column.levels.count ? "Categories have no knots. The ridge shrinks the mean of a category towards that of all rows, the fewer rows it has the more." : "Two values need no encoding: a line through two means says the same.";
  else $("placement-note").textContent = missing.map(({ label, unavailable }) => (unavailable ? `${unavailable}.` : `${label} knots were placed for the ${data.boosted} most important columns.`)).join(" ");
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
  $("learn").title = path_ === null ? reason : "";
  $("learn-note").textContent = path_ === null ? `Off: ${reason[0].toLowerCase()}${reason.slice(1)}` : "Knots of the torch layer on these rows, from equal distances, at the best coefficients of every step.";
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
    // The part of a date stays legible where its name is cut.
    const name = element("span", { className: "name", title: stored.name }, element("span", { className: "owner", textContent: stored.owner ?? stored.name }));
    if (stored.part && !stored.isDate) name.append(element("span", { className: "part", textContent: ` ${stored.part}` }));
    const button = element("button", { type: "button" }, name, element("span", { className: "about" }), svg, element("span", { className: "share" }));
    button.dataset.name = stored.name;
    button.dataset.index = index;
    make("path", { d: drawBars(columnOf(index), 76, 0, 30, 29) }, svg);
    button.addEventListener("click", () => chooseColumn(index));
    $("list").append(element("li", {}, button));
  });
  for (const { reason, names } of data.others) {
    $("others").append(element("details", {}, element("summary", { textContent: `${counted(names.length)} more: ${reason}` }),
                               element("p", { textContent: names.join(", "), tabIndex: 0 })));
  }
}

/* Columns in the order of their gain over a line, or of what they explain; the order stays while knots are moved. */
let sortedBy = "gain";
function sortList() {
  const size = new Map(data.columns.map((_, index) => [index, (sortedBy === "gain" ? gainOf(index) : scoreNow(index).main) || 0]));
  const items = Array.from($("list").children), place = (item) => Number(item.firstChild.dataset.index);
  items.sort((a, b) => size.get(place(b)) - size.get(place(a)) || place(a) - place(b));
  $("list").append(...items);
  press("sort", sortedBy);
}

function showList() {
  const base = isClass ? 0.5 : 0, settled = !held && !moving && !playing && !adjusting;
  const largest = Math.max(...data.columns.map((_, index) => (settled ? scoreNow(index).main : 0) - base), 1e-9);
  for (const item of $("list").children) {
    const button = item.firstChild, index = Number(button.dataset.index), current = index === view.column;
    if (current) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    if (!settled && !current) continue;
    const gain = gainOf(index), parts = [`${SCORES.main} ${fixed(scoreNow(index).main, 2)}`, data.columns[index].levels ? labelOf(index) : signed(gain, 2)];
    const text = parts.join(" · ");
    if (button.children[1].textContent !== text) { button.children[1].textContent = text; button.title = labelOf(index); }
    if (settled) button.lastChild.style.setProperty("--part", `${Math.round(100 * Math.min(Math.max((scoreNow(index).main - base) / largest, 0), 1)) || 0}%`);
  }
}

function showTexts() {
  const column = columnOf(view.column), { n } = groupsOf(column).training, missing = n[column.nGroups - 1], { levels } = column;
  $("column-name").textContent = column.title;
  const distinct = column.centres.length, notes = [];
  if (levels) notes.push(levels.count ? counted(levels.count, "category", "categories") : `two values: ${levels.labels[0]} and ${levels.labels[1]}`);
  else if (distinct === 1) notes.push(`constant: ${valueText(column, column.centres[0])}`);
  else notes.push(`${valueText(column, 0)} to ${valueText(column, 1)}`);
  if (!levels && distinct > 1 && distinct < 255) notes.push(`${distinct} different values`);
  const heaviest = Math.max(...n.subarray(0, distinct));
  if (distinct > 2 && heaviest > 0.5 * nTraining) notes.push(`${percent(heaviest / nTraining, 0)} of rows are ${valueText(column, column.centres[n.indexOf(heaviest)])}`);
  if (missing > 0) notes.push(`missing in ${percent(missing / nTraining)} of rows: encoded as zeros`);
  $("column-note").textContent = notes.join(" · ");
}
const caption = () => `${data.table}: ${isClass ? "logistic ridge" : "ridge"} fit on ${rowsOf(nTraining)}, scored on ${rowsOf(data.rows.heldOut, "held-out ")}. knotwork ${data.version}`;
function showClaim() {
  $("finding").textContent = `${sentence()}.`;
  const kind = isClass ? "logistic ridge fit" : "ridge fit";
  const what = view.all ? `an additive ${kind} of ${counted(data.columns.length, "column")}` : `a ${kind} of one column`;
  $("claim").textContent = `This is ${what} on ${rowsOf(nTraining, "random ")}, scored on ${rowsOf(data.rows.heldOut, "held-out ")}. A network may rank encodings differently.`;
}

/* ---- Changes --------------------------------------------------------------------------------------------------- */

let waiting = false, adjusting = false;  // while a slider is held, its changes are one
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
  showClaim();
  showControls();
  showList();
  numerics.frames.push({ fit: fitted - started, all: performance.now() - started });
  if (numerics.frames.length > 500) numerics.frames.shift();
  if (!moving && !held && !playing && !adjusting) writeHash();
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
  ghost = null; fit = null; hovered = null;
  arrange(columnOf(view.column));
  hideReadouts();
  layOut();
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
  startAgain();
  say(`${data.columns[index].name}: held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
}

/* Change the family, placement, size or degree of the column. The reader's own knots keep their places under a new
   family or degree; a new size or placement moves them. */
function change(part) {
  if (columnOf(view.column).levels) return;
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
  say(labelOf(view.column));
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
  const old = encoding(), column = columnOf(view.column), [low, high] = column.domain, span = high - low;
  const places = Number.isFinite(span) ? numerics.cleanKnots(tidy(column, next).map((value) => (value - low) / span)) : next;
  knots = places.length === next.length ? places : next;  // knots closer than rounding keep their places
  const each = { family: old.family, placement: "custom", size: numerics.basisSize(old.family, knots.length, old.degree), degree: old.degree, knots };
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
  if (column.levels || knots.length >= 59 || !(u > 0 && u < 1)) return;
  const near = knots.some((knot) => Math.abs(toPosition(column, knot) - position) < 2e-3);
  if (near) return;
  beginChange();
  setKnots(numerics.cleanKnots([...knots, u]));
  update();
  say(`Knot added at ${valueText(column, u)}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
  const added = knots.reduce((best, knot, k) => (Math.abs(knot - u) < Math.abs(knots[best] - u) ? k : best), 0);
  shapes.handles.children[added].focus();
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
  if (fit.column.levels) { showLevel(nearestLevel(fit.column, u)); return; }
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
  panels.fit.readout.textContent = `x = ${valueText(column, u)} · fit ${shown(prediction)}${near.n ? ` · mean nearby ${shown(near.sum / near.n)}` : ""}`;
  const ones = Array.from(row).filter((value) => value === 1).length;
  const most = box.narrow ? 3 : 5, listed = active.slice(0, most).map(({ value, j }) => `${name}${j + 1} = ${fixed(value, 2)}`);
  panel.readout.textContent = [ones ? `${ones} × 1` : "", ...listed].filter(Boolean).join(" · ") || "all functions are 0 here";
  panels.knots.readout.textContent = `${rowsOf(near.n)} within ± 2 % of the axis`;
  const scale = isClass ? 1 : data.target.scale;
  panels.residuals.readout.textContent = heldNear.n ? `mean of ${counted(heldNear.n)} residuals ${significant((heldNear.sum / heldNear.n) * scale)}` : "no held-out rows nearby";
  for (const each_ of Object.values(panels)) each_.heading.setAttribute("visibility", box.narrow || box.width < 900 ? "hidden" : "inherit");
}
/* The same for a category, or one of two values. */
function showLevel(g) {
  const { column, predictions, dots, residuals, groups } = fit, u = column.centres[g], x = n1(box.left + u * inner());
  hovered = u;
  const shown = (z) => (isClass ? fixed(z, 3) : significant(toTarget(z))), scale = isClass ? 1 : data.target.scale;
  set(shapes.cross, { visibility: "visible", d: `M${x} ${panels.fit.top}V${panels.residuals.bottom}` });
  set(shapes.spots, { visibility: "visible", d: disc(x, panels.fit.y(predictions[g]), 5) });
  panels.fit.readout.textContent = `${cut(column.levels.labels[g], 30)} · mean ${shown(dots.sum[g] / dots.n[g])} · shrunk ${shown(predictions[g])}`;
  panels.knots.readout.textContent = rowsOf(groups.training.n[g]);
  panels.residuals.readout.textContent = residuals.n[g] ? `mean of ${counted(residuals.n[g])} residuals ${significant((residuals.sum[g] / residuals.n[g]) * scale)}` : "no held-out rows";
  for (const each of Object.values(panels)) each.heading.setAttribute("visibility", box.narrow || box.width < 900 ? "hidden" : "inherit");
}
function hideReadouts() {
  shapes.cross.setAttribute("visibility", "hidden");
  shapes.spots.setAttribute("visibility", "hidden");
  for (const panel of Object.values(panels)) {
    panel.readout.textContent = "";
    panel.heading.setAttribute("visibility", "inherit");
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

const svgText = () => pictureOf(chart, { title: sentence(), detail: `${targetText()} · ${view.all ? "all columns" : labelOf(view.column)} · ridge ${significant(view.ridge)}`, caption: caption() });
const columnFile = (ending) => fileName(data.columns[view.column].name, ending);
/* The page as it was opened, with the present state in place of the first. */
function pageText() {
  const state = JSON.stringify({ hash: shownHash }).replace(/</g, "\\u003c");
  return `<!DOCTYPE html>\n${source.replace(/(<script type="application\/json" id="state">)[^<]*/, (_, tag) => tag + state)}\n`;
}
function connect() {
  $("ridge").addEventListener("input", () => { adjusting = true; view.ridge = 10 ** Number($("ridge").value); requestUpdate(); });
  $("ridge").addEventListener("change", () => { adjusting = false; requestUpdate(); });
  $("ridge").addEventListener("pointerdown", keepGhost);
  $("ghost").addEventListener("change", () => { view.ghost = $("ghost").checked; update(); });
  $("all").addEventListener("click", () => { view.all = !view.all; startAgain(); });
  $("positive-class").addEventListener("change", () => {
    view.positive = Number($("positive-class").value);
    prepared.forEach(arrange);
    startAgain();
    sortList();
  });
  $("learn").addEventListener("click", play);
  $("add-knot").addEventListener("click", addToWidestGap);
  $("remove-knot").addEventListener("click", () => { if (selected >= 0 && selected < knots.length) removeKnot(selected); });
  $("frame").addEventListener("input", () => { stopPlaying(); showFrame(Number($("frame").value)); });
  $("search").addEventListener("input", searchList);
  $("export-python").addEventListener("click", () => { $("mapping").textContent = mappingCode(); $("dialog").showModal(); });
  $("export-svg").addEventListener("click", () => save(columnFile(".svg"), svgText(), "image/svg+xml"));
  $("export-png").addEventListener("click", async () => save(columnFile(".png"), await pngOf(svgText()), "image/png"));
  $("export-page").addEventListener("click", () => save(columnFile(".html"), pageText(), "text/html"));
  $("copy-line").addEventListener("click", () => copy($("line").textContent, $("copy-line")));
  $("copy-mapping").addEventListener("click", () => copy($("mapping").textContent, $("copy-mapping")));
  $("save-mapping").addEventListener("click", () => save("encoder.py", $("mapping").textContent, "text/x-python"));
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
numerics.page = { data, view, knots: () => Array.from(knots), fit: () => fit, sentence, scoreNow, scoreOfLine, svgText, pngOf, pageText, mappingCode, lineOf, isReady: false };

function start() {
  const stored = JSON.parse($("state").textContent);
  $("subtitle").textContent = `${data.table} · ${data.targetName} · ${rowsOf(data.rows.all)}`;
  document.title = `${data.table}: Knotwork explorer`;
  $("footer").textContent = `Made by knotwork ${data.version}. The list has the held-out ${SCORES.main} of each column alone, and its gain over a straight line. Up to 255 groups of neighbouring values stand for the rows of a column.`;
  readHash(location.hash || stored.hash || "");
  document.body.classList.toggle("single", data.columns.length === 1 && data.others.length === 0);
  buildList();
  buildControls();
  layOut();
  showTexts();
  connect();
  changes.connect();
  update();
  sortList();
  numerics.page.isReady = true;
  numerics.page.readyAt = performance.now();
}
start();
