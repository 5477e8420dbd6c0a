// The controls of the report: copy buttons, the filter of a fleet, and what its table hides.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const pageShare = 0.8;

  // Clipboard access can be denied to a local file: the selection is the older way.
  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  };

  const addCopyButton = (pre) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", async () => {
      button.textContent = (await copy(pre.firstElementChild)) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    pre.parentElement.append(button);
  };
  all("pre.command").forEach(addCopyButton);

  const form = document.querySelector("form.filter");
  if (!form) return;
  const region = document.querySelector(".tall");
  const table = region.querySelector(".matrix");
  const heads = all("th.rule", table);
  const rows = all("tbody tr", table);
  const hosts = all("details.host");
  const rules = all("details.rule");
  const onHosts = rules.map((rule) => all(".hosts a", rule).map((link) => link.hash.slice(1)));
  const beyond = document.querySelector(".beyond");
  const lower = (element) => element.textContent.toLowerCase();
  const anchors = hosts.map((host) => host.querySelector("div[id]").id);
  const names = hosts.map((host) => lower(host.querySelector("h2")));
  const texts = hosts.map(lower);

  // The buttons state what lies beyond each edge, and scroll there.
  const scrollButton = (across, down) => {
    const button = document.createElement("button");
    button.type = "button";
    button.addEventListener("click", () => {
      const step = [across * region.clientWidth, down * region.clientHeight];
      region.scrollBy(...step.map((each) => each * pageShare));
    });
    return button;
  };
  const more = {
    left: scrollButton(-1, 0),
    right: scrollButton(1, 0),
    up: scrollButton(0, -1),
    down: scrollButton(0, 1),
  };

  const counted = (number, noun) => `${number} more ${noun}${number === 1 ? "" : "s"}`;
  const show = (side, number, text) => {
    more[side].hidden = !number;
    more[side].textContent = text;
    region.classList.toggle(`more-${side}`, number > 0);
  };
  const measure = () => {
    const box = region.getBoundingClientRect();
    const corner = table.querySelector("th").getBoundingClientRect();
    const columns = heads.filter((each) => !each.hidden).map((each) => each.getBoundingClientRect());
    const lines = rows.filter((each) => !each.hidden).map((each) => each.getBoundingClientRect());
    const left = columns.filter((each) => each.left < corner.right - 2).length;
    const right = columns.filter((each) => each.right > box.left + region.clientWidth + 2).length;
    const up = lines.filter((each) => each.top < corner.bottom - 2).length;
    const down = lines.filter((each) => each.bottom > box.top + region.clientHeight + 2).length;
    show("left", left, `← ${counted(left, "column")}`);
    show("right", right, `${counted(right, "column")} →`);
    show("up", up, `↑ ${counted(up, "host")}`);
    show("down", down, `${counted(down, "host")} ↓`);
    beyond.classList.toggle("nothing", !(left || right || up || down));
  };

  const hideColumn = (index, hidden) => {
    heads[index].hidden = hidden;
    for (const row of rows) {
      const isUnread = row.cells[1].classList.contains("words");
      if (!isUnread) row.cells[index + 1].hidden = hidden;
    }
  };

  const filter = () => {
    const least = Number(form.elements.severity.value);
    const host = form.elements.host.value.trim().toLowerCase();
    const text = form.elements.text.value.trim().toLowerCase();
    const severe = (element) => least === 9 || Number(element.dataset.rank) <= least;
    const shown = new Set();
    hosts.forEach((each, index) => {
      const visible = severe(each) && names[index].includes(host) && texts[index].includes(text);
      each.hidden = rows[index].hidden = !visible;
      if (visible) shown.add(anchors[index]);
      all(".finding", each).forEach((finding) => { finding.hidden = !severe(finding); });
    });
    rules.forEach((each, index) => {
      each.hidden = !(severe(each) && onHosts[index].some((anchor) => shown.has(anchor)));
    });
    heads.forEach((each, index) => hideColumn(index, !severe(each)));
    form.querySelector(".result").textContent = `${shown.size} of ${hosts.length} hosts shown`;
    measure();
  };

  beyond.replaceChildren(...Object.values(more));
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  region.addEventListener("scroll", measure, { passive: true });
  addEventListener("resize", measure);
  filter();
})();
