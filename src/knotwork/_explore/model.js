/* The table of the page, the state that the address keeps, and the fits of the chosen column. */

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
  const column = { ...stored, index, centres, codes, nGroups: centres.length + 1, groups: new Map(), alone: new Map() };
  // The axis that gives equal room to equal numbers of rows: between groups it is a straight line.
  column.stretch = [0, ...Array.from(centres).filter((value) => value > 0 && value < 1), 1];
  column.ranksByDefault = !column.levels && needsRanks(column);
  prepared.set(index, column);
  arrange(column);
  return column;
}

/* Categories stand in the order of their means; the others and missing values are last. Two values keep their order. */
function arrange(column) {
  if (!column.levels || !column.levels.count) return;
  const { mean } = groupsOf(column).training, { labels, kept } = column.levels;
  const order = Array.from(labels.keys()).sort((a, b) => (a >= kept) - (b >= kept) || mean[b] - mean[a]);
  order.forEach((g, i) => { column.centres[g] = (i + 0.5) / labels.length; });
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
  return column.centres.length > 8 && high - low < 0.16;
}

/* A value of a column in words: a date is a date. */
const spanOf = (column) => column.domain[1] - column.domain[0];
const valueText = (column, u) => (column.levels ? column.levels.labels[nearestLevel(column, u)]
  : column.isDate ? dayText(toValue(column, u), spanOf(column)) : significant(toValue(column, u)));
const nearestLevel = (column, u) => column.centres.reduce((best, centre, g) => (Math.abs(centre - u) < Math.abs(column.centres[best] - u) ? g : best), 0);
const inGap = (column, u) => column.gaps.some(([low, high]) => u > low && u < high);

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
const changes = new Changes((hash) => { readHash(hash); startAgain(); });

function defaultEncoding() {
  return { family: "bspline", placement: "quantile", size: 15, degree: DEFAULT_DEGREE };
}
const encoding = () => view.encodings[view.column];
const familyOf = (each) => data.families.find((family) => family.name === each.family);

/* Knots of an encoding: prepared ones, those of a step of learning, or the reader's own. */
function knotsOf(index, each) {
  if (data.columns[index].levels) return [];
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
/* The knots of a column as they are chosen now. */
const presentKnots = (index) => (index === view.column ? knots : knotsOf(index, view.encodings[index]));
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

/* Whether an encoding, such as one read from the address, exists in this page. */
function isPossible(index, each) {
  if (!data.columns[index] || data.columns[index].levels || !familyOf(each) || !data.degrees.includes(each.degree)) return false;
  if (each.placement === "custom") return Array.isArray(each.knots) && each.knots.length < 60;
  if (!data.sizes.includes(each.size)) return false;
  return each.placement === "learned" ? pathOf(index, each) !== null : each.placement in data.columns[index].knots;
}

function writeHash() {
  const encodings = {};
  view.encodings.forEach((each, index) => {
    if (JSON.stringify(each) !== JSON.stringify(defaultEncoding())) encodings[index] = each;
  });
  const values = { ...view, encodings, positive: isClass ? view.positive : undefined };
  if (view.ranks === columnOf(view.column).ranksByDefault) values.ranks = undefined;
  shownHash = `#${numerics.state.write(values)}`;
  changes.remember(shownHash, numerics.state.write({ ...values, column: 0, ghost: true, ranks: undefined }));
  try {
    history.replaceState(null, "", shownHash);
  } catch {
    // A frame of a notebook has no address: the state lives in the page alone.
  }
}

function readHash(text) {
  const values = numerics.state.read(text.replace(/^#/, ""));
  view.column = data.columns[values.column] ? values.column : data.first;
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
  if (column.levels) return indicators(column);
  const { rows, size } = numerics.design(each.family, column.centres, itsKnots, each.degree);
  const padded = new Float64Array(column.nGroups * size);
  padded.set(rows);
  return { rows: padded, size };
}

/* Levels as indicators: the ridge shrinks their means towards the mean of all rows. */
function indicators(column) {
  const size = column.centres.length, rows = new Float64Array(column.nGroups * size);
  for (let g = 0; g < size; g++) rows[g * size + g] = 1;
  return { rows, size };
}

/* What a network sees without an encoding: a scaled number, or indicators of categories; of two values both say the same. */
const standard = (column) => (column.levels ? indicators(column) : { rows: scaled(column), size: 1 });

/* The column scaled to mean 0 and variance 1, one number for each group; missing values are 0. */
function scaled(column) {
  const { n } = groupsOf(column).training;
  const mean = numerics.weightedMean(column.centres, n);
  const deviation = Math.sqrt(numerics.weightedMean(column.centres.map((u) => (u - mean) ** 2), n)) || 1;
  const rows = new Float64Array(column.nGroups);
  column.centres.forEach((u, g) => { rows[g] = (u - mean) / deviation; });
  return rows;
}

function predictRows(model, rows, size) {
  const out = new Float64Array(rows.length / size);
  for (let i = 0; i < out.length; i++) out[i] = response(numerics.linear(rows, i * size, size, model.intercept, model.coefficients));
  return out;
}

/* The score of a column alone by an encoding, computed when it is first asked for; `name` says which of the two it is. */
function aloneScore(column, name, key, encode) {
  const full = `${view.ridge}/${view.positive}/${key}`, known = column.alone.get(name);
  if (known && known.key === full) return known.score;
  const { rows, size } = encode(), groups = groupsOf(column), model = fitter(rows, size, groups.training, null);
  const score = scorer(predictRows(model, rows, size), groups.heldOut);
  column.alone.set(name, { key: full, score });
  return score;
}
/* That of the chosen encoding, and that of a straight line, which categories do not have. */
function scoreNow(index) {
  const column = columnOf(index), each = view.encodings[index], its = presentKnots(index);
  return aloneScore(column, "now", JSON.stringify([each.family, each.degree, Array.from(its)]), () => encoded(column, each, its));
}
function scoreOfLine(index) {
  const column = columnOf(index);
  if (column.levels) return column.levels.count ? { main: NaN, other: NaN } : scoreNow(index);
  return aloneScore(column, "line", "", () => standard(column));
}
const gainOf = (index) => scoreNow(index).main - scoreOfLine(index).main;

function fitOne() {
  const column = columnOf(view.column), groups = groupsOf(column), { rows, size } = encoded(column, encoding(), knots);
  const model = fitter(rows, size, groups.training, fit && fit.model);
  const predictions = predictRows(model, rows, size);
  return { column, model, size, predictions, groups, freedom: model.freedom, score: scorer(predictions, groups.heldOut),
           std: scoreOfLine(view.column), dots: groups.training, residuals: residualsByGroup(predictions, groups.heldOut) };
}

/* Sums of held-out residuals of each group, from the sums of the target. */
function residualsByGroup(predictions, { n, sum, squares }) {
  return { n, sum: sum.map((value, g) => value - n[g] * predictions[g]),
           squares: squares.map((value, g) => value - 2 * predictions[g] * sum[g] + n[g] * predictions[g] ** 2) };
}

/* The additive model keeps its terms: after a drag it needs few sweeps. */
function additiveModel() {
  const key = `${view.ridge}/${view.positive}`;
  if (!additive || additive.key !== key) {
    const y = target().subarray(0, nTraining);
    additive = { key, spline: new numerics.Additive(y, isClass, view.ridge), std: new numerics.Additive(y, isClass, view.ridge),
                 encodings: [], stdDone: false, done: false };
    data.columns.forEach((_, index) => {
      const column = columnOf(index);
      const { rows, size } = standard(column);
      additive.std.setTerm(index, column.codes, column.nGroups, rows, size);
    });
  }
  data.columns.forEach((_, index) => {
    const each = view.encodings[index], its = presentKnots(index);
    const now = JSON.stringify([each.family, each.degree, Array.from(its)]);
    if (additive.encodings[index] === now) return;
    additive.encodings[index] = now;
    const column = columnOf(index), { rows, size } = encoded(column, each, its);
    additive.spline.setTerm(index, column.codes, column.nGroups, rows, size);
    additive.done = false;
  });
  return additive;
}

function heldOutEta(model) {
  const eta = new Float64Array(nRows - nTraining).fill(model.intercept);
  model.terms.forEach((term) => {
    for (let i = nTraining; i < nRows; i++) eta[i - nTraining] += term.values[term.codes[i]];
  });
  return eta;
}

function rowScore(eta) {
  const y = target(), n = new Float64Array(eta.length).fill(1);
  const sum = y.slice(nTraining), squares = sum.map((value) => value * value);
  return scorer(eta.map(response), { n, sum, squares });
}

function fitAll() {
  const column = columnOf(view.column), both = additiveModel(), model = both.spline;
  if (!both.stdDone) both.stdDone = both.std.run(200);
  if (!both.done) both.done = model.run(moving || held ? 6 : 30);
  if (!both.done) requestUpdate();  // the next frame resumes
  const y = target(), { codes, values, rows, size, means, coefficients } = model.terms[view.column], eta = heldOutEta(model);
  const residuals = { n: new Float64Array(column.nGroups), sum: new Float64Array(column.nGroups), squares: new Float64Array(column.nGroups) };
  for (let i = nTraining; i < nRows; i++) {
    const residual = y[i] - response(eta[i - nTraining]), g = codes[i];
    residuals.n[g]++; residuals.sum[g] += residual; residuals.squares[g] += residual * residual;
  }
  const freedom = 1 + model.terms.reduce((sum, each) => sum + each.size, 0);
  const shown = { intercept: model.intercept - numerics.dot(means, coefficients), coefficients };
  both.stdScore = both.stdDone && both.stdScore ? both.stdScore : rowScore(heldOutEta(both.std));
  return { column, model: shown, size, predictions: predictRows(shown, rows, size), groups: groupsOf(column),
           freedom, score: rowScore(eta), std: both.stdScore, dots: partialDots(column, model, values), residuals };
}

/* What the other columns leave: the function of this column plus the residuals of each group. For classes the mean
   residual is divided by its slope, as in a step of the logistic fit, and turned into a probability. */
function partialDots(column, model, values) {
  const [n, sum, squares, slope] = [0, 0, 0, 0].map(() => new Float64Array(column.nGroups));
  for (let i = 0; i < nTraining; i++) {
    const g = column.codes[i], residual = model.residual(i), p = response(model.eta[i]);
    const left = isClass ? residual : model.intercept + values[g] + residual;
    n[g]++; sum[g] += left; squares[g] += left * left; slope[g] += p * (1 - p);
  }
  if (!isClass) return { n, sum, squares };
  for (let g = 0; g < column.nGroups; g++) {
    if (n[g] > 0) sum[g] = n[g] * response(model.intercept + values[g] + sum[g] / Math.max(slope[g], 1e-9));
  }
  return { n, sum, squares: sum };
}

/* Rows of a dot: a group with more than its share is a dot alone, and the others share the rest of the dots. */
function leastRows(counts) {
  const total = counts.reduce((sum, n) => sum + n, 0), heavy = counts.filter((n) => n >= total / N_DOTS);
  const rest = total - heavy.reduce((sum, n) => sum + n, 0);
  return Math.min(Math.max(rest / Math.max(N_DOTS - heavy.length, 4), 12), Math.max(total / N_DOTS, 1));
}

/* Neighbouring groups together, until about one dot of N_DOTS has its share of the rows. Standard errors from sums of
   squares. Missing values, the last group, have no place on the axis. */
function dotsOf(column, tallied, reference, areShares = false) {
  const least = leastRows(reference.n.subarray(0, column.centres.length)), dots = [];
  const exact = column.centres.length <= N_DOTS || column.levels;
  let n = 0, sum = 0, squares = 0, place = 0, shared = 0;
  const close = () => {
    if (n > 0) {
      const mean = sum / n, share = (sum + 1) / (n + 2);  // shares of 0 and 1 have an error, too
      const variance = areShares ? share * (1 - share) : n > 1 ? Math.max(squares / n - mean * mean, 0) * n / (n - 1) : 0;
      dots.push({ u: place / shared, mean, error: 2 * Math.sqrt(variance / n), n });
    }
    n = sum = squares = place = shared = 0;
  };
  for (let g = 0; g < column.centres.length; g++) {
    n += tallied.n[g]; sum += tallied.sum[g]; squares += tallied.squares[g];
    const weight = reference.n[g] || 1e-9;
    place += weight * column.centres[g]; shared += weight;
    const isHeavyNext = reference.n[g + 1] >= least && g + 1 < column.centres.length;
    if (exact || shared >= least || isHeavyNext) close();
  }
  close();
  return dots;
}
