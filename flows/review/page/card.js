// One question as elements; all text from data is set as text, never as markup.
export const h = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
};

const NEAR = 6;

/** What a column of the file was to the training, where it was no feature. */
const role = (name, config) =>
  name === config.label_name ? "label" : name === config.id_name ? "id"
  : config.features.some((one) => one === name || one.startsWith(`${name}=`) || one.startsWith(`${name}[`)) ? null : "no feature";

/** Names and values of a row that is neither a picture nor a text. */
const columns = (content, config) => {
  if (content.image || content.text) return null;
  if (content.cells) return [config.columns, content.cells];
  return content.features ? [config.features.slice(0, content.features.length), content.features.map(String)] : null;
};

/** The columns of a row, and of others beside it; what is equal there is pale. */
const cells = (own, others, config, caption) => {
  const [names, values] = columns(own, config);
  const order = names.map((name, at) => [name, at, role(name, config)])
    .sort((a, b) => ["id", "label", "no feature", null].indexOf(a[2]) - ["id", "label", "no feature", null].indexOf(b[2]));
  const beside = others.map((one) => columns(one.content, config)[1]);
  const whole = (value) => value.length > 400 ? h("div", { class: "long", tabindex: "0" }, value) : value;
  const cell = (value, equal) => h("td", { class: value === null ? "gap" : equal ? "equal" : undefined }, value === null ? "gap" : whole(value));
  return h("div", { class: "scroll cells", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, others.length ? h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "this row"),
      others.map((one) => h("th", { scope: "col", class: one.kind }, one.head)))) : null,
      h("tbody", {}, order.map(([name, at, kind]) => h("tr", {},
        h("th", { scope: "row" }, name, kind && kind !== "id" ? h("small", {}, kind) : null), cell(values[at], false),
        beside.map((other) => cell(other[at], other[at] === values[at])))))));
};

/** What there is to see of a row; a small one as a picture or the beginning of a text. */
const exhibit = (row, content, config, small) => {
  if (content.image) {
    const image = h("img", { src: content.image, alt: `row ${row}`, referrerpolicy: "no-referrer" });
    return content.text && !small ? [image, h("p", {}, content.text)] : image;
  }
  if (content.text) return h(small ? "span" : "p", {}, content.text);
  if (small) return null;
  return columns(content, config) && cells(content, [], config, content.cells ? "Columns" : "Features");
};

/** [key, code] of the labels that a key answers: a label that is a digit by itself, others by the
 * digits that are none; of more labels than keys the first choices by their place. */
const keyed = (card, config) => {
  const digits = config.labels.filter((label) => /^\d$/.test(label));
  const own = config.labels.length <= Math.max(9, digits.length) ? digits : [];
  const free = [..."123456789"].filter((key) => !own.includes(key));
  return card.choices.slice(0, own.length + free.length)
    .map((code) => [own.includes(config.labels[code]) ? config.labels[code] : free.shift(), code]).sort();
};

const kind = (label, card) => (label === card.likely ? "likely" : label === card.given ? "given" : "");

/** A row beside a question; it opens by a click. */
const opener = (one, card, onOpen, ...inside) =>
  h("button", { type: "button", class: "open", title: "open this row", onclick: () => onOpen(card, one) }, inside);

const words = (one, config) =>
  one.label === undefined ? `row ${one.row.toLocaleString("en")}`
  : [config.labels[one.label] ?? "no label", h("small", {}, `${one.distance.toPrecision(3)} away`)];

const near = (rows, card, config, onOpen) =>
  h("ul", { class: card.content.text && !card.content.image ? "near texts" : "near" }, rows.map((one) => h("li", { class: kind(one.label, card) },
    opener(one, card, onOpen, exhibit(one.row, one.content, config, true), words(one, config)))));

/** A row that was opened, whole, beside the question's. */
export const opened = (card, one, content, config) => {
  const id = content.cells?.[config.columns.indexOf(config.id_name)];
  const said = one.label === undefined ? "alike" : `labeled ${config.labels[one.label] ?? "not yet"} · at distance ${one.distance.toPrecision(3)}`;
  const both = [["this row", card.row, card.content], ["opened", one.row, content]];
  return [h("h2", {}, `Row ${one.row.toLocaleString("en")}`),
    h("p", { class: "quiet" }, `${id ? `${config.id_name} ${id} · ` : ""}${said}`),
    both.every(([, , each]) => columns(each, config))
      ? cells(card.content, [{ content, kind: kind(one.label, card), head: `row ${one.row.toLocaleString("en")}` }], config, "This row and the one opened")
      : h("div", { class: "pair" }, both.map(([title, row, each]) =>
        h("div", { class: "exhibit" }, h("h3", {}, title), exhibit(row, each, config, false))))];
};

/** `on`: what happens on (card, label, with its group); `onOpen`: on (card, a row beside it). */
export const question = (card, config, on, onOpen, { grid = false, current = false } = {}) => {
  const label = (code) => config.labels[code];
  const agrees = card.given === card.likely;
  const asked = card.given < 0 ? "Which label?" : agrees
    ? `Labeled ${label(card.given)}, as its neighbors are.`
    : `Labeled ${label(card.given)}. Rather ${label(card.likely)}?`;
  const all = h("input", { type: "checkbox", class: "all" });
  const answer = (code) => on(card, code, all.checked);
  const keys = keyed(card, config);
  const buttons = keys.map(([key, code]) =>
    h("button", { type: "button", class: kind(code, card), onclick: () => answer(code), "data-label": code },
      h("kbd", {}, key), ` ${label(code)}`,
      code === card.given ? h("span", { class: "tag" }, "as given") : code === card.likely ? h("span", { class: "tag" }, "likely") : null));
  const others = card.choices.slice(keys.length);
  const give = h("button", { type: "button", disabled: true, onclick: () => answer(Number(more.value)) }, "answer");
  const more = h("select", { "aria-label": "another label", onchange: () => { give.disabled = !more.value; } },  // each key changes it
    h("option", { value: "" }, "another …"), others.map((code) => h("option", { value: code }, label(code))));
  const skip = config.optional && h("button", { type: "button", onclick: () => answer(null) }, h("kbd", {}, "s"), " don’t know");
  const voters = card.votes.reduce((a, b) => a + b, 0);
  const facts = card.given < 0 ? `row ${card.row.toLocaleString("en")} · worth most now`
    : `row ${card.row.toLocaleString("en")} · ${Math.round(100 * card.wrong)} % likely wrong`
    + (card.random ? " · drawn at random" : card.moved ? ` · moves ${card.moved} other verdict${card.moved > 1 ? "s" : ""}` : "");
  const pictures = card.content.image !== undefined;
  const inFile = config.columns.length > 0 && card.content.cells !== undefined && !grid;
  const beside = (rows, caption) =>
    cells(card.content, rows.filter((one) => one.content.cells).map((one) =>
      ({ content: one.content, kind: kind(one.label, card), head: opener(one, card, onOpen, words(one, config)) })), config, caption);
  const id = inFile ? card.content.cells[config.columns.indexOf(config.id_name)] : card.content.id;
  const element = h("article", { class: inFile ? "card in-file" : "card", "data-row": card.row, "aria-current": grid && current ? "true" : undefined },
    inFile ? null : h("div", { class: "exhibit" }, exhibit(card.row, card.content, config, false)),
    h("div", {}, h("h2", {}, asked), h("p", { class: "quiet" }, id === undefined || id === null ? facts : `${config.id_name} ${id} · ${facts}`), h("div", { class: "answers" }, buttons, others.length ? [more, give] : null, skip || null)),
    grid ? null : h("div", {},
      h("h3", {}, voters ? `Nearest rows; ${card.votes[card.likely]} of ${voters} neighbors are ${label(card.likely)}` : "Nearest rows, none labeled yet"),
      inFile ? beside(card.neighbors.slice(0, NEAR), "This row and the nearest") : near(pictures ? card.neighbors : card.neighbors.slice(0, NEAR), card, config, onOpen)),
    card.alike.length === 0 ? null : h("div", {},
      h("h3", {}, h("label", {}, all, ` the same answer for ${card.alike.length} alike `, h("kbd", {}, "a"))),
      grid ? null : pictures ? near(card.alike, card, config, onOpen)
      : h("details", { class: "alike" }, h("summary", {}, `look through all ${card.alike.length}`),
        inFile ? beside(card.alike, "This row and those alike") : near(card.alike, card, config, onOpen))));
  return { element, card, all, answer, keys: new Map(keys) };
};
