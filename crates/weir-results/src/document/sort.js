"use strict";
// Makes tables of class "sortable" sort by a click on a heading. Rows of class "because" stay below
// the row they explain, rows of class "group" above their group. Without this the page is complete.
for (const table of document.querySelectorAll("table.sortable")) {
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell ? cell.dataset.value ?? cell.textContent.trim() : "";
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, {numeric: true});
  };
  const sort = (heading, column) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const body of table.tBodies) {
      const units = [];
      for (const row of [...body.rows]) {
        if (row.classList.contains("group")) continue;
        if (row.classList.contains("because") && units.length) units.at(-1).push(row);
        else units.push([row]);
      }
      const keyed = units.map(rows => [key(rows[0], column), rows]);
      keyed.sort(([a], [b]) =>
        a === null || b === null ? compare(a, b) : down ? compare(b, a) : compare(a, b));
      for (const [, rows] of keyed) body.append(...rows);
    }
  };
  for (const heading of table.tHead.rows[0].cells) {
    if (heading.colSpan !== 1) continue;
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading, heading.cellIndex));
    heading.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort(heading, heading.cellIndex);
    });
  }
}
