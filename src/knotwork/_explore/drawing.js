/* The chart: four panels over one axis. Text of the table reaches the document by textContent and attributes only. */

/* ---- Numbers in words -------------------------------------------------------------------------------------- */

const toTarget = (z) => (isClass ? z : data.target.centre + data.target.scale * z);
const SCORES = isClass ? { main: "AUC", other: "Log loss" } : { main: "R²", other: "RMSE" };
const otherScore = (score) => (isClass ? fixed(score.other, 4) : significant(score.other * data.target.scale));
const targetText = () => (isClass ? `share of ${data.targetName} = ${data.classes[view.positive]}` : data.targetName);

/* ---- Drawing ----------------------------------------------------------------------------------------------- */

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
  const isLevels = Boolean(columnOf(view.column).levels);
  const heights = isLevels ? (narrow ? [210, 0, 80, 84] : [300, 0, 90, 92]) : narrow ? [190, 120, 96, 84] : [250, 150, 104, 92];
  box = { width, narrow, left: narrow ? 44 : 58, right: narrow ? 8 : 14 };
  let top = 0;
  PANELS.forEach((name, i) => {
    const isShown = heights[i] > 0;
    panels[name].group.setAttribute("visibility", isShown ? "inherit" : "hidden");
    top += isShown ? 26 : 0;
    Object.assign(panels[name], { top, height: heights[i], bottom: top + heights[i] });
    top += heights[i] + (isShown ? 8 : 0);
    set(panels[name].heading, { x: narrow ? 2 : box.left, y: panels[name].top - 9 });
    set(panels[name].readout, { x: narrow ? 2 : width - box.right, y: panels[name].top - 9 });
  });
  layer.setAttribute("class", narrow ? "narrow" : "");
  box.height = top + (isLevels && namesTurn() ? 38 + 4.2 * longestName() : 34);  // names that turn go down
  chart.setAttribute("viewBox", `0 0 ${width} ${box.height}`);
  chart.style.height = `${box.height}px`;
  set(clip, { x: box.left - 5, y: panels.fit.top - 5, width: inner() + 10, height: panels.fit.height + 10 });
  set(ground, { x: 0, y: 0, width, height: box.height });
}
/* Whether the names of levels have no room side by side. */
const namesTurn = () => longestName() * 6.5 + 10 > inner() / columnOf(view.column).levels.labels.length;
const longestName = () => Math.max(...columnOf(view.column).levels.labels.map((label) => Math.min(label.length, LONGEST_LEVEL)));
const LONGEST_LEVEL = 16;
const inner = () => box.width - box.left - box.right;
const px = (column, u) => box.left + toPosition(column, u) * inner();

/* Draw numbers and lines of a vertical axis, and return the function from values to pixels. */
function verticalAxis(panel, low, high, nTicks) {
  const y = (value) => panel.bottom - ((value - low) / (high - low)) * panel.height;
  const at = writing.axisTicks(low, high, nTicks);
  panel.grid.setAttribute("d", at.map(([value]) => `M${box.left} ${n1(y(value))}H${box.width - box.right}`).join(""));
  writeLabels(panel.labels, at.map(([value, text]) => ({ x: box.left - 7, y: n1(y(value)) + 4, text, anchor: "end" })));
  return y;
}

/* Points of the curves: equally spaced on the axis, and both sides of every knot, where curves may bend or jump. */
function gridOf(column) {
  const points = [];
  for (let i = 0; i <= N_GRID; i++) points.push(fromPosition(column, i / N_GRID));
  for (const knot of knots) points.push(Math.max(knot - 1e-9, 0), knot);
  for (const ends of column.gaps) points.push(...ends);
  return Float64Array.from(points).sort();
}

function draw() {
  const { column, model, size } = fit, each = encoding(), grid = column.levels ? Float64Array.from(column.centres) : gridOf(column);
  const { rows } = column.levels ? indicators(column) : numerics.design(each.family, grid, knots, each.degree);
  const xs = grid.map((u) => px(column, u));
  drawFit(column, model, rows, size, grid, xs);
  if (!column.levels) drawFunctions(model, rows, size, xs);
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
  fit.curve = { grid, values: predictRows(model, rows, size).subarray(0, grid.length) };
  // Where there are no rows there is no curve; levels have a bar each, at their shrunk mean.
  const draw_ = ({ grid, values }) => {
    const places = Array.from(grid, (u) => px(column, u)), heights = Array.from(values, yz);
    if (!column.levels) {
      const hidden = (i) => i < 0 || i >= grid.length || inGap(column, grid[i]);
      const alone = places.map((x, i) => (hidden(i - 1) && !hidden(i) && hidden(i + 1) ? `M${n1(x - 5)} ${n1(heights[i])}h10` : ""));
      return path(places, heights, hidden) + alone.join("");
    }
    const half = Math.min((0.36 * inner()) / grid.length, 26);
    return places.map((x, i) => `M${n1(x - half)} ${n1(heights[i])}h${n1(2 * half)}`).join("");
  };
  shapes.curve.setAttribute("d", draw_(fit.curve));
  const showGhost = view.ghost && ghost !== null && ghost.column === view.column;
  shapes.ghost.setAttribute("d", showGhost ? draw_(ghost.curve) : "");
  drawDots(shapes.whiskers, shapes.means, column, dots, yz, box.narrow ? 3 : 3.6);
  if (column.levels) panel.heading.textContent = box.narrow ? `${targetText()}: means` : `${targetText()}: means ± 2 standard errors; bars: shrunk to the mean of all rows`;
  else panel.heading.textContent = box.narrow ? targetText() : `${targetText()}: means of training rows ± 2 standard errors${view.all ? ", less the other columns" : ""}, and the fit`;
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
  const exact = Boolean(column.levels) || (column.centres.length === counts.length && counts.length <= N_BARS);
  const [edge, step] = column.barGrid;
  let width = step * panelWidth;
  const middle = (i) => (exact ? column.centres[i] : edge + (i + 0.5) * step) * panelWidth;
  if (exact) {
    width = counts.length > 1 ? Infinity : 0.2 * panelWidth;
    for (let i = 1; i < counts.length; i++) width = Math.min(width, Math.abs(middle(i) - middle(i - 1)));
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
      "aria-valuetext": `${column.name} ${valueText(column, knot)}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`,
    });
  });
  if (column.levels) panel.heading.textContent = "Training rows";
  else panel.heading.textContent = box.narrow ? `${knots.length} knots` : `${knots.length} knots over ${view.ranks ? "the root of the number of rows of each group" : "the histogram of training rows"}`;
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
  const bottom = panels.residuals.bottom, title = view.ranks ? `${column.title} (equal room for equal numbers of rows)` : column.title;
  const labels = column.levels ? levelLabels(column, bottom) : axisLabels(column).map(({ u, text }, i, all) => (
    { x: n1(px(column, u)), y: bottom + 16, text, anchor: i === all.length - 1 && px(column, u) > box.width - 40 ? "end" : "middle" }));
  writeLabels(shapes.axis, [...labels, { x: box.left + inner() / 2, y: box.height - 2, text: cut(title, Math.floor(inner() / 6.5)), anchor: "middle" }]);
}
function levelLabels(column, bottom) {
  const turn = namesTurn() ? -38 : 0;
  return column.levels.labels.map((label, g) => (
    { x: n1(px(column, column.centres[g])) + (turn ? 4 : 0), y: bottom + 16, text: cut(label, LONGEST_LEVEL), anchor: turn ? "end" : "middle", turn }));
}
function axisLabels(column) {
  const [low, high] = column.domain, nTicks = box.narrow ? 4 : 8, labels = [];
  if (view.ranks || !Number.isFinite(high - low)) {
    for (let i = 0; i <= nTicks; i++) labels.push({ u: fromPosition(column, i / nTicks), text: valueText(column, fromPosition(column, i / nTicks)) });
    return labels;
  }
  for (const [value, text] of column.isDate ? writing.dateTicks(low, high, nTicks - 2) : writing.axisTicks(low, high, nTicks)) {
    if (!column.whole || column.isDate || Number.isInteger(value) || high - low < 1) labels.push({ u: (value - low) / (high - low), text });
  }
  return labels;
}
