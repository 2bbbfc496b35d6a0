/* Drawing: elements, axes and pictures to save. */

const SVG = "http://www.w3.org/2000/svg";
function make(kind, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}
function html(kind, attributes = {}, parent = null, text = null) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}
const n1 = (x) => Math.round(x * 10) / 10;
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${n1(x)} ${n1(y)}`).join("");
const area = (lower, upper) => `${path(lower)}L${path([...upper].reverse()).slice(1)}Z`;
const disc = (x, y, r) => `M${n1(x - r)} ${n1(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

/* Clear a picture, and give it the size of its place on the page. */
function begin(svg, height, label) {
  svg.replaceChildren();
  const width = Math.max(Math.round(svg.clientWidth || 600), 200);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  svg.setAttribute("aria-label", label);
  return width;
}
function scale(low, high, from, to) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}
function paddedRange(values, share = 0.06) {
  const known = values.filter(isNumber);
  if (!known.length) return [0, 1];
  const low = Math.min(...known), high = Math.max(...known);
  const gap = high > low ? (high - low) * share : Math.abs(high) * 0.05 || 1;
  return [low - gap, high + gap];
}
const shareTicks = (low, high, most) => axisTicks(100 * low, 100 * high, most).map(([value, text]) => [value / 100, `${text} %`]);
const targetTicks = (low, high, most) => (isClass ? shareTicks(low, high, most) : axisTicks(low, high, most));
function drawLeftAxis(group, ticks, y, { left, right }) {
  make("path", { class: "grid", d: ticks.map(([value]) => `M${left} ${n1(y(value))}H${right}`).join("") }, group);
  for (const [value, text] of ticks) make("text", { class: "tick", x: left - 8, y: n1(y(value)) + 4, "text-anchor": "end" }, group, text);
}
function drawBottomAxis(group, ticks, x, bottom, { left, right }) {
  make("path", { class: "axis", d: `M${left} ${bottom}H${right}${ticks.map(([value]) => `M${n1(x(value))} ${bottom}v4`).join("")}` }, group);
  let last = -Infinity;
  for (const [value, text] of ticks) {
    const at = Math.min(Math.max(x(value), left), right), half = 3.3 * text.length;
    if (at - half < last + 8) continue;
    const anchor = at + half > right + 10 ? "end" : at - half < left - 40 ? "start" : "middle";
    make("text", { class: "tick", x: n1(at), y: bottom + 18, "text-anchor": anchor }, group, text);
    last = at + half;
  }
}
/* Shorten a text to the width that it has. */
function fitted(text, width) {
  const most = Math.max(Math.floor(width / 6.6), 3);
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/* ---- Pictures to save -------------------------------------------------------------------------------------- */

const KEPT_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", "opacity", "fill-opacity",
  "font-size", "font-weight", "font-family", "text-anchor", "visibility"];
function withStyles(from, to) {
  const style = getComputedStyle(from);
  for (const name of KEPT_STYLES) {
    const value = style.getPropertyValue(name);
    if (value) to.setAttribute(name, value);
  }
  to.removeAttribute("class"); to.removeAttribute("tabindex"); to.removeAttribute("style");
  Array.from(from.children).forEach((child, i) => withStyles(child, to.children[i]));
}
/* One picture with a title, the score, and where it comes from, as the text of an SVG file. */
function pictureText(svg, title, subtitle) {
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const style = getComputedStyle(document.body), ink = style.color, font = style.fontFamily;
  const out = make("svg", { xmlns: SVG, width: width + 32, height: height + 96, viewBox: `0 0 ${width + 32} ${height + 96}`, "font-family": font });
  make("rect", { width: width + 32, height: height + 96, fill: getComputedStyle(document.querySelector("main")).backgroundColor }, out);
  make("text", { x: 16, y: 28, fill: ink, "font-size": 16, "font-weight": 600 }, out, fitted(title, 1.15 * width * 0.72));
  make("text", { x: 16, y: 47, fill: ink, "font-size": 12, opacity: 0.72 }, out, fitted(subtitle, width * 1.1));
  const copy = svg.cloneNode(true), inner = make("svg", { x: 16, y: 58, width, height, viewBox: `0 0 ${width} ${height}` }, out);
  withStyles(svg, copy);
  inner.append(...copy.children);
  make("text", { x: 16, y: height + 82, fill: ink, "font-size": 11, opacity: 0.72 }, out, fitted(sourceText(), width * 1.2));
  return new XMLSerializer().serializeToString(out);
}
const sourceText = () => `Knotwork ${data.version}, ${data.kind}${data.how ? `; rows: ${data.how}` : ""}`;
function download(url, name) {
  const link = html("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
async function savePicture(svg, name, title, subtitle) {
  const text = pictureText(svg, title, subtitle), image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = html("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  download(canvas.toDataURL("image/png"), `${name}.png`);
}
