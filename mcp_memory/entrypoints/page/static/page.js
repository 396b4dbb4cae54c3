// Keys, and what is live. Everything works without this file.
"use strict";

const typing = (target) => target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
// The button that saves a form: its main one, or its only one. Where several mean different things, the person chooses.
const saving = (form) => {
  const buttons = [...(form ? form.elements : [])].filter((each) => each.type === "submit");
  return buttons.find((each) => each.classList.contains("main")) || (buttons.length === 1 ? buttons[0] : null);
};
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

// The palette shows what the page of all commands holds, and the buttons of this page; the field goes to anything else.
// A field that takes a record's id borrows it: what is chosen among the records found then fills the field.
const palette = document.getElementById("palette");
let commands = null;
let picking = null;

const label = (element) => element.textContent.trim().replace(/\s+/g, " ");

async function known() {
  const here = [...document.querySelectorAll("main [data-key]")]
    .filter((each) => each.checkVisibility() && !each.closest("[data-item]"))
    .map((each) => [label(each.querySelector("summary") || each), () => {
      if (each.tagName === "DETAILS") each.open = true;
      (each.querySelector("summary") || each)[each.tagName === "DETAILS" ? "focus" : "click"]();
    }]);
  const answer = await fetch("/ui/go", { credentials: "same-origin" }).catch(() => null);
  if (!answer || !answer.ok) return here;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const there = [...page.querySelectorAll("[data-command]")].map((each) => [label(each), () => {
    if (each.href) location.href = each.href;
    else {
      const form = document.importNode(each.form, true);
      form.hidden = true;
      document.body.append(form);
      form.querySelector("[data-command]").click();
    }
  }]);
  return [...here, ...there];
}

// Records that a search finds, once somebody stops typing for a moment; an earlier search is given up.
let found = { words: "", records: [] };
let looking = null;

function look() {
  clearTimeout(looking?.timer);
  looking?.abort.abort();
  const words = palette.querySelector("input").value.trim();
  if (words.length < 3 || found.words === words) return;
  const abort = new AbortController();
  const timer = setTimeout(async () => {
    const asked = { credentials: "same-origin", signal: abort.signal };
    const answer = await fetch(`/ui/go/found?q=${encodeURIComponent(words)}`, asked).catch(() => null);
    if (!answer || !answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (abort.signal.aborted) return;
    found = { words, records: [...page.querySelectorAll("li")].filter((each) => !picking || isPicked(each)) };
    const chosen = palette.querySelector("[aria-selected=true]")?.id;
    list();
    // Enter opens what was found first, unless a command was chosen, or an id typed, which is opened as it is.
    if (picking || (chosen === "palette-other" && records() && !/^[rtc][0-9a-z]{4,}$/.test(words))) choose(0);
    else choose([...palette.querySelectorAll("[role=option]")].findIndex((each) => each.id === chosen));
  }, 250);
  looking = { abort, timer };
}

const idIn = (row) => row.querySelector(".id").textContent.trim();
const isPicked = (row) => row.querySelector("a[href*='/record/']") && idIn(row) !== picking.dataset.other;

const records = () => palette.querySelector("[id^=palette-record]");

function choose(at) {
  const options = [...palette.querySelectorAll("[role=option]")];
  const input = palette.querySelector("input");
  options.forEach((each, place) => each.setAttribute("aria-selected", String(place === at)));
  input.removeAttribute("aria-activedescendant");
  if (options[at]) {
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }
}

function list() {
  const input = palette.querySelector("input");
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = (picking ? [] : commands || []).filter(([title]) => words.every((word) => title.toLowerCase().includes(word)));
  const options = fitting.slice(0, 50).map(([title, go], place) => {
    const option = document.createElement("li");
    option.setAttribute("role", "option");
    option.id = `palette-${place}`;
    option.textContent = title;
    option.addEventListener("click", () => { palette.close(); go(); });
    return option;
  });
  if (found.words && found.words === input.value.trim()) {
    found.records.forEach((each, place) => {
      const option = document.importNode(each, true);
      const link = option.querySelector("a");
      option.setAttribute("role", "option");
      option.id = `palette-record-${place}`;
      option.addEventListener("click", () => {
        if (!picking) location.href = link.href;
        else {
          palette.close();
          picking.value = idIn(each);
          picking.focus();
        }
      });
      link.replaceWith(link.textContent);
      options.push(option);
    });
  }
  if (input.value.trim() && !picking) {
    const other = document.createElement("li");
    other.setAttribute("role", "option");
    other.id = "palette-other";
    other.textContent = `Open or search for “${input.value.trim()}”`;
    other.addEventListener("click", () => input.form.submit());
    options.push(other);
  }
  palette.querySelector("[role=listbox]").replaceChildren(...options);
  input.setAttribute("aria-expanded", String(options.length > 0));
  choose(words.length ? 0 : -1);
}

async function openPalette(field = null) {
  if (document.querySelector("dialog[open]")) return;
  const input = palette.querySelector("input");
  if (picking !== field) found = { words: "", records: [] };
  picking = field;
  input.value = "";
  input.placeholder = picking ? "Words of the record" : "A command, an id, or words";
  input.setAttribute("aria-label", picking ? "Words of the record" : "A command, an id, or words to search for");
  palette.setAttribute("aria-label", picking ? "Find a record" : "Go to");
  palette.showModal();
  list();
  if (picking) return;
  commands ||= await known();
  list();
}

if (palette) {
  const input = palette.querySelector("input");
  input.addEventListener("input", () => { list(); look(); });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
  document.getElementById("go").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openPalette();
  });
  input.addEventListener("keydown", (event) => {
    const options = [...palette.querySelectorAll("[role=option]")];
    const at = options.findIndex((each) => each.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(at + 1 < options.length ? at + 1 : 0);
    else if (event.key === "ArrowUp") choose(at > 0 ? at - 1 : options.length - 1);
    else if (event.key === "Enter" && (options[at] || picking)) options[at]?.click();
    else return;
    event.preventDefault();
  });
}

for (const button of document.querySelectorAll("[data-finds]")) {
  button.hidden = false;
  button.addEventListener("click", () => openPalette(document.getElementById(button.dataset.finds)));
}

// The id in a row is copied by a click, or by a key on the row; it says so for a moment.
if (navigator.clipboard) document.documentElement.classList.add("copies");

async function copyId(place) {
  const id = place.textContent;
  if (id === "copied") return;
  try {
    await navigator.clipboard.writeText(id);
  } catch {
    getSelection().selectAllChildren(place);
    return;
  }
  place.textContent = "copied";
  const status = liveSign?.querySelector("[role=status]");
  if (status) status.textContent = `${id} copied`;
  setTimeout(() => { place.textContent = id; }, 1500);
}

if (navigator.clipboard) {
  const place = (event) => event.target.closest(".item .id:not(a)");
  document.addEventListener("click", (event) => { if (place(event)) copyId(place(event)); });
  document.addEventListener("pointerover", (event) => { if (place(event)) place(event).title = "Copy the id"; });
}

document.addEventListener("keydown", (event) => {
  if (palette && (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing && !document.querySelector("dialog[open]")) {
    const button = typing(event.target) && saving(event.target.form);
    if (button) {
      event.preventDefault();
      button.click();
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const search = document.querySelector("input[type=search]");
  const keyed = `[data-key="${CSS.escape(event.key)}"]`;
  // What is done with a selection has its key while something is selected.
  const usable = [...document.querySelectorAll(keyed)].filter((each) => !each.closest(".bulk") || each.checkVisibility());
  const pressed = (current() && current().querySelector(keyed)) || usable[0];
  if (event.key === "/" && search) {
    search.focus();
    search.select();
  }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === ":" && palette) openPalette();
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (event.key === "c" && navigator.clipboard && current()?.querySelector(".id:not(a)")) copyId(current().querySelector(".id:not(a)"));
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

// What changes shows itself: the server says that something did, and a part with `data-live` is loaded again.
// Nothing is replaced under somebody who works in it; a tab that nobody sees listens to nothing.
const liveSign = document.getElementById("live");
let feed = null;
let loadedAt = 0;
let waiting = false;

const busy = (part) => part.contains(document.activeElement) || part.querySelector("details[open], :checked") || scrollY > 400;

function marked(fresh, old) {
  const known = new Set([...old.querySelectorAll("a.text")].map((each) => each.getAttribute("href")));
  const rows = [...fresh.querySelectorAll(".item")].filter((each) => {
    const link = each.querySelector("a.text");
    return link && !known.has(link.getAttribute("href"));
  });
  rows.forEach((each) => each.classList.add("fresh"));
  return rows.length;
}

async function refresh(isAsked) {
  const parts = [...document.querySelectorAll("[data-live]")];
  if (!parts.length || document.hidden) return;
  const pause = 1000 * Math.max(1, ...parts.map((each) => Number(each.dataset.live) || 1));
  if (waiting) return;
  waiting = true;
  await new Promise((done) => setTimeout(done, Math.max(0, loadedAt + pause - Date.now())));
  waiting = false;
  loadedAt = Date.now();
  const answer = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
  if (!answer || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(old.id);
    if (!fresh || fresh.innerHTML === old.innerHTML) continue;
    const news = document.getElementById("news");
    if (busy(old) && !isAsked) {
      if (news) news.hidden = false;
      continue;
    }
    const number = marked(fresh, old);
    old.replaceWith(document.importNode(fresh, true));
    if (news) news.hidden = true;
    if (number && liveSign) liveSign.querySelector("[role=status]").textContent = `${number} new`;
  }
}

function count(counts) {
  for (const link of document.querySelectorAll("#screens a")) {
    const title = link.dataset.screen;
    let badge = link.querySelector(".count");
    if (!counts[title]) badge?.remove();
    else {
      if (!badge) {
        badge = document.createElement("span");
        badge.className = "count";
        link.append(" ", badge);
      }
      badge.textContent = counts[title];
    }
  }
}

// A stream ends now and then, and comes again; where it fails twice in a row nobody answers any more.
const lostSign = document.getElementById("lost");
let failed = 0;

function standing(isThere) {
  failed = isThere ? 0 : failed + 1;
  liveSign.hidden = !isThere;
  if (!lostSign) return;
  lostSign.hidden = failed < 2 || feed?.readyState !== EventSource.CONNECTING;
  if (!lostSign.hidden) lostSign.setAttribute("role", "alert");
}

function listen() {
  if (document.hidden || feed || !liveSign) return;
  feed = new EventSource(`/ui/live?seen=${liveSign.dataset.seen}`);
  feed.addEventListener("open", () => standing(true));
  feed.addEventListener("error", () => standing(false));
  feed.addEventListener("message", (event) => { count(JSON.parse(event.data)); refresh(false); });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    listen();
    refresh(false);
  } else if (feed) {
    feed.close();
    feed = null;
    if (liveSign) liveSign.hidden = true;
  }
});
addEventListener("pagehide", () => { feed?.close(); feed = null; });
addEventListener("pageshow", listen);
document.getElementById("news")?.addEventListener("click", () => { scrollTo(0, 0); document.activeElement.blur(); refresh(true); });

// Where the row of screens scrolls, the open one is in sight.
const here = document.querySelector("#screens [aria-current]");
const row = here?.closest("nav");
if (row && row.scrollWidth > row.clientWidth) row.scrollLeft = here.offsetLeft + here.offsetWidth / 2 - row.clientWidth / 2;

// Keys are told of where there is a keyboard, and this file.
const hint = document.getElementById("key-hint");
if (hint && !matchMedia("(pointer: coarse)").matches) hint.hidden = false;

// The number of selected records, as it changes; a browser that goes back keeps what was selected.
for (const place of document.querySelectorAll("[data-counts]")) {
  const form = place.closest("form");
  const count = () => {
    const number = form.querySelectorAll(`[name=${place.dataset.counts}]:checked`).length;
    place.textContent = `${number} selected`;
  };
  form.addEventListener("change", count);
  addEventListener("pageshow", count);
  count();
}

// A button that copies a text shows itself where the browser lets it; elsewhere the text is selected by hand.
for (const button of document.querySelectorAll("[data-copies]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}
