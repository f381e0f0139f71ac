// What models found in a note: legend, marked texts side by side, and a table.

import { make } from "/static/session.js";
import { huesOf, keyOf, marked, percent } from "/static/text.js";

/** Show one or two readings, each { title, mentions }; `all` types decide the colours. */
export function showFound(text, readings, types, all) {
  const hues = huesOf(all);
  const found = document.getElementById("found");
  found.classList.toggle("two", readings.length > 1);
  found.classList.remove("stale");
  found.replaceChildren(...readings.map((each) => reading(text, each, readings, hues)));
  showLegend(readings, types, hues);
  showTable(readings);
  document.getElementById("summary").textContent = summary(readings);
}

function reading(text, own, all, hues) {
  const others = all.filter((each) => each !== own).map((each) => each.mentions.map(keyOf));
  const elsewhere = new Set(others.flat());
  const isOnly = (mention) => all.length > 1 && !elsewhere.has(keyOf(mention));
  const place = make("section", { class: "reading", "aria-label": own.title });
  if (all.length > 1) place.append(make("h3", {}, own.title));
  place.append(marked(text, own.mentions, hues, isOnly));
  return place;
}

function showLegend(readings, types, hues) {
  const chips = [...types].map((name) => {
    const counts = readings.map((each) => each.mentions.filter((one) => one.type === name).length);
    return make("li", { class: `chip ${hues.get(name)}` }, `${name} ${counts.join(" / ")}`);
  });
  if (readings.length > 1) chips.push(make("li", { class: "quiet" }, "outlined: found by one of the two"));
  document.getElementById("legend").replaceChildren(...chips);
}

function summary(readings) {
  if (readings.length === 1) {
    const count = readings[0].mentions.length;
    return count ? `${number(count)} found.` : "No entities found.";
  }
  const [one, other] = readings.map((each) => new Set(each.mentions.map(keyOf)));
  const both = [...one].filter((key) => other.has(key)).length;
  return (
    `${number(both)} found by both, ${one.size - both} only by ${readings[0].title}, ` +
    `${other.size - both} only by ${readings[1].title}.`
  );
}

function number(count) {
  return `${count} ${count === 1 ? "entity" : "entities"}`;
}

function showTable(readings) {
  const rows = new Map();
  readings.forEach((each, column) => {
    for (const mention of each.mentions) {
      const key = keyOf(mention);
      if (!rows.has(key)) rows.set(key, { mention, confidences: [] });
      rows.get(key).confidences[column] = mention.confidence;
    }
  });
  const sorted = [...rows.values()].sort((a, b) => a.mention.start - b.mention.start);
  const heads = readings.map((each) => (readings.length > 1 ? each.title : "Confidence"));
  const table = make("table", {}, head(["Text", "Type", "Characters"], heads));
  const body = make("tbody");
  body.append(...sorted.map((row) => line(row, readings.length)));
  table.append(body);
  document.getElementById("table").replaceChildren(table);
  document.getElementById("table-box").hidden = sorted.length === 0;
}

function head(names, numbers) {
  const row = make("tr");
  row.append(...names.map((name) => make("th", { scope: "col" }, name)));
  row.append(...numbers.map((name) => make("th", { scope: "col", class: "number" }, name)));
  return make("thead", {}, row);
}

function line({ mention, confidences }, columns) {
  const row = make("tr");
  const place = `${mention.start} to ${mention.end}`;
  row.append(...[mention.text, mention.type, place].map((cell) => make("td", {}, cell)));
  for (let column = 0; column < columns; column += 1) {
    const confidence = confidences[column];
    const said = confidence === undefined ? "not found" : percent(confidence);
    row.append(make("td", { class: "number" }, said));
  }
  return row;
}
