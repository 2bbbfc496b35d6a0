/* The bottom: predicted against actual, calibration, the worst rows, what was tried, how it was made, what it reveals. */

function card(title, kind = "") {
  const section = html("section", { class: `card ${kind}` }, $("cards"));
  html("h3", {}, section, title);
  return section;
}
function drawTrust() {
  $("cards").replaceChildren();
  const { trust } = data;
  $("trust-note").textContent = trust ? data.basis : "";
  const first = trust ? card(isClass ? "Are probabilities right?" : "Predicted and actual", "wide") : null;
  if (trust && trust.worst.length && data.rows) drawWorst(trust);
  if (data.candidates.length) drawCandidates();
  html("div", { class: "break" }, $("cards"));
  const made = html("dl", {}, card("How it was made"));
  for (const [name, text] of data.made) { html("dt", {}, made, name); html("dd", {}, made, text); }
  const list = html("ul", {}, card("What this file reveals"));
  for (const text of data.revealed) html("li", {}, list, text);
  if (trust) (isClass ? drawCalibrations : drawAgreement)(first, trust);  // at last, when the card has its width
}
/* Points of two models on shared axes, with means of ten groups. */
function drawAgreement(section, trust) {
  const row = html("div", { class: "pair" }, section);
  const every = trust.panels.flatMap((panel) => (panel.points ? panel.points[view.output].flat() : panel.groups[view.output].flatMap(([a, b]) => [a, b])));
  const [low, high] = paddedRange(every, 0.03);
  const drawings = trust.panels.map(() => make("svg", { role: "img", class: "square" }, row));
  trust.panels.forEach((panel, i) => {
    const svg = drawings[i];
    const width = begin(svg, 300, `Predicted and actual of ${panel.name}`), left = 48, right = Math.min(width - 8, 420), x = scale(low, high, left, right), y = scale(low, high, 262, 26);
    make("text", { class: `heading ${i ? "" : "model"}`, x: left, y: 14 }, svg, panel.name);
    drawLeftAxis(svg, axisTicks(low, high, 5), y, { left, right });
    drawBottomAxis(svg, axisTicks(low, high, 4), x, 262, { left, right });
    make("path", { class: "zero", d: `M${left} ${n1(y(low))}L${right} ${n1(y(high))}` }, svg);
    if (panel.points) make("path", { class: i ? "cloud other" : "cloud", d: panel.points[view.output].map(([a, b]) => disc(x(a), y(b), 2)).join("") }, svg);
    make("path", { class: i ? "means other" : "means", d: panel.groups[view.output].map(([a, b]) => disc(x(a), y(b), 4.5)).join("") }, svg);
    make("text", { class: "tick", x: right, y: 297, "text-anchor": "end" }, svg, "predicted");
    make("text", { class: "tick", x: left + 6, y: 36 }, svg, "actual");
  });
  html("p", { class: "note" }, section, `Small dots are rows, large ones tenths of them; on the line both are equal.${isNumber(trust.coverage) ? ` Intervals of 90 % had ${percent(trust.coverage, 0)} of the rows.` : ""}`);
}
function drawCalibrations(section, trust) {
  const row = html("div", { class: "pair" }, section);
  const every = trust.panels.flatMap((panel) => panel.groups[view.output].flatMap(([a, b]) => [a, b])), high = Math.min(Math.max(...every) * 1.08, 1);
  const drawings = trust.panels.map(() => make("svg", { role: "img", class: "square" }, row));
  trust.panels.forEach((panel, i) => {
    const svg = drawings[i], groups = panel.groups[view.output];
    const width = begin(svg, 300, `Calibration of ${panel.name}`), left = 52, right = Math.min(width - 8, 420), x = scale(0, high, left, right), y = scale(0, high, 262, 26);
    make("text", { class: `heading ${i ? "" : "model"}`, x: left, y: 14 }, svg, panel.name);
    drawLeftAxis(svg, shareTicks(0, high, 5), y, { left, right });
    drawBottomAxis(svg, shareTicks(0, high, 4), x, 262, { left, right });
    make("path", { class: "zero", d: `M${left} ${n1(y(0))}L${right} ${n1(y(high))}` }, svg);
    make("path", { class: "whisker", d: groups.map(([a, b, error]) => `M${n1(x(a))} ${n1(y(Math.max(b - 2 * error, 0)))}V${n1(y(Math.min(b + 2 * error, high)))}`).join("") }, svg);
    make("path", { class: i ? "means other" : "means", d: groups.map(([a, b]) => disc(x(a), y(b), 4.5)).join("") }, svg);
    make("text", { class: "tick", x: right, y: 297, "text-anchor": "end" }, svg, "predicted probability");
    make("text", { class: "tick", x: left + 6, y: 36 }, svg, "how often it happened");
  });
  html("p", { class: "note" }, section, `Tenths of the rows by the probability of ${outputName(view.output)}, with two standard errors; on the line it can be taken at its word.`);
}
function drawWorst(trust) {
  const section = card("The ten worst rows"), table = html("table", {}, html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "The ten worst rows" }, section));
  const head = html("tr", {}, html("thead", {}, table));
  for (const text of ["row", "actual", "predicted", columns.length ? columns[0].name : ""]) html("th", { scope: "col" }, head, text);
  const body = html("tbody", {}, table);
  for (const place of trust.worst) {
    const at = data.rows ? data.rows.place.indexOf(place) : -1;
    if (at < 0) continue;
    const line = html("tr", {}, body), [actual] = data.rows.actual[at];
    const button = html("button", { type: "button", "data-row": at, "aria-label": `Show row ${at + 1}` }, html("td", {}, line), String(at + 1));
    button.setAttribute("class", "link");
    html("td", {}, line, isClass ? data.outputs[actual] : significant(data.rows.actual[at][view.output], 4));
    const held = data.rows.held[at];
    html("td", {}, line, isClass ? `${data.outputs[held.indexOf(Math.max(...held))]} (${percent(Math.max(...held), 0)})` : significant(held[view.output], 4));
    html("td", {}, line, columns.length ? valueText(columns[0], data.rows.values[at][0], true) : "");
  }
  html("p", { class: "note" }, section, "Predicted out of fold. Choose one to see why.");
}
function drawCandidates() {
  const section = card("What was tried"), table = html("table", {}, html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "What was tried" }, section));
  const head = html("tr", {}, html("thead", {}, table)), [first] = data.candidates;
  for (const text of ["kind", first.metric, "weight", "time"]) html("th", { scope: "col" }, head, text);
  const body = html("tbody", {}, table);
  for (const each of data.candidates) {
    const line = html("tr", {}, body);
    html("td", { class: "wrap" }, line, each.name);
    html("td", {}, line, isNumber(each.score) ? significant(each.score, 4) : DASH);
    html("td", {}, line, each.weight > 0 ? percent(each.weight, 0) : "");
    html("td", {}, line, isNumber(each.seconds) ? duration(each.seconds) : "");
  }
}
