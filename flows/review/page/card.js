// One question as elements; all text from data is set as text, never as markup.
export const h = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

const picture = (values, [height, width], title) => {
  const canvas = h("canvas", { width, height, role: "img", "aria-label": title });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(width, height);
  const low = Math.min(...values);
  const spread = Math.max(...values) - low || 1;
  values.forEach((value, at) => {
    const gray = Math.round((255 * (value - low)) / spread);
    pixels.data.set([gray, gray, gray, 255], 4 * at);
  });
  context.putImageData(pixels, 0, 0);
  return canvas;
};

const table = (values, names) =>
  h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Features" },
    h("table", {}, h("tbody", {}, values.map((value, at) =>
      h("tr", {}, h("th", { scope: "row" }, names[at]), h("td", { class: "n" }, String(value)))))));

const NEAR = 6;

/** What a column of the file was to the training, where it was no feature. */
const role = (name, config) =>
  name === config.label_name ? "label" : name === config.id_name ? "id"
  : config.features.some((one) => one === name || one.startsWith(`${name}=`) || one.startsWith(`${name}[`)) ? null : "no feature";

/** The file's columns of a row, and of others beside it; what is equal there is pale. */
const cells = (own, others, config, caption) => {
  const order = config.columns.map((name, at) => [name, at, role(name, config)])
    .sort((a, b) => ["id", "label", "no feature", null].indexOf(a[2]) - ["id", "label", "no feature", null].indexOf(b[2]));
  const cell = (value, equal) => h("td", { class: value === null ? "gap" : equal ? "equal" : undefined }, value === null ? "gap" : value);
  return h("div", { class: "scroll cells", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, others.length ? h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "this row"),
      others.map((one) => h("th", { scope: "col", class: one.kind }, one.title, h("small", {}, one.below))))) : null,
      h("tbody", {}, order.map(([name, at, kind]) => h("tr", {},
        h("th", { scope: "row" }, name, kind && kind !== "id" ? h("small", {}, kind) : null), cell(own.cells[at], false),
        others.map((one) => cell(one.cells[at], one.cells[at] === own.cells[at])))))));
};

/** What there is to see of a row; a small one only as a picture. */
const exhibit = (row, content, config, small) => {
  if (content.image) return h("img", { src: content.image, alt: `row ${row}`, referrerpolicy: "no-referrer" });
  if (config.shape && content.features) return picture(content.features, config.shape, `row ${row}`);
  if (small) return null;
  const parts = [];
  if (content.cells) parts.push(cells(content, [], config, "Columns"));
  else if (content.text) parts.push(h("p", {}, content.text));
  else if (content.features) parts.push(table(content.features, config.features));
  return parts.length ? h("div", {}, parts) : null;
};

const kind = (label, card) => (label === card.likely ? "likely" : label === card.given ? "given" : "");

const near = (rows, card, config, words) =>
  h("ul", { class: "near" }, rows.map((one) =>
    h("li", { class: one.label === undefined ? "" : kind(one.label, card) },
      exhibit(one.row, one.content, config, true), words(one))));

/** `on`: what happens on (card, label, with its group). */
export const question = (card, config, on, { grid = false, current = false } = {}) => {
  const label = (code) => config.labels[code];
  const agrees = card.given === card.likely;
  const asked = card.given < 0 ? "Which label?" : agrees
    ? `Labeled ${label(card.given)}, as its neighbors are.`
    : `Labeled ${label(card.given)}. Rather ${label(card.likely)}?`;
  const all = h("input", { type: "checkbox", class: "all" });
  const answer = (code) => on(card, code, all.checked);
  const buttons = card.choices.slice(0, 9).map((code, at) =>
    h("button", { type: "button", class: kind(code, card), onclick: () => answer(code), "data-label": code },
      h("kbd", {}, String(at + 1)), ` ${label(code)}`,
      code === card.given ? h("span", { class: "tag" }, "as given") : code === card.likely ? h("span", { class: "tag" }, "likely") : null));
  const others = card.choices.slice(9);
  const more = others.length === 0 ? null : h("select", { "aria-label": "another label", onchange: (event) => answer(Number(event.target.value)) },
    h("option", { value: "" }, "another …"), others.map((code) => h("option", { value: code }, label(code))));
  const skip = config.optional && h("button", { type: "button", onclick: () => answer(null) }, h("kbd", {}, "s"), " don’t know");
  const voters = card.votes.reduce((a, b) => a + b, 0);
  const facts = card.given < 0 ? `row ${card.row.toLocaleString("en")} · worth most now`
    : `row ${card.row.toLocaleString("en")} · ${Math.round(100 * card.wrong)} % likely wrong`
    + (card.random ? " · drawn at random" : card.moved ? ` · moves ${card.moved} other verdict${card.moved > 1 ? "s" : ""}` : "");
  const inFile = config.columns.length > 0 && card.content.cells !== undefined && !grid;
  const beside = (rows, caption, more) => inFile
    ? cells(card.content, rows.filter((one) => one.content.cells).map((one) => ({ cells: one.content.cells, ...more(one) })), config, caption)
    : null;
  const id = inFile ? card.content.cells[config.columns.indexOf(config.id_name)] : undefined;
  const element = h("article", { class: inFile ? "card in-file" : "card", "data-row": card.row, "aria-current": grid && current ? "true" : undefined },
    inFile ? null : h("div", { class: "exhibit" }, exhibit(card.row, card.content, config, false)),
    h("div", {}, h("h2", {}, asked), h("p", { class: "quiet" }, id === undefined || id === null ? facts : `${config.id_name} ${id} · ${facts}`), h("div", { class: "answers" }, buttons, more, skip || null)),
    grid ? null : h("div", {},
      h("h3", {}, voters ? `Nearest rows; ${card.votes[card.likely]} of ${voters} neighbors are ${label(card.likely)}` : "Nearest rows, none labeled yet"),
      beside(card.neighbors.slice(0, NEAR), "This row and the nearest", (one) =>
        ({ title: label(one.label) ?? "no label", below: one.distance.toPrecision(3), kind: kind(one.label, card) }))
      ?? near(card.neighbors, card, config, (one) => [h("div", {}, label(one.label) ?? "no label"), h("small", {}, one.distance.toPrecision(3))])),
    card.alike.length === 0 ? null : h("div", {},
      h("h3", {}, h("label", {}, all, ` the same answer for ${card.alike.length} alike `, h("kbd", {}, "a"))),
      grid ? null : inFile ? h("details", { class: "alike" }, h("summary", {}, `look through all ${card.alike.length}`),
        beside(card.alike, "This row and those alike", (one) => ({ title: `row ${one.row.toLocaleString("en")}`, below: "", kind: "" })))
      : near(card.alike, card, config, (one) => [h("small", {}, `row ${one.row.toLocaleString("en")}`)])));
  return { element, card, all, answer };
};
