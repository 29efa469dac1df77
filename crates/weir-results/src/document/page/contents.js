// Unfolds what a link leads to, and marks the section that is read in the contents.
{
  const unfold = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  const links = [...document.querySelectorAll(".contents a")];
  const targets = links.map(link => document.getElementById(link.hash.slice(1)));
  const mark = () => {
    let current = -1;
    targets.forEach((target, index) => {
      if (target && target.getBoundingClientRect().top < innerHeight / 3) current = index;
    });
    links.forEach((link, index) => {
      if (index === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  addEventListener("scroll", mark, {passive: true});
  mark();
}
