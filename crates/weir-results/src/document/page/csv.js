// A file of every table: rows that are shown, groups as a column, and what stands under a figure in
// brackets. Columns with `data-raw` have their values in that unit, and not as they are written.
{
  const text = node => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const inner = [...node.childNodes].map(text).join("");
    const isUnder = node.classList?.contains("under") || node.classList?.contains("unit");
    return isUnder && inner.trim() ? ` (${inner})` : inner;
  };
  const plain = cell => text(cell).replace(/\s+/g, " ").trim();
  const quoted = value => /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  const csv = table => {
    const heads = [];
    for (const head of table.tHead.rows[0].cells) {
      const raw = head.dataset.raw;
      heads.push({raw, text: plain(head) + (raw ? `, ${raw}` : "")});
      if (head.colSpan === 2) heads.push({text: `${plain(head)}, share`});
    }
    const reasons = table.querySelector(".because") ? ["Because"] : [];
    const groups = table.dataset.groups ? [table.dataset.groups] : [];
    const lines = [[...groups, ...heads.map(head => head.text), ...reasons]];
    let group = "";
    for (const row of [...table.tBodies].flatMap(body => body.hidden ? [] : [...body.rows])) {
      if (row.hidden) continue;
      if (row.classList.contains("group")) group = plain(row.cells[0]);
      else if (row.classList.contains("because")) {
        const all = [...row.querySelectorAll(".reason")].map(plain).join("; ");
        lines.at(-1).push(all);
      } else {
        const cells = [...row.cells].map((cell, index) =>
          heads[index]?.raw ? cell.dataset.value ?? "" : plain(cell));
        lines.push([...groups.map(() => group), ...cells]);
      }
    }
    return lines.map(line => line.map(quoted).join(",")).join("\r\n") + "\r\n";
  };
  window.weirSave = (name, content, type) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const names = new Map();
  for (const table of document.querySelectorAll("table")) {
    const section = table.closest("section")?.querySelector("[id]") ?? table.closest("section");
    const base = table.closest("section")?.id || section?.id || "table";
    const count = (names.get(base) ?? 0) + 1;
    names.set(base, count);
    const line = document.createElement("div");
    line.className = "csv";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "CSV";
    button.title = "Save this table as a file";
    const name = count === 1 ? `${base}.csv` : `${base}-${count}.csv`;
    button.addEventListener("click", () => window.weirSave(name, csv(table), "text/csv"));
    line.append(button);
    table.after(line);
    table.weirCsv = () => csv(table);
  }
}
