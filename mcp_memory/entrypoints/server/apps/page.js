// What both apps share: the conversation with the host, and the making of elements. Text reaches the page by
// textContent alone.

const waiting = new Map();
let lastId = 0;
let host = { capabilities: {}, context: {} };

function post(message) {
  parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function ask(method, params) {
  const id = ++lastId;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    post({ id, method, params });
  });
}

// What the host sends after the handshake, by its method; each app adds what it draws from.
const told = {
  "ui/notifications/host-context-changed": (changed) => adapt({ ...host.context, ...changed }),
};

addEventListener("message", ({ source, data }) => {
  if (source !== parent || data?.jsonrpc !== "2.0") return;
  if (data.method === undefined) {
    const { resolve, reject } = waiting.get(data.id) ?? {};
    waiting.delete(data.id);
    if (data.error) reject?.(new Error(String(data.error.message ?? "The host refused.")));
    else resolve?.(data.result ?? {});
  } else if (data.id === undefined) {
    told[data.method]?.(data.params ?? {});
  } else if (data.method === "ping" || data.method === "ui/resource-teardown") {
    post({ id: data.id, result: {} });
  } else {
    post({ id: data.id, error: { code: -32601, message: "This app has no such method." } });
  }
});

// A host that gives colours of text has to give that of the ground, too: ours may not go with them.
function adapt(context) {
  host.context = context;
  const root = document.documentElement;
  if (["light", "dark"].includes(context.theme)) root.dataset.theme = context.theme;
  const given = context.styles?.variables ?? {};
  const isWhole = given["--color-background-primary"] && given["--color-text-primary"];
  for (const name of ["--color-background-primary", "--color-text-primary", "--color-text-secondary"]) {
    if (isWhole && given[name]) root.style.setProperty(name, String(given[name]));
    else root.style.removeProperty(name);
  }
  if (isWhole && !given["--color-text-secondary"]) {
    root.style.setProperty("--color-text-secondary", String(given["--color-text-primary"]));
  }
  for (const name of ["--font-sans", "--font-mono"]) {
    if (given[name]) root.style.setProperty(name, String(given[name]));
  }
}

function reportSize() {
  let last = "";
  const report = () => {
    const size = { width: innerWidth, height: Math.ceil(document.documentElement.getBoundingClientRect().height) };
    if (JSON.stringify(size) === last) return;
    last = JSON.stringify(size);
    post({ method: "ui/notifications/size-changed", params: size });
  };
  new ResizeObserver(report).observe(document.documentElement);
  report();
}

async function start() {
  const answer = await ask("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: `mcp-memory: ${document.title}`, version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  });
  host = { capabilities: answer.hostCapabilities ?? {}, context: {} };
  adapt(answer.hostContext ?? {});
  post({ method: "ui/notifications/initialized", params: {} });
  reportSize();
}

const mayCall = () => Boolean(host.capabilities.serverTools);
const mayRead = () => Boolean(host.capabilities.serverResources);

const wordsOf = (result) =>
  (result.content ?? []).filter(({ type }) => type === "text").map(({ text }) => String(text)).join("\n");

async function callTool(name, given) {
  const result = await ask("tools/call", { name, arguments: given });
  if (result.isError) throw new Error(wordsOf(result) || "The tool failed.");
  return result.structuredContent ?? {};
}

async function read(uri) {
  const [first] = (await ask("resources/read", { uri })).contents ?? [];
  return JSON.parse(first?.text ?? "{}");
}

// Signs that hide, or that turn what follows, as their numbers: ⟦U+202E⟧; a run of one sign once.
const HIDING = new RegExp(
  "([\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\u{13430}-\\u{1343f}\\u{e0000}-\\u{e007f}])\\1*",
  "gu",
);
function plain(text) {
  return String(text).replace(HIDING, (run, sign) => {
    const times = [...run].length;
    const number = sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟦U+${number}${times > 1 ? ` × ${times}` : ""}⟧`;
  });
}

// An element with attributes, and inside it texts and other elements; what is false or missing is left out.
function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...inside.filter((each) => each || each === 0).map((each) => (each.nodeType ? each : plain(each))));
  return element;
}

function draw(...parts) {
  const page = document.querySelector("main");
  page.replaceChildren(...parts.filter(Boolean), make("p", { class: "quiet", role: "status", id: "said" }));
}

function say(words) {
  document.getElementById("said").textContent = plain(words);
}

// A button that does one thing at a time, and says why where that failed. `disabled` would take the focus from it.
function button(words, label, act) {
  const made = make("button", { type: "button", "aria-label": label }, words);
  made.addEventListener("click", async () => {
    if (made.hasAttribute("aria-disabled")) return;
    made.setAttribute("aria-disabled", "true");
    try {
      await act(made);
    } catch (error) {
      say(`${label}: ${error.message}`);
    } finally {
      made.removeAttribute("aria-disabled");
    }
  });
  return made;
}
