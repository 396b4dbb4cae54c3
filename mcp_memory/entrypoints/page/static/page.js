// Keys, and what is live. Everything works without this file.
"use strict";

const typing = (target) => target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
const items = () => [...document.querySelectorAll("[data-item]")];

function current() {
  return document.activeElement && document.activeElement.closest("[data-item]");
}

function move(by) {
  const all = items();
  const at = all.indexOf(current());
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  const link = next && (next.querySelector("a.text, [tabindex]") || next.querySelector("a, button, input"));
  if (link) {
    link.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const search = document.querySelector("input[type=search]");
  const keyed = `[data-key="${CSS.escape(event.key)}"]`;
  const pressed = (current() && current().querySelector(keyed)) || document.querySelector(keyed);
  if (event.key === "/" && search) search.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (event.key === "x" && current()) current().querySelector("input[type=checkbox]")?.click();
  else if (pressed) {
    const fold = pressed.closest("details:not([open])");
    if (pressed.tagName === "DETAILS" || fold) {
      const details = fold || pressed;
      details.open = true;
      details.querySelector("input:not([type=hidden]), textarea, button, select")?.focus();
    } else {
      pressed.click();
    }
  } else return;
  event.preventDefault();
});

// A part with `data-live` is loaded again every so many seconds while somebody looks, and nobody works in it.
for (const part of document.querySelectorAll("[data-live]")) {
  setInterval(async () => {
    const here = document.querySelector(`[data-live]#${CSS.escape(part.id)}`);
    if (document.hidden || !here || here.contains(document.activeElement) || here.querySelector("details[open]")) return;
    const answer = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    if (fresh && fresh.innerHTML !== here.innerHTML) here.replaceWith(fresh);
  }, 1000 * Math.max(2, Number(part.dataset.live) || 5));
}
