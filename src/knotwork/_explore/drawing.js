/* The chart: four panels over one axis. Text of the table reaches the document by textContent and attributes only. */

/* ---- Numbers in words -------------------------------------------------------------------------------------- */

const { fixed, significant, percent, counted } = writing;
const rowsOf = (n, kind = "") => counted(n, `${kind}row`);
const signed = (x, digits) => fixed(x, digits, true);
const toTarget = (z) => (isClass ? z : data.target.centre + data.target.scale * z);
const SCORES = isClass ? { main: "AUC", other: "Log loss" } : { main: "R²", other: "RMSE" };
const otherScore = (score) => (isClass ? fixed(score.other, 4) : significant(score.other * data.target.scale));
const targetText = () => (isClass ? `share of ${data.targetName} = ${data.classes[view.positive]}` : data.targetName);

/* ---- Drawing ----------------------------------------------------------------------------------------------- */

const SVG = "http://www.w3.org/2000/svg";
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
function make(kind, attributes = {}, parent = null) {
  const element = set(document.createElementNS(SVG, kind), attributes);
  if (parent) parent.append(element);
  return element;
}
/* Change a group to have n children, which `add` makes. */
function resize(group, n, add) {
  while (group.children.length > n) group.lastChild.remove();
  while (group.children.length < n) add(group);
}
const chart = $("chart");
const layer = make("g", {}, chart);
const PANELS = ["fit", "functions", "knots", "residuals"];
const panels = {};
const clip = make("rect", {}, make("clipPath", { id: "inside" }, make("defs", {}, layer)));
const ground = make("rect", { class: "ground" }, layer);
for (const name of PANELS) {
  const group = make("g", {}, layer);
  panels[name] = { group, grid: make("path", { class: "grid" }, group), zero: make("path", { class: "zero" }, group),
                   labels: make("g", {}, group), heading: make("text", { class: "heading" }, group),
                   readout: make("text", { class: "readout" }, group) };
}
const inFit = make("g", { "clip-path": "url(#inside)" }, panels.fit.group);
const shapes = {
  whiskers: make("path", { class: "whiskers" }, inFit), ghost: make("path", { class: "ghost" }, inFit),
  means: make("path", { class: "means" }, inFit), curve: make("path", { class: "curve" }, inFit),
  functions: make("g", {}, panels.functions.group), lines: make("g", {}, panels.functions.group), outline: make("path", { class: "outline" }, panels.functions.group),
  bars: make("path", { class: "bars" }, panels.knots.group),
  residualWhiskers: make("path", { class: "whiskers" }, panels.residuals.group),
  residualMeans: make("path", { class: "means" }, panels.residuals.group),
  axis: make("g", {}, layer), cross: make("path", { class: "cross", visibility: "hidden" }, layer),
  spots: make("path", { class: "spot", visibility: "hidden" }, layer), handles: make("g", {}, layer),
};
let box = { width: 800, left: 58, right: 14, narrow: false };

function layOut() {
  const width = Math.max(chart.clientWidth || 800, 240), narrow = width < 560;
  const heights = narrow ? [190, 120, 96, 84] : [250, 150, 104, 92];
  box = { width, narrow, left: narrow ? 44 : 58, right: narrow ? 8 : 14 };
  let top = 0;
  PANELS.forEach((name, i) => {
    top += 26;
    Object.assign(panels[name], { top, height: heights[i], bottom: top + heights[i] });
    top += heights[i] + 8;
    set(panels[name].heading, { x: narrow ? 2 : box.left, y: panels[name].top - 9 });
    set(panels[name].readout, { x: narrow ? 2 : width - box.right, y: panels[name].top - 9 });
  });
  layer.setAttribute("class", narrow ? "narrow" : "");
  box.height = top + 34;
  chart.setAttribute("viewBox", `0 0 ${width} ${box.height}`);
  chart.style.height = `${box.height}px`;
  set(clip, { x: box.left - 5, y: panels.fit.top - 5, width: inner() + 10, height: panels.fit.height + 10 });
  set(ground, { x: 0, y: 0, width, height: box.height });
}
const inner = () => box.width - box.left - box.right;
const px = (column, u) => box.left + toPosition(column, u) * inner();
const n1 = (x) => Math.round(x * 10) / 10;

/* Draw numbers and lines of a vertical axis, and return the function from values to pixels. */
function verticalAxis(panel, low, high, nTicks) {
  const y = (value) => panel.bottom - ((value - low) / (high - low)) * panel.height;
  const at = writing.axisTicks(low, high, nTicks);
  panel.grid.setAttribute("d", at.map(([value]) => `M${box.left} ${n1(y(value))}H${box.width - box.right}`).join(""));
  writeLabels(panel.labels, at.map(([value, text]) => ({ x: box.left - 7, y: n1(y(value)) + 4, text, anchor: "end" })));
  return y;
}
function writeLabels(group, labels) {
  resize(group, labels.length, () => make("text", {}, group));
  labels.forEach(({ x, y, anchor, text }, i) => {
    const element = set(group.children[i], { x, y, "text-anchor": anchor });
    if (element.textContent !== text) element.textContent = text;
  });
}

/* Points of the curves: equally spaced on the axis, and both sides of every knot, where curves may bend or jump. */
function gridOf(column) {
  const points = [];
  for (let i = 0; i <= N_GRID; i++) points.push(fromPosition(column, i / N_GRID));
  for (const knot of knots) points.push(Math.max(knot - 1e-9, 0), knot);
  return Float64Array.from(points).sort();
}

const path = (xs, ys) => {
  let text = "";
  for (let i = 0; i < xs.length; i++) text += `${i ? "L" : "M"}${n1(xs[i])} ${n1(ys[i])}`;
  return text;
};
const disc = (x, y, r) => `M${n1(x - r)} ${n1(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

function draw() {
  const { column, model, size } = fit, each = encoding(), grid = gridOf(column);
  const { rows } = numerics.design(each.family, grid, knots, each.degree);
  const xs = grid.map((u) => px(column, u));
  drawFit(column, model, rows, size, grid, xs);
  drawFunctions(model, rows, size, xs);
  drawKnots(column);
  drawResiduals(column);
  drawAxis(column);
  if (hovered !== null) showAt(hovered);
}

/* Means with their errors; `y` maps values to pixels. */
function drawDots(whiskers, means, column, dots, y, radius) {
  whiskers.setAttribute("d", dots.map((dot) => `M${n1(px(column, dot.u))} ${n1(y(dot.mean - dot.error))}V${n1(y(dot.mean + dot.error))}`).join(""));
  means.setAttribute("d", dots.map((dot) => disc(px(column, dot.u), y(dot.mean), radius)).join(""));
}

function drawFit(column, model, rows, size, grid, xs) {
  const panel = panels.fit, dots = dotsOf(column, fit.dots, fit.groups.training, isClass);
  let low = Infinity, high = -Infinity;
  for (const dot of dots) {
    const reach = Math.min(dot.error, 3 * Math.abs(dot.error));
    low = Math.min(low, dot.mean - reach); high = Math.max(high, dot.mean + reach);
  }
  if (!(high > low)) { low -= isClass ? 0.1 : 1; high += isClass ? 0.1 : 1; }
  const margin = 0.12 * (high - low);
  [low, high] = [low - margin, high + margin];
  if (isClass) [low, high] = [Math.max(low, -0.02), Math.min(high, 1.02)];
  const y = verticalAxis(panel, toTarget(low), toTarget(high), 4), yz = (z) => y(toTarget(z));
  panel.y = yz;
  fit.curve = { grid, values: predictRows(model, rows, size) };
  shapes.curve.setAttribute("d", path(xs, fit.curve.values.map(yz)));
  const showGhost = view.ghost && ghost !== null && ghost.column === view.column;
  shapes.ghost.setAttribute("d", showGhost ? path(Array.from(ghost.curve.grid, (u) => px(column, u)), ghost.curve.values.map(yz)) : "");
  drawDots(shapes.whiskers, shapes.means, column, dots, yz, box.narrow ? 3 : 3.6);
  panel.heading.textContent = box.narrow ? targetText() : `${targetText()}: means of training rows ± 2 standard errors${view.all ? ", less the other columns" : ""}, and the fit`;
}

function drawFunctions(model, rows, size, xs) {
  const panel = panels.functions, n = xs.length, scale = isClass ? 1 : data.target.scale;
  let low = 0, high = 0, top = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < size; j++) {
      const value = rows[i * size + j], part = value * model.coefficients[j] * scale;
      if (part < low) low = part; else if (part > high) high = part;
      if (value > top) top = value;
    }
  }
  if (!(high > low)) [low, high] = [-1, 1];
  const margin = 0.06 * (high - low), y = verticalAxis(panel, low - margin, high + margin, 3);
  panel.y = y; panel.scale = scale;
  const zero = n1(y(0));
  panel.zero.setAttribute("d", `M${box.left} ${zero}H${box.width - box.right}`);
  resize(shapes.functions, size, (group) => make("path", { class: "filled" }, group));
  resize(shapes.lines, size, (group) => make("path", { class: "function" }, group));
  let outline = "";
  const lift = (panel.height - 6) / (top || 1);
  for (let j = 0; j < size; j++) {
    const filled = shapes.functions.children[j], line = shapes.lines.children[j];
    const hue = String(Math.round(215 + (size > 1 ? (145 * j) / (size - 1) : 0)));
    for (const each of [filled, line]) if (each.dataset.hue !== hue) { each.style.setProperty("--hue", hue); each.dataset.hue = hue; }
    const c = model.coefficients[j] * scale;
    let text = "", open = false;
    for (let i = 0; i < n; i++) {
      const value = rows[i * size + j];
      const before = i > 0 ? rows[(i - 1) * size + j] : NaN, after = i + 1 < n ? rows[(i + 1) * size + j] : NaN;
      if (value === before && value === after) continue;  // constant pieces need their ends only
      if (value === 0 && !(before > 0) && !(after > 0)) { open = false; continue; }  // nothing outside of the support
      if (value === 0 && !(before > 0)) open = false;
      text += `${open ? "L" : "M"}${n1(xs[i])} ${n1(y(value * c))}`;
      outline += `${open ? "L" : "M"}${n1(xs[i])} ${n1(panel.bottom - value * lift)}`;
      open = true;
    }
    line.setAttribute("d", text);
    filled.setAttribute("d", `${text}L${n1(xs[n - 1])} ${zero}L${n1(xs[0])} ${zero}Z`);
  }
  shapes.outline.setAttribute("d", outline);
  const unit = isClass ? " (log-odds)" : "";
  panel.heading.textContent = box.narrow ? `Coefficient × function${unit}` : `${size} functions, filled by coefficient × function${unit}; thin: the functions`;
}

/* The histogram of training rows as a path. */
function drawBars(column, panelWidth, left, bottom, height) {
  const counts = column.bars, top = Math.max(...counts, 1);
  const exact = column.centres.length === counts.length && counts.length <= N_BARS;
  const [edge, step] = column.barGrid;
  let width = step * panelWidth;
  const middle = (i) => (exact ? column.centres[i] : edge + (i + 0.5) * step) * panelWidth;
  if (exact) {
    width = counts.length > 1 ? Infinity : 0.2 * panelWidth;
    for (let i = 1; i < counts.length; i++) width = Math.min(width, middle(i) - middle(i - 1));
    width = Math.min(Math.max(0.7 * width, 2), 0.12 * panelWidth);
  }
  let text = "";
  counts.forEach((n, i) => {
    if (n === 0) return;
    const h = Math.max((n / top) * height, 1), x = Math.min(Math.max(middle(i) - width / 2, 0), panelWidth - width);
    text += `M${n1(left + x)} ${bottom}v${n1(-h)}h${n1(Math.max(width - (exact ? 0 : 0.6), 0.8))}v${n1(h)}z`;
  });
  return text;
}

/* On the axis of rows there is a bar for each group. The root of the number of rows keeps small groups visible beside
   a value that most rows have. */
function rankBars(column, panel) {
  const { n } = fit.groups.training, top = Math.max(...n.subarray(0, column.centres.length), 1), width = inner() / column.stretch.length;
  let text = "";
  column.centres.forEach((u, g) => {
    const h = Math.max(Math.sqrt(n[g] / top) * (panel.height - 40), 0.8);
    text += `M${n1(px(column, u) - width / 2)} ${panel.bottom}v${n1(-h)}h${n1(Math.max(width, 0.8))}v${n1(h)}z`;
  });
  return text;
}

function drawKnots(column) {
  const panel = panels.knots;
  shapes.bars.setAttribute("d", view.ranks ? rankBars(column, panel) : drawBars(column, inner(), box.left, panel.bottom, panel.height - 40));
  panel.zero.setAttribute("d", `M${box.left} ${panel.bottom}H${box.width - box.right}`);
  const group = shapes.handles;
  resize(group, knots.length, makeHandle);
  const radius = box.narrow || matchMedia("(pointer: coarse)").matches ? 8 : knots.length > 20 ? 5.5 : 7;
  let lastX = -Infinity, level = 0;
  knots.forEach((knot, k) => {
    const element = group.children[k], x = n1(px(column, knot));
    level = x - lastX < 2 * radius + 3 ? (level + 1) % 3 : 0;  // handles that would cover each other
    lastX = x;
    const [stem, hit, handle] = element.children;
    set(stem, { d: `M${x} ${panels.fit.top}V${panels.residuals.bottom}` });
    set(hit, { x: x - 11, y: panel.top - 4, width: 22, height: panel.height + 4 });
    set(handle, { cx: x, cy: panel.top + 10 + 13 * level, r: radius });
    const value = toValue(column, knot);
    set(element, {
      "aria-label": `Knot ${k + 1} of ${knots.length}`, "aria-valuenow": value,
      "aria-valuemin": toValue(column, k > 0 ? knots[k - 1] : 0), "aria-valuemax": toValue(column, knots[k + 1] ?? 1),
      "aria-valuetext": `${column.name} ${significant(value)}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`,
    });
  });
  panel.heading.textContent = box.narrow ? `${knots.length} knots` : `${knots.length} knots over ${view.ranks ? "the root of the number of rows of each group" : "the histogram of training rows"}`;
}

function makeHandle(group) {
  const element = make("g", { class: "knot", role: "slider", tabindex: "0", "aria-orientation": "horizontal" }, group);
  make("path", { class: "stem" }, element);
  make("rect", { class: "hit" }, element);
  make("circle", { class: "handle" }, element);
}

function drawResiduals(column) {
  const panel = panels.residuals, dots = dotsOf(column, fit.residuals, fit.groups.training), scale = isClass ? 1 : data.target.scale;
  let reach = 0;
  for (const dot of dots) reach = Math.max(reach, Math.abs(dot.mean) + Math.min(dot.error, 2 * Math.abs(dot.mean) + 1e-3));
  reach = (reach || 1) * scale;
  const y = verticalAxis(panel, -reach, reach, 2);
  const inside = (value) => Math.min(Math.max(y(value * scale), panel.top), panel.bottom);
  panel.zero.setAttribute("d", `M${box.left} ${n1(y(0))}H${box.width - box.right}`);
  drawDots(shapes.residualWhiskers, shapes.residualMeans, column, dots, inside, box.narrow ? 2.4 : 3);
  panel.heading.textContent = box.narrow ? "Held-out residuals" : "Mean residuals of held-out rows ± 2 standard errors";
}

function drawAxis(column) {
  const bottom = panels.residuals.bottom, [low, high] = column.domain, labels = [];
  const nTicks = box.narrow ? 4 : 8;
  if (view.ranks || !Number.isFinite(high - low)) {
    for (let i = 0; i <= nTicks; i++) labels.push({ u: fromPosition(column, i / nTicks), text: significant(toValue(column, fromPosition(column, i / nTicks))) });
  } else {
    for (const [value, text] of writing.axisTicks(low, high, nTicks)) {
      if (!column.whole || Number.isInteger(value) || high - low < 1) labels.push({ u: (value - low) / (high - low), text });
    }
  }
  writeLabels(shapes.axis, [
    ...labels.map(({ u, text }, i) => ({ x: n1(px(column, u)), y: bottom + 16, text, anchor: i === labels.length - 1 && px(column, u) > box.width - 40 ? "end" : "middle" })),
    { x: box.left + inner() / 2, y: bottom + 32, text: view.ranks ? `${column.name} (equal room for equal numbers of rows)` : column.name, anchor: "middle" },
  ]);
}
