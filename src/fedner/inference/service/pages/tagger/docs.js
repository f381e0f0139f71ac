// Shows the OpenAPI document of the service: no foreign viewer, nothing loaded from elsewhere.

import { ask, make, showError } from "/static/session.js";

const EXAMPLES = {
  "/predict": { text: "Nausea after aspirin." },
  "/redact": { text: "Nausea after aspirin.", how: "pseudonym" },
};

async function show() {
  const main = document.getElementById("operations");
  try {
    const held = await ask("/openapi.json");
    document.getElementById("about").textContent = held.info.description;
    const cards = Object.entries(held.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => card(path, method, operation, held)),
    );
    main.replaceChildren(...cards);
  } catch (error) {
    showError(document.getElementById("error"), error);
  } finally {
    main.removeAttribute("aria-busy");
  }
}

function card(path, method, operation, held) {
  const name = `operation-${operation.operationId}`;
  const place = make("section", { class: "card", "aria-labelledby": name });
  const title = make("h2", { id: name });
  title.append(make("span", { class: "verb" }, method.toUpperCase()), make("code", {}, path));
  place.append(title, make("p", {}, `${operation.summary}.${operation.security.length ? "" : " Needs no token."}`));
  place.append(make("pre", { tabindex: "0", "aria-label": "Example" }, example(path)));
  if (operation.requestBody) place.append(...record("Takes", operation.requestBody, held));
  place.append(...record("Answers", operation.responses[200], held), ...problems(operation));
  return place;
}

function example(path) {
  const body = EXAMPLES[path];
  const data = body
    ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'`
    : "";
  return `curl ${location.origin}${path}${data}`;
}

function resolved(schema, held) {
  if (!schema?.$ref) return schema;
  return held.components.schemas[schema.$ref.split("/").pop()];
}

/** Return a table of the fields of a record, and one for each record within it. */
function record(title, content, held, schema = content.content["application/json"].schema) {
  const found = resolved(schema, held);
  const required = new Set(found.required ?? []);
  const fields = Object.entries(found.properties ?? {});
  const rows = fields.map(([name, field]) => [
    name,
    kind(field, held),
    [required.has(name) ? "" : standard(field), field.description ?? ""].filter(Boolean).join(" "),
  ]);
  const inner = fields
    .map(([name, field]) => [name, field.items?.$ref ?? field.anyOf?.find((each) => each.$ref)?.$ref])
    .filter(([, place]) => place);
  const shown = [make("h3", {}, title), box(title, table(["field", "kind", "meaning"], rows))];
  for (const [name, $ref] of inner) shown.push(...record(`${title}: ${name}`, content, held, { $ref }));
  return shown;
}

function standard(field) {
  const given = field.default ?? "";
  return given === "" || typeof given === "object" ? "Optional." : `By default ${given}.`;
}

function kind(field, held) {
  if (field.anyOf) return field.anyOf.map((each) => kind(each, held)).join(" or ");
  if (field.$ref) return "object";
  if (field.const !== undefined) return JSON.stringify(field.const);
  if (field.enum) return field.enum.map((each) => JSON.stringify(each)).join(", ");
  if (field.type === "array") return `list of ${kind(field.items, held)}`;
  if (field.additionalProperties) return "object of strings";
  return field.type ?? "any";
}

function problems(operation) {
  const rows = Object.entries(operation.responses)
    .filter(([code]) => code !== "200")
    .map(([code, each]) => [code, each.description]);
  const details = make("details", {}, make("summary", {}, "Possible errors"));
  details.append(box("Possible errors", table(["status", "meaning"], rows)));
  details.append(make("p", { class: "quiet" }, "Each is answered with { error, hint }."));
  return [details];
}

function box(name, inner) {
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, inner);
}

function table(names, rows) {
  const heads = make("tr");
  heads.append(...names.map((name) => make("th", { scope: "col" }, name)));
  const body = make("tbody");
  for (const cells of rows) {
    const line = make("tr");
    line.append(...cells.map((cell, column) => make("td", {}, column ? cell : make("code", {}, cell))));
    body.append(line);
  }
  const made = make("table");
  made.append(make("thead", {}, heads), body);
  return made;
}

show();
