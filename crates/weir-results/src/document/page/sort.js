// Makes tables of class "sortable" sort by a click on a heading. Rows of class "because" stay below
// the row they explain, rows of class "group" above their group. Numbers in names count as such:
// 1K comes before 10K, and 64Ki before 1M. Without this the page is complete.
{
  const steps = {k: 1e3, K: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30};
  const parts = text => text.split(/(\d+(?:\.\d+)?(?:[KMG]i|[kKMG])?(?![a-z]))/i).map(part => {
    const found = /^(\d+(?:\.\d+)?)([KMG]i|[kKMG])?$/.exec(part);
    return found ? Number(found[1]) * (steps[found[2]] ?? 1) : part;
  });
  const natural = (a, b) => {
    const [left, right] = [parts(a), parts(b)];
    for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
      const [x, y] = [left[at], right[at]];
      if (x === y) continue;
      if (typeof x === "number" && typeof y === "number") return x - y;
      return String(x).localeCompare(String(y));
    }
    return left.length - right.length;
  };
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell ? cell.dataset.value ?? cell.textContent.trim() : "";
    const number = Number(text);
    return text === "" || text === "–" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return natural(String(a), String(b));
  };
  window.weirSort = table => {
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
  };
  for (const table of document.querySelectorAll("table.sortable")) window.weirSort(table);
}
