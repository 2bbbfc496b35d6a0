/* How numbers, shares, times and dates are written, and where an axis has ticks: the rules of _writing.py, with which a
   test compares this file. Pages put it before their own scripts. */
const writing = (() => {
  const DASH = "–", MINUS = "−", USUAL_DIGITS = 4, LEAST_GROUPED = 10000, LARGEST = 1e12, SMALLEST = 1e-4, EXACT = 1e-9;
  const DAY_SPAN = 150, MONTH_SPAN = 6000, STEPS_OF_DAYS = [1 / 24, 3 / 24, 6 / 24, 12 / 24, 1, 2, 7, 14], STEPS_OF_MONTHS = [1, 2, 3, 6];
  const MONTH_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  for (let k = 0; k < 4; k++) for (const m of [1, 2, 5]) STEPS_OF_MONTHS.push(12 * m * 10 ** k);
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const withoutZeros = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  const grouped = (text) => {
    const [whole, part] = text.split(".");
    const groups = Number(whole) >= LEAST_GROUPED ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
    return part === undefined ? groups : `${groups}.${part}`;
  };

  /* A number with a number of decimals; minus zero never appears. */
  function fixed(value, decimals, signed = false) {
    if (!isNumber(value)) return DASH;
    if (Math.abs(value) >= 1e3 * LARGEST) return significant(value);
    const size = Math.abs(value).toFixed(decimals);
    return (Number(size) === 0 ? "" : value < 0 ? MINUS : signed ? "+" : "") + grouped(size);
  }
  const place = (size, digits) => Number(size.toExponential(digits - 1).split("e")[1]);
  function shortest(value, decimals) {
    const text = fixed(value, decimals);
    return Math.abs(Math.abs(value) - Number(Math.abs(value).toFixed(decimals))) <= EXACT * Math.abs(value) ? withoutZeros(text) : text;
  }
  /* A number with significant digits: whole numbers as such, short decimals without further zeros. */
  function significant(value, digits = USUAL_DIGITS) {
    if (!isNumber(value)) return DASH;
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < SMALLEST || size >= LARGEST) {
      const [mantissa, power] = size.toExponential(digits - 1).split("e");
      const isShort = Math.abs(Number(`${mantissa}e${power}`) - size) <= EXACT * size;
      return (value < 0 ? MINUS : "") + (isShort ? withoutZeros(mantissa) : mantissa) + "e" + power.replace("+", "").replace("-", MINUS);
    }
    const whole = Number(size.toFixed(0));
    if (Math.abs(size - whole) <= EXACT * size && whole) return fixed(value, 0);
    return shortest(value, Math.max(digits - 1 - place(size, digits), 0));
  }
  /* The range of some numbers; one number if both ends look the same. */
  function between(values, digits = USUAL_DIGITS) {
    const low = significant(Math.min(...values), digits), high = significant(Math.max(...values), digits);
    return withoutZeros(low) === withoutZeros(high) ? withoutZeros(low) : `${low} to ${high}`;
  }
  const counted = (n, word = "", plural = "") => fixed(n, 0) + (word ? ` ${n === 1 ? word : plural || `${word}s`}` : "");
  /* A share in percent; what is not 0 or 1 does not look like it. */
  function percent(value, decimals = 1) {
    if (!isNumber(value)) return DASH;
    const size = 100 * Math.abs(value), sign = value < 0 ? MINUS : "", step = 10 ** -decimals;
    const rounded = Number(size.toFixed(decimals));
    if (size > 100 * EXACT && rounded === 0) return `${sign ? ">" : "<"} ${sign}${fixed(step, decimals)} %`;
    if (size < 100 * (1 - EXACT) && rounded === 100) return `${sign ? "<" : ">"} ${sign}${fixed(100 - step, decimals)} %`;
    const text = withoutZeros(fixed(size, decimals));
    return `${text === "0" ? text : sign + text} %`;
  }
  const amount = (value) => (value > 0 && value < 1 ? significant(value, 2) : value < 10 ? withoutZeros(fixed(value, 1)) : fixed(value, 0));
  /* A time: milliseconds, seconds, minutes, hours or days. */
  function duration(seconds) {
    if (!isNumber(seconds)) return DASH;
    if (seconds > 0 && seconds < 0.9995) return `${amount(1000 * seconds)} ms`;
    if (seconds < 119.5) return `${amount(seconds)} s`;
    const minutes = seconds / 60;
    if (minutes < 119.5) return `${amount(minutes)} min`;
    const [small, n, unit, lower] = minutes < 2880 ? [minutes, 60, "h", "min"] : [minutes / 60, 24, "d", "h"];
    const whole = Number(small.toFixed(0));
    return `${fixed(Math.floor(whole / n), 0)} ${unit}${whole % n ? ` ${whole % n} ${lower}` : ""}`;
  }

  const two = (n) => String(n).padStart(2, "0");
  /* The nearest minute; null outside of the calendar. */
  function moment(days) {
    const at = new Date(60000 * Math.floor(1440 * days + 0.5)), year = at.getUTCFullYear();
    return year >= 1 && year <= 9999 ? at : null;
  }
  /* A date, in days since 1970-01-01, as long as a span in days needs: the time, the day, the month or the year. */
  function dateText(days, span = 0) {
    if (!isNumber(days)) return DASH;
    const at = moment(days);
    if (at === null) return fixed(1970 + days / 365.2425, 0);
    const year = at.getUTCFullYear(), month = at.getUTCMonth(), hour = at.getUTCHours(), minute = at.getUTCMinutes();
    if (span > MONTH_SPAN) return String(year);
    if (span > DAY_SPAN) return `${MONTH_NAMES[month]} ${year}`;
    const clock = span <= 2 && (hour || minute) ? ` ${two(hour)}:${two(minute)}` : "";
    return `${String(year).padStart(4, "0")}-${two(month + 1)}-${two(at.getUTCDate())}${clock}`;
  }

  /* About `most` round numbers between two ends, each with its text: [value, text]. */
  function axisTicks(low, high, most = 6) {
    if (!(high > low) || !Number.isFinite(high - low)) return [[low, significant(low)]];
    const raw = (high - low) / most;
    let power = Number(raw.toExponential().split("e")[1]);
    let multiple = [1, 2, 5, 10].find((m) => m * Number(`1e${power}`) >= raw * 0.999);
    if (multiple === 10) [multiple, power] = [1, power + 1];
    const step = multiple * Number(`1e${power}`), first = Math.ceil(low / step - EXACT);
    const last = Math.min(Math.floor(high / step + EXACT), first + 19), values = [];
    for (let i = first; i <= last; i++) values.push(Number(`${i * multiple}e${power}`));
    const texts = tickTexts(values, power);
    return values.map((value, i) => [value, texts[i]]);
  }
  /* The numbers of an axis, whose step is a multiple of a power of ten, in thousands or millions if large. */
  function tickTexts(values, power) {
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    if (largest >= LARGEST || (largest > 0 && largest < SMALLEST)) return values.map((value) => significant(value, 3));
    const [shift, unit] = [[9, "bn", 1e9], [6, "M", 1e6], [3, "k", 1e5]].find(([n, , least]) => largest >= least && power >= n - 2) || [0, ""];
    const decimals = Math.max(shift - power, 0);
    return values.map((value) => (value === 0 ? "0" : fixed(value / 10 ** shift, decimals) + unit));
  }
  /* About `most` round dates between two days since 1970, each with its text: [days, text]. */
  function dateTicks(low, high, most = 5) {
    const ends = Number.isFinite(high - low) ? [moment(low), moment(high)] : [null, null];
    if (ends[0] === null || ends[1] === null || !(high > low)) return [[low, dateText(low)]];
    const days = STEPS_OF_DAYS.find((each) => (high - low) / each < most + 1);
    if (days !== undefined) return ticksOfDays(low, high, days);
    const months = ends.map((at) => 12 * at.getUTCFullYear() + at.getUTCMonth());
    const step = STEPS_OF_MONTHS.find((n) => (months[1] - months[0]) / n < most + 1) || STEPS_OF_MONTHS[STEPS_OF_MONTHS.length - 1];
    const span = step % 12 === 0 ? Infinity : MONTH_SPAN, ticks = [];
    for (let month = Math.max(Math.ceil(months[0] / step) * step, 12); month <= Math.min(months[1], 12 * 9999); month += step) {
      const first = new Date(0);
      first.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
      const day = first.getTime() / 86400000;
      if (day >= low && day <= high) ticks.push([day, dateText(day, span)]);
    }
    return ticks;
  }
  /* Ticks up to two weeks apart; of ticks within a day, only midnights and the first one have the date. */
  function ticksOfDays(low, high, step) {
    const shift = step === 7 || step === 14 ? 4 : 0, ticks = [];  // 1970-01-05 was a Monday
    const first = Math.ceil((low - shift) / step - EXACT), last = Math.floor((high - shift) / step + EXACT);
    for (let i = first; i <= last; i++) {
      const day = i * step + shift, text = dateText(day);
      ticks.push([day, i === first ? text : text.slice(11) || text]);
    }
    return ticks;
  }
  return { DASH, fixed, significant, between, counted, percent, duration, dateText, axisTicks, dateTicks };
})();
