// The top of the page: the verdict, how old it is, what else deserves a look, and the supervisors.

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
