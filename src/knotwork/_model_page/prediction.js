/* The model in the page: rows have one value for each column, in the order of `columns`. It is either the model itself,
   by its own runtime, or a sum of curves, which is an additive model itself or stands for another one. */

const logit = (p) => Math.log(Math.max(p, 1e-12) / Math.max(1 - p, 1e-12));
const expit = (x) => 1 / (1 + Math.exp(-x));
const CYCLES = { month: 12, weekday: 7, hour: 24, "day of year": 365.25 };
const ROUNDED = 1e12;  // decimals of sines and cosines

/* The numbers that a date in days since 1970, or a time of day in hours, becomes. */
function datePartsOf(column, value) {
  const width = column.parts.reduce((n, part) => n + (part in CYCLES ? 2 : 1), 0);
  if (value === null) return new Array(width).fill(null);
  const whole = Math.floor(value), at = new Date(whole * 86400000), year = at.getUTCFullYear();
  const parts = column.kind === "time" ? { hour: value } : {
    "elapsed days": value, year, month: at.getUTCMonth(), weekday: (((whole + 3) % 7) + 7) % 7,
    hour: 24 * (value - whole), "day of year": (Date.UTC(year, at.getUTCMonth(), at.getUTCDate()) - Date.UTC(year, 0, 1)) / 86400000,
  };
  const out = [];
  for (const part of column.parts) {
    if (!(part in CYCLES)) { out.push(parts[part]); continue; }
    const angle = (2 * Math.PI * parts[part]) / CYCLES[part];
    out.push(Math.round(Math.sin(angle) * ROUNDED) / ROUNDED, Math.round(Math.cos(angle) * ROUNDED) / ROUNDED);
  }
  return out;
}

/* ---- Sums of curves ---------------------------------------------------------------------------------------- */

function inputsOf(values) {
  const numbers = [], codes = [];
  columns.forEach((column, i) => {
    const value = values[i];
    if (column.kind === "category") codes[column.input] = value === null ? 0 : value;
    else if (column.kind === "number") numbers[column.input] = value;
    else if (column.kind === "part") numbers[column.input] = value;
    else datePartsOf(column, value).forEach((part, k) => { numbers[column.input + k] = part; });
  });
  return { numbers, codes };
}

/* Places and weights of the values of a side of a term: polynomials through values between breaks, or one for a code. */
function weightsOf(side, value) {
  if (side.field === "codes") return [[value, 1]];
  const { breaks, degree } = side, last = breaks.length - 1;
  const x = Math.min(Math.max(value, breaks[0]), breaks[last]);
  let low = 0, high = last - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (breaks[middle] <= x) low = middle; else high = middle - 1;
  }
  const u = last ? ((x - breaks[low]) / (breaks[low + 1] - breaks[low])) * degree : 0, out = [];
  for (let j = 0; j <= (last ? degree : 0); j++) {
    let weight = 1;
    for (let k = 0; k <= degree; k++) if (k !== j) weight *= (u - k) / (j - k);
    out.push([low * degree + j, weight]);
  }
  return out;
}
const sizeOf = (side, column) => (side.field === "codes" ? column.labels.length + 1 : (side.breaks.length - 1) * side.degree + 1);
function termValue(term, inputs) {
  const at = term.sides.map((side) => inputs[side.field][side.input]);
  if (term.sides.some((side, i) => side.field === "numbers" && (at[i] === null || at[i] === undefined))) return term.missing || 0;
  const [first, second] = term.sides.map((side, i) => weightsOf(side, at[i]));
  let sum = 0;
  if (!second) for (const [place, weight] of first) sum += weight * term.values[place];
  else {
    for (const [i, a] of first) for (const [j, b] of second) sum += a * b * term.values[i * term.width + j];
  }
  return sum;
}

const owner = new Map();  // which column has a number or a code
columns.forEach((column, i) => {
  const width = column.parts ? column.parts.reduce((n, part) => n + (part in CYCLES ? 2 : 1), 0) : 1;
  for (let k = 0; k < width; k++) owner.set(`${column.kind === "category" ? "codes" : "numbers"} ${column.input + k}`, i);
});
const ownerOf = (side) => owner.get(`${side.field} ${side.input}`);

function tablePredictor(tables) {
  for (const terms of tables.terms) {
    for (const term of terms) if (term.sides.length === 2) term.width = sizeOf(term.sides[1], columns[ownerOf(term.sides[1])]);
  }
  const sums = (values) => {
    const inputs = inputsOf(values);
    return tables.terms.map((terms, k) => terms.reduce((sum, term) => sum + termValue(term, inputs), tables.baselines[k]));
  };
  const respond = (all) => {
    if (tables.link === "identity") return all;
    if (tables.link === "logit") return all.map(expit);
    const most = Math.max(...all), shares = all.map((each) => Math.exp(each - most));
    return shares.map((each) => each / shares.reduce((a, b) => a + b, 0));
  };
  const placeOf = (output) => tables.outputs.indexOf(output);
  return {
    isExact: tables.exact,
    /* Predictions of one output for rows. */
    predict: (rows, output) => rows.map((values) => respond(sums(values))[placeOf(output)]),
    link: tables.link === "identity" ? "identity" : tables.link,
    /* What each column adds to the sum of an output. */
    contributions(values, output) {
      const inputs = inputsOf(values), parts = new Float64Array(columns.length), k = placeOf(output);
      for (const term of tables.terms[k]) {
        const value = termValue(term, inputs);
        for (const side of term.sides) parts[ownerOf(side)] += value / term.sides.length;
      }
      return { baseline: tables.baselines[k], parts };
    },
  };
}

/* ---- The model itself -------------------------------------------------------------------------------------- */

/* A value as a table has it: the runtime reads rows as Python does. */
function rawValue(column, value) {
  if (value === null) return null;
  if (column.kind === "category") {
    if (value === 0) return null;
    const label = column.labels[value - 1];
    return column.isNumber && !Number.isNaN(Number(label)) ? Number(label) : label;
  }
  if (column.kind === "time") return clock(value);
  if (column.kind !== "date") return value;
  const at = new Date(Math.round(value * 86400000)), [y, m, d] = [at.getUTCFullYear(), two(at.getUTCMonth() + 1), two(at.getUTCDate())];
  const date = { ymd: `${String(y).padStart(4, "0")}-${m}-${d}`, mdy: `${m}/${d}/${y}`, dmy: `${d}/${m}/${y}` }[column.order];
  const rest = at.getTime() % 86400000 === 0 ? "" : ` ${at.toISOString().slice(11, 19)}`;
  return date + rest;
}

const N_BACKGROUND = 8;
function runtimePredictor(model) {
  const n = model.responseNames.length;
  const read = (values) => {
    const row = {};
    for (const column of model.columns) row[column.name] = null;
    columns.forEach((column, i) => { row[model.columns[column.place].name] = rawValue(column, values[i]); });
    return row;
  };
  const predict = (rows, output) => {
    if (!rows.length) return [];
    const all = isClass || n === data.outputs.length ? model.responses(rows.map(read)) : model.predict(rows.map(read)).flat();
    const width = all.length / rows.length;
    return rows.map((_, i) => all[i * width + Math.min(output, width - 1)]);
  };
  const background = () => {
    const all = data.rows ? data.rows.values : [], step = Math.max(Math.floor(all.length / N_BACKGROUND), 1);
    return all.length ? all.filter((_, i) => i % step === 0).slice(0, N_BACKGROUND) : [typicalRow()];
  };
  return {
    isExact: true,
    predict,
    link: isClass ? "logit" : "identity",
    interval: (values) => (model.interval ? (model.interval([read(values)], 0.9) || [null])[0] : null),
    /* Shapley values, sampled by orders and their reverses: each step gives one column the value of the row. */
    contributions(values, output) {
      const rows = [], orders = [], base = background();
      base.forEach((row, k) => {
        for (const isBack of [false, true]) {
          const order = shuffled(columns.length, k);
          if (isBack) order.reverse();
          const current = [...row];
          rows.push([...current]);
          for (const i of order) { current[i] = values[i]; rows.push([...current]); }
          orders.push(order);
        }
      });
      const linked = predict(rows, output).map(isClass ? logit : Number);
      const parts = new Float64Array(columns.length), size = columns.length + 1;
      let baseline = 0;
      orders.forEach((order, k) => {
        baseline += linked[k * size] / orders.length;
        order.forEach((i, step) => { parts[i] += (linked[k * size + step + 1] - linked[k * size + step]) / orders.length; });
      });
      return { baseline, parts };
    },
  };
}
/* The same order for the same number: pages do not change when they are opened again. */
function shuffled(n, seed) {
  const order = Array.from({ length: n }, (_, i) => i);
  let state = 2654435761 * (seed + 1);
  for (let i = n - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = state % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

const typicalRow = () => columns.map((column) => (column.typical !== undefined ? column.typical : column.effect ? column.effect.values[Math.floor(column.effect.values.length / 2)] : column.kind === "category" ? 0 : null));

function makePredictor() {
  const stored = JSON.parse($("model").textContent);
  if (stored !== null) return runtimePredictor(knotwork.load(stored));
  return data.tables === null ? null : tablePredictor(data.tables);
}
const predictor = makePredictor();
