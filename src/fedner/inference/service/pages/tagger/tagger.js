// The page: a note, the models, what they find in it, and the note without it.

import { ask, copyText, make, showError } from "/static/session.js";
import { showFound } from "/static/found.js";
import { showRedactChoices, startRedaction } from "/static/redaction.js";
import { addedFor, allTypes, busy, byId, chosen, compared, noteText } from "/static/models.js";
import { state, titleOf, typesOf } from "/static/models.js";
import { pointsOf } from "/static/text.js";

async function findEntities(event) {
  event.preventDefault();
  const text = noteText();
  const models = [chosen(), compared()].filter(Boolean);
  byId("found-error").replaceChildren();
  if (!text.trim()) return void sayEmpty();
  await busy(byId("find"), "Reading…", async () => {
    try {
      const answers = await Promise.all(
        models.map((each) => ask("/predict", { text, model: each.name, types: addedFor(each) })),
      );
      state.text = text;
      state.readings = answers.map((each, number) => ({
        title: titleOf(models[number]),
        mentions: each.mentions,
      }));
      const named = new Set(models.flatMap(typesOf));
      showFound(text, state.readings, new Set([...allTypes()].filter((name) => named.has(name))), allTypes());
      byId("copy-found").hidden = false;
      // Where answers stand below the note, whoever pressed the button would see nothing happen.
      if (matchMedia("(max-width: 59.99rem)").matches) byId("answers").scrollIntoView();
    } catch (error) {
      showError(byId("found-error"), error);
    }
  });
}

function sayEmpty() {
  byId("summary").textContent = "The note is empty.";
  byId("note").focus();
}

function options(models) {
  return models.map((each) => make("option", { value: each.name }, titleOf(each)));
}

function showModels() {
  byId("model").replaceChildren(...options(state.models));
  showSecond();
}

/** Offer to compare with all others; the same platform's first. */
function showSecond() {
  const now = chosen();
  const before = byId("second").value;
  const others = state.models.filter((each) => each !== now);
  const isNear = (each) => each.platform !== null && each.platform === now.platform;
  others.sort((a, b) => Number(isNear(b)) - Number(isNear(a)));
  byId("second").replaceChildren(make("option", { value: "" }, "nothing"), ...options(others));
  if (others.some((each) => each.name === before)) byId("second").value = before;
  byId("second-field").hidden = others.length === 0;
  showAdding();
  showRedactChoices();
}

function showAdding() {
  const model = chosen();
  byId("added-why").textContent = model.can_add_types
    ? "The model looks for it without having seen an example. Treat the result as a first guess: types unlike " +
      "those that it was trained for are mostly missed."
    : `Not with this model. ${model.why_not}`;
  byId("add").hidden = !model.can_add_types;
  byId("added").hidden = !model.can_add_types;
}

function addType(event) {
  event.preventDefault();
  const name = byId("type-name").value.trim();
  const known = chosen().types.some((each) => each.name === name);
  byId("type-name").setCustomValidity(known ? "The model has this type already." : "");
  if (!byId("add").reportValidity() || !name) return;
  state.added.set(name, byId("type-text").value.trim());
  byId("add").reset();
  showAdded();
  byId("type-name").focus();
}

function showAdded() {
  const items = [...state.added].map(([name, text]) => {
    const remove = make("button", { type: "button", class: "small", "aria-label": `Remove ${name}` }, "Remove");
    remove.addEventListener("click", () => {
      state.added.delete(name);
      showAdded();
      byId("type-name").focus();
    });
    const words = make("span", {}, make("strong", {}, name), ` ${text}`);
    return make("li", {}, words, remove);
  });
  byId("added").replaceChildren(...items);
  showRedactChoices();
}

function showSamples(samples) {
  const buttons = samples.map((each) => {
    const words = each.platform.replace("-", " ");
    const name = words.charAt(0).toUpperCase() + words.slice(1);
    const button = make("button", { type: "button", class: "small", title: each.description }, name);
    button.addEventListener("click", () => {
      byId("note").value = each.text;
      noteChanged();
      const own = state.models.find((one) => one.platform === each.platform);
      if (own && chosen().platform !== each.platform) {
        byId("model").value = own.name;
        showSecond();
      }
    });
    return button;
  });
  byId("samples").replaceChildren(make("span", { class: "quiet" }, "Synthetic texts:"), ...buttons);
}

function noteChanged() {
  const text = noteText();
  const bytes = new TextEncoder().encode(text).length;
  const count = pointsOf(text).length;
  const isLong = bytes > state.mostBytes;
  byId("length").textContent = count
    ? `${count.toLocaleString("en")} characters${isLong ? ": too long for this service" : ""}`
    : "";
  byId("found").classList.toggle("stale", state.text !== "" && text !== state.text);
  byId("redacted").classList.add("stale");
}

async function copyFound() {
  const [one, ...more] = state.readings.map((each) => each.mentions);
  const done = await copyText(JSON.stringify(more.length ? [one, ...more] : one, null, 1));
  byId("summary").textContent = done ? "Copied as JSON." : "The browser did not allow copying.";
}

function sayWhere() {
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  byId("where").textContent = local
    ? "Texts stay on this machine. Nothing is stored."
    : `Texts go only to ${location.hostname}. Nothing is stored there.`;
}

async function start() {
  sayWhere();
  byId("ask").addEventListener("submit", findEntities);
  byId("add").addEventListener("submit", addType);
  byId("type-name").addEventListener("input", () => byId("type-name").setCustomValidity(""));
  byId("model").addEventListener("change", showSecond);
  byId("note").addEventListener("input", noteChanged);
  byId("copy-found").addEventListener("click", copyFound);
  byId("note").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
  });
  startRedaction();
  try {
    const [held, texts] = [await ask("/models"), await ask("/samples")];
    state.models = held.models;
    state.mostBytes = held.most_bytes;
    showModels();
    showSamples(texts.samples);
    noteChanged();
    document.body.dataset.ready = "yes";
  } catch (error) {
    showError(byId("found-error"), error);
  }
}

start();
