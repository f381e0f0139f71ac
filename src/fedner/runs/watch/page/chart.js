// A chart of curves by round: SVG for the eye, keys and a table for everybody else.
//
// Lines differ in colour, dash and mark, so that no one of them is needed to tell them apart.

import { make } from "./session.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 250;
const TOP = 14;
const BOTTOM = 34;
const LEFT = 56;
const NUM_STYLES = 8;
const MOST_ROWS = 200;
const MOST_MARKS = 12; // on one line
const MOST_BANDS = 5; // more would hide the lines

const drawn = (name, attributes, ...children) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

/** Return the class of a line: platforms keep theirs in every chart. */
export function styleOf(index) {
  return index < 0 ? "s-all" : `s${index % NUM_STYLES}`;
}

/** Return a mark of a line, drawn around a place. */
function mark(index, x, y, size = 4.2) {
  const place = { class: "mark" };
  const points = (pairs) => pairs.map(([a, b]) => `${x + a * size},${y + b * size}`).join(" ");
  // Past the last style colours come again, with another mark.
  switch (index < 0 ? -1 : (index + Math.floor(index / NUM_STYLES)) % NUM_STYLES) {
    case -1:
    case 0:
      return drawn("circle", { ...place, cx: x, cy: y, r: size * 0.9 });
    case 1:
      return drawn("rect", { ...place, x: x - size * 0.85, y: y - size * 0.85, width: size * 1.7, height: size * 1.7 });
    case 2:
      return drawn("polygon", { ...place, points: points([[0, -1.2], [1.1, 0.8], [-1.1, 0.8]]) });
    case 3:
      return drawn("polygon", { ...place, points: points([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]) });
    case 4:
      return drawn("path", { ...place, class: "mark open", d: `M${x - size},${y - size} L${x + size},${y + size} M${x - size},${y + size} L${x + size},${y - size}` });
    case 5:
      return drawn("polygon", { ...place, points: points([[0, 1.2], [1.1, -0.8], [-1.1, -0.8]]) });
    case 6:
      return drawn("path", { ...place, class: "mark open", d: `M${x - size * 1.2},${y} H${x + size * 1.2} M${x},${y - size * 1.2} V${y + size * 1.2}` });
    default:
      return drawn("circle", { ...place, class: "mark open", cx: x, cy: y, r: size });
  }
}

/** Return a small picture of a line and its mark, for a legend. */
export function swatch(index) {
  const picture = drawn("svg", { class: `swatch ${styleOf(index)}`, viewBox: "0 0 30 12", "aria-hidden": "true" });
  picture.append(drawn("line", { class: "line", x1: 1, y1: 6, x2: 29, y2: 6 }), mark(index, 15, 6));
  return picture;
}

/** Return numbers for an axis: round ones, about so many. */
export function ticks(low, high, about = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Return the lowest and highest value of an axis; from 0 where that hides nothing. */
function range(series, references, { limits, fromZero = false }) {
  let low = Infinity;
  let high = -Infinity;
  for (const each of series) {
    for (const point of each.points) {
      low = Math.min(low, point[3] ?? point[2]);
      high = Math.max(high, point[4] ?? point[2]);
    }
  }
  for (const value of references) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!Number.isFinite(low)) return [0, 1];
  if (low >= 0 && (fromZero || low < 0.7 * high)) low = 0;
  if (high === low) [low, high] = low > 0 ? [0, high * 1.25] : [low - 1, high + 1];
  const room = (high - low) * 0.06;
  return [low === 0 ? 0 : low - room, Math.min(limits?.[1] ?? Infinity, high + room)];
}

const valueOf = (series, point) => (series.isTotal ? point[4] ?? point[2] : point[2]);

/** One chart: made once, and given new curves again and again. */
export class Chart {
  /**
   * @param {object} what id, title, format(value, isTick), limits, fromZero
   */
  constructor(what) {
    this.what = what;
    this.series = [];
    this.references = [];
    this.cursor = null; // a round
    this.focus = null; // the name of the line that is to stand out
    const id = `chart-${what.id}`;
    this.element = make("figure", { class: "card chart", id, "aria-labelledby": `${id}-title` });
    this.lead = make("p", { class: "quiet lead", id: `${id}-lead` });
    this.plot = make("div", {
      class: "plot",
      tabindex: "0",
      role: "group",
      "aria-roledescription": "chart",
      "aria-labelledby": `${id}-title`,
      "aria-describedby": `${id}-lead ${id}-how`,
    });
    this.said = make("p", { class: "said", id: `${id}-said`, "aria-live": "polite" });
    this.legend = make("ul", { class: "legend", "aria-label": "Lines" });
    this.table = make("details", { class: "numbers" }, make("summary", {}, "As a table"));
    this.tablePlace = make("div", { class: "wide" });
    this.table.append(this.tablePlace);
    this.table.addEventListener("toggle", () => this.showTable());
    const how = make("span", { class: "heard", id: `${id}-how` }, "Arrow keys read the values round by round.");
    const under = make("div", { class: "under" }, this.lead, this.said); // one in the place of the other
    const head = make("figcaption", {}, make("h2", { id: `${id}-title` }, what.title), under, how);
    this.element.append(head, this.plot, this.legend, this.table);
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
    this.plot.addEventListener("pointermove", (event) => this.onPointer(event));
    this.plot.addEventListener("pointerleave", () => this.moveTo(null));
    this.plot.addEventListener("blur", () => this.moveTo(null));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  /** Show curves: {name, index, points, isTotal}; references: {name, index, value}. */
  show({ series, references = [], rounds, lead = "", empty = "", label = "round" }) {
    Object.assign(this, { series, references, rounds, empty, label });
    this.lead.textContent = lead;
    this.lead.hidden = !lead;
    this.showLegend();
    this.draw();
    this.showTable();
  }

  get last() {
    const ends = this.series.map((each) => each.points.at(-1)?.[1] ?? 0);
    return Math.max(1, ...ends);
  }

  draw() {
    const width = Math.round(this.plot.clientWidth);
    const hasAny = this.series.some((each) => each.points.length);
    this.element.classList.toggle("is-empty", !hasAny);
    this.legend.hidden = !hasAny || this.series.length < 2;
    this.table.hidden = !hasAny;
    this.said.hidden = !hasAny;
    if (!hasAny) {
      this.plot.removeAttribute("tabindex");
      this.plot.replaceChildren(make("p", { class: "empty" }, this.empty || "Nothing to show yet."));
      return;
    }
    this.plot.setAttribute("tabindex", "0");
    if (width < 80) return;
    const right = 14;
    const inner = width - LEFT - right;
    const tall = HEIGHT - TOP - BOTTOM;
    const [low, high] = range(this.series, this.references.map((each) => each.value), this.what);
    const end = this.last;
    this.x = (round) => LEFT + (inner * (round - 1)) / Math.max(1, end - 1);
    this.y = (value) => TOP + tall * (1 - (value - low) / (high - low));
    this.fromX = (x) => 1 + ((x - LEFT) / inner) * Math.max(1, end - 1);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": this.summary() });
    for (const value of ticks(low, high)) {
      svg.append(
        drawn("line", { class: "grid", x1: LEFT, x2: width - right, y1: this.y(value), y2: this.y(value) }),
        drawn("text", { class: "tick", x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, this.what.format(value, true)),
      );
    }
    const about = Math.max(2, Math.floor(inner / 90));
    const rounds = [...new Set([1, ...ticks(1, end, about).filter(Number.isInteger)])].filter(
      (each) => each === 1 || this.x(each) - this.x(1) > 28,
    );
    for (const round of rounds) {
      const isAtEnd = this.x(round) > width - 2 * right; // its right half would be cut off
      const anchor = round === 1 ? "start" : isAtEnd ? "end" : "middle";
      svg.append(drawn("text", { class: "tick", x: this.x(round), y: HEIGHT - 14, "text-anchor": anchor }, round.toLocaleString("en")));
    }
    svg.append(drawn("text", { class: "tick", x: width - right, y: HEIGHT - 1, "text-anchor": "end" }, "round"));
    for (const each of this.references) {
      svg.append(drawn("line", { class: `reference ${styleOf(each.index)}`, x1: LEFT, x2: width - right, y1: this.y(each.value), y2: this.y(each.value) }));
    }
    for (const each of this.series) svg.append(this.lineOf(each));
    this.rule = drawn("line", { class: "rule", y1: TOP, y2: HEIGHT - BOTTOM, x1: 0, x2: 0, visibility: "hidden" });
    svg.append(this.rule);
    this.plot.replaceChildren(svg);
    this.moveTo(this.cursor);
  }

  lineOf(series) {
    const isFaded = this.focus !== null && this.focus !== series.name;
    const group = drawn("g", { class: `series ${styleOf(series.index)}${isFaded ? " faded" : ""}` });
    const points = series.points.map((point) => [this.x(series.isTotal ? point[1] : (point[0] + point[1]) / 2), this.y(valueOf(series, point)), point]);
    if (this.series.length <= MOST_BANDS && !series.isTotal && points.some(([, , point]) => point.length > 3)) {
      const up = points.map(([x, , point]) => `${x.toFixed(1)},${this.y(point[4] ?? point[2]).toFixed(1)}`);
      const down = points.map(([x, , point]) => `${x.toFixed(1)},${this.y(point[3] ?? point[2]).toFixed(1)}`).reverse();
      group.append(drawn("polygon", { class: "band", points: [...up, ...down].join(" ") }));
    }
    const path = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    group.append(drawn("polyline", { class: "line", points: path }));
    const every = Math.max(1, Math.ceil(points.length / MOST_MARKS));
    points.forEach(([x, y], place) => {
      if ((points.length - 1 - place) % every === 0) group.append(mark(series.index, x, y));
    });
    return group;
  }

  summary() {
    const parts = this.series
      .filter((each) => each.points.length)
      .slice(0, 12)
      .map((each) => `${each.name} ${this.what.format(valueOf(each, each.points.at(-1)))}`);
    return `${this.what.title}, at round ${this.last.toLocaleString("en")}: ${parts.join(", ")}`;
  }

  showLegend() {
    const names = this.series.map((each) => each.name);
    const rows = [...this.series.map((each) => [each, this.newest(each)])];
    this.legend.replaceChildren(
      ...rows.map(([each, value]) => {
        const button = make("button", { type: "button", class: "key", "aria-pressed": String(this.focus === each.name) });
        button.append(swatch(each.index), make("span", { class: "name" }, each.name), make("span", { class: "value" }, value));
        button.addEventListener("click", () => {
          this.focus = this.focus === each.name ? null : each.name;
          this.showLegend();
          this.draw();
          this.legend.children[names.indexOf(each.name)]?.firstElementChild.focus();
        });
        return make("li", {}, button);
      }),
      ...(this.references.length ? [make("li", { class: "quiet" }, "Thin dotted lines: local-only")] : []),
    );
  }

  newest(series) {
    const point = series.points.at(-1);
    return point ? this.what.format(valueOf(series, point)) : "";
  }

  onPointer(event) {
    if (!this.fromX) return;
    const box = this.plot.getBoundingClientRect();
    this.moveTo(this.fromX(event.clientX - box.left));
  }

  onKey(event) {
    const stops = [...new Set(this.series.flatMap((each) => each.points.map((point) => point[1])))].sort((a, b) => a - b);
    if (!stops.length) return;
    const at = this.cursor === null ? stops.length : stops.findIndex((each) => each >= this.cursor);
    const moves = {
      ArrowLeft: this.cursor === null ? stops.length - 1 : Math.max(0, at - 1),
      ArrowRight: this.cursor === null ? 0 : Math.min(stops.length - 1, at + 1),
      Home: 0,
      End: stops.length - 1,
    };
    if (event.key === "Escape") this.moveTo(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.moveTo(stops[moves[event.key]]);
  }

  /** Put the cursor on a round and read out what stands there; null takes it away. */
  moveTo(round) {
    this.cursor = round;
    if (!this.rule) return;
    if (round === null) {
      this.rule.setAttribute("visibility", "hidden");
      this.said.textContent = "";
      return;
    }
    const near = Math.min(this.last, Math.max(1, Math.round(round)));
    this.cursor = near;
    const x = this.x(near);
    this.rule.setAttribute("x1", x);
    this.rule.setAttribute("x2", x);
    this.rule.setAttribute("visibility", "visible");
    const parts = this.series.map((each) => {
      const point = each.points.findLast((point) => point[0] <= near);
      return point ? `${each.name} ${this.what.format(valueOf(each, point))}` : null;
    });
    this.said.textContent = `Round ${near.toLocaleString("en")}: ${parts.filter(Boolean).join(", ")}`;
  }

  showTable() {
    if (!this.table.open) return;
    const held = new Map();
    this.series.forEach((each, place) => {
      for (const point of each.points) {
        const key = point[1];
        if (!held.has(key)) held.set(key, { first: point[0], cells: [] });
        held.get(key).cells[place] = this.what.format(valueOf(each, point));
      }
    });
    const rounds = [...held.keys()].sort((a, b) => b - a);
    const head = make("tr", {}, make("th", { scope: "col" }, "Round"), ...this.series.map((each) => make("th", { scope: "col", class: "number" }, each.name)));
    const rows = rounds.slice(0, MOST_ROWS).map((key) => {
      const { first, cells } = held.get(key);
      const name = first === key ? key.toLocaleString("en") : `${first.toLocaleString("en")} to ${key.toLocaleString("en")}`;
      const row = make("tr", {}, make("th", { scope: "row" }, name));
      this.series.forEach((_, place) => row.append(make("td", { class: "number" }, cells[place] ?? "")));
      return row;
    });
    const caption = make("caption", { class: "quiet" }, `${this.what.title}, newest first`);
    this.tablePlace.replaceChildren(make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...rows)));
  }
}

/** A row for each platform, with a mark where it was refused or missing. */
export class Lanes extends Chart {
  show({ lanes, end, empty }) {
    this.lanes = lanes;
    this.end = Math.max(1, end);
    this.empty = empty;
    this.lead.hidden = true;
    this.series = [];
    this.draw();
    this.showTable();
  }

  draw() {
    const lanes = this.lanes ?? [];
    this.element.classList.toggle("is-empty", !lanes.length);
    this.legend.hidden = !lanes.length;
    this.table.hidden = !lanes.length;
    this.said.hidden = true;
    this.plot.removeAttribute("tabindex");
    if (!lanes.length) {
      this.plot.replaceChildren(make("p", { class: "empty" }, this.empty));
      return;
    }
    const width = Math.round(this.plot.clientWidth);
    if (width < 80) return;
    const left = Math.min(150, Math.max(70, width * 0.3));
    const step = 30;
    const height = lanes.length * step + 40;
    const inner = width - left - 18;
    const x = (round) => left + 8 + (inner * (round - 1)) / Math.max(1, this.end - 1);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.summary() });
    lanes.forEach((lane, place) => {
      const y = 18 + place * step;
      const letters = Math.floor((left - 8) / 7.4);
      const name = lane.name.length > letters ? `${lane.name.slice(0, letters - 1)}\u2026` : lane.name;
      svg.append(drawn("text", { class: "tick lane-name", x: 0, y: y + 4 }, name), drawn("line", { class: "grid", x1: left, x2: width - 10, y1: y, y2: y }));
      for (const point of lane.missing) svg.append(...laneMark("missing", x, y, point));
      for (const point of lane.refused) svg.append(...laneMark("refused", x, y, point));
    });
    svg.append(
      drawn("text", { class: "tick", x: x(1), y: height - 6 }, "1"),
      drawn("text", { class: "tick", x: width - 10, y: height - 6, "text-anchor": "end" }, `round ${this.end.toLocaleString("en")}`),
    );
    this.plot.replaceChildren(svg);
    this.legend.replaceChildren(
      make("li", { class: "key" }, laneSwatch("missing"), "no answer"),
      make("li", { class: "key" }, laneSwatch("refused"), "update refused"),
    );
  }

  summary() {
    const parts = (this.lanes ?? []).map((each) => `${each.name} ${each.numMissing} times missing and ${each.numRefused} times refused`);
    return `${this.what.title}: ${parts.join(", ")}`;
  }

  showTable() {
    if (!this.table.open) return;
    const head = make("tr", {}, make("th", { scope: "col" }, "Platform"), make("th", { scope: "col", class: "number" }, "No answer"), make("th", { scope: "col", class: "number" }, "Update refused"));
    const rows = (this.lanes ?? []).map((each) =>
      make("tr", {}, make("th", { scope: "row" }, each.name), make("td", { class: "number" }, String(each.numMissing)), make("td", { class: "number" }, String(each.numRefused))),
    );
    this.tablePlace.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  moveTo() {}

  onKey() {}
}

function laneMark(kind, x, y, point) {
  const [first, last] = point;
  const found = [];
  if (last > first) found.push(drawn("line", { class: `span ${kind}`, x1: x(first), x2: x(last), y1: y, y2: y }));
  const at = x(last);
  const shape =
    kind === "missing"
      ? drawn("path", { class: "lane missing", d: `M${at - 5},${y - 5} L${at + 5},${y + 5} M${at - 5},${y + 5} L${at + 5},${y - 5}` })
      : drawn("polygon", { class: "lane refused", points: `${at},${y - 7} ${at + 6},${y + 5} ${at - 6},${y + 5}` });
  shape.append(drawn("title", {}, `${kind === "missing" ? "no answer" : "refused"}, round ${first === last ? first : `${first} to ${last}`}`));
  found.push(shape);
  return found;
}

function laneSwatch(kind) {
  const svg = drawn("svg", { class: "swatch", viewBox: "0 0 16 16", "aria-hidden": "true" });
  svg.append(...laneMark(kind, () => 8, 8, [1, 1]).map((each) => (each.replaceChildren(), each)));
  return svg;
}
