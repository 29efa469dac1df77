// Tells what a point stands for, and opens the records that the page holds: a link into the store
// that leads to one of them opens it here, wherever the page lies. Without this, links lead into
// the store, and a browser shows what stands in the points' titles.
{
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const place = event => {
    const width = tip.offsetWidth, height = tip.offsetHeight;
    const x = Math.min(event.clientX + 14, innerWidth - width - 8);
    const above = event.clientY - height - 12;
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${above < 8 ? event.clientY + 16 : above}px`;
  };
  // Of points that lie upon each other, the one whose middle is nearest.
  const nearest = event => {
    const distance = shape => {
      const box = shape.getBoundingClientRect();
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      return shape.tagName === "circle" ? Math.hypot(x - event.clientX, y - event.clientY) : 1e9;
    };
    const shapes = document.elementsFromPoint(event.clientX, event.clientY)
      .filter(shape => shape.closest(".hit"));
    return shapes.sort((a, b) => distance(a) - distance(b))[0]?.closest(".hit");
  };
  let shown = null;
  const show = event => {
    const hit = event && nearest(event);
    shown?.classList.remove("shown");
    shown = hit;
    tip.hidden = !hit;
    if (!hit) return;
    hit.classList.add("shown");
    tip.textContent = hit.getAttribute("aria-label");
    place(event);
  };
  for (const hit of document.querySelectorAll(".hit")) {
    const title = hit.querySelector("title");
    hit.setAttribute("aria-label", title.textContent);
    title.remove();
    hit.addEventListener("pointerenter", show);
    hit.addEventListener("pointermove", show);
    hit.addEventListener("pointerleave", () => show(null));
  }

  const data = document.getElementById("records");
  const records = data ? JSON.parse(data.textContent) : {};
  const dialog = document.createElement("dialog");
  dialog.className = "record";
  document.body.append(dialog);
  dialog.addEventListener("click", event => {
    if (event.target === dialog) dialog.close();
  });
  const element = (name, content) => {
    const made = document.createElement(name);
    made.textContent = content;
    return made;
  };
  const button = (content, act) => {
    const made = element("button", content);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const facts = trial => {
    const list = document.createElement("dl");
    list.className = "list";
    const entry = (name, value) => {
      const line = document.createElement("div");
      line.append(element("dt", name), element("dd", value));
      list.append(line);
    };
    const count = value => value.toLocaleString("en");
    entry("Verdict", `${trial.verdict.kind}: ${trial.verdict.reason}`);
    for (const point of trial.ledger.points) {
      entry(point.name.replaceAll("_", " "), `${count(point.packets)} packets, by ${point.source}`);
    }
    for (const drop of trial.ledger.drops) {
      entry(`dropped: ${drop.name}`, `${count(drop.packets)} packets, by ${drop.source}`);
    }
    for (const check of trial.checks.filter(check => !check.passed)) {
      entry(`check ${check.name}`, `failed: ${check.detail}`);
    }
    return list;
  };
  const open = folder => {
    const [title, trial, samples] = records[folder];
    const name = folder.replaceAll("/", "-");
    const buttons = element("div", "");
    buttons.className = "buttons";
    buttons.append(
      button("Save trial.json", () =>
        window.weirSave(`${name}-trial.json`, trial, "application/json")),
      button("Save samples.csv", () =>
        window.weirSave(`${name}-samples.csv`, samples, "text/csv")),
      button("Close", () => dialog.close()));
    const read = JSON.parse(trial);
    const whole = element("pre", JSON.stringify(read, null, 2));
    whole.tabIndex = 0;
    dialog.replaceChildren(element("h2", title), buttons, facts(read), whole);
    dialog.showModal();
    dialog.scrollTop = 0;
  };
  document.addEventListener("click", event => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    const hit = event.target.closest?.(".hit") && nearest(event);
    const href = (hit ?? event.target.closest?.("a[href]"))?.getAttribute("href");
    if (hit && href?.startsWith("#")) {
      event.preventDefault();
      location.hash = href;
    }
    if (!href || href.startsWith("#")) return;
    const folder = decodeURIComponent(href).replace(/\/[^/]*$/, "");
    if (!Object.hasOwn(records, folder)) return;
    event.preventDefault();
    show(null);
    open(folder);
  });
}
