// Draws a context: the block line by line with the account of it, and what was left out.

const MOST_LEFT_OUT = 100;
const TONES = 8;
let given = {};

told["ui/notifications/tool-input"] = (params) => (given = params.arguments ?? {});
told["ui/notifications/tool-cancelled"] = () => draw(make("h1", {}, "Memory context"), make("p", {}, "Cancelled."));
told["ui/notifications/tool-result"] = async (result) => {
  const block = wordsOf(result);
  if (result.isError) return draw(make("h1", {}, "Memory context"), make("p", { class: "text" }, block));
  let account = result._meta?.context;
  // Some hosts keep `_meta` to themselves. <memory-context id="c640e960c48">
  const [, id] = block.match(/^<memory-context id="(\w+)"/) ?? [];
  if (!account && id && mayRead()) account = await read(`memory://context/${id}`).catch(() => undefined);
  drawContext(block, account);
};

// The sections of a block, each with its items: a line that opens with a dash, and those that continue it.
function sectionsOf(block, known) {
  const sections = [];
  const inside = block.split("\n").filter((line) => !/^<\/?memory-context\b/.test(line));
  for (const line of inside) {
    if (line.startsWith("## ") || !sections.length) sections.push({ title: "", items: [] });
    const section = sections.at(-1);
    const last = section.items.at(-1);
    if (line.startsWith("## ")) section.title = line.slice(3);
    else if (line.startsWith("### ")) section.items.push({ title: line.slice(4) });
    // "- [r000001 fact 2026-11-24] …", "- now [t00000b]: …"
    else if (line.startsWith("- ")) section.items.push({ text: line.slice(2), id: idIn(line, known) });
    else if (last?.text) last.text += `\n${line}`;
    else section.items.push({ text: line });
  }
  return sections;
}

function idIn(line, known) {
  const [, id] = line.match(/^- (?:\w+ )?\[(\w+)[\] ]/) ?? [];
  return known.has(id) ? id : undefined;
}

function drawContext(block, account) {
  const parts = new Map((account?.components ?? []).map((part) => [part.id, part]));
  const sections = sectionsOf(block, parts);
  for (const section of sections) {
    // What the caller gave is accounted for as a whole, under the title of its section.
    section.tokens = [section.title, ...section.items.map(({ id }) => id)].reduce(
      (sum, id) => sum + (parts.get(id)?.tokens ?? 0), 0,
    );
  }
  draw(
    make("h1", {}, "Memory context"),
    account ? summary(account) : make("p", { class: "quiet" }, "The host passed on no account of this block."),
    account && bar(sections, account),
    ...sections.flatMap((section) => sectionOf(section, parts)),
    account && withoutLine(sections, parts),
    account && leftOut(account.omitted ?? []),
    make("details", {}, make("summary", {}, "The block as the agent read it"), make("pre", {}, block)),
  );
}

function budgetOf({ token_count, metadata }) {
  const asked = Number(given.max_tokens);
  return asked || (metadata?.utilisation ? Math.round(token_count / metadata.utilisation) : token_count);
}

function summary(account) {
  const { picked, why, degraded } = account.metadata ?? {};
  const strategy = picked ? `${picked}${why ? ` (${why})` : ""}` : account.strategy;
  const used = `${account.token_count} of ${budgetOf(account)} tokens`;
  return make("div", {},
    make("p", { class: "quiet" }, `${used} · ${strategy} · ${account.components.length} items · ${account.id}`),
    account.truncated && make("p", { class: "mark" }, "Not everything fitted in."),
    degraded?.length > 0 && make("p", { class: "mark" }, `Made without: ${degraded.join(", ")}.`),
  );
}

function bar(sections, account) {
  const filled = sections.filter(({ tokens }) => tokens > 0);
  const rest = account.token_count - filled.reduce((sum, { tokens }) => sum + tokens, 0);
  const shares = filled.map(({ title, tokens }) => ({ title, tokens }));
  if (rest > 0) shares.push({ title: "Headings and the rest", tokens: rest });
  const free = Math.max(0, budgetOf(account) - account.token_count);
  const drawn = make("div", { class: "bar", "aria-hidden": "true" });
  const legend = make("ul", { class: "row quiet", "aria-label": "Tokens by section" });
  shares.forEach(({ title, tokens }, place) => {
    const tone = `tone${place % TONES}`;
    const share = make("span", { class: tone });
    share.style.flexGrow = tokens;
    drawn.append(share);
    const entry = make("li", {}, make("span", { class: `key ${tone}` }), `${title}: ${tokens}`);
    entry.style.border = "0";
    legend.append(entry);
  });
  const space = make("span", {});
  space.style.flexGrow = free;
  drawn.append(space);
  return make("div", {}, drawn, legend);
}

function sectionOf({ title, items }, parts) {
  const drawn = title ? [make("h2", {}, title)] : [];
  let list;
  for (const item of items) {
    if (item.title) {
      drawn.push(make("h3", {}, item.title));
      list = undefined;
      continue;
    }
    if (!list) drawn.push((list = make("ul", {})));
    list.append(lineOf(item, parts.get(item.id)));
  }
  return drawn;
}

function lineOf({ text, id }, part) {
  // The account has what stands between the brackets: "[r000001 11-24] …"
  const [, about, words] = (id && text.match(/^\[\w+ ?([^\]]*)\] ?([^]*)$/)) || [];
  const line = make("div", { class: "row" }, make("span", { class: "text grow" }, about === undefined ? text : words));
  if (part && isRecord(id)) line.append(...corrections(id));
  return make("li", {}, line, part && make("p", { class: "quiet" }, accountOf(part, about)));
}

function accountOf({ id, kind, tokens, score, detail, source, parts, agent }, about) {
  const signals = Object.entries(parts ?? {}).filter(([, value]) => value >= 0.005).sort(([, a], [, b]) => b - a);
  // A line says its kind where the title of its section does not.
  const said = about?.startsWith(kind) ? about : [kind, about].filter(Boolean).join(" ");
  return [
    id, said, agent && `by ${agent}`, `${tokens} tokens`, detail !== "full" && detail, `from ${source}`,
    `score ${score.toFixed(2)}`, ...signals.map(([name, value]) => `${name} ${value.toFixed(2)}`),
  ].filter(Boolean).join(" · ");
}

// What the account names and no line opens with: entities, and in a follow-up what the last block gave.
function withoutLine(sections, parts) {
  const shown = new Set(sections.flatMap(({ title, items }) => [title, ...items.map(({ id }) => id)]));
  const others = [...parts.values()].filter(({ id }) => !shown.has(id));
  if (!others.length) return undefined;
  const list = make("ul", {}, ...others.map((part) => make("li", { class: "quiet" }, accountOf(part))));
  return make("details", {}, make("summary", {}, `Without a line of its own here: ${others.length}`), list);
}

// Records are numbered like r000017; tasks, entities and what the caller gave cannot be corrected here.
const isRecord = (id) => /^r\w+$/.test(id ?? "");

function corrections(id) {
  if (!mayCall()) return [];
  return [
    toggle(id, ["Wrong", "Undo"], { id, feedback: "wrong" }, `${id} is marked as wrong.`),
    toggle(id, ["Pin", "Unpin"], { id, pinned: true }, `${id} is pinned: it comes first in contexts.`),
  ];
}

// A button that changes a record, and then takes that change back.
function toggle(id, [before, after], change, done) {
  let undoable = "";
  return button(before, `${before}: ${id}`, async (pressed) => {
    const isDone = !undoable;
    if (isDone) undoable = String((await callTool("revise", change)).change);
    else await callTool("revise", { id: undoable, settle: "undo" });
    if (!isDone) undoable = "";
    pressed.textContent = isDone ? after : before;
    pressed.setAttribute("aria-label", `${pressed.textContent}: ${id}`);
    say(isDone ? done : `${id} is as it was before.`);
  });
}

function leftOut(omitted) {
  if (!omitted.length) return undefined;
  const list = make("ul", {}, ...omitted.slice(0, MOST_LEFT_OUT).map(omission));
  const more = omitted.length - MOST_LEFT_OUT;
  return make("details", {},
    make("summary", {}, `Left out: ${omitted.length}`), list, more > 0 && make("p", { class: "quiet" }, `and ${more} more`),
  );
}

function omission({ id, reason }) {
  const text = make("p", { class: "text", tabindex: -1 });
  const row = make("div", { class: "row" }, make("span", { class: "grow" }, `${id}: ${reason}`));
  if (isRecord(id) && mayRead()) {
    row.append(button("Show", `Show: ${id}`, async (pressed) => {
      text.textContent = plain((await read(`memory://record/${id}`)).text ?? "");
      text.focus();
      pressed.remove();
    }));
  }
  if (isRecord(id)) row.append(...corrections(id));
  return make("li", {}, row, text);
}

draw(make("h1", {}, "Memory context"), make("p", { class: "quiet" }, "Waiting for the context…"));
start();
