// What the page knows: the models that are served, the types that were added, and what is chosen.

import { wellFormed } from "/static/text.js";

export const byId = (id) => document.getElementById(id);
export const state = { models: [], mostBytes: Infinity, added: new Map(), readings: [], text: "" };

/** Return the model that is chosen. */
export function chosen() {
  return state.models.find((each) => each.name === byId("model").value);
}

export function compared() {
  return state.models.find((each) => each.name === byId("second").value);
}

/** Return the added types that a model takes: those that it does not know by itself. */
export function addedFor(model) {
  if (!model.can_add_types) return {};
  const own = new Set(model.types.map((each) => each.name));
  return Object.fromEntries([...state.added].filter(([name]) => !own.has(name)));
}

/** Return the names of all types that a model looks for, added ones last. */
export function typesOf(model) {
  return [...model.types.map((each) => each.name), ...Object.keys(addedFor(model))];
}

/** Return the types of all models, so that each has its colour throughout the page. */
export function allTypes() {
  const names = state.models.flatMap((each) => each.types.map((type) => type.name));
  return new Set([...names.sort(), ...state.added.keys()]);
}

export function noteText() {
  return wellFormed(byId("note").value);
}

/** Run something while a button says so and cannot be pressed again. */
export async function busy(button, words, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  const before = button.textContent;
  button.setAttribute("aria-disabled", "true");
  button.textContent = words;
  try {
    await work();
  } finally {
    button.removeAttribute("aria-disabled");
    button.textContent = before;
  }
}

export function titleOf(model) {
  if (model.platform === null) return model.name;
  const prefix = model.name.split("/").length > 2 ? `${model.source}: ` : "";
  return `${prefix}${model.platform}, ${model.method}`;
}
