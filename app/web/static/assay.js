// Comfort only: every page works without this file. Keys, copy buttons, dropped files.
(() => {
  "use strict";
  const all = (query) => Array.from(document.querySelectorAll(query));

  // Copy buttons
  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(source);
        const selection = window.getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        button.textContent = "Selected: press Ctrl+C";
      }
      window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // Dropped files
  const dropInto = (zone, take) => {
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      zone.classList.remove("over");
      if (!event.dataTransfer || event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      take(event.dataTransfer.files);
    });
  };
  for (const zone of all("[data-drop]")) {
    dropInto(zone, (files) => { document.getElementById(zone.dataset.drop).files = files; });
  }
  for (const zone of all("[data-drop-text]")) {
    dropInto(zone, async (files) => { document.getElementById(zone.dataset.dropText).value = await files[0].text(); });
  }

  // A page with mistakes says so first
  const mistakes = document.getElementById("mistakes");
  if (mistakes) mistakes.focus();

  // Keys
  const places = { c: "/", a: "/alerts", s: "/submit" };
  let going = false;
  const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

  const step = (by) => {
    const rows = all("[data-row]");
    if (rows.length === 0) return;
    const here = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[Math.min(Math.max(here + by, 0), rows.length - 1)];
    const target = next.tabIndex === -1 && next.hasAttribute("tabindex") ? next : next.querySelector("a");
    target.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  const search = () => {
    const box = document.querySelector("[data-search]");
    if (box) { box.focus(); box.select(); } else { window.location.assign("/#q"); }
  };

  const actions = {
    "/": search,
    "j": () => step(1),
    "k": () => step(-1),
    "g": () => { going = true; window.setTimeout(() => { going = false; }, 1200); },
    "?": () => document.getElementById("keys").togglePopover(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (going && places[event.key]) {
      event.preventDefault();
      window.location.assign(places[event.key]);
      return;
    }
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  if (window.location.hash === "#q") search();
})();
