// Draws the tree of tasks: all of it where the host lets resources be read, otherwise what the result names.

const ENDED = ["complete", "failed", "abandoned"];

told["ui/notifications/tool-cancelled"] = () => drawPage(make("p", {}, "Cancelled."));
told["ui/notifications/tool-result"] = async (result) => {
  if (result.isError) return drawPage(make("p", { class: "text" }, wordsOf(result)));
  const shown = result.structuredContent ?? parsed(wordsOf(result));
  drawPage(...storyOf(shown), treeOf(placeOf(shown)));
  if (mayRead()) await refresh(shown).catch((error) => say(`The whole tree cannot be read: ${error.message}`));
};

// Some hosts pass on the text alone, which is the same as JSON.
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

function drawPage(...parts) {
  draw(make("h1", {}, "Tasks"), ...parts);
}

async function refresh(shown) {
  const tree = await read("memory://tasks");
  const again = button("Refresh", "Refresh", async () => {
    await refresh({});
    document.querySelector("main > button").focus();
  });
  const omitted = tree.omitted > 0 && make("p", { class: "quiet" }, `${tree.omitted} more are not shown.`);
  const none = !tree.tasks?.length && make("p", { class: "quiet" }, "There are no tasks.");
  drawPage(...storyOf(shown), treeOf(tree), none, omitted, again);
}

function storyOf({ popped, note }) {
  return [
    popped && make("p", { class: "text" }, `Left: ${popped.goal} (${popped.status})`),
    note && make("p", { class: "quiet" }, note),
  ];
}

// The path from the root to the current task as a tree, the planned steps below its end.
function placeOf({ path = [], planned = [] }) {
  let below = planned.map((task) => ({ status: "planned", ...task }));
  for (const task of [...path].reverse()) below = [{ status: "active", ...task, subtasks: below }];
  return { current: path.at(-1)?.id, tasks: below };
}

function treeOf({ current, tasks = [] }) {
  return make("ul", {}, ...tasks.map((task) => nodeOf(task, current)));
}

function nodeOf(task, current) {
  const { id, goal, status, agent, branch, result, success_criteria: criteria, subtasks = [] } = task;
  const isHere = id === current;
  const row = make("div", { class: "row" },
    make("span", { class: task.dead_end ? "mark" : "quiet" }, task.dead_end ? `dead end: ${status}` : status),
    make("span", { class: "text grow" }, goal),
    make("span", { class: "quiet" }, [isHere && "you are here", branch && "branch", agent, id].filter(Boolean).join(" · ")),
  );
  const inside = [
    criteria && make("p", { class: "quiet text" }, `Done when: ${criteria}`),
    result && make("p", { class: "text" }, result),
    subtasks.length > 0 && treeOf({ current, tasks: subtasks }),
  ].filter(Boolean);
  const node = make("li", { "aria-current": isHere && "true" }, row);
  if (inside.length && ENDED.includes(status)) {
    node.append(make("details", {}, make("summary", { class: "quiet" }, summaryOf(result, subtasks)), ...inside));
  } else node.append(...inside);
  return node;
}

function summaryOf(result, subtasks) {
  return [result && "result", subtasks.length > 0 && `${subtasks.length} below`].filter(Boolean).join(", ") || "more";
}

drawPage(make("p", { class: "quiet" }, "Waiting for the result…"));
start();
