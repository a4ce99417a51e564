// Draws what /api/leases says and keeps it true. Rows are made once and changed in place; text of a row of the store
// reaches the document as textContent alone.

const POLL_MS = 2000;
const OLD_MS = 10000;
const TIMEOUT_MS = 10000;

const by = (id) => document.getElementById(id);
const rows = new Map(); // shard -> its drawn row
const cards = new Map(); // supervisor id -> its drawn card
const groups = new Map(); // name -> its drawn group
const chips = new Map(); // state -> its button
const hues = new Map(); // random part of an id -> its colour, as far from the last ones as can be
const chosen = { text: "", state: null, owner: null, grouping: "state" };
const link = { data: null, atMs: 0, error: "", busy: false, timer: 0 }; // atMs: when the data was read, on our clock

// --- asking --------------------------------------------------------------------------------------------------------

async function poll() {
  clearTimeout(link.timer);
  if (document.hidden || link.busy) return;
  link.busy = true;
  try {
    const answer = await fetch("/api/leases", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error ?? `the supervisor answered ${answer.status}`);
    link.data = data;
    link.atMs = performance.now() - Number(answer.headers.get("Age") ?? 0) * 1000;
    link.error = answer.headers.get("Tenured-Error") ?? "";
  } catch (error) {
    link.error = error instanceof TypeError || error.name === "TimeoutError" ? "this supervisor does not answer" : error.message;
  }
  link.busy = false;
  if (link.data) draw(link.data);
  drawPulse();
  link.timer = setTimeout(poll, POLL_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
  drawPulse();
});
setInterval(drawPulse, 1000);

// --- small things --------------------------------------------------------------------------------------------------

/** Only what changed touches the document: a text that is set again is a repaint, and an announcement. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function make(tag, kind, text) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
}

function fromTemplate(id) {
  return by(id).content.firstElementChild.cloneNode(true);
}

/** `nodes` become the children of `parent` behind `skipped` others; what is in its place is left alone. */
function arrange(parent, nodes, skipped = 0) {
  let next = parent.children[skipped] ?? null;
  for (const node of nodes) {
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  while (next) {
    const gone = next;
    next = next.nextElementSibling;
    gone.remove();
  }
}

/** The same supervisor has the same colour everywhere; history knows it by the random part of its id. */
function hue(id) {
  const random = String(id).split(":").pop();
  if (!hues.has(random)) hues.set(random, Math.round(200 + hues.size * 137.508) % 360);
  return hues.get(random);
}

function nowMs() {
  return link.data.at + (performance.now() - link.atMs);
}

function moment(ms) {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

// --- the whole -----------------------------------------------------------------------------------------------------

function draw(data) {
  const found = verdict(data);
  const fleet = data.fleet ? printable(data.fleet) : "nobody there";
  mark(by("verdict"), "data-verdict", found.kind);
  say(by("headline"), found.headline);
  say(by("summary"), found.summary);
  say(by("fleet"), fleet);
  document.title = `${found.kind === "good" ? "✓" : "!"} ${fleet} · tenured`;
  drawNotes(notes(data));
  drawCounts(data);
  drawSupervisors(data.supervisors);
  drawShards(data.shards);
}

function drawPulse() {
  const oldMs = link.data ? performance.now() - link.atMs : 0;
  const old = Boolean(link.error) || oldMs > OLD_MS;
  const pulse = document.hidden ? "rest" : !link.data ? (link.error ? "old" : "wait") : old ? "old" : "live";
  mark(by("pulse"), "data-pulse", pulse);
  const seen = link.data ? `${age(Math.floor(oldMs / 1000) * 1000)} ago` : "nothing read yet";
  say(by("pulse-text"), { live: "live", wait: "connecting", rest: "resting", old: link.data ? seen : "no data" }[pulse]);
  document.body.classList.toggle("old", pulse === "old" && Boolean(link.data));
  by("banner").hidden = pulse !== "old";
  if (pulse !== "old") return;
  const reason = printable(link.error || "no newer answer came");
  const since = link.data ? "What you see is what was last read; its age stands above." : "Nothing is known yet.";
  say(by("banner"), `${reason[0].toUpperCase()}${reason.slice(1)}. ${since}`);
  if (!link.data) {
    mark(by("verdict"), "data-verdict", "wait");
    say(by("headline"), "Cannot tell who owns what");
  }
}

function drawNotes(found) {
  const list = by("notes");
  list.hidden = found.length === 0;
  const shown = found.slice(0, 12);
  if (found.length > shown.length) shown.push(["warn", "and", `${found.length - shown.length} more`]);
  while (list.children.length < shown.length) {
    const item = make("li");
    item.append(make("i", "mark"), make("bdi"), " ", make("span"));
    list.append(item);
  }
  while (list.children.length > shown.length) list.lastElementChild.remove();
  shown.forEach(([kind, who, what], index) => {
    const item = list.children[index];
    mark(item, "class", kind);
    say(item.querySelector("bdi"), who);
    say(item.querySelector("span"), what);
  });
}

function drawCounts(data) {
  for (const state of STATES) {
    const number = data.counts?.[state] ?? 0;
    if (!chips.has(state)) chips.set(state, makeChip(state));
    const { button, part } = chips.get(state);
    button.hidden = number === 0 && chosen.state !== state;
    part.hidden = number === 0;
    say(button.querySelector("b"), grouped(number));
    part.style.flexGrow = number;
  }
}

function makeChip(state) {
  const button = make("button", "chip");
  button.type = "button";
  button.dataset.state = state;
  button.title = MEANING[state];
  button.setAttribute("aria-pressed", "false");
  const icon = make("i", "mark");
  icon.setAttribute("aria-hidden", "true");
  button.append(icon, make("b"), ` ${state}`);
  button.addEventListener("click", () => {
    chosen.state = chosen.state === state ? null : state;
    drawChoice();
  });
  by("chips").append(button);
  const part = make("i");
  part.dataset.state = state;
  by("share").append(part);
  return { button, part };
}

// --- supervisors ---------------------------------------------------------------------------------------------------

function drawSupervisors(supervisors) {
  say(by("supervisors-count"), String(supervisors.length));
  const ids = new Set(supervisors.map((each) => each.id));
  for (const id of cards.keys()) if (!ids.has(id)) cards.delete(id);
  for (const one of supervisors) {
    if (!cards.has(one.id)) cards.set(one.id, makeCard(one));
    drawCard(cards.get(one.id), one);
  }
  arrange(by("supervisors"), supervisors.map((each) => cards.get(each.id)));
}

function makeCard(one) {
  const card = fromTemplate("card-template");
  card.style.setProperty("--hue", hue(one.id));
  card.querySelector(".pick").addEventListener("click", () => {
    chosen.owner = chosen.owner === one.id ? null : one.id;
    drawChoice();
  });
  return card;
}

function drawCard(card, one) {
  mark(card, "data-state", one.state);
  const task = one.task ? `, task ${printable(one.task)}` : "";
  mark(card.querySelector(".pick"), "title", `${printable(one.id)}${task}, configuration ${printable(one.config)}: show only its shards`);
  say(card.querySelector(".host"), label(one.host || one.id));
  say(card.querySelector(".member-state"), one.state);
  say(card.querySelector(".shards"), grouped(one.shards));
  say(card.querySelector(".capacity"), grouped(one.capacity));
  const full = one.capacity > 0 ? Math.min(1, one.shards / one.capacity) : 1;
  card.querySelector(".meter i").style.width = `${(full * 100).toFixed(1)}%`;
  const up = one.state === "stale" ? `renewed ${age(one.renewed_ago_ms)} ago` : one.since ? `up ${age(nowMs() - one.since)}` : "";
  say(card.querySelector(".place"), [short(one.id), printable(one.zone)].filter(Boolean).join(" · "));
  say(card.querySelector(".build"), [one.version && `v${printable(one.version)}`, up].filter(Boolean).join(" · "));
  const warnings = [one.rejected && "reload rejected", one.drift && "configuration differs"];
  card.querySelector(".warning").hidden = !warnings.some(Boolean);
  say(card.querySelector(".warning"), warnings.filter(Boolean).join(" · "));
}

// --- shards --------------------------------------------------------------------------------------------------------

function drawShards(shards) {
  const names = new Set(shards.map((each) => each.shard));
  for (const name of rows.keys()) if (!names.has(name)) rows.delete(name);
  for (const shard of shards) {
    if (!rows.has(shard.shard)) rows.set(shard.shard, makeRow(shard));
    drawRow(rows.get(shard.shard), shard);
  }
  drawChoice();
}

function makeRow(shard) {
  const node = fromTemplate("row-template");
  const cell = (kind) => node.querySelector(kind);
  const row = {
    node,
    shard,
    panel: null,
    mark: cell(".state"),
    state: cell(".state-word"),
    button: cell(".open-row"),
    owner: cell(".owner"),
    ownerName: cell(".owner bdi"),
    epoch: cell(".epoch"),
    since: cell(".since"),
    open: cell(".open"),
    quiet: cell(".quiet"),
    wishes: cell(".wishes"),
    said: "",
  };
  say(cell(".name bdi"), printable(shard.shard));
  node.addEventListener("click", (event) => {
    const selecting = String(getSelection()) !== "";
    if (!event.target.closest(".panel") && !selecting) toggle(row);
  });
  return row;
}

function drawRow(row, shard) {
  row.shard = shard;
  if (row.node.dataset.state !== shard.state) {
    row.node.dataset.state = shard.state;
    row.mark.title = MEANING[shard.state] ?? "";
    row.state.textContent = printable(shard.state);
  }
  const owner = shard.owner === null ? "nobody" : called(shard.owner);
  if (row.ownerName.textContent !== owner) {
    row.ownerName.textContent = owner;
    row.owner.title = shard.owner === null ? "" : printable(shard.owner);
    row.owner.classList.toggle("nobody", shard.owner === null);
    row.owner.style.setProperty("--hue", hue(shard.owner ?? ""));
  }
  // What is out of sight is not laid out, and then its row is all that a screen reader hears of it.
  mark(row.node, "aria-label", `${printable(shard.shard)}, ${printable(shard.state)}, ${owner}`);
  say(row.epoch, String(shard.epoch));
  say(row.since, shard.since ? age(nowMs() - shard.since) : "–");
  say(row.open, shard.owner === null ? "–" : `${grouped(shard.open)} / ${grouped(shard.want)}`);
  say(row.quiet, shard.owner === null ? "–" : age(shard.quiet_ms));
  row.open.classList.toggle("short", shard.owner !== null && shard.open < shard.want);
  const found = remarks(shard);
  const said = found.join("|");
  if (row.said !== said) {
    row.said = said;
    row.wishes.replaceChildren(...found.map(([kind, text]) => make("span", `remark ${kind}`, text)));
  }
  if (row.panel) drawPanel(row);
}

// --- what is shown of them -----------------------------------------------------------------------------------------

function fits(shard) {
  if (chosen.state && shard.state !== chosen.state) return false;
  if (chosen.owner && shard.owner !== chosen.owner) return false;
  return chosen.text.split(/\s+/).every((word) => `${shard.shard} ${shard.owner ?? "nobody"} ${shard.state}`.toLowerCase().includes(word));
}

const GROUPINGS = {
  state: { of: (shard) => shard.state, rank: (name) => (STATES.indexOf(name) + 1 || 99).toString().padStart(2, "0"), named: (name) => name },
  owner: { of: (shard) => shard.owner ?? "", rank: (name) => name, named: (name) => (name ? called(name) : "nobody") },
  stream: { of: (shard) => stream(shard.shard), rank: (name) => name, named: (name) => name },
};

function drawChoice() {
  if (!link.data) return;
  const grouping = GROUPINGS[chosen.grouping];
  const members = new Map();
  for (const shard of link.data.shards) {
    if (!fits(shard)) continue;
    const name = grouping.of(shard);
    if (!members.has(name)) members.set(name, []);
    members.get(name).push(shard);
  }
  const order = [...members.keys()].sort((a, b) => (grouping.rank(a) < grouping.rank(b) ? -1 : 1));
  for (const name of groups.keys()) if (!members.has(name)) groups.delete(name);
  for (const name of order) drawGroup(name, members.get(name), grouping);
  arrange(by("table"), order.map((name) => groups.get(name)), 1);
  const shown = order.reduce((sum, name) => sum + members.get(name).length, 0);
  const total = link.data.shards.length;
  say(by("shards-count"), shown === total ? grouped(total) : `${grouped(shown)} of ${grouped(total)}`);
  by("nothing").hidden = shown > 0 || total === 0;
  for (const [state, { button }] of chips) mark(button, "aria-pressed", String(chosen.state === state));
  for (const [id, card] of cards) mark(card.querySelector(".pick"), "aria-pressed", String(chosen.owner === id));
}

function drawGroup(name, shards, grouping) {
  if (!groups.has(name)) groups.set(name, fromTemplate("group-template"));
  const group = groups.get(name);
  if (chosen.grouping === "state") mark(group, "data-state", name);
  else {
    delete group.dataset.state;
    shards.sort((a, b) => PROBLEMS.has(b.state) - PROBLEMS.has(a.state));
  }
  say(group.querySelector(".group-name"), printable(grouping.named(name)));
  say(group.querySelector(".count"), grouped(shards.length));
  arrange(group, shards.map((each) => rows.get(each.shard).node), 1);
}

by("filter").addEventListener("input", () => {
  chosen.text = by("filter").value.trim().toLowerCase();
  drawChoice();
});
by("grouping").addEventListener("change", () => {
  chosen.grouping = by("grouping").value;
  groups.clear();
  drawChoice();
});
by("show-all").addEventListener("click", () => {
  Object.assign(chosen, { text: "", state: null, owner: null });
  by("filter").value = "";
  drawChoice();
  by("filter").focus();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    by("filter").focus();
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...by("table").querySelectorAll(".open-row")];
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return;
  event.preventDefault();
  buttons[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
});

// --- how it came to that -------------------------------------------------------------------------------------------

function toggle(row) {
  const open = row.panel === null;
  mark(row.button, "aria-expanded", String(open));
  row.node.classList.toggle("opened", open);
  if (open) {
    row.panel = make("div", "panel");
    row.panel.setAttribute("role", "cell");
    drawPanel(row);
    row.node.append(row.panel);
  } else {
    row.panel.remove();
    row.panel = null;
  }
}

function drawPanel(row) {
  const { shard } = row;
  const found = placed(spans(shard, nowMs()));
  const parts = [make("p", "panel-facts", facts(shard))];
  if (found.length) parts.push(timeline(found));
  parts.push(changes(shard));
  row.panel.replaceChildren(...parts);
}

function facts(shard) {
  const renewed = shard.renewed_ago_ms === null ? "never renewed" : `renewed ${age(shard.renewed_ago_ms)} ago`;
  const owner = shard.owner === null ? "owned by nobody" : `owned by ${printable(shard.owner)}`;
  const since = shard.since ? ` since ${moment(shard.since)}` : "";
  return `${MEANING[shard.state] ?? printable(shard.state)} · ${owner}${since} · ${renewed} · outage policy ${printable(shard.policy)}`;
}

/** One lane per owner, time from left to right. For the eye alone: the list below says the same. */
function timeline(found) {
  const chart = make("div", "timeline");
  chart.setAttribute("aria-hidden", "true");
  const lanes = new Map();
  for (const span of found) {
    const key = span.owner ?? "";
    if (!lanes.has(key)) lanes.set(key, makeLane(span.owner));
    lanes.get(key).track.append(makeSpan(span));
  }
  chart.append(...[...lanes.values()].map((each) => each.lane), makeAxis(found));
  return chart;
}

function makeLane(owner) {
  const lane = make("div", owner === null ? "lane nobody" : "lane");
  if (owner !== null) lane.style.setProperty("--hue", hue(owner));
  const track = make("div", "track");
  lane.append(make("bdi", "lane-name", owner === null ? "nobody" : called(owner)), track);
  return { lane, track };
}

function makeSpan(span) {
  const node = make("span", span.last ? "span last" : "span");
  node.style.left = `${(span.start * 100).toFixed(2)}%`;
  node.style.width = `${(span.length * 100).toFixed(2)}%`;
  node.title = `${moment(span.from)}, for ${age(span.until - span.from)}`;
  if (span.owner !== null) node.append(make("b", "", String(span.epoch)));
  node.append(make("small", "", age(span.until - span.from)));
  return node;
}

function makeAxis(found) {
  const axis = make("div", "axis");
  const track = make("div", "track");
  const last = found[found.length - 1];
  track.append(make("span", "", `${age(last.until - found[0].from)} ago`), make("span", "", "now"));
  axis.append(make("span", "lane-name", "not to scale"), track);
  return axis;
}

function changes(shard) {
  const list = make("ol", "changes");
  const history = [...(shard.history ?? [])].reverse();
  for (const each of history) {
    const item = make("li");
    if (!Number.isFinite(each.epoch) || !Number.isFinite(each.at)) {
      item.append(make("span", "what", printable(each.reason)));
      list.append(item);
      continue;
    }
    item.style.setProperty("--hue", hue(each.owner));
    const when = make("time", "", `${age(nowMs() - each.at * 1000)} ago`);
    when.title = moment(each.at * 1000);
    const what = REASONS[each.reason] ?? printable(each.reason);
    const times = each.times > 1 ? `, ${grouped(each.times)} times in a row` : "";
    const who = make("bdi", "who", called(each.owner));
    const sentence = make("span", "what");
    sentence.append(who, ` ${what}${times}`);
    list.append(item);
    item.append(when, make("span", "epoch-mark", `epoch ${each.epoch}`), sentence);
  }
  if (history.length === 0) list.append(make("li", "", "No change of ownership is recorded."));
  return list;
}

poll();
