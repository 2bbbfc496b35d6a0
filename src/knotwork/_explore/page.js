/* The page: state, fits of the chosen column, drawing, and what the reader does. Text of the table reaches the document
   by textContent and attributes only. */

(() => {
  const source = document.documentElement.outerHTML;  // before anything is drawn: the page that can be saved
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const isClass = data.task === "classification";
  const N_DOTS = 32, NEARBY = 0.02, N_GRID = 180, N_BARS = 48, DEFAULT_DEGREE = 3, PLAY_MS = 2600, MOVE_MS = 420;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  /* ---- Data -------------------------------------------------------------------------------------------------- */

  function decode(text, kind) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new kind(bytes.buffer);
  }

  const nTraining = data.rows.training, nRows = nTraining + data.rows.heldOut;
  const rawTarget = isClass ? decode(data.target.codes, Uint8Array) : decode(data.target.values, Float32Array);

  /* The target as numbers: standardised, or 1 for the chosen class. */
  const targets = new Map();
  function target() {
    const key = isClass ? view.positive : 0;
    if (!targets.has(key)) {
      targets.set(key, Float64Array.from(rawTarget, isClass ? (code) => (code === key ? 1 : 0) : Number));
    }
    return targets.get(key);
  }

  /* Arrays of a column are decoded when it is first shown. The last group is that of missing values. */
  const prepared = new Map();
  function columnOf(index) {
    if (prepared.has(index)) return prepared.get(index);
    const stored = data.columns[index];
    const centres = decode(stored.centres, Float64Array), codes = decode(stored.codes, Uint8Array);
    for (let i = 0; i < codes.length; i++) if (codes[i] === 255) codes[i] = centres.length;
    const column = { ...stored, index, centres, codes, nGroups: centres.length + 1, groups: new Map(), std: new Map() };
    column.stretch = stretch(centres);
    column.ranksByDefault = needsRanks(column);
    prepared.set(index, column);
    return column;
  }

  /* Number of rows, sum and sum of squares of the target in each group, of training and of held-out rows. */
  function groupsOf(column) {
    const key = isClass ? view.positive : 0;
    if (!column.groups.has(key)) {
      const y = target();
      column.groups.set(key, { training: tally(column, y, 0, nTraining), heldOut: tally(column, y, nTraining, nRows) });
    }
    return column.groups.get(key);
  }

  function tally(column, y, from, to) {
    const n = new Float64Array(column.nGroups), sum = new Float64Array(column.nGroups), squares = new Float64Array(column.nGroups);
    for (let i = from; i < to; i++) {
      const group = column.codes[i];
      n[group]++; sum[group] += y[i]; squares[group] += y[i] * y[i];
    }
    return { n, sum, squares, mean: sum.map((value, g) => (n[g] > 0 ? value / n[g] : 0)) };
  }

  /* The axis that gives equal room to equal numbers of rows: between groups it is a straight line. */
  function stretch(centres) {
    const values = [0, ...Array.from(centres).filter((value) => value > 0 && value < 1), 1];
    return values;
  }

  /* Whether nearly all rows lie in a small part of the domain, as with an outlier of 1e12. */
  function needsRanks(column) {
    const counts = new Float64Array(column.nGroups);
    for (let i = 0; i < nTraining; i++) counts[column.codes[i]]++;
    const total = counts.reduce((sum, n) => sum + n, 0) - counts[column.nGroups - 1];
    let below = 0, low = 0, high = 1;
    for (let g = 0; g + 1 < column.nGroups; g++) {
      if (below <= 0.01 * total) low = column.centres[g];
      below += counts[g];
      if (below >= 0.99 * total) { high = column.centres[g]; break; }
    }
    return column.centres.length > 8 && high - low < 0.06;
  }

  const toValue = (column, u) => column.domain[0] * (1 - u) + column.domain[1] * u;

  function bracket(values, x) {
    let low = 0, high = values.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (values[middle] <= x) low = middle; else high = middle - 1;
    }
    return low;
  }
  function toPosition(column, u) {
    if (!view.ranks) return u;
    const values = column.stretch, i = bracket(values, u);
    return (i + (u - values[i]) / (values[i + 1] - values[i])) / (values.length - 1);
  }
  function fromPosition(column, position) {
    const p = Math.min(Math.max(position, 0), 1);
    if (!view.ranks) return p;
    const values = column.stretch, scaled = p * (values.length - 1), i = Math.min(Math.floor(scaled), values.length - 2);
    return values[i] + (scaled - i) * (values[i + 1] - values[i]);
  }

  /* ---- State ------------------------------------------------------------------------------------------------- */

  const view = { column: 0, all: false, ridge: 1, ranks: false, positive: isClass ? data.classes.length - 1 : 0, ghost: true,
                 encodings: data.columns.map(() => defaultEncoding()) };
  let knots = [], ghost = null, fit = null, shownHash = "", moving = 0, additive = null;

  function defaultEncoding() {
    return { family: "bspline", placement: "quantile", size: 15, degree: DEFAULT_DEGREE };
  }
  const encoding = () => view.encodings[view.column];
  const familyOf = (each) => data.families.find((family) => family.name === each.family);

  /* Knots of an encoding: prepared ones, those of a step of learning, or the reader's own. */
  function knotsOf(index, each) {
    if (each.placement === "custom") return each.knots;
    if (each.placement === "learned") return frameKnots(index, each, each.frame);
    const functions = 1 + (familyOf(each).hasDegree ? each.degree : 0), stored = data.columns[index].knots;
    if (each.family === "ple" && each.placement === "cart") return pick(stored["ple/cart"], data.sizes.indexOf(each.size));
    const entry = stored[each.placement];
    return pick(entry, entry.counts.indexOf(each.size - functions));
  }
  function pick(entry, place) {
    entry.decoded ??= decode(entry.values, Float64Array);
    const start = entry.counts.slice(0, place).reduce((sum, n) => sum + n, 0);
    return numerics.cleanKnots(entry.decoded.subarray(start, start + entry.counts[place]));
  }
  function pathOf(index, each) {
    const path = data.columns[index].paths[`${each.family}@${each.size}`];
    return path && (each.degree === data.learning.degree || !familyOf(each).hasDegree) ? path : null;
  }
  const nFrames = (path) => path.decoded.length / path.count;
  function frameKnots(index, each, frame) {
    const path = pathOf(index, each);
    path.decoded ??= decode(path.values, Uint16Array);
    const last = nFrames(path) - 1, at = Math.min(Math.max(frame ?? last, 0), last), from = Math.floor(at), share = at - from;
    const to = Math.min(from + 1, last), out = [];
    for (let k = 0; k < path.count; k++) {
      out.push(((1 - share) * path.decoded[from * path.count + k] + share * path.decoded[to * path.count + k]) / 65535);
    }
    return numerics.cleanKnots(out);
  }

  /* Whether an encoding, for one read from the address, exists in this page. */
  function isPossible(index, each) {
    if (!data.columns[index] || !familyOf(each) || !data.degrees.includes(each.degree)) return false;
    if (each.placement === "custom") return Array.isArray(each.knots) && each.knots.length < 60;
    if (!data.sizes.includes(each.size)) return false;
    return each.placement === "learned" ? pathOf(index, each) !== null : each.placement in data.columns[index].knots;
  }

  function writeHash() {
    const encodings = {};
    view.encodings.forEach((each, index) => {
      if (JSON.stringify(each) !== JSON.stringify(defaultEncoding())) encodings[index] = each;
    });
    const values = { ...view, encodings, positive: isClass ? view.positive : 0 };
    if (view.ranks === columnOf(view.column).ranksByDefault) values.ranks = undefined;
    shownHash = `#${numerics.state.write(values)}`;
    try {
      history.replaceState(null, "", shownHash);
    } catch {
      // A frame of a notebook has no address of its own: the state lives in the page alone.
    }
  }

  function readHash(text) {
    const values = numerics.state.read(text.replace(/^#/, ""));
    view.column = data.columns[values.column] ? values.column : 0;
    view.all = values.all && data.columns.length > 1;
    view.ridge = values.ridge > 0 ? values.ridge : 1;
    view.ghost = values.ghost;
    if (isClass && data.classes[values.positive] !== undefined) view.positive = values.positive;
    view.encodings = data.columns.map((_, index) => {
      const each = values.encodings[index];
      return each && isPossible(index, each) ? each : defaultEncoding();
    });
    view.ranks = values.ranks ?? columnOf(view.column).ranksByDefault;
    knots = knotsOf(view.column, encoding());
    ghost = null; additive = null;
  }

  /* ---- Fits -------------------------------------------------------------------------------------------------- */

  const fitter = (rows, size, groups, start) => (isClass
    ? numerics.logistic(rows, size, groups.n, groups.mean, view.ridge, start)
    : numerics.ridge(rows, size, groups.n, groups.mean, view.ridge));
  const response = (eta) => (isClass ? numerics.sigmoid(eta) : eta);
  const scorer = isClass ? numerics.classScore : numerics.regressionScore;

  /* The encoding of the groups of a column, and a row of zeros for missing values. */
  function encoded(column, each, itsKnots) {
    const { rows, size } = numerics.design(each.family, column.centres, itsKnots, each.degree);
    const padded = new Float64Array(column.nGroups * size);
    padded.set(rows);
    return { rows: padded, size };
  }

  /* The column scaled to mean 0 and variance 1, one number for each group; missing values are 0. */
  function scaled(column) {
    const { n } = groupsOf(column).training;
    let total = 0, mean = 0, variance = 0;
    column.centres.forEach((u, g) => { total += n[g]; mean += n[g] * u; });
    mean /= total || 1;
    column.centres.forEach((u, g) => { variance += n[g] * (u - mean) ** 2; });
    const deviation = Math.sqrt(variance / (total || 1)) || 1, rows = new Float64Array(column.nGroups);
    column.centres.forEach((u, g) => { rows[g] = (u - mean) / deviation; });
    return rows;
  }

  function predictGroups(model, rows, size, nGroups) {
    const out = new Float64Array(nGroups);
    for (let g = 0; g < nGroups; g++) out[g] = response(numerics.linear(rows, g * size, size, model.intercept, model.coefficients));
    return out;
  }

  function standardScore(column) {
    const key = `${view.ridge}/${view.positive}`;
    if (!column.std.has(key)) {
      const rows = scaled(column), groups = groupsOf(column), model = fitter(rows, 1, groups.training, null);
      column.std.set(key, scorer(predictGroups(model, rows, 1, column.nGroups), groups.heldOut));
    }
    return column.std.get(key);
  }

  function fitOne() {
    const column = columnOf(view.column), groups = groupsOf(column), { rows, size } = encoded(column, encoding(), knots);
    const model = fitter(rows, size, groups.training, fit && fit.model);
    const predictions = predictGroups(model, rows, size, column.nGroups);
    return { column, model, size, predictions, groups, freedom: model.freedom, score: scorer(predictions, groups.heldOut),
             std: standardScore(column), dots: groups.training, residuals: residualsByGroup(predictions, groups.heldOut) };
  }

  /* Sums of held-out residuals of each group, from the sums of the target. */
  function residualsByGroup(predictions, { n, sum, squares }) {
    return { n, sum: sum.map((value, g) => value - n[g] * predictions[g]),
             squares: squares.map((value, g) => value - 2 * predictions[g] * sum[g] + n[g] * predictions[g] ** 2) };
  }

  /* The additive model keeps what it has learned: after a drag it needs few sweeps. */
  function additiveModel() {
    const key = `${view.ridge}/${view.positive}`;
    if (!additive || additive.key !== key) {
      const y = target().subarray(0, nTraining);
      additive = { key, spline: new numerics.Additive(y, isClass, view.ridge), std: new numerics.Additive(y, isClass, view.ridge),
                   encodings: [], stdDone: false, done: false };
      data.columns.forEach((_, index) => {
        const column = columnOf(index);
        additive.std.setBlock(index, column.codes, column.nGroups, scaled(column), 1);
      });
    }
    data.columns.forEach((_, index) => {
      const each = view.encodings[index], its = index === view.column ? knots : knotsOf(index, each);
      const now = JSON.stringify([each.family, each.degree, Array.from(its)]);
      if (additive.encodings[index] === now) return;
      additive.encodings[index] = now;
      const column = columnOf(index), { rows, size } = encoded(column, each, its);
      additive.spline.setBlock(index, column.codes, column.nGroups, rows, size);
      additive.done = false;
    });
    return additive;
  }

  function heldOutEta(model) {
    const eta = new Float64Array(nRows - nTraining).fill(model.intercept);
    model.blocks.forEach((block) => {
      for (let i = nTraining; i < nRows; i++) eta[i - nTraining] += block.values[block.codes[i]];
    });
    return eta;
  }

  function rowScore(eta) {
    const y = target(), n = new Float64Array(eta.length).fill(1);
    const sum = y.slice(nTraining), squares = sum.map((value) => value * value);
    return scorer(eta.map(response), { n, sum, squares });
  }

  function fitAll() {
    const column = columnOf(view.column), both = additiveModel(), model = both.spline, block = () => model.blocks[view.column];
    if (!both.stdDone) both.stdDone = both.std.run(200);
    if (!both.done) both.done = model.run(moving || held ? 6 : 30);
    if (!both.done) requestUpdate();  // the next frame goes on
    const y = target(), { codes, values, rows, size, means, coefficients } = block(), eta = heldOutEta(model);
    const residuals = { n: new Float64Array(column.nGroups), sum: new Float64Array(column.nGroups), squares: new Float64Array(column.nGroups) };
    for (let i = nTraining; i < nRows; i++) {
      const residual = y[i] - response(eta[i - nTraining]), g = codes[i];
      residuals.n[g]++; residuals.sum[g] += residual; residuals.squares[g] += residual * residual;
    }
    const freedom = 1 + model.blocks.reduce((sum, each) => sum + each.size, 0);
    const own = { intercept: model.intercept - numerics.dot(means, coefficients), coefficients };
    both.stdScore = both.stdDone && both.stdScore ? both.stdScore : rowScore(heldOutEta(both.std));
    return { column, model: own, size, predictions: predictGroups(own, rows, size, column.nGroups), groups: groupsOf(column),
             freedom, score: rowScore(eta), std: both.stdScore, dots: partialDots(column, model, values), residuals };
  }

  /* What the other columns leave: the function of this column plus the mean residual of each group. */
  function partialDots(column, model, values) {
    const n = new Float64Array(column.nGroups), sum = new Float64Array(column.nGroups), squares = new Float64Array(column.nGroups);
    const weight = new Float64Array(column.nGroups);
    for (let i = 0; i < nTraining; i++) {
      const g = column.codes[i], p = response(model.eta[i]);
      weight[g] += isClass ? p * (1 - p) : 1;
      n[g]++; sum[g] += model.residual(i);
    }
    for (let g = 0; g < column.nGroups; g++) {
      if (n[g] > 0) sum[g] = n[g] * response(model.intercept + values[g] + sum[g] / Math.max(weight[g], 1e-9));
    }
    for (let i = 0; i < nTraining; i++) {
      const g = column.codes[i];
      squares[g] += isClass ? sum[g] / n[g] : (sum[g] / n[g] + model.residual(i) - (sum[g] / n[g] - model.intercept - values[g])) ** 2;
    }
    return { n, sum, squares };
  }

  /* Neighbouring groups together, until about one dot of N_DOTS has its share of the rows. Standard errors from sums of
     squares. Missing values, the last group, have no place on the axis. */
  function dotsOf(column, tallied, reference) {
    const least = reference.n.reduce((sum, n) => sum + n, 0) / N_DOTS, dots = [];
    const exact = column.centres.length <= N_DOTS;
    let n = 0, sum = 0, squares = 0, place = 0, shared = 0;
    const close = () => {
      if (n > 0) {
        const mean = sum / n, variance = n > 1 ? Math.max(squares / n - mean * mean, 0) * n / (n - 1) : 0;
        dots.push({ u: place / shared, mean, error: n > 1 ? 2 * Math.sqrt(variance / n) : 0, n });
      }
      n = sum = squares = place = shared = 0;
    };
    for (let g = 0; g < column.centres.length; g++) {
      n += tallied.n[g]; sum += tallied.sum[g]; squares += tallied.squares[g];
      const weight = reference.n[g] || 1e-9;
      place += weight * column.centres[g]; shared += weight;
      if (exact || shared >= least) close();
    }
    close();
    return dots;
  }

  /* ---- Numbers in words -------------------------------------------------------------------------------------- */

  const count = (n) => n.toLocaleString("en-US");
  function written(x, whole = false) {
    if (!Number.isFinite(x)) return "–";
    const size = Math.abs(x);
    if (size >= 1e7 || (size > 0 && size < 1e-4)) return x.toExponential(2).replace("-", "−").replace("e+", "e");
    const digits = whole && Math.abs(x - Math.round(x)) < 1e-9 ? 0 : size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    return x.toLocaleString("en-US", { maximumFractionDigits: digits }).replace("-", "−");
  }
  const signed = (x, digits) => (Number.isFinite(x) ? (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits) : "–");
  const fixed = (x, digits) => (Number.isFinite(x) ? x.toFixed(digits).replace("-", "−") : "–");
  const toTarget = (z) => (isClass ? z : data.target.centre + data.target.scale * z);
  const SCORES = isClass ? { main: "AUC", other: "Log loss" } : { main: "R²", other: "RMSE" };
  const otherScore = (score) => (isClass ? fixed(score.other, 4) : written(score.other * data.target.scale));
  const targetText = () => (isClass ? `share of ${data.targetName} = ${data.classes[view.positive]}` : data.targetName);

  function ticks(low, high, wanted) {
    if (!(high > low) || !Number.isFinite(high - low)) return [low];
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((each) => each >= raw * 0.999);
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && out.length < 20; i++) out.push(i * step);
    return out;
  }

  /* ---- Drawing ----------------------------------------------------------------------------------------------- */

  const SVG = "http://www.w3.org/2000/svg";
  function make(kind, attributes = {}, parent = null) {
    const element = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (parent) parent.append(element);
    return element;
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
    functions: make("g", {}, panels.functions.group), outline: make("path", { class: "outline" }, panels.functions.group),
    bars: make("path", { class: "bars" }, panels.knots.group),
    residualWhiskers: make("path", { class: "whiskers" }, panels.residuals.group),
    residualMeans: make("path", { class: "means" }, panels.residuals.group),
    axis: make("g", {}, layer), cross: make("path", { class: "cross", visibility: "hidden" }, layer),
    spots: make("path", { class: "spot", visibility: "hidden" }, layer), handles: make("g", {}, layer),
  };
  let box = { width: 800, left: 58, right: 14, narrow: false };

  function layOut() {
    const width = Math.max(chart.clientWidth || 800, 240), narrow = width < 560;
    const heights = narrow ? [190, 120, 84, 84] : [250, 150, 92, 92];
    box = { width, narrow, left: narrow ? 44 : 58, right: narrow ? 8 : 14 };
    let top = 0;
    PANELS.forEach((name, i) => {
      top += 26;
      Object.assign(panels[name], { top, height: heights[i], bottom: top + heights[i] });
      top += heights[i] + 8;
      panels[name].heading.setAttribute("x", narrow ? 2 : box.left);
      panels[name].heading.setAttribute("y", panels[name].top - 9);
      panels[name].readout.setAttribute("x", narrow ? 2 : width - box.right);
      panels[name].readout.setAttribute("y", panels[name].top - 9);
    });
    layer.setAttribute("class", narrow ? "narrow" : "");
    box.height = top + 34;
    chart.setAttribute("viewBox", `0 0 ${width} ${box.height}`);
    chart.style.height = `${box.height}px`;
    const frame = { x: box.left, y: panels.fit.top, width: inner(), height: panels.fit.height };
    for (const [name, value] of Object.entries(frame)) clip.setAttribute(name, value);
    for (const [name, value] of Object.entries({ x: 0, y: 0, width, height: box.height })) ground.setAttribute(name, value);
  }
  const inner = () => box.width - box.left - box.right;
  const px = (column, u) => box.left + toPosition(column, u) * inner();
  const n1 = (x) => Math.round(x * 10) / 10;

  /* Draw numbers and lines of a vertical axis, and return the function from values to pixels. */
  function verticalAxis(panel, low, high, wanted, text) {
    const y = (value) => panel.bottom - ((value - low) / (high - low)) * panel.height;
    const at = ticks(low, high, wanted);
    panel.grid.setAttribute("d", at.map((value) => `M${box.left} ${n1(y(value))}H${box.width - box.right}`).join(""));
    writeLabels(panel.labels, at.map((value) => ({ x: box.left - 7, y: n1(y(value)) + 4, text: text(value), anchor: "end" })));
    return y;
  }
  function writeLabels(group, labels) {
    while (group.children.length > labels.length) group.lastChild.remove();
    labels.forEach((label, i) => {
      const element = group.children[i] || make("text", {}, group);
      element.setAttribute("x", label.x);
      element.setAttribute("y", label.y);
      element.setAttribute("text-anchor", label.anchor);
      if (element.textContent !== label.text) element.textContent = label.text;
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

  function drawFit(column, model, rows, size, grid, xs) {
    const panel = panels.fit, dots = dotsOf(column, fit.dots, fit.groups.training);
    let low = Infinity, high = -Infinity;
    for (const dot of dots) {
      const reach = Math.min(dot.error, 3 * Math.abs(dot.error));
      low = Math.min(low, dot.mean - reach); high = Math.max(high, dot.mean + reach);
    }
    if (!(high > low)) { low -= isClass ? 0.1 : 1; high += isClass ? 0.1 : 1; }
    const margin = 0.12 * (high - low);
    [low, high] = [low - margin, high + margin];
    if (isClass) [low, high] = [Math.max(low, -0.02), Math.min(high, 1.02)];
    const y = verticalAxis(panel, toTarget(low), toTarget(high), 4, (value) => written(value)), yz = (z) => y(toTarget(z));
    panel.y = yz;
    const ys = grid.map((_, i) => yz(response(numerics.linear(rows, i * size, size, model.intercept, model.coefficients))));
    const text = path(xs, ys);
    shapes.curve.setAttribute("d", text);
    fit.curve = { grid, values: ys.map((_, i) => response(numerics.linear(rows, i * size, size, model.intercept, model.coefficients))) };
    const showGhost = view.ghost && ghost !== null && ghost.column === view.column;
    shapes.ghost.setAttribute("d", showGhost ? path(Array.from(ghost.curve.grid, (u) => px(column, u)), ghost.curve.values.map(yz)) : "");
    shapes.whiskers.setAttribute("d", dots.map((dot) => `M${n1(px(column, dot.u))} ${n1(yz(dot.mean - dot.error))}V${n1(yz(dot.mean + dot.error))}`).join(""));
    shapes.means.setAttribute("d", dots.map((dot) => disc(px(column, dot.u), yz(dot.mean), box.narrow ? 3 : 3.6)).join(""));
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
    const margin = 0.06 * (high - low), y = verticalAxis(panel, low - margin, high + margin, 3, (value) => written(value));
    panel.y = y; panel.scale = scale;
    const zero = n1(y(0));
    panel.zero.setAttribute("d", `M${box.left} ${zero}H${box.width - box.right}`);
    const group = shapes.functions;
    while (group.children.length > size) group.lastChild.remove();
    let outline = "";
    const lift = (panel.height - 6) / (top || 1);
    for (let j = 0; j < size; j++) {
      const element = group.children[j] || make("path", { class: "function" }, group);
      element.style.setProperty("--hue", String(Math.round(215 + (size > 1 ? (145 * j) / (size - 1) : 0))));
      const c = model.coefficients[j] * scale;
      let text = "", open = false;
      for (let i = 0; i < n; i++) {
        const value = rows[i * size + j];
        const flat = value === (i > 0 ? rows[(i - 1) * size + j] : NaN) && value === (i + 1 < n ? rows[(i + 1) * size + j] : NaN);
        if (flat) continue;  // constant pieces need their ends only
        text += `${open ? "L" : "M"}${n1(xs[i])} ${n1(y(value * c))}`;
        outline += `${open ? "L" : "M"}${n1(xs[i])} ${n1(panel.bottom - value * lift)}`;
        open = true;
      }
      element.setAttribute("d", `${text}L${n1(xs[n - 1])} ${zero}L${n1(xs[0])} ${zero}Z`);
    }
    shapes.outline.setAttribute("d", outline);
    const unit = isClass ? " (log-odds)" : "";
    panel.heading.textContent = box.narrow ? `Coefficient × function${unit}` : `${size} functions, filled by coefficient × function${unit}; thin: the functions`;
  }

  function drawBars(column, panelWidth, left, bottom, height, place) {
    const counts = column.bars, top = Math.max(...counts, 1);
    const exact = column.centres.length === counts.length && counts.length <= N_BARS;
    let width = panelWidth / counts.length;
    const middle = (i) => (exact ? place(column.centres[i]) : place((i + 0.5) / counts.length)) * panelWidth;
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

  /* On the axis of rows, bars are the dots' groups: their height is the number of rows over the room they have. */
  function rankBars(column, panel) {
    const { n } = fit.groups.training, top = Math.max(...n.subarray(0, column.centres.length), 1), width = inner() / column.stretch.length;
    let text = "";
    column.centres.forEach((u, g) => {
      const h = Math.max((n[g] / top) * (panel.height - 26), 0.8);
      text += `M${n1(px(column, u) - width / 2)} ${panel.bottom}v${n1(-h)}h${n1(Math.max(width, 0.8))}v${n1(h)}z`;
    });
    return text;
  }

  function drawKnots(column) {
    const panel = panels.knots;
    shapes.bars.setAttribute("d", view.ranks ? rankBars(column, panel) : drawBars(column, inner(), box.left, panel.bottom, panel.height - 26, (u) => u));
    panel.zero.setAttribute("d", `M${box.left} ${panel.bottom}H${box.width - box.right}`);
    const group = shapes.handles;
    while (group.children.length > knots.length) group.lastChild.remove();
    while (group.children.length < knots.length) makeHandle(group);
    const radius = box.narrow || matchMedia("(pointer: coarse)").matches ? 8 : knots.length > 20 ? 5.5 : 7;
    knots.forEach((knot, k) => {
      const element = group.children[k], x = n1(px(column, knot)), y = panel.top + 12;
      const [stem, hit, handle] = element.children;
      stem.setAttribute("d", `M${x} ${panels.fit.top}V${panels.residuals.bottom}`);
      hit.setAttribute("x", x - 11); hit.setAttribute("y", panel.top - 4);
      hit.setAttribute("width", 22); hit.setAttribute("height", panel.height + 4);
      handle.setAttribute("cx", x); handle.setAttribute("cy", y + (knots.length > 14 ? (k % 2) * 14 : 0)); handle.setAttribute("r", radius);
      const value = toValue(column, knot);
      element.setAttribute("aria-label", `Knot ${k + 1} of ${knots.length}`);
      element.setAttribute("aria-valuenow", String(value));
      element.setAttribute("aria-valuemin", String(toValue(column, k > 0 ? knots[k - 1] : 0)));
      element.setAttribute("aria-valuemax", String(toValue(column, k + 1 < knots.length ? knots[k + 1] : 1)));
      element.setAttribute("aria-valuetext", `${column.name} ${written(value)}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
    });
    panel.heading.textContent = box.narrow ? `${knots.length} knots` : `${knots.length} knots over the histogram of training rows`;
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
    const y = verticalAxis(panel, -reach, reach, 2, (value) => written(value));
    const inside = (value) => Math.min(Math.max(y(value * scale), panel.top), panel.bottom);
    panel.zero.setAttribute("d", `M${box.left} ${n1(y(0))}H${box.width - box.right}`);
    shapes.residualWhiskers.setAttribute("d", dots.map((dot) => `M${n1(px(column, dot.u))} ${n1(inside(dot.mean - dot.error))}V${n1(inside(dot.mean + dot.error))}`).join(""));
    shapes.residualMeans.setAttribute("d", dots.map((dot) => disc(px(column, dot.u), inside(dot.mean), box.narrow ? 2.4 : 3)).join(""));
    panel.heading.textContent = box.narrow ? "Held-out residuals" : "Mean residuals of held-out rows ± 2 standard errors";
  }

  function drawAxis(column) {
    const bottom = panels.residuals.bottom, [low, high] = column.domain, labels = [];
    const wanted = box.narrow ? 4 : 8;
    if (view.ranks || !Number.isFinite(high - low)) {
      for (let i = 0; i <= wanted; i++) labels.push({ u: fromPosition(column, i / wanted), text: written(toValue(column, fromPosition(column, i / wanted)), column.whole) });
    } else {
      for (const value of ticks(low, high, wanted)) {
        if (!column.whole || Number.isInteger(Number(value.toPrecision(12))) || high - low < 1) labels.push({ u: (value - low) / (high - low), text: axisNumber(value) });
      }
    }
    writeLabels(shapes.axis, [
      ...labels.map(({ u, text }, i) => ({ x: n1(px(column, u)), y: bottom + 16, text, anchor: i === labels.length - 1 && px(column, u) > box.width - 40 ? "end" : "middle" })),
      { x: box.left + inner() / 2, y: bottom + 32, text: view.ranks ? `${column.name} (equal room for equal numbers of rows)` : column.name, anchor: "middle" },
    ]);
  }
  function axisNumber(value) {
    const size = Math.abs(value);
    if (size >= 1e7 || (size > 0 && size < 1e-4)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
    return Number(value.toPrecision(8)).toLocaleString("en-US", { maximumFractionDigits: 6, useGrouping: size >= 10000 }).replace("-", "−");
  }

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
    score.mainWhat.textContent = Number.isFinite(now.main) ? `${SCORES.main} on ${count(data.rows.heldOut)} held-out rows` : `${SCORES.main} needs held-out rows with different targets`;
    show(score.change, change);
    score.changeWhat.textContent = `against Std (${fixed(std.main, 3)})`;
    const compared = view.ghost && ghost !== null && ghost.column === view.column;
    show(score.ghost, compared ? now.main - ghost.score : NaN);
    score.freedom.textContent = view.all ? `≤ ${count(freedom)}` : `${fixed(freedom, 1)} of ${size + 1}`;
    score.other.textContent = otherScore(now);
  }
  function show(card, change) {
    card.textContent = signed(change, 3);
    card.className = `value ${Number.isFinite(change) && Math.abs(change) >= 0.0005 ? (change > 0 ? "good" : "bad") : ""}`;
  }

  const knotList = (column, its) => its.map((u) => Number(toValue(column, u).toPrecision(12))).join(", ");
  const literal = (text) => JSON.stringify(text);

  /* The encoding as a name for a mapping, or null, and as Python that makes its encoder. */
  function methodOf(each) {
    const plain = each.degree === DEFAULT_DEGREE || !familyOf(each).hasDegree;
    return plain ? data.methods[`${each.family}/${each.placement}`] ?? null : null;
  }
  function encoderCode(column, each, its) {
    const hasDegree = familyOf(each).hasDegree, own = each.placement === "custom" || each.placement === "learned";
    const size = own ? numerics.basisSize(each.family, its.length, each.degree) : each.size;
    const placement = own ? `kw.knots.FixedPlacement([${knotList(column, its)}])` : literal(each.placement);
    const degree = hasDegree && each.degree !== DEFAULT_DEGREE ? `, degree=${each.degree}` : "";
    return hasDegree ? `kw.SplineEncoder(${literal(each.family)}, ${size}, placement=${placement}${degree})`
      : `kw.PiecewiseLinearEncoder(${size}, placement=${placement})`;
  }
  function lineOf(index) {
    const each = view.encodings[index], method = methodOf(each);
    const its = index === view.column ? knots : knotsOf(index, each);
    return method ? `kw.make_encoder(${literal(method)}, size=${each.size})` : encoderCode(columnOf(index), each, its);
  }
  function mappingCode() {
    const entries = data.columns.map((stored, index) => {
      const each = view.encodings[index], method = methodOf(each), its = index === view.column ? knots : knotsOf(index, each);
      const value = method ? literal(`${method}@${each.size}`) : encoderCode(columnOf(index), each, its);
      return `        ${JSON.stringify(stored.key)}: ${value},`;
    });
    const task = JSON.stringify(data.task);
    return ["import knotwork as kw", "", "encoder = kw.make_encoder(", "    {", ...entries, "    },",
            '    default="Std",', `    task=${task},`, ")", "# encoder.fit_transform(X, y), with the numerical columns of X", ""].join("\n");
  }

  function labelOf(each) {
    const own = each.placement === "custom" || each.placement === "learned";
    const method = own ? null : methodOf(each);
    const family = familyOf(each).short;
    return method ? `${method}@${each.size}` : `${family}, ${own ? (each.placement === "custom" ? "own knots" : "learned") : each.placement} @${each.size}`;
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
    $("ridge-value").textContent = written(view.ridge);
    $("ghost").checked = view.ghost;
    $("all").setAttribute("aria-pressed", String(view.all));
    $("all").disabled = data.columns.length < 2;
    $("positive-class").value = String(view.positive);
    showLearning(each, path_);
    $("line").textContent = lineOf(view.column);
  }

  function showLearning(each, path_) {
    $("learn").disabled = $("frame").disabled = path_ === null;
    $("learn").textContent = playing ? "❚❚ Pause" : "▶ Learn";
    const known = Object.keys(data.columns[view.column].paths).length > 0;
    const reason = data.learning.reason || (!known ? `Knots were learned for the ${data.learning.columns} most important columns.`
      : `Knots were learned for degree ${data.learning.degree} and the sizes ${data.sizes.join(", ")}.`);
    $("learn-note").textContent = path_ === null ? reason : "Knots of the torch layer on these rows, from equal distances, at the best coefficients of every step.";
    if (path_ === null) { $("frame-value").textContent = ""; return; }
    path_.decoded ??= decode(path_.values, Uint16Array);
    const last = nFrames(path_) - 1, frame = each.placement === "learned" ? each.frame ?? last : 0;
    $("frame").max = String(last);
    $("frame").value = String(Math.round(frame));
    $("frame").setAttribute("aria-valuetext", `step ${2 * Math.round(frame)} of ${2 * last}`);
    $("frame-value").textContent = each.placement === "learned" ? `${2 * Math.round(frame)} / ${2 * last}` : "";
  }

  function buildList() {
    data.columns.forEach((stored, index) => {
      const svg = make("svg", { viewBox: "0 0 76 30", "aria-hidden": "true" });
      const button = element("button", { type: "button" }, element("span", { className: "name", textContent: stored.name, title: stored.name }),
                             element("span", { className: "about" }), svg, element("span", { className: "share" }));
      make("path", { d: drawBars({ bars: stored.bars, centres: [] }, 76, 0, 30, 29, (u) => u) }, svg);
      const largest = data.columns[0].importance || 1;
      button.lastChild.style.setProperty("--part", `${Math.round(100 * Math.min(stored.importance / largest, 1))}%`);
      button.addEventListener("click", () => chooseColumn(index));
      $("list").append(element("li", {}, button));
    });
    for (const { reason, names } of data.others) {
      $("others").append(element("details", {}, element("summary", { textContent: `${count(names.length)} ${reason}` }),
                                 element("p", { textContent: names.join(", "), tabIndex: 0 })));
    }
  }

  function showList() {
    Array.from($("list").children).forEach((item, index) => {
      const button = item.firstChild, current = index === view.column;
      if (current) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
      const text = `${(100 * data.columns[index].importance).toFixed(1)} % · ${labelOf(view.encodings[index])}`;
      if (button.children[1].textContent !== text) button.children[1].textContent = text;
    });
  }

  function showTexts() {
    const column = columnOf(view.column), { n } = groupsOf(column).training, missing = n[column.nGroups - 1];
    $("column-name").textContent = column.name;
    const distinct = column.centres.length, notes = [`${written(column.domain[0])} to ${written(column.domain[1])}`];
    if (distinct === 1) notes[0] = `constant: ${written(toValue(column, column.centres[0]))}`;
    else if (distinct < 255) notes.push(`${distinct} different values`);
    const heaviest = Math.max(...n.subarray(0, distinct));
    if (distinct > 2 && heaviest > 0.5 * nTraining) notes.push(`${Math.round((100 * heaviest) / nTraining)} % of rows are ${written(toValue(column, column.centres[n.indexOf(heaviest)]))}`);
    if (missing > 0) notes.push(`missing in ${fixed((100 * missing) / nTraining, 1)} % of rows: encoded as zeros`);
    notes.push(`explains ${(100 * column.importance).toFixed(1)} % of the held-out variance alone`);
    $("column-note").textContent = notes.join(" · ");
    const kind = isClass ? "logistic ridge fit" : "ridge fit";
    const what = view.all ? `an additive ${kind} of ${count(data.columns.length)} columns` : `a ${kind} of one column`;
    $("claim").textContent = `This is ${what} on ${count(nTraining)} random rows, scored on ${count(data.rows.heldOut)} held-out rows. A network may rank encodings differently.`;
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
  const say = (text) => { $("live").textContent = text; };

  function chooseColumn(index) {
    stopPlaying();
    view.column = index;
    view.ranks = columnOf(index).ranksByDefault;
    knots = knotsOf(index, encoding());
    ghost = null; hovered = null; hideReadouts();
    fit = null;
    showTexts();
    update();
    say(`${data.columns[index].name}: held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
  }

  /* Change the family, placement, size or degree of the column. Own knots stay where they are under a new family or
     degree; a size or a placement moves them. */
  function change(part) {
    stopPlaying();
    keepGhost();
    const old = encoding(), each = { ...old, ...part };
    const keepsOwn = old.placement === "custom" && !("placement" in part) && !("size" in part);
    if (!keepsOwn) {
      delete each.knots;
      if (!data.sizes.includes(each.size)) each.size = data.sizes.reduce((a, b) => (Math.abs(b - each.size) < Math.abs(a - each.size) ? b : a));
      if (each.placement === "custom" || (each.placement === "learned" && !pathOf(view.column, each))) each.placement = old.origin in columnOf(view.column).knots ? old.origin : "quantile";
      delete each.origin;
      if (each.placement !== "learned") delete each.frame;
    }
    view.encodings[view.column] = each;
    if (keepsOwn) each.size = numerics.basisSize(each.family, each.knots.length, each.degree);
    moveTo(knotsOf(view.column, each));
    say(`${labelOf(each)}`);
  }

  /* Move the knots to new places, at once if the reader prefers no motion. New knots come out of their neighbours. */
  function moveTo(goal) {
    cancelAnimationFrame(moving);
    moving = 0;
    const from = goal.map((knot, k) => (knots.length ? knots[Math.min(Math.round((k * (knots.length - 1)) / Math.max(goal.length - 1, 1)), knots.length - 1)] : knot));
    if (calm.matches || !goal.length) { knots = goal; update(); return; }
    const started = performance.now();
    const step = (now) => {
      const share = Math.min(Math.max((now - started) / MOVE_MS, 0), 1), eased = 1 - (1 - share) ** 3;
      knots = share === 1 ? goal : numerics.cleanKnots(goal.map((knot, k) => from[k] + eased * (knot - from[k])));
      moving = share === 1 ? 0 : requestAnimationFrame(step);
      update();
    };
    moving = requestAnimationFrame(step);
  }

  /* Knots become the reader's own; their former placement is where a new size begins. */
  function own(next) {
    cancelAnimationFrame(moving);
    moving = 0;
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
    if (inOrder) own(next);
  }

  function addKnot(position) {
    const column = columnOf(view.column), u = fromPosition(column, position);
    if (knots.length >= 59 || !(u > 0 && u < 1)) return;
    const near = knots.some((knot) => Math.abs(toPosition(column, knot) - position) < 2e-3);
    if (near) return;
    stopPlaying();
    keepGhost();
    own(numerics.cleanKnots([...knots, u]));
    update();
    say(`Knot added at ${written(toValue(column, u))}; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
    shapes.handles.children[knots.indexOf(u)]?.focus();
  }

  function removeKnot(k) {
    stopPlaying();
    keepGhost();
    own(knots.filter((_, i) => i !== k));
    update();
    say(`Knot removed; ${knots.length} left; held-out ${SCORES.main} ${fixed(fit.score.main, 3)}`);
    const rest = shapes.handles.children;
    if (rest.length) rest[Math.min(k, rest.length - 1)].focus(); else $("family").querySelector("button").focus();
  }

  /* ---- Pointer and keyboard ---------------------------------------------------------------------------------------- */

  let held = null, hovered = null;
  const positionOf = (event) => {
    const frame = chart.getBoundingClientRect();
    return ((event.clientX - frame.left) * (box.width / frame.width) - box.left) / inner();
  };
  const knotIndex = (node) => Array.from(shapes.handles.children).indexOf(node);

  chart.addEventListener("pointerdown", (event) => {
    const node = event.target.closest(".knot");
    if (!node || event.button !== 0) return;
    stopPlaying();
    keepGhost();
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
    if (k >= 0 && !held) showAt(knots[k]);
  });
  shapes.handles.addEventListener("focusout", () => { if (!held) { hovered = null; hideReadouts(); } });
  shapes.handles.addEventListener("keydown", (event) => {
    const k = knotIndex(event.target.closest(".knot"));
    if (k < 0) return;
    const column = columnOf(view.column), step = event.shiftKey ? 0.001 : 0.01, at = toPosition(column, knots[k]);
    const moves = { ArrowLeft: -step, ArrowDown: -step, ArrowRight: step, ArrowUp: step, PageDown: -0.05, PageUp: 0.05, Home: -1, End: 1 };
    if (event.key in moves) {
      stopPlaying();
      keepGhost();
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
    shapes.cross.setAttribute("visibility", "visible");
    shapes.cross.setAttribute("d", `M${x} ${panels.fit.top}V${panels.residuals.bottom}`);
    shapes.spots.setAttribute("visibility", "visible");
    const active = Array.from(row, (value, j) => ({ value, j })).filter(({ value }) => value > 0 && value !== 1);
    const inPanel = Math.min(Math.max(panels.fit.y(prediction), panels.fit.top), panels.fit.bottom);
    shapes.spots.setAttribute("d", disc(x, inPanel, 5) + active.map(({ value, j }) => disc(x, panel.y(value * model.coefficients[j] * panel.scale), 3)).join(""));
    const name = familyOf(each).short[0], shown = (z) => (isClass ? fixed(z, 3) : written(toTarget(z)));
    panels.fit.readout.textContent = `x = ${written(toValue(column, u), column.whole)}   fit ${shown(prediction)}${near.n ? `   mean nearby ${shown(near.sum / near.n)}` : ""}`;
    const ones = Array.from(row).filter((value) => value === 1).length;
    const most = box.narrow ? 3 : 5, listed = active.slice(0, most).map(({ value, j }) => `${name}${j + 1} = ${fixed(value, 2)}`);
    panel.readout.textContent = [ones ? `${ones} × 1` : "", ...listed].filter(Boolean).join("   ") || "all functions are 0 here";
    panels.knots.readout.textContent = `${count(near.n)} rows within ± 2 % of the axis`;
    const scale = isClass ? 1 : data.target.scale;
    panels.residuals.readout.textContent = heldNear.n ? `mean of ${count(heldNear.n)} residuals ${written((heldNear.sum / heldNear.n) * scale)}` : "no held-out rows nearby";
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
    cancelAnimationFrame(moving);
    moving = 0;
    keepGhost();
    const last = nFrames(pathOf(view.column, encoding())) - 1;
    if (calm.matches) { showFrame(last); return; }
    const started = performance.now(), length = PLAY_MS;
    const step = (now) => {
      const share = Math.min(Math.max((now - started) / length, 0), 1);
      playing = share < 1 ? requestAnimationFrame(step) : 0;
      showFrame(share < 1 ? share * last : last);
    };
    playing = requestAnimationFrame(step);
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
    $("all").addEventListener("click", () => { view.all = !view.all; ghost = null; fit = null; showTexts(); update(); });
    $("positive-class").addEventListener("change", () => {
      view.positive = Number($("positive-class").value);
      ghost = null; fit = null;
      showTexts(); update();
    });
    $("learn").addEventListener("click", play);
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
    addEventListener("hashchange", () => {
      if (location.hash === shownHash) return;
      stopPlaying();
      readHash(location.hash);
      fit = null;
      showTexts(); update();
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
    $("subtitle").textContent = `${data.table} · ${data.targetName} · ${count(data.rows.all)} rows`;
    document.title = `${data.table}: Knotwork explorer`;
    $("footer").textContent = `Made by knotwork ${data.version}. Columns are ordered by the share of the target's held-out variance that each explains alone. Up to 255 groups of neighbouring values stand for the rows of a column.`;
    readHash(location.hash || stored.hash || "");
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
})();
