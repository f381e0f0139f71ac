// The note without what was found in it.

import { ask, copyText, make, showError } from "/static/session.js";
import { addedFor, allTypes, busy, byId, chosen, noteText, titleOf, typesOf } from "/static/models.js";
import { huesOf, replaced } from "/static/text.js";

const THRESHOLDS = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01];
let redactedText = "";

/** Offer the types of the chosen model, and what may decide. */
export function showRedactChoices() {
  const model = chosen();
  const unticked = new Set(ticks().filter((each) => !each.checked).map((each) => each.value));
  const labels = typesOf(model).map((name) => {
    const box = make("input", { type: "checkbox", value: name });
    box.checked = !unticked.has(name);
    return make("label", {}, box, name);
  });
  byId("types").replaceChildren(...labels);
  showThresholds(model);
}

function ticks() {
  return [...document.querySelectorAll("#types input")];
}

function showThresholds(model) {
  const before = byId("threshold").value;
  const choices = [["none", "The entities found"]];
  if (model.redaction) {
    const types = model.redaction.types.join(", ");
    choices.unshift(["own", `Words above the model's own threshold (${types})`]);
  }
  if (model.takes_threshold) {
    for (const each of THRESHOLDS) choices.push([String(each), `Words with a probability of at least ${each}`]);
  }
  const made = choices.map(([value, words]) => make("option", { value }, words));
  byId("threshold").replaceChildren(...made);
  if (choices.some(([value]) => value === before)) byId("threshold").value = before;
}

async function redact(event) {
  event.preventDefault();
  const text = noteText();
  byId("redact-error").replaceChildren();
  if (!text.trim()) {
    byId("redact-status").textContent = "The note is empty.";
    byId("note").focus();
    return;
  }
  await busy(byId("redact-button"), "Redacting…", async () => {
    try {
      show(await ask("/redact", request(text)));
    } catch (error) {
      showError(byId("redact-error"), error);
    }
  });
}

function request(text) {
  const model = chosen();
  const chosenTypes = ticks().filter((each) => each.checked).map((each) => each.value);
  const all = chosenTypes.length === ticks().length;
  const threshold = byId("threshold").value;
  return {
    text,
    model: model.name,
    types: addedFor(model),
    // Without any the service is asked to keep all, and says that nothing is left to remove.
    ...(all ? {} : chosenTypes.length ? { remove: chosenTypes } : { keep: typesOf(model) }),
    how: document.querySelector("input[name=how]:checked").value,
    threshold: ["own", "none"].includes(threshold) ? threshold : Number(threshold),
  };
}

function show(answer) {
  redactedText = answer.text;
  const place = byId("redacted");
  place.replaceChildren(...replaced(answer.text, answer.replacements, huesOf(allTypes())));
  place.hidden = false;
  place.classList.remove("stale");
  byId("copy-redacted").hidden = false;
  const count = answer.replacements.length;
  const what = `${count} ${count === 1 ? "place" : "places"} replaced`;
  byId("redact-status").textContent = `${what} by ${titleOf(chosen())}: ${answer.removed.join(", ")}.`;
  byId("remains").textContent = answer.remains;
}

async function copyRedacted() {
  const done = await copyText(redactedText);
  byId("redact-status").textContent = done
    ? "The redacted text is on the clipboard."
    : "The browser did not allow copying.";
}

/** Listen to the form. */
export function startRedaction() {
  byId("redact").addEventListener("submit", redact);
  byId("copy-redacted").addEventListener("click", copyRedacted);
}
