/* The panels: errors, columns, the effect of one column, one row, and what shows whether to trust the model. */

const view = { column: 0, output: 0, row: 0, values: [], straight: false, hover: null, cost: 0, isQuick: false };
const effectOf = (column) => column.effect || null;
const curve = (column, name) => effectOf(column)[name][view.output];

/* ---- Errors ------------------------------------------------------------------------------------------------ */

function drawErrors() {
  const rows = [...data.errors].sort((a, b) => a.error - b.error), svg = $("errors");
  $("strip-panel").hidden = !rows.length;
  if (!rows.length) return;
  const label = rows.map((each) => `${each.name} ${significant(each.error, 3)}`).join("; ");
  const width = begin(svg, 22 * rows.length + 26, `${data.error} of ${label}`), left = 104, right = width - 54;
  const high = Math.max(...rows.map((each) => each.high)), x = scale(0, high, left, right), bottom = 22 * rows.length + 4;
  drawBottomAxis(svg, axisTicks(0, high, 5), x, bottom, { left, right });
  rows.forEach((each, i) => {
    const y = 13 + 22 * i, kind = each.isModel ? "model" : "other";
    make("path", { class: "grid", d: `M${left} ${y}H${right}` }, svg);
    make("text", { class: `name ${kind}`, x: 0, y: y + 4 }, svg, fitted(each.name, left));
    make("path", { class: `range ${kind}`, d: `M${n1(x(each.low))} ${y}H${n1(x(each.high))}` }, svg);
    make("path", { class: `dot ${kind}`, d: disc(x(each.error), y, 4.5) }, svg);
    make("text", { class: `name ${kind}`, x: width, y: y + 4, "text-anchor": "end" }, svg, significant(each.error, 3));
  });
}

/* ---- Columns ----------------------------------------------------------------------------------------------- */

const MINI = { width: 76, height: 30 };
function positions(column, width, left = 0) {
  const values = effectOf(column).values;
  if (column.kind === "category") return (value) => left + ((values.indexOf(value) + 0.5) / values.length) * width;
  return scale(values[0], values.at(-1), left, left + width);
}
/* The height of the average effect at a value; between values straight lines, outside the ends. */
function effectAt(column, value, name = "mean") {
  const { values } = effectOf(column), means = curve(column, name);
  if (value === null) return null;
  if (column.kind === "category") return values.includes(value) ? means[values.indexOf(value)] : null;
  if (value <= values[0]) return means[0];
  for (let i = 1; i < values.length; i++) {
    if (value <= values[i]) return means[i - 1] + ((value - values[i - 1]) / (values[i] - values[i - 1] || 1)) * (means[i] - means[i - 1]);
  }
  return means.at(-1);
}
function drawMini(svg, column) {
  svg.replaceChildren();
  if (!effectOf(column)) return;
  const means = curve(column, "mean"), [low, high] = paddedRange(means, 0.1);
  const x = positions(column, MINI.width - 8, 4), y = scale(low, high, MINI.height - 3, 3), { values } = effectOf(column);
  if (column.kind === "category" || values.length < 3) {
    make("path", { class: "mini-dots", d: values.map((value, i) => disc(x(value), y(means[i]), 2.2)).join("") }, svg);
  } else make("path", { class: "mini", d: path(values.map((value, i) => [x(value), y(means[i])])) }, svg);
  const value = view.values[columns.indexOf(column)], at = effectAt(column, value ?? null);
  if (at !== null && value !== undefined) {
    const inside = column.kind === "category" ? value : Math.min(Math.max(value, values[0]), values.at(-1));
    make("path", { class: "mini-row", d: disc(x(inside), y(at), 3.2) }, svg);
  }
}
function makeList() {
  const list = $("list"), largest = Math.max(...columns.map((each) => each.importance || 0), 1e-300);
  columns.forEach((column, i) => {
    const button = html("button", { type: "button", "data-column": i }, html("li", {}, list));
    html("span", { class: "name", title: column.name }, button, column.name);
    const about = column.importance === null ? "" : besides(Math.max(column.importance, 0), largest);
    html("span", { class: "about" }, button, about);
    make("svg", { viewBox: `0 0 ${MINI.width} ${MINI.height}`, "aria-hidden": "true" }, button);
    const bar = html("span", { class: "share" }, button);
    bar.style.setProperty("--part", `${(100 * Math.max(column.importance || 0, 0)) / largest}%`);
  });
}
function drawList() {
  document.querySelectorAll("#list button").forEach((button, i) => {
    if (i === view.column) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    drawMini(button.querySelector("svg"), columns[i]);
  });
}

/* ---- The effect of one column ------------------------------------------------------------------------------ */

const box = {};
function columnNote(column) {
  const kinds = { number: "number", date: "date", time: "time of day", category: "category", part: "part of a date" };
  const parts = [column.isTruth ? "yes or no" : kinds[column.kind]];
  if (column.ends && !column.isTruth) parts.push(`${valueText(column, column.ends[0], true)} to ${valueText(column, column.ends[1], true)}`);
  if (column.kind === "category") parts.push(counted(column.labels.length, "category", "categories"));
  if (column.missing > 0) parts.push(`${percent(column.missing)} missing`);
  if (column.importance !== null) parts.push(data.importanceText.replace("{}", significant(Math.max(column.importance, 0), 3)));
  return parts.join(" · ");
}
function drawEffect() {
  const column = columns[view.column], svg = $("effect"), effect = effectOf(column);
  $("column-name").textContent = column.name;
  $("column-note").textContent = columnNote(column);
  $("straight-label").hidden = !(effect && effect.straight);
  const residuals = column.residuals ? column.residuals[view.output] : null, hasResiduals = residuals && residuals.groups.length > 1;
  const isCategory = column.kind === "category", bars = column.histogram || (isCategory && column.counts) ? 46 : 0;
  const tall = innerWidth < 560 ? 210 : 290, top = 30, bottomOfEffect = top + tall;
  const residualTop = bottomOfEffect + 12 + bars + 34, residualTall = hasResiduals ? 84 : 0;
  const bottom = hasResiduals ? residualTop + residualTall : bottomOfEffect + 12 + bars;
  const isSlanted = isCategory && effect && Math.max(...effect.values.map((value) => valueText(column, value).length)) * 7 > (svg.clientWidth - 70) / effect.values.length - 4;
  const height = bottom + (isSlanted ? 62 : 30);
  const width = begin(svg, effect ? height : 44, effect ? effectLabel(column) : "No effect to draw");
  if (!effect) {
    make("text", { class: "tick", x: 0, y: 28 }, svg, "Its effect needs rows: write the page with report(path, X, y).");
    $("reading").textContent = $("residual-claim").textContent = "";
    return;
  }
  const left = width < 480 ? 44 : 58, right = width - 14, means = curve(column, "mean");
  const shown = [...means, ...curve(column, "low"), ...curve(column, "high")];
  if (view.straight && effect.straight) shown.push(...effect.straight[view.output]);
  const own = ownCurve(column);
  if (own) shown.push(...own.map(([, value]) => value));
  const [low, high] = inRange(paddedRange(shown)), y = scale(low, high, bottomOfEffect, top), x = positions(column, right - left, left);
  Object.assign(box, { x, y, left, right, top, bottom: bottomOfEffect, end: bottom, column });
  make("text", { class: "heading", x: 0, y: 14 }, svg, isClass ? targetText(view.output).replace(/^p/, "P") : `Prediction of ${targetText(view.output)}`);
  drawLeftAxis(svg, targetTicks(low, high, 5), y, { left, right });
  drawBand(svg, column, x, y);
  if (view.straight && effect.straight) drawStraight(svg, column, x, y);
  if (own) make("path", { class: "own", d: path(own.map(([value, height]) => [x(value), y(height)])) }, svg);
  drawCurve(svg, column, x, y);
  drawRowDot(svg, column, x, y);
  drawHistogram(svg, column, x, bottomOfEffect + 12, bars);
  if (hasResiduals) drawResiduals(svg, column, residuals, { x, left, right, top: residualTop, bottom });
  if (isCategory) drawCategoryAxis(svg, column, x, bottom, { left, right, isSlanted });
  else drawBottomAxis(svg, axisOf(column, effect.values[0], effect.values.at(-1), Math.floor(width / 95)), x, bottom, { left, right });
  $("residual-claim").textContent = residualSentence(column, residuals);
  box.hover = make("g", { class: "hover" }, svg);
}
const inRange = ([low, high]) => (isClass ? [Math.max(low, 0), Math.min(high, 1)] : [low, high]);  // of shares
const effectLabel = (column) => {
  const means = curve(column, "mean"), { values } = effectOf(column);
  const low = means.indexOf(Math.min(...means)), high = means.indexOf(Math.max(...means));
  return `Effect of ${column.name} on ${targetText(view.output)}: from ${inUnits(means[low])} at ${valueText(column, values[low])} to ${inUnits(means[high])} at ${valueText(column, values[high])}`;
};
function drawBand(svg, column, x, y) {
  const { values } = effectOf(column), low = curve(column, "low"), high = curve(column, "high");
  if (column.kind === "category") {
    make("path", { class: "whisker", d: values.map((value, i) => `M${n1(x(value))} ${n1(y(low[i]))}V${n1(y(high[i]))}`).join("") }, svg);
  } else make("path", { class: "band", d: area(values.map((value, i) => [x(value), y(low[i])]), values.map((value, i) => [x(value), y(high[i])])) }, svg);
}
function drawCurve(svg, column, x, y) {
  const { values } = effectOf(column), means = curve(column, "mean");
  if (column.kind === "category" || values.length < 3) {
    make("path", { class: "points", d: values.map((value, i) => disc(x(value), y(means[i]), 5)).join("") }, svg);
  } else make("path", { class: "curve", d: path(values.map((value, i) => [x(value), y(means[i])])) }, svg);
}
function drawStraight(svg, column, x, y) {
  const [start, end] = effectOf(column).straight[view.output], { values } = effectOf(column);
  make("path", { class: "straight", d: path([[x(values[0]), y(start)], [x(values.at(-1)), y(end)]]) }, svg);
  make("text", { class: "tick halo", x: n1(x(values.at(-1))) - 4, y: n1(y(end)) - 9, "text-anchor": "end" }, svg, "straight line");
}
/* What the row would be predicted as if this column had each value. */
function ownCurve(column) {
  const { values } = effectOf(column), place = columns.indexOf(column);
  if (view.isQuick || !predictor || !predictor.isExact || column.kind === "category" || column.kind === "part" || values.length < 3) return null;
  const points = Array.from({ length: 61 }, (_, i) => values[0] + ((values.at(-1) - values[0]) * i) / 60);
  const rows = points.map((value) => view.values.map((each, i) => (i === place ? value : each)));
  const answers = predictor.predict(rows, data.shown[view.output]);
  return points.map((value, i) => [value, answers[i]]);
}
function drawRowDot(svg, column, x, y) {
  const value = view.values[columns.indexOf(column)], at = effectAt(column, value ?? null), { values } = effectOf(column);
  if (at === null || value === undefined) return;
  const inside = column.kind === "category" ? value : Math.min(Math.max(value, values[0]), values.at(-1));
  make("path", { class: "row-stem", d: `M${n1(x(inside))} ${box.bottom}V${n1(y(at))}` }, svg);
  make("path", { class: "row-dot", d: disc(x(inside), y(at), 6) }, svg);
}
function drawHistogram(svg, column, x, top, tall) {
  if (!tall) return;
  const bottom = top + tall - 10;
  if (column.kind === "category") {
    const { values } = effectOf(column), most = Math.max(...column.counts), half = Math.min((box.right - box.left) / values.length / 3, 16);
    make("path", { class: "bars", d: values.map((value) => `M${n1(x(value) - half)} ${bottom}v${-n1(((tall - 12) * (column.counts[value] || 0)) / most)}h${n1(2 * half)}V${bottom}Z`).join("") }, svg);
    return;
  }
  const { low, high, counts } = column.histogram, most = Math.max(...counts), width = (high - low) / counts.length;
  make("path", { class: "bars", d: counts.map((n, i) => (n ? `M${n1(x(low + i * width))} ${bottom}v${-n1(((tall - 12) * n) / most)}H${n1(x(low + (i + 1) * width) - 0.6)}V${bottom}Z` : "")).join("") }, svg);
  const inside = column.knots.filter((knot) => knot >= effectOf(column).values[0] && knot <= effectOf(column).values.at(-1));
  make("path", { class: "knots", d: inside.map((knot) => `M${n1(x(knot))} ${bottom + 1}v6`).join("") }, svg);
  if (inside.length) make("title", {}, svg.lastChild, "Knots: the curve may bend here");
}
function drawCategoryAxis(svg, column, x, bottom, { left, right, isSlanted }) {
  const { values } = effectOf(column);
  make("path", { class: "axis", d: `M${left} ${bottom}H${right}` }, svg);
  for (const value of values) {
    const text = valueText(column, value), at = n1(x(value)), attributes = !isSlanted ? { x: at, y: bottom + 18, "text-anchor": "middle" } : { x: at + 4, y: bottom + 14, "text-anchor": "end", transform: `rotate(-38 ${at} ${bottom + 12})` };
    make("title", {}, make("text", { class: "tick", ...attributes }, svg, isSlanted ? fitted(text, 62) : text), text);
  }
}
function drawResiduals(svg, column, residuals, { x, left, right, top, bottom }) {
  const groups = residuals.groups.filter(([value]) => (column.kind === "category" ? effectOf(column).values.includes(value) : true));
  const ends = groups.flatMap(([, , , mean, error]) => [mean - 2 * (error || 0), mean + 2 * (error || 0)]);
  const most = Math.max(...ends.map(Math.abs), 1e-300), y = scale(-1.1 * most, 1.1 * most, bottom, top);
  make("text", { class: "heading", x: 0, y: top - 9 }, svg, "Actual minus predicted, out of fold");
  drawLeftAxis(svg, targetTicks(-1.1 * most, 1.1 * most, 6), y, { left, right });
  make("path", { class: "zero", d: `M${left} ${n1(y(0))}H${right}` }, svg);
  const clamp = (value) => Math.min(Math.max(x(value), left), right);
  make("path", { class: "whisker", d: groups.filter((each) => each[4] !== null).map(([value, , , mean, error]) => `M${n1(clamp(value))} ${n1(y(mean - 2 * error))}V${n1(y(mean + 2 * error))}`).join("") }, svg);
  groups.forEach((group) => {
    const [value, , , mean] = group, isWorst = residuals.groups.indexOf(group) === residuals.worst;
    make("path", { class: isWorst ? "residual worst" : "residual", d: disc(clamp(value), y(mean), isWorst ? 4.5 : 3) }, svg);
  });
}
function groupText(column, [, low, high]) {
  if (column.kind === "category") return `for ${valueText(column, low)}`;
  const [first, last] = [valueText(column, low), valueText(column, high)];
  if (column.kind === "date") return first === last ? `in ${first}` : `from ${first} to ${last}`;
  return first === last ? `at ${column.name} ${first}` : `where ${column.name} is ${first} to ${last}`;
}
function residualSentence(column, residuals) {
  if (!residuals || !residuals.groups.length) return "";
  if (residuals.worst < 0) return `No group of rows by ${column.name} is predicted clearly too high or too low.`;
  const group = residuals.groups[residuals.worst], mean = group[3];
  const size = isClass ? `${significant(100 * Math.abs(mean), 2)} points` : significant(Math.abs(mean), 2);
  return `${mean < 0 ? "Over" : "Under"}-predicts by ${size} ${groupText(column, group)} (${counted(group[5], "row")}).`;
}
/* What is under the pointer or the arrow keys: the effect at a value, and lines of single rows. */
function drawHover() {
  const column = columns[view.column], effect = effectOf(column);
  if (!box.hover || !effect) return;
  box.hover.replaceChildren();
  $("reading").textContent = view.hover === null ? restingText(column) : "";
  if (view.hover === null) return;
  const { values, lines } = effect, value = values[view.hover], { x, y } = box;
  if (lines) {
    for (const line of lines[view.output]) make("path", { class: "line", d: path(line.map((each, i) => [x(values[i]), y(each)])) }, box.hover);
  }
  make("path", { class: "cross", d: `M${n1(x(value))} ${box.top}V${box.end}` }, box.hover);
  make("path", { class: "spot", d: disc(x(value), y(curve(column, "mean")[view.hover]), 4.5) }, box.hover);
  const [mean, low, high] = ["mean", "low", "high"].map((name) => curve(column, name)[view.hover]);
  $("reading").textContent = `${column.name} ${valueText(column, value)}: ${inUnits(mean)} on average, band ${inUnits(low)} to ${inUnits(high)}`;
}
function restingText(column) {
  const { band } = effectOf(column), isCategory = column.kind === "category";
  const parts = [`${isCategory ? "Dots: average predictions. Lines" : "Line: average prediction. Band"}: ${band}.`];
  if (!isCategory && predictor && predictor.isExact) parts.push("Dashed: this row.");
  if (column.knots.length) parts.push("Ticks: knots.");
  return parts.join(" ");
}

/* ---- One row ----------------------------------------------------------------------------------------------- */

/* The prediction of the row with its sum, interval, and what each column adds, on the scale of sums. */
function explained() {
  const output = data.shown[view.output], base = data.rows ? data.rows.values[view.row] : null;
  const start = baseRow(), isChanged = view.values.some((value, i) => value !== start[i]);
  const { baseline, parts } = predictor.contributions(view.values, output);
  const [own] = predictor.predict([view.values], output);
  let prediction = own, rest = 0;
  const sum = parts.reduce((a, b) => a + b, baseline);
  if (!predictor.isExact && base !== null) {  // what the curves leave out of this row's prediction stays as it is
    const stored = data.rows.predictions[view.row][output];
    const before = predictor.contributions(base, output);
    rest = (predictor.link === "identity" ? stored : logit(stored)) - before.parts.reduce((a, b) => a + b, before.baseline);
    prediction = predictor.link === "identity" ? sum + rest : expit(sum + rest);
  }
  return { prediction, interval: intervalOf(prediction), baseline, parts, rest, sum: sum + rest, isChanged, isRough: !predictor.isExact && isChanged };
}
function timed(work) {
  const began = performance.now(), result = work();
  view.cost = performance.now() - began;
  return result;
}
function intervalOf(prediction) {
  if (isClass || data.outputs.length > 1) return null;
  const exact = predictor.interval ? predictor.interval(view.values) : null;
  if (exact) return exact;
  if (data.rows && data.rows.interval) {
    const [low, high] = data.rows.interval[view.row], stored = data.rows.predictions[view.row][0];
    return [prediction + low - stored, prediction + high - stored];
  }
  return data.offsets ? data.offsets.map((each) => prediction + each) : null;
}
function makeInputs() {
  const group = $("inputs");
  group.replaceChildren();
  html("div", { class: "axis-row", "aria-hidden": "true" }, group);
  columns.forEach((column, i) => {
    const line = html("div", { class: "input-row", "data-column": i }, group);
    const label = html("label", { for: `value-${i}`, title: column.name }, line, column.name);
    label.setAttribute("class", "name");
    if (column.kind === "category") {
      const select = html("select", { id: `value-${i}`, "data-column": i }, line);
      html("option", { value: 0 }, select, "missing or new");
      column.labels.forEach((text, k) => html("option", { value: k + 1 }, select, text));
    } else {
      const kind = column.kind === "date" ? "date" : "text";
      html("input", { id: `value-${i}`, type: kind, "data-column": i, autocomplete: "off", spellcheck: "false", placeholder: "missing" }, line);
    }
    const slider = sliderOf(column);
    if (slider) html("input", { type: "range", "data-column": i, "aria-label": `${column.name}, slider`, ...slider }, line);
    else html("span", { class: "no-slider" }, line);
    make("svg", { class: "step", "aria-hidden": "true" }, line);
  });
  html("div", { class: "sum-row" }, group);
}
function sliderOf(column) {
  if (column.kind === "category" || column.kind === "part") return null;
  const ends = column.kind === "time" ? [0, 24] : column.ends || (effectOf(column) && [effectOf(column).values[0], effectOf(column).values.at(-1)]);
  if (!ends || !(ends[1] > ends[0])) return null;
  const step = column.kind === "date" || column.isWhole ? 1 : column.kind === "time" ? 0.25 : "any";
  return { min: ends[0], max: ends[1], step };
}
function drawRow() {
  const hasRows = data.rows !== null;
  $("picker").hidden = !hasRows && !predictor;
  if (!predictor) {
    $("row-panel").classList.add("empty");
    $("row-note").textContent = "This page cannot predict: the model is too large for it, and for curves that stand for it there were no rows, or no time. Write it with report(path, X).";
    return;
  }
  const { prediction, interval, baseline, parts, rest, sum, isChanged, isRough } = timed(explained);
  $("row").value = view.row + 1;
  $("row").max = hasRows ? data.rows.values.length : 1;
  $("row-count").textContent = hasRows ? `of ${counted(data.rows.values.length, "row")}` : "a typical row";
  for (const id of ["before", "after"]) $(id).hidden = !hasRows;
  $("row").parentElement.hidden = !hasRows;
  $("reset").hidden = !isChanged;
  $("prediction").textContent = `${isRough ? "≈ " : ""}${inUnits(prediction)}`;
  $("interval").textContent = interval ? `90 % between ${significant(interval[0], 3)} and ${significant(interval[1], 3)}` : isClass ? targetText(view.output) : "";
  $("actual").textContent = actualText(isChanged);
  drawSteps({ baseline, parts, rest, sum, prediction, interval });
  $("row-note").textContent = rowNote();
}
function actualText(isChanged) {
  if (!data.rows || !data.rows.actual) return "";
  const [actual] = data.rows.actual[view.row], held = data.rows.held[view.row][data.shown[view.output]];
  const words = isClass ? `It was ${data.outputs[actual]}` : `It was ${significant(data.rows.actual[view.row][view.output], 4)}`;
  return `${words}; out of fold the model said ${inUnits(held)}.${isChanged ? " (Before your changes.)" : ""}`;
}
function rowNote() {
  if (!predictor.isExact) {
    const size = data.tables.bytes ? ` (${significant(data.tables.bytes / 1e6, 2)} MB)` : "";
    return `The model is too large for one page${size}. Rows that you pick have its own predictions; changes use curves and pairs that explain ${percent(Math.max(data.tables.fidelity, 0))} of its variation on other rows.`;
  }
  if (predictor.link === "softmax") return "The page computes the model itself. Bars add up to the score of the class; scores of all classes become probabilities.";
  return `The page computes the model itself. ${isClass ? "Bars are on the scale of log odds." : "Bars add up to the prediction."}`;
}
/* The waterfall: from the baseline on top to the prediction at the bottom, one step for each column. */
function drawSteps({ baseline, parts, rest, sum, prediction, interval }) {
  const lines = document.querySelectorAll("#inputs .input-row"), ends = [baseline];
  parts.forEach((part) => ends.push(ends.at(-1) + part));
  if (Math.abs(rest) > 1e-12) ends.push(ends.at(-1) + rest);
  const size = Math.max(...parts.map(Math.abs), Math.abs(rest));
  const all = interval ? [...ends, ...interval] : ends, [low, high] = paddedRange(all, 0.04);
  const width = 130, x = scale(low, high, 3, width - 3);
  const text = (value) => (predictor.link === "logit" ? percent(expit(value)) : significant(value, 3));
  const [head, foot] = [document.querySelector("#inputs .axis-row"), document.querySelector("#inputs .sum-row")];
  head.replaceChildren(); foot.replaceChildren();
  html("span", { class: "name" }, head, "on average");
  html("span", { class: "amount" }, head, text(baseline));
  const top = make("svg", { class: "step", viewBox: `0 0 ${width} 30`, preserveAspectRatio: "none" }, head);
  make("path", { class: "link", d: `M${n1(x(baseline))} 8V30` }, top);
  make("path", { class: "mark", d: `M${n1(x(baseline))} 4V18` }, top);
  lines.forEach((line, i) => step(line.querySelector(".step"), { from: ends[i], to: ends[i + 1], x, width, part: parts[i], size }));
  if (ends.length > parts.length + 1) {
    html("span", { class: "name" }, foot, "what curves leave out");
    step(make("svg", { class: "step" }, foot), { from: ends.at(-2), to: ends.at(-1), x, width, part: rest, size });
  }
  html("span", { class: "name strong" }, foot, "prediction");
  html("span", { class: "amount strong" }, foot, inUnits(prediction));
  const end = make("svg", { class: "step", viewBox: `0 0 ${width} 30`, preserveAspectRatio: "none" }, foot);
  make("path", { class: "link", d: `M${n1(x(sum))} 0V12` }, end);
  if (interval) make("path", { class: "span", d: `M${n1(x(interval[0]))} 15H${n1(x(interval[1]))}` }, end);
  make("path", { class: "mark strong", d: `M${n1(x(sum))} 7V23` }, end);
}
function step(svg, { from, to, x, width, part, size }) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} 30`);
  svg.setAttribute("preserveAspectRatio", "none");
  const [left, right] = [Math.min(x(from), x(to)), Math.max(x(from), x(to))];
  make("path", { class: "link", d: `M${n1(x(from))} 0V15M${n1(x(to))} 15V30` }, svg);
  make("rect", { class: part < 0 ? "fall" : "rise", x: n1(left), y: 8, width: Math.max(n1(right - left), 1), height: 14 }, svg);
  const named = svg.parentElement.querySelector(".change");
  const text = besides(part, size);
  if (named) named.textContent = text;
  else html("span", { class: "change" }, svg.parentElement, text);
}
function drawInputs() {
  if (!predictor) return;
  columns.forEach((column, i) => {
    const field = $(`value-${i}`), slider = document.querySelector(`#inputs input[type=range][data-column="${i}"]`), value = view.values[i];
    if (document.activeElement !== field || column.kind === "category") field.value = column.kind === "category" ? value ?? 0 : typed(column, value);
    field.removeAttribute("aria-invalid");
    if (slider) {
      slider.value = value ?? (Number(slider.min) + Number(slider.max)) / 2;
      slider.setAttribute("aria-valuetext", valueText(column, value, true));
      slider.classList.toggle("without", value === null);
    }
  });
}
