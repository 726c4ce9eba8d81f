import { h, opened, question } from "./card.js";
import { Desk, newId } from "./desk.js";

const config = JSON.parse(document.getElementById("config").textContent);
const at = (id) => document.getElementById(id);
const AHEAD = 8;
const IN_GRID = 12;
const LOOK_MS = 5000;

let cards = [];          // loaded and not answered; the first are shown
let shown = [];          // questions on the page
let current = 0;         // the one that keys answer
let grid = false;
let group;               // row of the group that is filtered for
let loading = null;
let finished = false;
let waiting = false;     // more will be asked when these are answered
let soon;
const pending = new Set();  // rows answered here; the server may not have them yet
const given = [];        // ids of this page's answers, for undo

const reviewer = () => at("reviewer").value.trim() || config.reviewer;
at("reviewer").value = localStorage.getItem("reviewer") ?? config.reviewer;
at("reviewer").addEventListener("change", () => localStorage.setItem("reviewer", reviewer()));

const trouble = (text) => {
  at("trouble").textContent = text;
  at("trouble").hidden = !text;
};

const tell = (state) => {
  waiting = state.waiting;
  at("progress").max = state.budget;
  at("progress").value = Math.min(state.answered, state.budget);
  const pace = state.per_minute && state.answered < state.budget
    ? ` · ${Math.round(state.per_minute)} a minute, ${Math.max(1, Math.round((state.budget - state.answered) / state.per_minute))} min left` : "";
  at("pace").textContent = `${state.answered} of ${state.budget}${pace}`;
  const sentences = state.measured.sentences;
  at("said").replaceChildren(...(sentences.length ? sentences : ["Nothing yet."]).map((line) => h("p", {}, line)));
  at("conflicts").replaceChildren(...state.conflicts.map(({ row, labels, listed }) =>
    h("li", {}, `row ${row.toLocaleString("en")}: `,
      Object.entries(labels).map(([who, label]) => `${who}: ${label ?? "don’t know"}`).join(", "), " ",
      listed ? h("button", { type: "button", onclick: () => again(row) }, "look again") : "not on this list")));
  if (!given.length && state.last) given.push(state.last);
};

const desk = new Desk(config.answers, tell, trouble);

const filters = () => {
  const form = new FormData(at("filters"));
  const pair = form.get("pair");
  const found = { low: Number(form.get("low") || 0) / 100, high: Number(form.get("high") || 100) / 100 };
  if (pair) [found.given, found.likely] = pair.split(" ");
  if (group !== undefined) found.group = group;
  return found;
};

const show = () => {
  const n = grid ? IN_GRID : 1;
  current = Math.max(0, Math.min(current, Math.min(n, cards.length) - 1));
  shown = cards.slice(0, n).map((card, i) => question(card, config, answer, open, { grid, current: i === current }));
  if (shown.length) {
    at("desk").replaceChildren(h("div", { class: grid ? "gallery" : "one-by-one" }, shown.map((one) => one.element)));
  } else if (finished && waiting) {
    at("desk").replaceChildren(h("p", { class: "quiet" }, "Choosing the next rows …"));
    clearTimeout(soon);
    soon = setTimeout(() => desk.state(reviewer()).then(load, (error) => trouble(error.message)), 300);
  } else if (finished) {
    at("desk").replaceChildren(h("div", { class: "done" }, h("h2", {}, "Nothing more to ask."),
      h("p", {}, `The budget is used up, or the filters leave nothing.${config.optional ? " Train with the answers: " : ""}`),
      config.optional && h("p", {}, h("code", {}, `knnoise train … --corrections ${config.answers}`)) || null));
  } else at("desk").replaceChildren(h("p", { class: "quiet" }, "Loading …"));
};

const load = () => {
  const wanted = (grid ? IN_GRID : 1) + AHEAD - cards.length;
  if (loading || wanted <= 0) return loading;
  const known = [...cards.map((card) => card.row), ...pending];
  loading = desk.next(wanted, known.slice(-200), filters())
    .then((found) => {
      const had = new Set([...cards.map((card) => card.row), ...pending]);
      cards.push(...found.filter((card) => !had.has(card.row)));
      finished = found.length === 0;
    }, (error) => { trouble(error.message); })
    .finally(() => { loading = null; if (shown.length < Math.min(cards.length, grid ? IN_GRID : 1) || finished) show(); });
  return loading;
};

const answer = (card, label, all) => {
  const id = newId();
  const rows = [card.row, ...(all ? card.alike.map((one) => one.row) : [])];
  rows.forEach((row) => pending.add(row));
  given.push(id);
  cards = cards.filter((other) => !rows.includes(other.row));
  for (const other of cards) other.alike = other.alike.filter((one) => !pending.has(one.row));
  desk.answer({ id, row: card.row, label, reviewer: reviewer(), group: all });
  show();
  if (cards.length < AHEAD) desk.sending.then(load);
};

const undo = async () => {
  const id = given.pop();
  if (!id) return;
  try {
    const found = await desk.undo(id, reviewer());
    for (const card of found) {
      [card.row, ...card.alike.map((one) => one.row)].forEach((row) => pending.delete(row));
      cards = [card, ...cards.filter((other) => other.row !== card.row)];
    }
    current = 0;
    show();
  } catch (error) {
    given.push(id);  // it stands, and is the next to take back
    trouble(error.message);
  }
};

const again = async (row) => {
  try {
    const [card] = await desk.row(row);
    cards = [card, ...cards.filter((other) => other.row !== row)];
    current = 0;
    show();
    at("desk").focus();
  } catch (error) { trouble(error.message); }
};

/** A row beside a question, whole, before it and after it the others there. */
const open = async (card, one) => {
  try {
    const content = await desk.content(one.row);
    const rows = one.label === undefined ? card.alike : card.neighbors;
    const place = rows.findIndex((other) => other.row === one.row);
    const go = (text, key, to) => h("button", { type: "button", "data-key": key, disabled: !to, onclick: () => open(card, to) }, h("kbd", {}, key), ` ${text}`);
    at("opened").replaceChildren(
      h("div", { class: "answers" }, h("button", { type: "button", onclick: () => at("opened").close() }, h("kbd", {}, "Esc"), " back"),
        go("previous", "p", rows[place - 1]), go("next", "n", rows[place + 1])),
      ...opened(card, one, content, config));
    if (!at("opened").open) at("opened").showModal();
  } catch (error) { trouble(error.message); }
};

const restart = async () => {
  cards = [];
  finished = false;
  await desk.flush();
  await loading;
  show();
  load();
};

/** The table that rows are shown from may go, and come back, while this page is open. */
const look = async () => {
  const found = await desk.source();
  at("source").textContent = found.trouble;
  at("source").hidden = !found.trouble;
  if (found.columns.length === config.columns.length) return;
  config.columns = found.columns;
  restart();
};
const watch = () => look().catch(() => {}).finally(() => setTimeout(watch, LOOK_MS));  // answers say if the server is away

for (const [was, likely, rows] of config.pairs) {
  const text = was === likely ? `${config.labels[was]}, undisputed (${rows})` : `${config.labels[was]}, rather ${config.labels[likely]} (${rows})`;
  at("filters").elements.pair.append(h("option", { value: `${was} ${likely}` }, text));
}
at("filters").addEventListener("change", restart);
at("filters").addEventListener("submit", (event) => event.preventDefault());
at("same").addEventListener("click", () => {
  group = group === undefined ? shown[current]?.card.group : undefined;
  at("same").setAttribute("aria-pressed", String(group !== undefined));
  restart();
});
const toggle = () => {
  grid = !grid;
  at("grid").setAttribute("aria-pressed", String(grid));
  show();
  load();
};
at("grid").addEventListener("click", toggle);

const move = (step) => {
  current = Math.max(0, Math.min(shown.length - 1, current + step));
  show();
  shown[current]?.element.scrollIntoView({ block: "nearest" });
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.repeat && !event.key.startsWith("Arrow")) return;  // a key held down answers once
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (at("opened").open) {  // nothing is answered from here
    at("opened").querySelector(`[data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  const one = shown[current];
  const keys = {
    k: () => one && one.card.given >= 0 && one.answer(one.card.given),
    s: () => one && config.optional && one.answer(null),
    u: undo,
    Backspace: undo,
    a: () => {
      if (!one || !one.card.alike.length) return;
      one.all.checked = !one.all.checked;
      const alike = one.element.querySelector("details.alike");
      if (alike && one.all.checked) alike.open = true;  // seen before one answer counts for all
    },
    g: toggle,
    n: () => one && one.card.neighbors.length && open(one.card, one.card.neighbors[0]),
    ArrowRight: () => grid && move(1),
    ArrowLeft: () => grid && move(-1),
    ArrowDown: () => grid && move(4),
    ArrowUp: () => grid && move(-4),
  };
  const code = one?.keys.get(event.key);
  if (code !== undefined) one.answer(code);
  else if (!keys[event.key]) return;
  else if (event.key.startsWith("Arrow") && !grid) return;
  else keys[event.key]();
  event.preventDefault();
});

addEventListener("pagehide", () => desk.leave());

show();
if (config.watched) watch();
desk.state(reviewer()).then(() => desk.flush()).then(load, (error) => trouble(error.message));
