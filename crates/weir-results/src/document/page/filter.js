// Filters by DUT and traffic. Whatever carries `data-dut` or `data-traffic` and is not of what was
// chosen is hidden in tables and faded in figures, whose layout stays. Without this all is shown.
{
  const chosen = {dut: "", traffic: ""};
  const fits = element => Object.entries(chosen).every(([name, value]) => {
    const here = element.dataset[name];
    return value === "" || here === undefined || here === value;
  });
  const apply = () => {
    for (const element of document.querySelectorAll("[data-dut],[data-traffic]")) {
      const keeps = fits(element);
      if (element.tagName === "g") element.classList.toggle("faded", !keeps);
      else if (element instanceof SVGElement) element.style.display = keeps ? "" : "none";
      else {
        element.hidden = !keeps;
        const next = element.nextElementSibling;
        if (next?.classList.contains("because")) next.hidden = !keeps;
      }
    }
    for (const body of document.querySelectorAll("tbody")) {
      const rows = [...body.rows].filter(row => !row.classList.contains("group"));
      body.hidden = rows.length > 0 && rows.every(row => row.hidden);
    }
  };
  const form = document.createElement("form");
  form.className = "filters";
  for (const [name, title] of [["dut", "DUT"], ["traffic", "Traffic"]]) {
    const found = [...document.querySelectorAll(`[data-${name}]`)].map(e => e.dataset[name]);
    const values = [...new Set(found)];
    if (values.length < 2) continue;
    const label = document.createElement("label");
    const text = document.createElement("span");
    text.textContent = title;
    const select = document.createElement("select");
    select.name = name;
    select.setAttribute("aria-label", `Filter by ${title}`);
    select.add(new Option(name === "dut" ? "every DUT" : "every traffic", ""));
    for (const value of values) select.add(new Option(value, value));
    select.addEventListener("change", () => {
      chosen[name] = select.value;
      apply();
    });
    label.append(text, select);
    form.append(label);
  }
  if (form.children.length) document.querySelector(".contents").append(form);
}
