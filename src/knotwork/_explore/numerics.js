/* The mathematics of the page: bases, ridge and logistic fits on groups of rows, the additive model, and the state in
   the address. Nothing here reads or changes the document. `window.knotwork` exposes these functions. */

const numerics = (() => {
  /* An M-spline is at most as high as if its support covered this share of the domain, as in the encoders. */
  const MIN_SUPPORT = 1e-6;

  const FAMILIES = {
    bspline: { hasDegree: true, row: bsplineRow },
    mspline: { hasDegree: true, row: msplineRow },
    ispline: { hasDegree: true, row: isplineRow },
    ple: { hasDegree: false, row: pleRow },
  };

  /* ---- Bases ------------------------------------------------------------------------------------------------- */

  /* Number of functions on K knots: K + degree + 1 for splines, K + 1 ramps for piecewise-linear encoding. */
  function basisSize(family, nKnots, degree) {
    return nKnots + 1 + (FAMILIES[family].hasDegree ? degree : 0);
  }

  /* The rows of all functions at many points of [0, 1], one after the other; heights as in the encoders. */
  function design(family, points, knots, degree) {
    const size = basisSize(family, knots.length, degree);
    const rows = new Float64Array(points.length * size), breaks = [0, ...knots, 1], row = FAMILIES[family].row;
    for (let i = 0; i < points.length; i++) row(rows, i * size, points[i], breaks, degree);
    return { rows, size };
  }

  /* How many interior knots are <= x. */
  function intervalOf(x, breaks) {
    let low = 0, high = breaks.length - 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (breaks[middle + 1] <= x) low = middle + 1; else high = middle;
    }
    return low;
  }

  /* The degree + 1 B-splines that can differ from zero, by the triangular scheme of Cox and de Boor: the value of degree
     q - 1 adds a share to two values of degree q. Ends of `breaks` count as repeated. Returns the first index. */
  const scratch = new Float64Array(16);
  function localBsplines(x, breaks, degree) {
    const first = intervalOf(x, breaks), last = breaks.length - 1;
    scratch[0] = 1;
    for (let q = 1; q <= degree; q++) {
      let fromLeft = 0;
      for (let r = 0; r < q; r++) {
        const left = breaks[Math.max(first + r + 1 - q, 0)], right = breaks[Math.min(first + r + 1, last)];
        const share = scratch[r] / (right - left);
        scratch[r] = fromLeft + (right - x) * share;
        fromLeft = (x - left) * share;
      }
      scratch[q] = fromLeft;
    }
    return first;
  }

  function bsplineRow(out, start, x, breaks, degree) {
    const first = localBsplines(x, breaks, degree);
    for (let r = 0; r <= degree; r++) out[start + first + r] = scratch[r];
  }

  /* M_l = (p + 1) / (t_(l+p+1) - t_l) B_l, where t has both ends p + 1 times. */
  function msplineRow(out, start, x, breaks, degree) {
    const first = localBsplines(x, breaks, degree), last = breaks.length - 1;
    for (let r = 0; r <= degree; r++) {
      const l = first + r, support = breaks[Math.min(l + 1, last)] - breaks[Math.max(l - degree, 0)];
      out[start + l] = scratch[r] * (degree + 1) / Math.max(support, MIN_SUPPORT);
    }
  }

  /* I_l^p is the sum of the B_j^(p+1) with j > l: ones, then at most p + 1 values between 0 and 1, then zeros. */
  function isplineRow(out, start, x, breaks, degree) {
    const first = localBsplines(x, breaks, degree + 1);
    for (let l = 0; l < first; l++) out[start + l] = 1;
    let tail = 0;
    for (let r = degree + 1; r >= 1; r--) {
      tail += scratch[r];
      out[start + first + r - 1] = tail;
    }
  }

  function pleRow(out, start, x, breaks) {
    for (let t = 0; t + 1 < breaks.length; t++) {
      out[start + t] = Math.min(Math.max((x - breaks[t]) / (breaks[t + 1] - breaks[t]), 0), 1);
    }
  }

  /* ---- Linear algebra ---------------------------------------------------------------------------------------- */

  /* The Cholesky factor of a symmetric matrix of n rows, in place in its lower half. A pivot that is zero up to rounding
     becomes infinite, so that its coefficient is zero. */
  function cholesky(a, n) {
    for (let j = 0; j < n; j++) {
      const diagonal = a[j * n + j];
      let pivot = diagonal;
      for (let k = 0; k < j; k++) pivot -= a[j * n + k] * a[j * n + k];
      const root = pivot > 1e-14 * diagonal ? Math.sqrt(pivot) : Infinity;
      a[j * n + j] = root;
      for (let i = j + 1; i < n; i++) {
        let sum = a[i * n + j];
        for (let k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
        a[i * n + j] = sum / root;
      }
    }
    return a;
  }

  /* Solve L L' x = b in place. */
  function solve(factor, n, b) {
    for (let i = 0; i < n; i++) {
      let sum = b[i];
      for (let k = 0; k < i; k++) sum -= factor[i * n + k] * b[k];
      b[i] = sum / factor[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      let sum = b[i];
      for (let k = i + 1; k < n; k++) sum -= factor[k * n + i] * b[k];
      b[i] = sum / factor[i * n + i];
    }
    return b;
  }

  /* The trace of the inverse of L L': the sum of squares of the entries of the inverse of L. */
  function traceOfInverse(factor, n) {
    const column = new Float64Array(n);
    let trace = 0;
    for (let j = 0; j < n; j++) {
      for (let i = j; i < n; i++) {
        let sum = i === j ? 1 : 0;
        for (let k = j; k < i; k++) sum -= factor[i * n + k] * column[k];
        column[i] = sum / factor[i * n + i];
        trace += column[i] * column[i];
      }
    }
    return trace;
  }

  /* Weighted means of the columns, and the matrix of weighted products of centred columns plus `ridge` times one. */
  function normalEquations(rows, size, weights, ridge) {
    const n = weights.length, means = new Float64Array(size), a = new Float64Array(size * size);
    let total = 0;
    for (let i = 0; i < n; i++) {
      total += weights[i];
      for (let j = 0; j < size; j++) means[j] += weights[i] * rows[i * size + j];
    }
    if (total > 0) for (let j = 0; j < size; j++) means[j] /= total;
    const centred = new Float64Array(size);
    for (let i = 0; i < n; i++) {
      if (weights[i] === 0) continue;
      for (let j = 0; j < size; j++) centred[j] = rows[i * size + j] - means[j];
      for (let j = 0; j < size; j++) {
        const scaled = weights[i] * centred[j];
        if (scaled !== 0) for (let k = 0; k <= j; k++) a[j * size + k] += scaled * centred[k];
      }
    }
    for (let j = 0; j < size; j++) a[j * size + j] += ridge;
    return { means, a };
  }

  /* ---- Fits -------------------------------------------------------------------------------------------------- */

  /* Least squares with the penalty `ridge` times the squared coefficients; the intercept is free. `rows` has `size`
     numbers for each group, `weights` the rows of each group, and y their mean target. */
  function ridge(rows, size, weights, y, penalty) {
    const { means, a } = normalEquations(rows, size, weights, penalty);
    const mean = weightedMean(y, weights), coefficients = new Float64Array(size);
    for (let i = 0; i < y.length; i++) {
      const residual = weights[i] * (y[i] - mean);
      if (residual !== 0) {
        for (let j = 0; j < size; j++) coefficients[j] += residual * (rows[i * size + j] - means[j]);
      }
    }
    cholesky(a, size);
    solve(a, size, coefficients);
    // Degrees of freedom: 1 for the intercept, and the trace of (S + ridge)^-1 S.
    const freedom = 1 + size - penalty * traceOfInverse(a, size);
    return { intercept: mean - dot(means, coefficients), coefficients, freedom };
  }

  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  /* Logistic regression with the penalty ridge / 2 times the squared coefficients, by iteratively reweighted least
     squares: every step solves a ridge problem, and is halved until the loss falls. y has the share of ones of each
     group. `start` may hold the intercept and coefficients of a similar fit. */
  function logistic(rows, size, weights, y, penalty, start = null) {
    let intercept = logit(weightedMean(y, weights)), coefficients = new Float64Array(size), last = null;
    let loss = logisticLoss(rows, size, weights, y, penalty, intercept, coefficients);
    if (start !== null && start.coefficients.length === size) {
      const warm = logisticLoss(rows, size, weights, y, penalty, start.intercept, start.coefficients);
      if (warm < loss) [intercept, coefficients, loss] = [start.intercept, Float64Array.from(start.coefficients), warm];
    }
    const w = new Float64Array(y.length), z = new Float64Array(y.length);
    for (let step = 0; step < 50; step++) {
      for (let i = 0; i < y.length; i++) {
        const eta = linear(rows, i * size, size, intercept, coefficients), p = sigmoid(eta);
        const slope = Math.max(p * (1 - p), 1e-12);
        w[i] = weights[i] * slope;
        z[i] = eta + (y[i] - p) / slope;
      }
      last = ridge(rows, size, w, z, penalty);
      let share = 1, gain = 0;
      for (; share > 1e-3; share /= 2) {
        const nextIntercept = intercept + share * (last.intercept - intercept);
        const next = coefficients.map((value, j) => value + share * (last.coefficients[j] - value));
        const nextLoss = logisticLoss(rows, size, weights, y, penalty, nextIntercept, next);
        if (nextLoss <= loss) {
          gain = loss - nextLoss;
          [intercept, coefficients, loss] = [nextIntercept, next, nextLoss];
          break;
        }
      }
      if (gain <= 1e-12 * (1 + Math.abs(loss))) break;
    }
    return { intercept, coefficients, freedom: last === null ? 1 : last.freedom };
  }

  function weightedMean(y, weights) {
    let sum = 0, total = 0;
    for (let i = 0; i < y.length; i++) { sum += weights[i] * y[i]; total += weights[i]; }
    return total > 0 ? sum / total : 0;
  }

  function linear(rows, start, size, intercept, coefficients) {
    let sum = intercept;
    for (let j = 0; j < size; j++) sum += rows[start + j] * coefficients[j];
    return sum;
  }

  function logisticLoss(rows, size, weights, y, penalty, intercept, coefficients) {
    let loss = 0.5 * penalty * dot(coefficients, coefficients);
    for (let i = 0; i < y.length; i++) {
      if (weights[i] === 0) continue;
      const eta = linear(rows, i * size, size, intercept, coefficients);
      loss += weights[i] * (Math.max(eta, 0) + Math.log1p(Math.exp(-Math.abs(eta))) - y[i] * eta);
    }
    return loss;
  }

  const sigmoid = (eta) => 1 / (1 + Math.exp(-eta));
  const logit = (p) => Math.log(Math.max(p, 1e-6) / Math.max(1 - p, 1e-6));

  /* ---- Scores ------------------------------------------------------------------------------------------------ */

  /* Scores of predictions of groups: R2 and the root mean squared error from number, sum and sum of squares of the
     target in each group. NaN where they are not defined. */
  function regressionScore(predictions, groups) {
    let error = 0, n = 0, sum = 0, squares = 0;
    for (let i = 0; i < predictions.length; i++) {
      const f = predictions[i];
      if (groups.n[i] === 0) continue;
      error += groups.squares[i] - 2 * f * groups.sum[i] + groups.n[i] * f * f;
      n += groups.n[i]; sum += groups.sum[i]; squares += groups.squares[i];
    }
    const spread = squares - sum * sum / n;
    return { main: n > 1 && spread > 1e-9 * squares ? 1 - error / spread : NaN, other: Math.sqrt(Math.max(error, 0) / n) };
  }

  /* The area under the ROC curve and the log loss from number of rows and of ones in each group. */
  function classScore(probabilities, groups) {
    const order = [];
    let n = 0, ones = 0, loss = 0;
    for (let i = 0; i < probabilities.length; i++) {
      if (groups.n[i] === 0) continue;
      order.push(i);
      n += groups.n[i]; ones += groups.sum[i];
      const p = Math.min(Math.max(probabilities[i], 1e-15), 1 - 1e-15);
      loss -= groups.sum[i] * Math.log(p) + (groups.n[i] - groups.sum[i]) * Math.log1p(-p);
    }
    order.sort((a, b) => probabilities[a] - probabilities[b]);
    let area = 0, below = 0;
    for (let from = 0; from < order.length;) {  // groups of equal probability are one
      let to = from, zerosHere = 0, onesHere = 0;
      while (to < order.length && probabilities[order[to]] === probabilities[order[from]]) {
        onesHere += groups.sum[order[to]]; zerosHere += groups.n[order[to]] - groups.sum[order[to]]; to++;
      }
      area += onesHere * (below + zerosHere / 2);
      below += zerosHere;
      from = to;
    }
    return { main: ones > 0 && ones < n ? area / (ones * (n - ones)) : NaN, other: loss / n };
  }

  /* ---- The additive model ------------------------------------------------------------------------------------ */

  /* A ridge or logistic fit of the sum of one function for each column, its term: each in turn is fitted to what the
     others leave. Every step lowers the penalised loss, which is convex, so the sweeps end at the joint fit. For
     classes the curvature p (1 - p) is replaced by its bound 1/4, so that factors are computed once. */
  class Additive {
    constructor(y, isClass, penalty) {
      this.y = y; this.isClass = isClass; this.penalty = penalty;
      this.curvature = isClass ? 0.25 : 1;
      const mean = weightedMean(y, new Float64Array(y.length).fill(1));
      this.intercept = isClass ? logit(mean) : mean;
      this.eta = new Float64Array(y.length).fill(this.intercept);
      this.terms = [];
      this.change = Infinity;
      this.next = 0;
    }

    /* Set the encoding of a column: codes of its training rows, and a row of `size` numbers for each group. A term that
       was fitted before starts from its former values, so that a small change of knots needs few sweeps. */
    setTerm(index, codes, nGroups, rows, size) {
      const counts = new Float64Array(nGroups);
      for (let i = 0; i < this.y.length; i++) counts[codes[i]]++;
      const { means, a } = normalEquations(rows, size, counts, this.penalty / this.curvature);
      const old = this.terms[index], values = new Float64Array(nGroups), coefficients = new Float64Array(size);
      if (old && old.size === size) coefficients.set(old.coefficients);
      const term = { codes, counts, rows, size, means, factor: cholesky(a, size), coefficients, values, sums: new Float64Array(nGroups) };
      evaluate(term);
      for (let i = 0; i < this.y.length; i++) this.eta[i] += values[codes[i]] - (old ? old.values[old.codes[i]] : 0);
      this.terms[index] = term;
      this.next = this.terms.length > 1 ? index % this.terms.length : 0;  // the column that changed comes first
      this.change = Infinity;
    }

    /* Sweep over all columns until nothing changes or the time is over; returns whether it has converged. The next call
       resumes at the column where this one stops. */
    run(milliseconds, tolerance = 1e-5) {
      const end = performance.now() + milliseconds;
      do {
        if (this.next === 0) { this.change = 0; this.centre(); }
        this.update(this.terms[this.next]);
        this.next = (this.next + 1) % this.terms.length;
        if (this.next === 0 && this.change < tolerance) return true;
      } while (performance.now() < end);
      return false;
    }

    residual(i) {
      return this.y[i] - (this.isClass ? sigmoid(this.eta[i]) : this.eta[i]);
    }

    /* Fit the intercept to what the columns leave. */
    centre() {
      let sum = 0;
      for (let i = 0; i < this.y.length; i++) sum += this.residual(i);
      const step = sum / this.y.length / this.curvature;
      this.intercept += step;
      for (let i = 0; i < this.y.length; i++) this.eta[i] += step;
      this.change = Math.max(this.change, Math.abs(step));
    }

    update(term) {
      const { codes, rows, size, means, factor, coefficients, sums } = term, before = term.values.slice();
      sums.fill(0);
      for (let i = 0; i < this.y.length; i++) sums[codes[i]] += this.residual(i);
      const step = new Float64Array(size);
      for (let g = 0; g < sums.length; g++) {
        if (sums[g] !== 0) for (let j = 0; j < size; j++) step[j] += sums[g] * (rows[g * size + j] - means[j]);
      }
      for (let j = 0; j < size; j++) step[j] = (step[j] - this.penalty * coefficients[j]) / this.curvature;
      solve(factor, size, step);
      for (let j = 0; j < size; j++) coefficients[j] += step[j];
      evaluate(term);
      for (let g = 0; g < before.length; g++) {
        before[g] = term.values[g] - before[g];
        if (term.counts[g] > 0) this.change = Math.max(this.change, Math.abs(before[g]));
      }
      for (let i = 0; i < this.y.length; i++) this.eta[i] += before[codes[i]];
    }
  }

  /* The function of a term at each group, centred over the training rows, which makes the intercept the mean. */
  function evaluate(term) {
    const { rows, size, means, coefficients, values } = term, centre = dot(means, coefficients);
    for (let g = 0; g < values.length; g++) values[g] = linear(rows, g * size, size, -centre, coefficients);
  }

  /* ---- Knots and state --------------------------------------------------------------------------------------- */

  /* Knots in order, strictly inside (0, 1), without any closer to its neighbour than rounding allows. */
  function cleanKnots(knots) {
    const sorted = Array.from(knots).filter((knot) => knot > 0 && knot < 1).sort((a, b) => a - b);
    return sorted.filter((knot, i) => i === 0 || knot - sorted[i - 1] > 1e-15);
  }

  /* The state as the part of the address behind #, and back. What is not valid is left out, never an error. */
  const state = {
    write(values) {
      const parts = new URLSearchParams();
      parts.set("column", values.column);
      if (values.all) parts.set("all", "1");
      parts.set("ridge", values.ridge);
      if (values.ranks !== undefined) parts.set("axis", values.ranks ? "rows" : "values");
      if (values.positive !== undefined) parts.set("class", values.positive);
      if (!values.ghost) parts.set("ghost", "0");
      for (const [index, each] of Object.entries(values.encodings)) {
        const knots = each.placement === "custom" ? each.knots.join("_") : each.frame ?? "";
        parts.set(`e${index}`, [each.family, each.placement, each.size, each.degree, knots].join("."  ).replace(/\.$/, ""));
      }
      return parts.toString();
    },
    read(text) {
      const parts = new URLSearchParams(text), encodings = {};
      for (const [name, value] of parts) {
        const match = /^e(\d+)$/.exec(name);
        const fields = /^(\w+)\.([\w-]+)\.(\d+)\.(\d+)(?:\.(.*))?$/.exec(value);
        if (!match || !fields || !FAMILIES[fields[1]]) continue;
        const each = { family: fields[1], placement: fields[2], size: Number(fields[3]), degree: Number(fields[4]) };
        if (each.degree > 5) continue;
        if (each.placement === "custom") each.knots = cleanKnots((fields[5] || "").split("_").filter(Boolean).map(Number));
        else if (fields[5]) each.frame = Number(fields[5]);
        encodings[match[1]] = each;
      }
      const number = (name) => (parts.has(name) && Number.isFinite(Number(parts.get(name))) ? Number(parts.get(name)) : undefined);
      return {
        column: number("column"), all: parts.get("all") === "1", ridge: number("ridge"), positive: number("class"),
        ranks: parts.has("axis") ? parts.get("axis") === "rows" : undefined, ghost: parts.get("ghost") !== "0", encodings,
      };
    },
  };

  return {
    basisSize, design, ridge, logistic, regressionScore, classScore, Additive, cleanKnots, state, sigmoid, linear,
    dot, weightedMean,
  };
})();

window.knotwork = numerics;
