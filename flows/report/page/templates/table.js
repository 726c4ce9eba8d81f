"use strict";
for (const box of document.querySelectorAll("[data-table]")) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const key = (row, at) => {
    const cell = row.cells[at];
    const number = Number(cell.dataset.value);
    return cell.dataset.value !== undefined && !Number.isNaN(number) ? number : cell.textContent.trim();
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  heads.forEach((head, at) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.sort((a, b) => (up ? 1 : -1) * compare(key(a, at), key(b, at)));
      body.append(...rows);
    });
  });

  const search = box.querySelector("input[type=search]");
  const group = box.querySelector("select");
  const told = box.querySelector("output");
  if (!search || !told) continue;
  const filter = () => {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = (!group?.value || row.dataset.group === group.value)
        && [...row.cells].some((cell) => cell.textContent.toLowerCase().includes(wanted));
      row.hidden = !fits;
      shown += fits;
    }
    told.textContent = `${shown} of ${rows.length} rows`;
  };
  search.addEventListener("input", filter);
  group?.addEventListener("change", filter);
  filter();
}
