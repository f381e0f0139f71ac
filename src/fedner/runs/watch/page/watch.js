// The page of a run that is watched: asks for the newest state, and shows it.

import { Chart, Lanes, swatch } from "./chart.js";
import { ask, make, showError } from "./session.js";

const WAIT = 1000; // milliseconds between two questions
const WAIT_HIDDEN = 10000;
const WAIT_OVER = 5000; // a run that is over may be resumed
const PHASES = {
  waiting: "Waiting",
  preparing: "Preparing",
  running: "Running",
  finishing: "Finishing",
  interrupted: "Interrupted",
  refused: "Refused",
  stopped: "Stopped",
  failed: "Failed",
  done: "Done",
};
const VIEWS = {
  local: "Simulation on this machine: all platforms",
  coordinator: "Coordinator\u2019s view: what platforms sent",
  platform: "Platform\u2019s own view",
};

const by = (id) => document.getElementById(id);
const count = (value) => Math.round(value).toLocaleString("en");
const number = (value, digits = 4) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  return String(Number(value.toPrecision(size < 0.001 ? 2 : digits)));
};
const small = (value) => (value < 0.001 ? value.toExponential().replace("e-", "e\u2212") : String(value));
const percent = (value) => (100 * value).toFixed(1);

function bytes(value) {
  if (value === 0) return "0";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, value)) / 3));
  const shown = value / 1000 ** power;
  return `${power ? Number(shown.toPrecision(3)) : Math.round(shown)} ${units[power]}`;
}

function duration(seconds) {
  if (seconds < 1) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

const seconds = (value) => (value === 0 ? "0 s" : value < 60 ? `${number(value, 3)} s` : duration(value));

const charts = {
  loss: new Chart({ id: "loss", title: "Training loss", format: (value) => number(value) }),
  f1: new Chart({ id: "f1", title: "Strict F1", format: (value, isTick) => (isTick ? number(100 * value) : percent(value)), limits: [0, 1] }),
  epsilon: new Chart({ id: "epsilon", title: "Epsilon spent", format: (value) => number(value, 3), fromZero: true }),
  traffic: new Chart({ id: "traffic", title: "Bytes of tensors, all rounds together", format: bytes, fromZero: true }),
  marks: new Lanes({ id: "marks", title: "Platforms missing, updates refused" }),
  pace: new Chart({ id: "pace", title: "Seconds for a round", format: seconds }),
};
for (const chart of Object.values(charts)) by("charts").append(chart.element);

/** Return the curves of a chart, each with the style of its platform. */
function series(curves, names) {
  return curves.map((each) => ({
    name: each.name,
    index: names.indexOf(each.name),
    points: each.points,
    isTotal: each.is_total,
  }));
}

function show(state) {
  const names = state.platforms.map((each) => each.name);
  showProblem(state.problem);
  showHead(state);
  showFacts(state);
  showVerdict(state);
  showPlatforms(state);
  showCharts(state, names);
  showIncidents(state);
}

function showProblem(problem) {
  if (problem) showError(by("problem"), { message: problem.message, hint: problem.hint });
  else by("problem").replaceChildren();
}

function showHead(state) {
  const { standing } = state;
  by("title").textContent = state.title || "No run yet";
  const whose = state.view === "platform" ? `${VIEWS.platform}: ${state.platform}` : VIEWS[state.view];
  by("view").textContent = state.run && state.run !== state.title ? `${whose} \u00b7 run ${state.run}` : whose;
  const badge = by("badge");
  badge.textContent = PHASES[standing.phase];
  badge.dataset.phase = standing.phase;
  const waits = standing.waiting_for.length ? standing.waiting_for.join(", ") : "";
  const who = waits && standing.phase !== "refused" ? `waiting for ${waits}` : "";
  const said = [who, standing.words].filter(Boolean).join(": ");
  setText(by("words"), said);
  const rounds = state.rounds ? `${count(state.round)}/${count(state.rounds)}` : count(state.round);
  document.title = `${PHASES[standing.phase]} ${rounds} - ${state.title || "fedner watch"}`;
  const bar = by("progress");
  bar.hidden = !state.rounds;
  bar.max = state.rounds ?? 1;
  bar.value = state.round;
  // Read out when the state changes, and at every tenth of the way; not at every round.
  const tenth = state.rounds ? Math.floor((10 * state.round) / state.rounds) : 0;
  const heard = `${PHASES[standing.phase]}. ${said ? `${said}. ` : ""}${tenth ? `${10 * tenth} percent of the rounds are done.` : ""}`;
  setText(by("heard"), heard);
}

function setText(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function showFacts(state) {
  const up = state.platforms.reduce((sum, each) => sum + each.bytes_up, 0);
  const down = state.platforms.reduce((sum, each) => sum + each.bytes_down, 0);
  const spent = state.platforms.map((each) => each.epsilon).filter((each) => each !== null);
  const refused = state.platforms.reduce((sum, each) => sum + each.refused, 0);
  const missing = state.platforms.reduce((sum, each) => sum + each.missing, 0);
  const facts = [
    ["Rounds", state.rounds ? `${count(state.round)} of ${count(state.rounds)}` : count(state.round)],
    ["Time left", state.seconds_left === null ? "\u2013" : `about ${duration(state.seconds_left)}`],
    ["Time in rounds", state.seconds ? duration(state.seconds) : "\u2013"],
    ["Sent by platforms", bytes(up)],
    ["Sent to platforms", bytes(down)],
    ["Refused, missing", `${count(refused)}, ${count(missing)}`],
  ];
  if (state.privacy) {
    const most = spent.length ? number(Math.max(...spent), 3) : "\u2013";
    facts.push([`Epsilon at delta ${small(state.privacy.delta)}`, most]);
  }
  by("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function showVerdict(state) {
  const [first, ...others] = state.verdict;
  if (!first) {
    by("verdict").replaceChildren();
    return;
  }
  const box = make("div", { class: "verdict" }, make("p", { class: "first" }, first));
  for (const each of others) box.append(make("p", {}, each));
  by("verdict").replaceChildren(box);
}

function showPlatforms(state) {
  const methods = [...new Set(state.platforms.flatMap((each) => Object.keys(each.final)))];
  const hasLoss = state.platforms.some((each) => each.loss !== null);
  const hasF1 = state.platforms.some((each) => each.f1 !== null);
  const hasEpsilon = Boolean(state.privacy);
  const hasLedger = state.platforms.some((each) => each.in_all !== null);
  const columns = [
    ["Platform", (each) => each.name],
    ["Now", (each) => standingOf(each, state)],
    hasLoss && ["Loss", (each) => (each.loss === null ? "" : number(each.loss)), true],
    hasF1 && [state.is_noised ? "F1, noised" : "Strict F1", (each) => (each.f1 === null ? "" : percent(each.f1)), true],
    ...methods.map((method) => [`End: ${method}`, (each) => (method in each.final ? percent(each.final[method]) : ""), true]),
    ["Bytes up", (each) => bytes(each.bytes_up), true],
    ["Bytes down", (each) => bytes(each.bytes_down), true],
    hasEpsilon && ["Epsilon", (each) => (each.epsilon === null ? "" : number(each.epsilon, 3)), true],
    hasLedger && ["Over all runs", (each) => (each.in_all === null ? "" : `${number(each.in_all, 3)}${each.granted === null ? "" : ` of ${number(each.granted, 3)}`}`), true],
    ["Refused", (each) => count(each.refused), true],
    ["Missing", (each) => count(each.missing), true],
  ].filter(Boolean);
  const lead = {
    local: "Strict F1 in percent on each platform\u2019s own test part.",
    coordinator: "What each platform sent. What it kept is only on the platform.",
    platform: "What this platform sent and received. Other platforms\u2019 numbers are not here.",
  };
  by("platforms-lead").textContent = lead[state.view];
  const head = make("tr", {}, ...columns.map(([name, , isNumber]) => make("th", { scope: "col", class: isNumber ? "number" : null }, name)));
  const rows = state.platforms.map((each, place) => {
    const cells = columns.map(([, shown, isNumber], column) => {
      const cell = make(column ? "td" : "th", column ? { class: isNumber ? "number" : null } : { scope: "row" });
      if (!column) cell.append(swatch(place));
      cell.append(shown(each));
      return cell;
    });
    return make("tr", { class: each.is_missing && !state.standing.is_over ? "is-missing" : null }, ...cells);
  });
  by("platforms").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function standingOf(each, state) {
  const { phase, waiting_for: waits, is_over: isOver } = state.standing;
  if (phase === "refused" && waits.includes(each.name)) return "refuses";
  if (waits.includes(each.name)) return "\u26a0 waited for";
  if (each.is_missing) return isOver ? "missing at last" : "\u26a0 missing";
  if (phase === "done") return "done";
  return state.round && ["running", "finishing"].includes(phase) ? "takes part" : "";
}

function showCharts(state, names) {
  const { notes } = state;
  charts.loss.show({ series: series(state.loss, names), empty: notes.loss, lead: state.loss.length ? "Lower is better. Each platform on its own training part." : "" });
  charts.f1.show({
    series: series(state.f1, names),
    references: Object.entries(state.references)
      .filter(() => state.f1.length)
      .map(([name, value]) => ({ name, index: names.indexOf(name), value })),
    empty: notes.f1,
    lead: state.f1.length ? `${state.is_noised ? "From noised counts; in percent" : "In percent"}, on each platform\u2019s own test part.` : "",
  });
  charts.epsilon.show({ series: series(state.epsilon, names), empty: notes.epsilon, lead: state.epsilon.length ? privacyWords(state.privacy) : "" });
  // Styles that no platform has nearby: these are lines of all of them.
  const ways = { up: ["sent by platforms", -1], down: ["sent to platforms", 5] };
  charts.traffic.show({
    series: state.traffic.map((each) => ({ name: ways[each.name][0], index: ways[each.name][1], points: each.points, isTotal: true })),
    empty: "Nothing has been sent yet.",
  });
  const rows = Object.fromEntries(state.platforms.map((each) => [each.name, each]));
  charts.marks.show({
    lanes: state.marks.map((each) => ({ ...each, numMissing: rows[each.name]?.missing ?? 0, numRefused: rows[each.name]?.refused ?? 0 })),
    end: state.round,
    empty: state.round ? "Nobody: every platform that was asked answered, and no update was refused." : "No round is done yet.",
  });
  charts.pace.show({ series: state.pace.map((each) => ({ name: "a round", index: -1, points: each.points, isTotal: false })), empty: "No round is done yet." });
}

function privacyWords(privacy) {
  if (!privacy) return "";
  const target = privacy.target === null ? "" : ` The noise was calibrated for ${privacy.target}.`;
  const warning = privacy.is_simulation ? " Simulation: the noise has a seed, nobody is protected." : "";
  return `By ${privacy.mechanism}, for one ${privacy.unit}, at delta ${small(privacy.delta)} (${privacy.accountant.toUpperCase()}).${target}${warning}`;
}

function showIncidents(state) {
  const place = by("incidents");
  by("incidents-card").hidden = !state.num_incidents;
  if (!state.num_incidents) return;
  const rows = state.incidents.slice(0, 20).map((each) =>
    make("li", {}, make("strong", {}, each.platform), ` ${each.kind === "refused" ? "update refused" : `no answer (${each.asked})`} in round ${count(each.round ?? 0)}: ${each.why}`),
  );
  const more = state.num_incidents - rows.length;
  place.replaceChildren(make("ul", { class: "incidents" }, ...rows), ...(more > 0 ? [make("p", { class: "quiet" }, `and ${count(more)} before`)] : []));
}

let tag = "";
let newest = null;

async function watch() {
  for (;;) {
    try {
      const answer = await ask(`/state?since=${encodeURIComponent(tag)}`);
      if (by("problem").dataset.away) {
        delete by("problem").dataset.away;
        by("problem").replaceChildren();
      }
      if (answer.tag) {
        tag = answer.tag;
        newest = answer.state;
        show(newest);
      }
    } catch (error) {
      by("problem").dataset.away = "1";
      showError(by("problem"), { message: "fedner watch no longer answers", hint: "This page shows the last answer. Start it again, and this page goes on." });
      console.debug(error);
      tag = "";
    }
    const isOver = newest?.standing.is_over;
    await new Promise((resolve) => {
      const wait = document.hidden ? WAIT_HIDDEN : isOver ? WAIT_OVER : WAIT;
      const timer = setTimeout(resolve, wait);
      document.addEventListener("visibilitychange", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}

watch();
