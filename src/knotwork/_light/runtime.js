// Predictions of a saved model in JavaScript, in a page or in node: no dependency, no request.
//
// `knotwork.load(textOrObject)` returns a model, see docs/serving.md. Cells of rows are converted as knotwork does in
// Python, then the operations of the model's graph are computed, for a few rows at a time.
const knotwork = (() => {
  "use strict";

  // Arrays ---------------------------------------------------------------------------------------------------------

  const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: Float64Array, int32: Float64Array, bool: Uint8Array };
  const STORED = { float32: Float32Array, float64: Float64Array, int32: Int32Array, bool: Uint8Array };
  const sizeOf = (shape) => shape.reduce((product, length) => product * length, 1);
  const make = (type, shape, data) => ({ type, shape, data: data || new ARRAYS[type](sizeOf(shape)) });
  const axisOf = (axis, x) => (axis < 0 ? axis + x.shape.length : axis);

  // Base64 and deflate (RFC 1951): browsers can only decompress asynchronously.
  function bytesOf(text) {
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const values = new Uint8Array(128);
    for (let k = 0; k < 64; k++) values[letters.charCodeAt(k)] = k;
    const end = text.indexOf("=") < 0 ? text.length : text.indexOf("=");
    const out = new Uint8Array(Math.floor((end * 3) / 4));
    let held = 0, bits = 0, place = 0;
    for (let k = 0; k < end; k++) {
      held = ((held << 6) | values[text.charCodeAt(k)]) & 0xffffff;
      bits += 6;
      if (bits >= 8) out[place++] = (held >> (bits -= 8)) & 255;
    }
    return out;
  }

  const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
  const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
  const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
  const DISTANCE_BITS = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
  const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

  function huffman(lengths) {
    const counts = new Uint16Array(16), starts = new Uint16Array(16), symbols = new Uint16Array(lengths.length);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    for (let k = 1; k < 16; k++) starts[k] = starts[k - 1] + counts[k - 1];
    lengths.forEach((length, symbol) => { if (length) symbols[starts[length]++] = symbol; });
    return { counts, symbols };
  }

  function inflate(source, length) {
    const out = new Uint8Array(length);
    let at = 0, held = 0, bits = 0, place = 0;
    function take(count) {
      while (bits < count) { held |= source[at++] << bits; bits += 8; }
      const value = held & ((1 << count) - 1);
      held >>>= count; bits -= count;
      return value;
    }
    function symbol(tree) {
      let code = 0, first = 0, index = 0;
      for (let k = 1; k < 16; k++) {
        code |= take(1);
        const count = tree.counts[k];
        if (code - count < first) return tree.symbols[index + (code - first)];
        index += count; first = (first + count) << 1; code <<= 1;
      }
      throw new Error("The constants of the model are damaged.");
    }
    function block(literals, distances) {
      for (;;) {
        const value = symbol(literals);
        if (value < 256) { out[place++] = value; continue; }
        if (value === 256) return;
        const count = LENGTHS[value - 257] + take(LENGTH_BITS[value - 257]);
        const which = symbol(distances), distance = DISTANCES[which] + take(DISTANCE_BITS[which]);
        for (let k = 0; k < count; k++, place++) out[place] = out[place - distance];
      }
    }
    function trees() {
      const nLiterals = take(5) + 257, nDistances = take(5) + 1, nCodes = take(4) + 4, codes = new Uint8Array(19);
      for (let k = 0; k < nCodes; k++) codes[CODE_ORDER[k]] = take(3);
      const tree = huffman(codes), lengths = new Uint8Array(nLiterals + nDistances);
      for (let k = 0; k < lengths.length;) {
        const value = symbol(tree);
        if (value < 16) { lengths[k++] = value; continue; }
        const repeated = value === 16 ? lengths[k - 1] : 0;
        for (let n = value === 16 ? 3 + take(2) : value === 17 ? 3 + take(3) : 11 + take(7); n > 0; n--) lengths[k++] = repeated;
      }
      return [huffman(lengths.slice(0, nLiterals)), huffman(lengths.slice(nLiterals))];
    }
    const fixed = new Uint8Array(288).map((_, k) => (k < 144 ? 8 : k < 256 ? 9 : k < 280 ? 7 : 8));
    for (let last = 0; !last;) {
      last = take(1);
      const kind = take(2);
      if (kind === 0) {
        bits = 0; held = 0;
        const count = source[at] | (source[at + 1] << 8);
        out.set(source.subarray(at + 4, at + 4 + count), place);
        at += 4 + count; place += count;
      } else block(...(kind === 1 ? [huffman(fixed), huffman(new Uint8Array(30).fill(5))] : trees()));
    }
    return out;
  }

  // Operations -----------------------------------------------------------------------------------------------------

  function typeOf(inputs) {
    return inputs.some((x) => x.type === "float64") ? "float64" : inputs.some((x) => x.type === "float32") ? "float32" : inputs[0].type;
  }

  // The steps from element to element of an input along each axis of the result; 0 where it is repeated.
  function stepsOf(x, shape) {
    const steps = new Array(shape.length).fill(0);
    for (let axis = x.shape.length - 1, step = 1; axis >= 0; axis--) {
      if (x.shape[axis] > 1) steps[axis + shape.length - x.shape.length] = step;
      step *= x.shape[axis];
    }
    return steps;
  }

  function jointShape(inputs) {
    const shape = new Array(Math.max(...inputs.map((x) => x.shape.length))).fill(1);
    for (const x of inputs) x.shape.forEach((length, axis) => {
      if (length !== 1) shape[axis + shape.length - x.shape.length] = length;
    });
    return shape;
  }

  function elementwise(inputs, type, formula) {
    const shape = jointShape(inputs), out = make(type, shape), data = out.data, n = data.length;
    const [a, b, c] = inputs.map((x) => x.data);
    if (inputs.length === 1) {
      for (let k = 0; k < n; k++) data[k] = formula(a[k]);
      return out;
    }
    const steps = inputs.map((x) => stepsOf(x, shape)), last = shape.length - 1;
    const width = last < 0 ? 1 : shape[last], [sa, sb, sc] = steps.map((each) => (last < 0 ? 0 : each[last]));
    const places = new Array(Math.max(last, 0)).fill(0), at = [0, 0, 0];
    for (let k = 0; k < n;) {
      let [pa, pb, pc] = at;
      if (c === undefined) for (let j = 0; j < width; j++, pa += sa, pb += sb) data[k++] = formula(a[pa], b[pb]);
      else for (let j = 0; j < width; j++, pa += sa, pb += sb, pc += sc) data[k++] = formula(a[pa], b[pb], c[pc]);
      for (let axis = last - 1; axis >= 0; axis--) {
        steps.forEach((each, input) => { at[input] += each[axis]; });
        if (++places[axis] < shape[axis]) break;
        steps.forEach((each, input) => { at[input] -= each[axis] * shape[axis]; });
        places[axis] = 0;
      }
    }
    return out;
  }

  // Attributes come after the inputs, of which a formula has as many as parameters.
  const same = (formula) => (...given) => {
    const inputs = given.slice(0, formula.length);
    return elementwise(inputs, typeOf(inputs), formula);
  };
  const compare = (formula) => (...given) => elementwise(given.slice(0, formula.length), "bool", formula);

  // Calls visit(start, step) for every line of an array along an axis.
  function lines(x, axis, visit) {
    const length = x.shape[axis], step = sizeOf(x.shape.slice(axis + 1)), before = sizeOf(x.shape.slice(0, axis));
    for (let i = 0; i < before; i++) for (let j = 0; j < step; j++) visit(i * length * step + j, step, i * step + j);
  }

  function reduced(x, axes, keepdims, formula) {
    let out = x;
    for (const given of [...axes.data].map((each) => axisOf(each, x)).sort((a, b) => b - a)) {
      const length = out.shape[given], shape = out.shape.slice(), source = out.data;
      if (keepdims) shape[given] = 1; else shape.splice(given, 1);
      const next = make(out.type, shape);
      lines(out, given, (start, step, place) => { next.data[place] = formula(source, start, step, length); });
      out = next;
    }
    return out;
  }

  function sum(data, start, step, length) {
    let total = 0;
    for (let k = 0; k < length; k++) total += data[start + k * step];
    return total;
  }

  function largest(data, start, step, length) {
    let most = -Infinity;
    for (let k = 0; k < length; k++) most = Math.max(most, data[start + k * step]);
    return most;
  }

  function logSumExp(data, start, step, length) {
    const most = largest(data, start, step, length);
    let total = 0;
    for (let k = 0; k < length; k++) total += Math.exp(data[start + k * step] - most);
    return Math.log(total) + most;
  }

  function alongLines(x, axis, formula) {
    const out = make(x.type, x.shape), place = axisOf(axis, x);
    lines(x, place, (start, step) => formula(x.data, out.data, start, step, x.shape[place]));
    return out;
  }

  function softmax(data, out, start, step, length) {
    const most = largest(data, start, step, length);
    let total = 0;
    for (let k = 0; k < length; k++) total += Math.exp(data[start + k * step] - most);
    for (let k = 0; k < length; k++) out[start + k * step] = Math.exp(data[start + k * step] - most) / total;
  }

  function layerNorm(x, weight, bias, { epsilon }) {
    return alongLines(x, -1, (data, out, start, step, length) => {
      const mean = sum(data, start, step, length) / length;
      let total = 0;
      for (let k = start; k < start + length; k++) total += (data[k] - mean) ** 2;
      const unit = 1 / Math.sqrt(total / length + epsilon);
      for (let k = 0; k < length; k++) out[start + k] = (data[start + k] - mean) * unit * weight.data[k] + bias.data[k];
    });
  }

  function matMul(a, b) {
    const [n, inner] = a.shape.slice(-2), width = b.shape[b.shape.length - 1];
    const parts = [a, b].map((x) => ({ shape: x.shape.slice(0, -2) })), before = jointShape([{ shape: [1] }, ...parts]);
    const out = make(typeOf([a, b]), [...jointShape([{ shape: [] }, ...parts]), n, width]), row = new Float64Array(width);
    const [stepsA, stepsB] = parts.map((x) => stepsOf(x, before));
    for (let batch = 0, total = sizeOf(before), k = 0; batch < total; batch++) {
      let rest = batch, atA = 0, atB = 0;
      for (let axis = before.length - 1; axis >= 0; axis--) {
        const place = rest % before[axis];
        rest = (rest - place) / before[axis];
        atA += place * stepsA[axis] * n * inner;
        atB += place * stepsB[axis] * inner * width;
      }
      for (let i = 0; i < n; i++, k += width) {
        row.fill(0);
        for (let j = 0; j < inner; j++) {
          const value = a.data[atA + i * inner + j];
          if (value !== 0) for (let m = 0, at = atB + j * width; m < width; m++) row[m] += value * b.data[at + m];
        }
        out.data.set(row, k);
      }
    }
    return out;
  }

  function transpose(x, { perm }) {
    const out = make(x.type, perm.map((axis) => x.shape[axis])), all = stepsOf({ shape: x.shape }, x.shape);
    const steps = perm.map((axis) => all[axis]), places = perm.map(() => 0);
    for (let k = 0, at = 0; k < out.data.length; k++) {
      out.data[k] = x.data[at];
      for (let axis = perm.length - 1; axis >= 0; axis--) {
        at += steps[axis];
        if (++places[axis] < out.shape[axis]) break;
        at -= steps[axis] * out.shape[axis];
        places[axis] = 0;
      }
    }
    return out;
  }

  function gather(x, places, { axis }) {
    const length = x.shape[axis], step = sizeOf(x.shape.slice(axis + 1)), before = sizeOf(x.shape.slice(0, axis));
    const out = make(x.type, [...x.shape.slice(0, axis), ...places.shape, ...x.shape.slice(axis + 1)]);
    for (let i = 0, k = 0; i < before; i++) for (const place of places.data) {
      const start = (i * length + place) * step;
      for (let j = 0; j < step; j++) out.data[k++] = x.data[start + j];
    }
    return out;
  }

  function concat(...given) {
    const { axis } = given.pop(), shape = given[0].shape.slice();
    shape[axis] = given.reduce((total, x) => total + x.shape[axis], 0);
    const out = make(typeOf(given), shape), before = sizeOf(shape.slice(0, axis));
    for (let i = 0, k = 0; i < before; i++) for (const x of given) {
      const length = sizeOf(x.shape.slice(axis));
      out.data.set(x.data.subarray(i * length, (i + 1) * length), k);
      k += length;
    }
    return out;
  }

  function slice(x, start, stop, axes) {
    const axis = axisOf(axes.data[0], x), length = x.shape[axis], end = Math.min(stop.data[0], length);
    const shape = x.shape.slice(), step = sizeOf(x.shape.slice(axis + 1)), before = sizeOf(x.shape.slice(0, axis));
    shape[axis] = end - start.data[0];
    const out = make(x.type, shape);
    for (let i = 0; i < before; i++) {
      const from = (i * length + start.data[0]) * step, to = (i * length + end) * step;
      out.data.set(x.data.subarray(from, to), i * shape[axis] * step);
    }
    return out;
  }

  function pad(x, pads) {
    const n = x.shape.length, before = [...pads.data.subarray(0, n)], after = pads.data.subarray(n);
    const out = make(x.type, x.shape.map((length, axis) => before[axis] + length + after[axis]));
    const strides = out.shape.map((_, axis) => sizeOf(out.shape.slice(axis + 1)));
    const places = x.shape.map(() => 0), width = x.shape[n - 1];
    for (let k = 0; k < x.data.length; k += width) {
      let at = before[n - 1];
      for (let axis = 0; axis < n - 1; axis++) at += (places[axis] + before[axis]) * strides[axis];
      out.data.set(x.data.subarray(k, k + width), at);
      for (let axis = n - 2; axis >= 0 && ++places[axis] === x.shape[axis]; axis--) places[axis] = 0;
    }
    return out;
  }

  function cumulated(x, axis, { reverse }) {
    return alongLines(x, axis.data[0], (data, out, start, step, length) => {
      for (let k = 0, total = 0; k < length; k++) {
        const place = start + (reverse ? length - 1 - k : k) * step;
        out[place] = total += data[place];
      }
    });
  }

  function reshape(x, lengths) {
    const shape = [...lengths.data].map((length, axis) => (length === 0 ? x.shape[axis] : length));
    const open = shape.indexOf(-1);
    if (open >= 0) shape[open] = x.data.length / -sizeOf(shape);
    return make(x.type, shape, x.data);
  }

  function unsqueeze(x, axes) {
    const shape = x.shape.slice();
    for (const axis of [...axes.data].sort((a, b) => a - b)) shape.splice(axis, 0, 1);
    return make(x.type, shape, x.data);
  }

  function splines(x, knots, counts, { degree }) {
    const [n, f] = x.shape, length = knots.shape[1], width = length - 1 - degree, t = knots.data;
    const out = make(x.type, [n, f, width]), values = new Float64Array(degree + 1);
    for (let row = 0, k = 0; row < n; row++) for (let feature = 0; feature < f; feature++, k++) {
      const value = x.data[k], base = feature * length;
      let interval = 0;
      while (interval < counts.data[feature] && value >= t[base + degree + 1 + interval]) interval++;
      const first = base + interval + degree;
      values[0] = 1;
      for (let order = 0; order < degree; order++) {
        let saved = 0;
        for (let place = 0; place <= order; place++) {
          const right = t[first + 1 + place] - value, left = value - t[first - order + place];
          const share = values[place] / (right + left);
          values[place] = saved + right * share;
          saved = left * share;
        }
        values[order + 1] = saved;
      }
      for (let place = 0; place <= degree; place++) out.data[k * width + interval + place] = values[place];
    }
    return out;
  }

  // The interval of a value, moved between the first and the last break.
  function placeOf(x, breaks) {
    const inside = least(x, breaks[0], breaks[breaks.length - 1]);
    let low = 0, high = breaks.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (inside >= breaks[middle]) low = middle; else high = middle - 1;
    }
    return [low, inside - breaks[low]];
  }

  function curve(x, breaks, coefficients, missing) {
    const n = x.shape[0], [, nPowers, k] = coefficients.shape, out = make("float64", [n, k]);
    for (let row = 0; row < n; row++) for (let j = 0; j < k; j++) {
      if (Number.isNaN(x.data[row])) { out.data[row * k + j] = missing.data[j]; continue; }
      const [place, distance] = placeOf(x.data[row], breaks.data);
      let total = 0;
      for (let power = nPowers - 1; power >= 0; power--) total = total * distance + coefficients.data[(place * nPowers + power) * k + j];
      out.data[row * k + j] = total;
    }
    return out;
  }

  function surface(x, y, xBreaks, yBreaks, coefficients) {
    const n = x.shape[0], [, nY, nA, nB, k] = coefficients.shape, out = make("float64", [n, k]);
    for (let row = 0; row < n; row++) {
      if (Number.isNaN(x.data[row]) || Number.isNaN(y.data[row])) continue;
      const [i, u] = placeOf(x.data[row], xBreaks.data), [j, v] = placeOf(y.data[row], yBreaks.data);
      for (let output = 0; output < k; output++) {
        let total = 0;
        for (let a = nA - 1; a >= 0; a--) {
          let inner = 0;
          for (let b = nB - 1; b >= 0; b--) inner = inner * v + coefficients.data[(((i * nY + j) * nA + a) * nB + b) * k + output];
          total = total * u + inner;
        }
        out.data[row * k + output] = total;
      }
    }
    return out;
  }

  function trees(numbers, codes, feature, value, left, right, missingLeft, roots, outputs, start, columns, starts, codeValues, { n_numerical: nNumbers }) {
    const n = numbers.shape[0], nCodes = codes.shape[1], nOutputs = start.data.length, out = make("float64", [n, nOutputs]);
    for (let row = 0; row < n; row++) {
      out.data.set(start.data, row * nOutputs);
      for (let tree = 0; tree < roots.data.length; tree++) {
        let node = roots.data[tree];
        for (let place = feature.data[node]; place >= 0; place = feature.data[node]) {
          const code = place - nNumbers;
          const x = code < 0 ? numbers.data[row * nNumbers + place] : codeValues.data[starts.data[code] + codes.data[row * nCodes + columns.data[code]]];
          node = x > value.data[node] || (x !== x && !missingLeft.data[node]) ? right.data[node] : left.data[node];
        }
        out.data[row * nOutputs + outputs.data[tree]] += value.data[node];
      }
    }
    return out;
  }

  const softplus = (x) => Math.log1p(Math.exp(-Math.abs(x))) + Math.max(x, 0);
  const least = (a, b, c) => (a < b ? b : a > c ? c : a);

  // The inputs of an operation, then its attributes.
  const OPERATIONS = {
    Abs: same(Math.abs), Add: same((a, b) => a + b), Cos: same(Math.cos), Div: same((a, b) => a / b), Exp: same(Math.exp),
    Clip: same(least), Floor: same(Math.floor), Log: same(Math.log), Max: same((a, b) => (a > b ? a : b)),
    Mish: same((a) => a * Math.tanh(softplus(a))), Mul: same((a, b) => a * b), Neg: same((a) => -a), Pow: same((a, b) => a ** b),
    Relu: same((a) => (a > 0 ? a : 0)), Sigmoid: same((a) => 1 / (1 + Math.exp(-a))), Tanh: same(Math.tanh), Sin: same(Math.sin), Sqrt: same(Math.sqrt), Sub: same((a, b) => a - b),
    Selu: same((a) => 1.0507009873554805 * (a > 0 ? a : 1.6732632423543772 * Math.expm1(a))),
    And: compare((a, b) => a && b), Equal: compare((a, b) => a === b), GreaterOrEqual: compare((a, b) => a >= b),
    IsNaN: compare((a) => a !== a), Less: compare((a, b) => a < b),
    Where: (c, a, b) => elementwise([c, a, b], typeOf([a, b]), (x, y, z) => (x ? y : z)),
    Cast: (x, { to }) => make(to, x.shape, ARRAYS[to].from(x.data)),
    Sum: (...given) => given.slice(0, -1).reduce((a, b) => OPERATIONS.Add(a, b)),
    Concat: concat, CumSum: cumulated, Gather: gather, LayerNormalization: layerNorm, MatMul: matMul, Pad: pad,
    LogSoftmax: (x, { axis }) => alongLines(x, axis, (data, out, start, step, length) => {
      const total = logSumExp(data, start, step, length);
      for (let k = 0; k < length; k++) out[start + k * step] = data[start + k * step] - total;
    }),
    ReduceLogSumExp: (x, axes, { keepdims }) => reduced(x, axes, keepdims, logSumExp),
    ReduceMean: (x, axes, { keepdims }) => reduced(x, axes, keepdims, (data, start, step, length) => sum(data, start, step, length) / length),
    ReduceSum: (x, axes, { keepdims }) => reduced(x, axes, keepdims, sum),
    Slice: slice, Softmax: (x, { axis }) => alongLines(x, axis, softmax), Transpose: transpose,
    Flatten: (x, { axis }) => make(x.type, [...x.shape.slice(0, axis), sizeOf(x.shape.slice(axis))], x.data),
    Identity: (x) => x, Reshape: reshape, Unsqueeze: unsqueeze, Curve: curve, Splines: splines, Surface: surface, Trees: trees,
  };

  // Cells ----------------------------------------------------------------------------------------------------------

  const isMissing = (cell) => cell === null || cell === undefined || (typeof cell === "number" && Number.isNaN(cell));
  const rounded = (x, digits) => (Number.isFinite(x) && !Number.isInteger(x) ? Number(x.toPrecision(digits)) : x);
  const whole = (source) => new RegExp(`^(?:${source})$`, "u");

  // A number as Python writes it.
  function numberText(x, digits) {
    const text = String(rounded(x, digits));
    return Math.abs(x) >= 1e16 || (x !== 0 && Math.abs(x) < 1e-4)
      ? rounded(x, digits).toExponential().replace(/e([+-])(\d)$/, "e$10$2") : text;
  }

  function numberReader(format, patterns) {
    const amount = whole(patterns.amount), usual = whole(patterns.usual), body = whole(patterns.body);
    const spaces = patterns.spaces, signs = format.group ? format.group + spaces + "'\u2019" : "";
    const plain = (text) => Number([...text].filter((sign) => !signs.includes(sign)).map((sign) => (sign === format.decimal ? "." : sign)).join(""));
    return (text) => {
      if (usual.test(text)) return plain(text);
      const match = text.length <= patterns.most ? amount.exec(text.trim()) : null;
      if (!match) return NaN;
      const { open, sign, before, second, body: digits, after, last, close } = match.groups, unit = after || before;
      const nSigns = [open, sign, second, last].filter((each) => each !== undefined).length;
      if (!body.test(digits) || (unit && unit !== format.unit) || (before && after) || (open === undefined) !== (close === undefined) || nSigns > 1) return NaN;
      const size = plain(digits) / (unit === "%" ? 100 : 1);
      const number = open || last || ["-", "\u2212"].some((minus) => minus === sign || minus === second) ? -size : size;
      return Number.isFinite(number) ? number : NaN;
    };
  }

  function booleanReader(format) {
    const meanings = { [format.true]: 1, [format.false]: 0, 1: 1, 0: 0 };
    return (text) => meanings[text.trim().toLowerCase()] ?? NaN;
  }

  const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

  function utc(year, month, day) {
    const date = new Date(0);
    date.setUTCFullYear(year, month, day);
    return date.getUTCMonth() === month && date.getUTCDate() === day && year >= 1 ? date.getTime() : NaN;
  }

  // Milliseconds in the local time of a zone, as if it were UTC.
  function inZone(time, zone) {
    if (zone === "UTC") return time;
    const options = { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
    const parts = Object.fromEntries(new Intl.DateTimeFormat("en-US", options).formatToParts(new Date(time)).map((each) => [each.type, each.value]));
    const seconds = (Number(parts.hour) * 60 + Number(parts.minute)) * 60 + Number(parts.second);
    return utc(Number(parts.year), parts.month - 1, Number(parts.day)) + seconds * 1000 + (((time % 1000) + 1000) % 1000);
  }

  // The milliseconds of a date, as if its local time were UTC; of a time of day since midnight.
  function momentOf(match, isTime, zone) {
    const { y, m, d, H, M, S, f, ap, z } = match.groups;
    let day = 0;
    if (!isTime) {
      const month = /^\d+$/.test(m) ? m - 1 : MONTHS.indexOf(m.slice(0, 3).toLowerCase());
      const year = Number(y) + (y.length > 2 ? 0 : y >= 69 ? 1900 : 2000);
      day = month < 0 ? NaN : utc(year, month, Number(d || 1));
    }
    let hour = Number(H || 0);
    const minute = Number(M || 0), second = Number(S || 0) + Number(`0.${f || 0}`);
    if (ap !== undefined) {
      if (hour < 1 || hour > 12) return NaN;
      hour = (hour % 12) + ("pP".includes(ap[0]) ? 12 : 0);
    }
    if (hour > 23 || minute > 59 || second >= 60) return NaN;
    const time = day + ((hour * 60 + minute) * 60 + second) * 1000;
    if (isTime || !zone || z === undefined) return time;
    const offset = "+-".includes(z[0]) ? (z[0] === "+" ? 1 : -1) * (Number(z.slice(1, 3)) * 60 + Number(z.slice(-2))) : 0;
    return inZone(time - offset * 60000, zone);
  }

  function dateNumbers(time, parts, cycles) {
    const DAY = 86400000, date = new Date(time), days = Math.floor(time / DAY);
    const year = date.getUTCFullYear();
    const values = {
      "elapsed days": time / DAY, year, month: date.getUTCMonth(), weekday: (((days + 3) % 7) + 7) % 7,
      hour: (time - days * DAY) / 3600000, "day of year": days - Math.floor(utc(year, 0, 1) / DAY),
    };
    return parts.flatMap((part) => {
      if (!(part in cycles)) return [values[part]];
      const angle = (2 * Math.PI * values[part]) / cycles[part];
      return [Math.sin(angle), Math.cos(angle)];
    });
  }

  function dateReader(format, patterns, cycles) {
    const pattern = whole(patterns.date), isTime = format.order === "time";
    return (cell) => {
      let time = NaN;
      if (cell instanceof Date) {
        const local = [cell.getHours() * 60 + cell.getMinutes(), cell.getSeconds() * 1000 + cell.getMilliseconds()];
        time = (isTime ? 0 : utc(cell.getFullYear(), cell.getMonth(), cell.getDate())) + local[0] * 60000 + local[1];
      } else if (typeof cell === "string" && cell.length <= patterns.most) {
        const match = pattern.exec(cell.trim());
        if (match) time = momentOf(match, isTime, format.zone);
      }
      return Number.isNaN(time) ? null : dateNumbers(time, format.parts, cycles);
    };
  }

  const MOST = Number.MAX_VALUE;

  // Returns the numbers of a cell, or null for a text that cannot be read.
  function numericalReader(column) {
    const read = column.format && (column.format.type === "BooleanFormat" ? booleanReader(column.format) : numberReader(column.format, column.patterns));
    const words = column.kind === "boolean" ? { true: 1, false: 0 } : {};
    return (cell) => {
      if (typeof cell === "boolean") return [cell ? 1 : 0];
      if (typeof cell === "number") return [Math.min(Math.max(cell, -MOST), MOST)];
      if (typeof cell !== "string" || column.kind === "missing") return null;
      const plain = cell.trim();
      const number = read ? read(cell) : words[plain.toLowerCase()] ?? (plain === "" ? NaN : Number(plain));
      return Number.isNaN(number) ? null : [number];
    };
  }

  function categoryReader(column, digits) {
    const isText = column.kind === "text" || column.kind === "mixed", codes = new Map();
    column.categories.forEach((label, place) => codes.set(isText ? label : Number(label), place + 1));
    return (cell) => {
      if (isText) {
        const text = typeof cell === "string" ? cell : typeof cell === "boolean" ? (cell ? "True" : "False") : numberText(cell, digits);
        return codes.get(text) || 0;
      }
      const words = { true: 1, false: 0 }, plain = typeof cell === "string" ? words[cell.trim().toLowerCase()] ?? (cell.trim() === "" ? NaN : Number(cell)) : Number(cell);
      return codes.get(rounded(plain, digits)) || 0;
    };
  }

  // Models ---------------------------------------------------------------------------------------------------------

  const ROWS_AT_A_TIME = 256;

  class Model {
    constructor(content) {
      const { columns, task, classes, target, responseNames, residuals, isPositive, graph, arrays, reading } = content;
      Object.assign(this, { columns, task, classes, target, responseNames, residuals, isPositive });
      this.misfits = {};
      const marks = new Set(reading.marks);
      this._isMark = (cell) => typeof cell === "string" && marks.has(cell.trim().toLowerCase());
      this._used = columns.map((column, place) => ({ column, key: column.name === null ? String(place) : column.name }))
        .filter(({ column }) => column.role !== "ignored");
      for (const used of this._used) {
        const { column } = used;
        used.read = column.role === "categorical" ? categoryReader(column, reading.digits)
          : column.role === "date" ? dateReader(column.format, column.patterns, reading.cycles) : numericalReader(column);
        used.width = column.numbers.length;
      }
      this._nNumbers = this._used.reduce((total, { width }) => total + width, 0);
      this._nCodes = this._used.filter(({ column }) => column.role === "categorical").length;
      this._prepare(graph, arrays);
    }

    _prepare(graph, arrays) {
      const held = {};
      for (const [name, { type, length, data }] of Object.entries(arrays)) {
        held[name] = new STORED[type](inflate(bytesOf(data), length * STORED[type].BYTES_PER_ELEMENT).buffer);
      }
      this._constants = graph.constants.map(([name, start, shape, type]) => {
        const part = held[name].subarray(start, start + sizeOf(shape));
        return make(type, shape, part.constructor === ARRAYS[type] ? part : ARRAYS[type].from(part));
      });
      this._outputs = graph.outputs;
      this._nodes = graph.nodes.map(([operation, inputs, attributes]) => {
        if (!(operation in OPERATIONS)) throw new Error(`The model has the operation ${operation}, which this runtime does not know.`);
        return { run: OPERATIONS[operation], inputs, attributes };
      });
    }

    // Numbers and codes of rows.
    _read(rows) {
      const numbers = make("float64", [rows.length, this._nNumbers]), codes = make("int64", [rows.length, this._nCodes]);
      let atNumber = 0, atCode = 0;
      for (const { column, key, read, width } of this._used) {
        rows.forEach((row, place) => {
          if (!(key in row)) throw new Error(`Rows must have the column ${JSON.stringify(key)}. Pass null if its value is not known.`);
          const cell = row[key], missing = isMissing(cell);
          if (column.role === "categorical") {
            codes.data[place * this._nCodes + atCode] = missing ? 0 : read(cell);
            return;
          }
          const values = missing ? null : read(cell);
          if (values === null && !missing && !this._isMark(cell)) (this.misfits[column.label] ||= []).push(String(cell));
          for (let k = 0; k < width; k++) numbers.data[place * this._nNumbers + atNumber + k] = values === null ? NaN : values[k];
        });
        if (column.role === "categorical") atCode++; else atNumber += width;
      }
      return [numbers, codes];
    }

    // The outputs of the graph for some rows, by name; only those that are needed are computed.
    _run(rows, names) {
      const values = [...this._read(rows), ...this._constants], first = values.length, needed = new Set();
      const want = (place) => {
        if (place < first || needed.has(place)) return;
        needed.add(place);
        this._nodes[place - first].inputs.forEach(want);
      };
      names.forEach((name) => want(this._outputs[name]));
      this._nodes.forEach(({ run, inputs, attributes }, number) => {
        if (needed.has(first + number)) values[first + number] = run(...inputs.map((place) => values[place]), attributes);
      });
      return names.map((name) => values[this._outputs[name]].data);
    }

    _all(rows, names) {
      this.misfits = {};
      const parts = names.map(() => []);
      for (let start = 0; start < rows.length; start += ROWS_AT_A_TIME) {
        this._run(rows.slice(start, start + ROWS_AT_A_TIME), names).forEach((data, place) => parts[place].push(data));
      }
      return parts.map((each) => {
        const out = new Float64Array(each.reduce((total, data) => total + data.length, 0));
        let at = 0;
        for (const data of each) { out.set(data, at); at += data.length; }
        return out;
      });
    }

    responses(rows) {
      return this._all(rows, [this.classes ? "probabilities" : "prediction"])[0];
    }

    _byRow(values, nRows) {
      const width = nRows ? values.length / nRows : 0;
      return Array.from({ length: nRows }, (_, row) => Array.from(values.subarray(row * width, (row + 1) * width)));
    }

    predictProba(rows) {
      if (!this.classes) throw new Error("predictProba is for classes: this model predicts numbers.");
      return this._byRow(this.responses(rows), rows.length);
    }

    predict(rows) {
      if (this.classes) return this.predictProba(rows).map((shares) => this.classes[shares.indexOf(Math.max(...shares))]);
      const values = this._byRow(this.responses(rows), rows.length);
      return values.map((row) => (row.length === 1 ? row[0] : row));
    }

    predictStd(rows) {
      return "std" in this._outputs ? Array.from(this._all(rows, ["std"])[0]) : null;
    }

    // The lower and the upper quantile of residuals for each target; a level in between counts as the next outer one.
    _quantiles(coverage) {
      const { values, ends: [first, last] } = this.residuals, n = values[0].length, rounding = 1e-12;
      const step = (last - first) / Math.max(n - 1, 1), tail = 0.5 * (1 - coverage);
      const low = step > 0 ? Math.floor((tail - first + rounding) / step) : -1;
      const high = step > 0 ? Math.ceil((1 - tail - first - rounding) / step) : n;
      if (low < 0 || high >= n) {
        throw new Error(`coverage must be at most ${Math.max(1 - 2 * Math.max(first, 1 - last), 0).toPrecision(3)}, because few rows were held out.`);
      }
      return values.map((each) => [each[low], each[high]]);
    }

    interval(rows, coverage = 0.9) {
      if (!this.residuals || !("centre" in this._outputs)) return null;
      const quantiles = this._quantiles(coverage), [centre, spread] = this._all(rows, ["centre", "spread"]);
      const bounded = (x) => Math.min(Math.max(x, this.isPositive ? 0 : -MOST), MOST);
      const ends = Array.from(centre, (middle, place) => {
        const target = place % quantiles.length;
        return quantiles[target].map((q) => bounded(middle + (spread[place] + this.residuals.floor[target]) * q));
      });
      const n = quantiles.length;
      return n === 1 ? ends : rows.map((_, row) => ends.slice(row * n, (row + 1) * n));
    }
  }

  return { load: (content) => new Model(typeof content === "string" ? JSON.parse(content) : content), operations: Object.keys(OPERATIONS) };
})();
if (typeof module !== "undefined" && module.exports) module.exports = knotwork;
