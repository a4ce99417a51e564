// How it came to that: what a row unfolds.

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
    const who = make("bdi", "who", called(each.owner));
    const sentence = make("span", "what");
    sentence.append(who, ` ${happened(each)}`);
    list.append(item);
    item.append(when, make("span", "epoch-mark", `epoch ${each.epoch}`), sentence);
  }
  if (history.length === 0) list.append(make("li", "", "No change of ownership is recorded."));
  return list;
}
