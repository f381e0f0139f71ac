// How a page speaks with the service: JSON, and the token where one is asked for.
//
// The token comes from the #token=... of the address, which no browser sends, or from a form. It is
// kept in this tab alone and sent as a header.

const KEPT = "fedner-token";

export class ServiceError extends Error {
  constructor(status, error, hint) {
    super(error);
    this.status = status;
    this.hint = hint;
  }
}

/** Take the token out of the address, so that neither history nor a screenshot has it. */
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(KEPT, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

takeToken();
window.addEventListener("hashchange", takeToken);

/** Return the JSON of an answer; a body makes it a POST. Asks for the token where it is wrong. */
export async function ask(path, body, { signal } = {}) {
  for (;;) {
    const answer = await send(path, body, signal);
    if (answer.status === 401) {
      await signIn(sessionStorage.getItem(KEPT) !== null);
      continue;
    }
    const held = await json(answer);
    if (!answer.ok) {
      throw new ServiceError(answer.status, held.error ?? "the service gave no answer", held.hint ?? "");
    }
    return held;
  }
}

async function send(path, body, signal) {
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(KEPT);
  // What is no ASCII cannot be sent in a header, and is no token.
  if (token && /^[\x21-\x7e]+$/.test(token)) headers.Authorization = `Bearer ${token}`;
  const request = { headers, signal, cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "the service does not answer", "Is it still running?");
  }
}

async function json(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}

let signingIn = null;

/** Ask for the token; several requests at a time wait for the same form. */
function signIn(wasWrong) {
  signingIn ??= showForm(wasWrong).finally(() => {
    signingIn = null;
  });
  return signingIn;
}

function showForm(wasWrong) {
  const dialog = make("dialog", { "aria-labelledby": "sign-in-title" });
  const form = make("form", { method: "dialog" });
  const input = make("input", {
    type: "password",
    id: "sign-in-token",
    autocomplete: "current-password",
    required: "",
    "aria-describedby": "sign-in-why",
  });
  const field = make("div", { class: "field" });
  field.append(make("label", { for: "sign-in-token" }, "Token"), input);
  const why = wasWrong
    ? "That token is wrong. Ask the person who started this service."
    : "This service asks for a token. The person who started the service has it.";
  form.append(
    make("h2", { id: "sign-in-title" }, "Sign in"),
    make("p", { id: "sign-in-why", role: wasWrong ? "alert" : null }, why),
    field,
    make("button", { type: "submit", class: "main" }, "Sign in"),
  );
  dialog.append(form);
  document.body.append(dialog);
  dialog.addEventListener("cancel", (event) => event.preventDefault()); // nothing works without it
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEPT, input.value.trim());
      dialog.close();
      dialog.remove();
      resolve();
    });
  });
}

/** Return an element with attributes and text; nothing is ever read as HTML. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Show an error in a place that is read out. */
export function showError(place, error) {
  const box = make("div", { class: "notice bad" }, make("strong", {}, sentence(error.message)));
  if (error.hint) box.append(error.hint);
  place.replaceChildren(box);
}

function sentence(words) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Put text on the clipboard; also where the address is not secure enough for the new way. */
export async function copyText(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Permission was refused: the old way asks for none.
    }
  }
  const area = make("textarea", { readonly: "", class: "heard", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  const before = document.activeElement;
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  return done;
}
