// Texts with mentions. The service counts characters as Unicode code points; JavaScript's strings
// count UTF-16 units, in which an emoji has two. Here a text is an array of its code points.

import { make } from "/static/session.js";

/** Return the code points of a text. */
export function pointsOf(text) {
  return Array.from(text);
}

/** Return a text as UTF-8 can carry it: half an emoji becomes the sign for an unknown character. */
export function wellFormed(text) {
  return pointsOf(text)
    .map((point) => (/^[\ud800-\udfff]$/.test(point) ? "\ufffd" : point))
    .join("");
}

/** Return which colour each type has: the same in all texts of the page. */
export function huesOf(types) {
  return new Map([...types].map((name, number) => [name, `hue-${number % 8}`]));
}

export function percent(confidence) {
  return `${Math.round(100 * confidence)}\u00a0%`; // with a blank that does not break
}

/** Return a text with its mentions marked; `isOnly` says what another model did not find. */
export function marked(text, mentions, hues, isOnly = () => false) {
  const points = pointsOf(text);
  const place = make("div", { class: "text", dir: "auto" });
  let at = 0;
  for (const each of mentions) {
    place.append(points.slice(at, each.start).join(""), mark(points, each, hues, isOnly(each)));
    at = each.end;
  }
  place.append(points.slice(at).join(""));
  return place;
}

function mark(points, mention, hues, only) {
  const words = points.slice(mention.start, mention.end).join("");
  const said = `${mention.type} ${percent(mention.confidence)}`;
  return make(
    "mark",
    { class: `${hues.get(mention.type)}${only ? " only" : ""}` },
    words,
    make("span", { class: "heard" }, " ("),
    make("span", { class: "tag" }, said),
    make("span", { class: "heard" }, only ? ", only here)" : ")"),
  );
}

/** Return a redacted text with its replacements marked. */
export function replaced(text, replacements, hues) {
  const points = pointsOf(text);
  const pieces = [];
  let at = 0;
  for (const each of replacements) {
    pieces.push(points.slice(at, each.new_start).join(""));
    const words = points.slice(each.new_start, each.new_end).join("");
    pieces.push(make("mark", { class: hues.get(each.type) }, words));
    at = each.new_end;
  }
  return [...pieces, points.slice(at).join("")];
}

/** Return the key of a mention: the same place and type. */
export function keyOf(mention) {
  return `${mention.start} ${mention.end} ${mention.type}`;
}
