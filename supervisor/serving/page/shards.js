// The table: a row for each shard, made once and changed in place, in groups of those that were chosen.

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
  const open = shard.starting ? "–" : grouped(shard.open); // nobody knows before its first renewal
  say(row.open, shard.owner === null ? "–" : `${open} / ${grouped(shard.want)}`);
  say(row.quiet, shard.owner === null ? "–" : age(shard.quiet_ms));
  row.open.classList.toggle("short", shard.owner !== null && !shard.starting && shard.open < shard.want);
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
    shards.sort((a, b) => a.fine - b.fine);
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
