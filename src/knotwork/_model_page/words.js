/* The data of the page, and values of columns in words. Text of a table reaches the document by textContent only. */

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const isClass = data.task === "classification";
const { significant, fixed, percent, counted, duration, dateText, axisTicks, dateTicks, DASH } = writing;
const signed = (text) => (text.startsWith("−") || text === "0" ? text : `+${text}`);

const columns = data.columns;
const byPlace = new Map(columns.map((column, index) => [column.place, index]));
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/* A prediction, or an effect on it: a share of a class in percent. */
const inUnits = (value) => (isClass ? percent(value, 1) : significant(value, 4));
/* A number with the decimals that others of a size have: what rounds to nothing is 0. */
function besides(value, size) {
  const decimals = size > 0 ? Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 12) : 3;
  const text = fixed(value, decimals, true);
  return Number(text.replace(/[^\d.]/g, "")) === 0 ? "0" : text;
}
const outputName = (place) => data.outputs[data.shown[place]];
function targetText(place) {
  if (isClass) return `probability that ${data.target} is ${outputName(place)}`;
  return data.outputs.length > 1 ? outputName(place) : data.target;
}

const two = (n) => String(n).padStart(2, "0");
const clock = (hours) => `${two(Math.floor(hours + 1e-9) % 24)}:${two(Math.round(60 * (hours - Math.floor(hours + 1e-9))) % 60)}`;
function span(column) {
  const ends = column.ends || (column.effect && [column.effect.values[0], column.effect.values.at(-1)]);
  return ends ? ends[1] - ends[0] : 0;
}
/* A value of a column as it is read: a number, a date, a time of day, or the name of a category. */
function valueText(column, value, isLong = false) {
  if (value === null || value === undefined) return "missing";
  if (column.kind === "category") return value === 0 ? "missing or new" : column.labels[value - 1];
  if (column.kind === "date") return dateText(value, isLong ? 3 : span(column));
  if (column.kind === "time") return clock(value);
  if (column.isTruth) return value === 1 ? "yes" : value === 0 ? "no" : significant(value, 4);
  return significant(value, 4);
}
function axisOf(column, low, high, most) {
  if (column.kind === "date") return dateTicks(low, high, most);
  if (column.kind === "time") return [0, 6, 12, 18, 24].map((hour) => [hour, `${two(hour)}:00`]);
  return axisTicks(low, high, most).filter(([value]) => !column.isWhole || Number.isInteger(value));
}
/* What a text field shows of a value, and the value of what a reader types; undefined for what cannot be read. */
function typed(column, value) {
  if (value === null) return "";
  if (column.kind === "date") return new Date(Math.floor(value + 1e-9) * 86400000).toISOString().slice(0, 10);
  if (column.kind === "time") return clock(value);
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(5)));
}
function parsed(column, text) {
  const clean = text.trim();
  if (clean === "") return null;
  if (column.kind === "date") {
    const time = Date.parse(`${clean}T00:00:00Z`);
    return Number.isFinite(time) ? time / 86400000 : undefined;
  }
  if (column.kind === "time") {
    const match = /^(\d{1,2}):(\d{2})/.exec(clean);
    return match ? Number(match[1]) + Number(match[2]) / 60 : undefined;
  }
  const value = Number(clean.replace(/,/g, "").replace("−", "-"));
  return Number.isFinite(value) ? value : undefined;
}
