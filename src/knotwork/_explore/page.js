/* What both pages use: their data, words, shapes, the history of changes, and pictures and files to save. */

const source = document.documentElement.outerHTML;  // before anything is drawn: the page that can be saved
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

const { fixed, significant, percent, counted } = writing;
const signed = (x, digits) => fixed(x, digits, true);
const rowsOf = (n, kind = "") => counted(n, `${kind}row`);
/* A day since 1970 as a date, with the time if the axis spans few days. */
const dayText = (day, span) => writing.dateText(day, span > 2 ? 30 : span);

function element(kind, properties, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/* ---- Shapes ------------------------------------------------------------------------------------------------ */

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
const n1 = (x) => Math.round(x * 10) / 10;
const disc = (x, y, r) => `M${n1(x - r)} ${n1(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
/* A line through points; `isHidden` says at which of them there is none. */
function path(xs, ys, isHidden = () => false) {
  let text = "", open = false;
  for (let i = 0; i < xs.length; i++) {
    if (isHidden(i)) { open = false; continue; }
    text += `${open ? "L" : "M"}${n1(xs[i])} ${n1(ys[i])}`;
    open = true;
  }
  return text;
}
function writeLabels(group, labels) {
  resize(group, labels.length, () => make("text", {}, group));
  labels.forEach(({ x, y, anchor, text, turn = 0 }, i) => {
    const element = set(group.children[i], { x, y, "text-anchor": anchor });
    if (turn) element.setAttribute("transform", `rotate(${turn} ${x} ${y})`); else element.removeAttribute("transform");
    if (element.textContent !== text) element.textContent = text;
  });
}
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/* ---- History ----------------------------------------------------------------------------------------------- */

/* The states that changes lead through, as texts: `restore` shows one of them again. A state has the text of its first
   view, to which redo returns, and of its last one, where the next change began and to which undo returns. */
class Changes {
  constructor(restore) {
    this.restore = restore; this.past = []; this.future = []; this.present = null;
  }
  /* Keep a state; one with the key of the last state is only another view of it. */
  remember(text, key = text) {
    if (this.present !== null && key === this.present.key) {
      this.present.last = text;
    } else {
      if (this.present !== null) { this.past.push(this.present); this.future = []; }
      this.present = { key, first: text, last: text };
    }
    this.show();
  }
  move(from, to, view) {
    if (!from.length) return;
    to.push(this.present);
    this.present = from.pop();
    this.restore(this.present[view]);
    this.show();
  }
  undo() { this.move(this.past, this.future, "last"); }
  redo() { this.move(this.future, this.past, "first"); }
  show() {
    $("undo").disabled = !this.past.length;
    $("redo").disabled = !this.future.length;
  }
  connect() {
    $("undo").addEventListener("click", () => this.undo());
    $("redo").addEventListener("click", () => this.redo());
    addEventListener("keydown", (event) => {
      const key = event.key.toLowerCase();
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.matches("input[type=search]")) return;
      if (key === "z" && !event.shiftKey) this.undo();
      else if (key === "y" || key === "z") this.redo();
      else return;
      event.preventDefault();
    });
    this.show();
  }
}

/* ---- Pictures and files ------------------------------------------------------------------------------------- */

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "visibility"];
const TITLE_ROOM = 58, CAPTION_ROOM = 26;

/* A chart as a picture that explains itself: with a title, a line below it, and its source. */
function pictureOf(chart, { title, detail, caption }) {
  const copy = chart.cloneNode(true), originals = chart.querySelectorAll("*"), [, , width, height] = chart.getAttribute("viewBox").split(" ").map(Number);
  copy.querySelectorAll("*").forEach((each, i) => {
    const style = getComputedStyle(originals[i]);
    each.setAttribute("style", KEPT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "tabindex", "role"]) each.removeAttribute(name);
    for (const { name } of Array.from(each.attributes)) if (name.startsWith("aria-")) each.removeAttribute(name);
  });
  const colour = (name) => {
    chart.style.color = `var(${name})`;
    const seen = getComputedStyle(chart).color;
    chart.style.removeProperty("color");
    return seen;
  };
  const total = height + TITLE_ROOM + CAPTION_ROOM;
  const picture = make("svg", { xmlns: SVG, width, height: total, viewBox: `0 0 ${width} ${total}`, "font-family": "system-ui, sans-serif" });
  make("rect", { width, height: total, fill: colour("--background") }, picture);
  const write = (text, y, size, fill, weight) => {
    make("text", { x: 12, y, "font-size": size, fill, "font-weight": weight }, picture).textContent = cut(text, Math.floor((width - 24) / (0.54 * size)));
  };
  write(title, 24, 16, colour("--ink"), 650);
  write(detail, 44, 12, colour("--muted"), 400);
  write(caption, total - 10, 11, colour("--muted"), 400);
  const inner = make("g", { transform: `translate(0 ${TITLE_ROOM})`, "font-size": 11.5 }, picture);
  inner.append(...copy.childNodes);
  return new XMLSerializer().serializeToString(picture);
}

/* A picture as PNG with two pixels for each, as a promise of a Blob. */
async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function save(name, content, kind) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([content], { type: kind })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
const fileName = (name, ending) => `${data.table.replace(/\.\w+$/, "")}_${name}`.replace(/[^\w-]+/g, "_").slice(0, 80) + ending;

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";  // not every browser lets a file write to the clipboard
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

/* Show only the items of a list whose button's `data-name` contains the text of the search field. */
function searchList() {
  const text = $("search").value.trim(), items = Array.from($("list").children);
  for (const item of items) item.hidden = !item.firstChild.dataset.name.toLowerCase().includes(text.toLowerCase());
  const none = items.every((item) => item.hidden);
  $("none").hidden = !none;
  $("none").textContent = none ? `No column contains “${cut(text, 40)}”.` : "";
}
