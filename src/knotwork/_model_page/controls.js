/* What a reader can do, and the address that keeps it: #column=…&row=…&output=…&line=1&name=value for changed values. */

function baseRow() {
  return data.rows ? [...data.rows.values[view.row]] : typicalRow();
}
const MOST_MILLISECONDS = 50;
let shownHash = "";
function writeHash() {
  const parts = new URLSearchParams(), base = baseRow();
  if (columns.length) parts.set("column", columns[view.column].name);
  if (data.rows) parts.set("row", view.row + 1);
  if (view.output) parts.set("output", view.output);
  if (view.straight) parts.set("line", 1);
  columns.forEach((column, i) => { if (view.values[i] !== base[i]) parts.set(`v${column.place}`, view.values[i] === null ? "" : view.values[i]); });
  const hash = `#${parts}`;
  if (hash === shownHash) return;
  shownHash = hash;
  try { history.replaceState(null, "", hash); } catch { /* a frame without an address */ }
}
function readHash(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, "")), named = columns.findIndex((column) => column.name === parts.get("column"));
  view.column = named >= 0 ? named : 0;
  const bounded = (name, n) => { const value = Number(parts.get(name)); return Number.isInteger(value) && value >= 0 && value < n ? value : null; };
  view.row = data.rows ? Math.max((bounded("row", data.rows.values.length + 1) ?? 1) - 1, 0) : 0;
  view.output = bounded("output", data.shown.length) ?? 0;
  view.straight = parts.get("line") === "1";
  view.values = baseRow();
  columns.forEach((column, i) => {
    const text = parts.get(`v${column.place}`);
    if (text === null) return;
    const value = text === "" ? null : Number(text);
    if (value === null || (Number.isFinite(value) && isValid(column, value))) view.values[i] = value;
  });
}
const isValid = (column, value) => column.kind !== "category" || (Number.isInteger(value) && value >= 0 && value <= column.labels.length);

function update({ list = true, effect = true, row = true, trust = false } = {}) {
  view.hover = null;
  if (row) { drawInputs(); drawRow(); }
  if (list) drawList();
  if (effect && columns.length) { drawEffect(); drawHover(); }
  if (trust) drawTrust();
  $("straight").checked = view.straight;
  $("output").value = view.output;
  document.querySelectorAll("#inputs .input-row").forEach((line, i) => line.classList.toggle("chosen", i === view.column));
  writeHash();
}
/* One drawing for each frame, however fast a slider moves; what takes long waits until it stands still. */
let waiting = false, later = 0;
function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    clearTimeout(later);
    if (view.cost <= MOST_MILLISECONDS) { update(); return; }
    view.isQuick = true;
    drawInputs();
    $("prediction").textContent = inUnits(predictor.predict([view.values], data.shown[view.output])[0]);
    drawList();
    drawEffect();
    view.isQuick = false;
    later = setTimeout(update, 150);
  });
}
function chooseColumn(index) {
  view.column = (index + columns.length) % columns.length;
  update({ row: false });
}
function chooseRow(index) {
  if (!data.rows) return;
  const n = data.rows.values.length;
  view.row = (index + n) % n;
  view.values = baseRow();
  update();
}
function setValue(i, value) {
  view.values[i] = value;
  soon();
}

function showHead() {
  $("kind").textContent = `Knotwork ${data.kind}`;
  $("sentence").textContent = data.sentence;
  $("score").textContent = data.score || data.basis;
  $("caution").textContent = data.caution;
  $("caution").hidden = !data.caution;
  $("strip-title").textContent = `${data.error} on rows that were held out, 95 % intervals`;
  for (const [name, text] of data.facts) { const pair = html("div", {}, $("facts")); html("dt", {}, pair, name); html("dd", {}, pair, text); }
  const pair = html("div", { class: "load" }, $("facts"));
  html("dt", {}, pair, "load it");
  const line = html("dd", {}, pair);
  html("code", {}, line, data.load);
  html("button", { type: "button", id: "copy" }, line, "Copy");
  $("importance-note").textContent = data.importanceText.replace("{}", "…").replace("…", "this much");
  $("ignored").textContent = data.ignored.length ? `Not used: ${data.ignored.slice(0, 12).join(", ")}${data.ignored.length > 12 ? ` and ${data.ignored.length - 12} more` : ""}.` : "";
  $("footer").textContent = `Made by Knotwork ${data.version}. This file works offline and sends nothing.`;
  $("search-label").hidden = columns.length < 12;
  data.shown.forEach((output, i) => html("option", { value: i }, $("output"), data.outputs[output] || data.target));
  $("output-label").hidden = data.shown.length < 2;
  if (!isClass) $("output-label").firstChild.textContent = "Target ";
}
function listen() {
  $("list").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) chooseColumn(Number(button.dataset.column));
  });
  $("list").addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    chooseColumn(view.column + move);
    document.querySelectorAll("#list button")[view.column].focus();
  });
  $("search").addEventListener("input", () => {
    const text = $("search").value.trim().toLowerCase();
    document.querySelectorAll("#list li").forEach((item, i) => { item.hidden = !columns[i].name.toLowerCase().includes(text); });
  });
  $("straight").addEventListener("change", () => { view.straight = $("straight").checked; update({ row: false, list: false }); });
  $("output").addEventListener("change", () => { view.output = Number($("output").value); update({ trust: true }); });
  $("before").addEventListener("click", () => chooseRow(view.row - 1));
  $("after").addEventListener("click", () => chooseRow(view.row + 1));
  $("reset").addEventListener("click", () => { view.values = baseRow(); update(); });
  $("row").addEventListener("change", () => {
    const index = Math.round(Number($("row").value)) - 1;
    chooseRow(Math.min(Math.max(Number.isFinite(index) ? index : 0, 0), data.rows.values.length - 1));
  });
  $("inputs").addEventListener("input", (event) => {
    const field = event.target, i = Number(field.dataset.column), column = columns[i];
    if (field.type === "range") { setValue(i, Number(field.value)); return; }
    const value = column.kind === "category" ? Number(field.value) : parsed(column, field.value);
    if (value === undefined) field.setAttribute("aria-invalid", "true");
    else { field.removeAttribute("aria-invalid"); setValue(i, value); }
  });
  $("inputs").addEventListener("focusin", (event) => {
    const i = Number(event.target.dataset.column);
    if (Number.isInteger(i) && i !== view.column) chooseColumn(i);
  });
  $("cards").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]");
    if (!button) return;
    chooseRow(Number(button.dataset.row));
    $("row-panel").scrollIntoView({ block: "nearest" });
  });
  listenToEffect();
  document.querySelectorAll("button.picture").forEach((button) => button.addEventListener("click", () => {
    const [svg, name, title] = pictures[button.dataset.picture]();
    savePicture(svg, name, title, `${data.sentence}: ${data.score}`);
  }));
  $("copy").addEventListener("click", () => copyText(data.load));
  addEventListener("hashchange", (event) => {
    const { hash } = new URL(event.newURL);
    if (hash === shownHash) return;
    readHash(hash);
    update({ trust: true });
  });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawErrors(); update({ trust: true }); } });
  addEventListener("beforeprint", () => update({ trust: true }));
}
function listenToEffect() {
  const svg = $("effect");
  const nearest = (event) => {
    const column = columns[view.column], effect = effectOf(column);
    if (!effect) return;
    const at = event.clientX - svg.getBoundingClientRect().left;
    const gaps = effect.values.map((value) => Math.abs(box.x(value) - at));
    view.hover = gaps.indexOf(Math.min(...gaps));
    drawHover();
  };
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("pointerdown", nearest);
  svg.addEventListener("pointerleave", () => { view.hover = null; drawHover(); });
  svg.addEventListener("blur", () => { view.hover = null; drawHover(); });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key], effect = effectOf(columns[view.column]);
    if (!move || !effect) return;
    event.preventDefault();
    const last = effect.values.length - 1, from = view.hover ?? Math.round(last / 2);
    view.hover = Math.min(Math.max(from + move, 0), last);
    drawHover();
  });
}
const pictures = {
  errors: () => [$("errors"), "errors", data.sentence],
  effect: () => [$("effect"), `effect-of-${columns[view.column].name.replace(/[^\w-]+/g, "-").slice(0, 40)}`, `Effect of ${columns[view.column].name} on ${targetText(view.output)}`],
  row: () => [waterfallPicture(), "row", `Why ${$("prediction").textContent}: one row`],
};
/* The waterfall as one picture: on the page its lines have fields of their own. */
function waterfallPicture() {
  const { baseline, parts, rest, sum, prediction, interval } = explained(), width = 640, left = 270, right = width - 80;
  const order = columns.map((_, i) => i).sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a])).slice(0, 14);
  const others = columns.map((_, i) => i).filter((i) => !order.includes(i)).reduce((total, i) => total + parts[i], rest);
  const steps = order.map((i) => [`${columns[i].name} = ${valueText(columns[i], view.values[i], true)}`, parts[i]]);
  if (Math.abs(others) > 1e-9) steps.push(["all else", others]);
  const ends = steps.reduce((all, [, part]) => [...all, all.at(-1) + part], [baseline]);
  const [low, high] = paddedRange(interval ? [...ends, ...interval] : ends), x = scale(low, high, left, right);
  const svg = $("drawn"), height = 26 * (steps.length + 2) + 8;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const text = (value) => (predictor.link === "logit" ? percent(expit(value)) : significant(value, 4));
  make("text", { class: "tick", x: 0, y: 18 }, svg, "on average");
  make("text", { class: "tick", x: width, y: 18, "text-anchor": "end" }, svg, text(baseline));
  steps.forEach(([name, part], i) => {
    const y = 26 * (i + 1), [from, to] = [x(ends[i]), x(ends[i + 1])];
    make("path", { class: "link", d: `M${n1(from)} ${y - 12}V${y + 13}` }, svg);
    make("text", { class: "tick", x: 0, y: y + 18 }, svg, fitted(name, left - 10));
    make("rect", { class: part < 0 ? "fall" : "rise", x: n1(Math.min(from, to)), y: y + 6, width: Math.max(n1(Math.abs(to - from)), 1), height: 14 }, svg);
    make("text", { class: "tick", x: width, y: y + 18, "text-anchor": "end" }, svg, besides(part, Math.max(...parts.map(Math.abs))));
  });
  const y = 26 * (steps.length + 1);
  if (interval) make("path", { class: "span", d: `M${n1(x(interval[0]))} ${y + 13}H${n1(x(interval[1]))}` }, svg);
  make("path", { class: "mark strong", d: `M${n1(x(sum))} ${y + 4}V${y + 22}` }, svg);
  make("text", { class: "heading", x: 0, y: y + 18 }, svg, "prediction");
  make("text", { class: "heading", x: width, y: y + 18, "text-anchor": "end" }, svg, inUnits(prediction));
  return svg;
}
async function copyText(text) {
  try { await navigator.clipboard.writeText(text); } catch {  // a page from the disk may not be allowed to
    const field = html("textarea", { class: "unseen" }, document.body);
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

function start() {
  showHead();
  makeList();
  if (predictor) makeInputs();
  listen();
  readHash(location.hash);
  drawErrors();
  update({ trust: true });
}
start();
/* What tests and other scripts can ask. */
globalThis.modelPage = {
  data, view, predictor, isReady: true,
  predictRows: () => data.rows.values.map((values) => data.shown.map((output) => predictor.predict([values], output)[0])),
  contributionsOf: (row) => { const { baseline, parts } = predictor.contributions(data.rows.values[row], data.shown[view.output]); return [baseline, ...parts]; },
  picture: (name) => { const [svg, , title] = pictures[name](); return pictureText(svg, title, `${data.sentence}: ${data.score}`); },
};
