"use strict";
// What rows of the store become before they are drawn: texts, groups, spans of ownership. Pure; nothing here touches
// the document. Everything from a row is untrusted: it leaves here as text that can be seen, and as nothing else.

const STATES = ["homeless", "stale", "silent", "free", "paused", "held", "retired"];

const MEANING = {
  __proto__: null, // a row may call its state `constructor`
  homeless: "nobody owns it, and no supervisor that is configured for it has room",
  stale: "its owner has not renewed for longer than the lease",
  silent: "owned and renewed, but none of its connections is open",
  free: "nobody owns it yet",
  paused: "an operator wants it not to run",
  held: "owned, renewed and running",
  retired: "no live supervisor is configured for it",
};

// As the history command tells them.
const REASONS = {
  __proto__: null,
  claimed: "claimed it, it was free",
  expired: "took it over, its owner had not renewed for the whole lease",
  reclaimed: "took it back after a restart on the same host, at once",
  restart: "started its child again after it had ended unasked",
  reloaded: "replaced its child after a reload",
  recovered: "started its child again after the store had not answered in time",
  crashed: "gave it up, its child had crashed",
  moved: "gave it up, an operator wished it elsewhere",
  balanced: "gave it up to a supervisor that has less",
  crowded: "gave it up, its capacity was lowered",
  paused: "gave it up, it was paused",
  unconfigured: "gave it up, it is no longer in its configuration",
  stopped: "gave it up, the supervisor was stopped",
  "stop-timeout": "gave it up, its child had to be killed since it did not stop in time",
  "start-timeout": "gave it up, its child had to be killed since it did not start in time",
  hung: "gave it up, its child had to be killed since it hung",
  fenced: "gave it up, its child was killed since nothing could be renewed in time",
  hurried: "gave it up, the supervisor was stopped in a hurry",
  deposed: "lost it to an operator, who removed it by force",
};
const TEXT_MAX = 400;
const NUMBERS = new Intl.NumberFormat("en-US"); // made once: it is slow to make
const TAKING = new Set(["claimed", "expired", "reclaimed", "restart", "reloaded", "recovered"]);

/** What cannot be seen, or turns the direction of writing, as its code; of an endless text the beginning. */
function printable(text) {
  const whole = String(text ?? "");
  const shown = whole.length > TEXT_MAX ? `${whole.slice(0, TEXT_MAX)}…` : whole;
  return shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

/** The two digits that matter: 840 ms, 3.2 s, 47 s, 12 m, 5 h, 3 d. */
function age(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} m`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

function count(number, one, many = `${one}s`) {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

function grouped(number) {
  return NUMBERS.format(number);
}

/** A supervisor id `host:pid:random` as people tell them apart; an id that is no such thing as it is. */
function called(id) {
  const parts = String(id).split(":");
  return parts.length < 3 ? printable(id) : `${label(parts.slice(0, -2).join(":"))} · ${short(id)}`;
}

/** The first label of a host name; an address, or what is no host name, as it is. */
function label(host) {
  const first = String(host).split(".")[0];
  return printable(/[a-z]/i.test(first) ? first : host);
}

/** The random part of an id, as much of it as tells supervisors apart. */
function short(id) {
  return printable(String(id).split(":").pop().slice(0, 8));
}

function stream(shard) {
  const slash = shard.lastIndexOf("/");
  return slash < 0 ? shard : shard.slice(0, slash);
}

/** Wishes and warnings of a shard, each with how urgent it is. */
function remarks(shard) {
  const found = [];
  if (shard.holding) found.push(["alarm", "its owner may be holding: two may run it"]);
  if (shard.state === "paused" && shard.owner) found.push(["wish", "stopping"]);
  if (shard.paused && shard.state !== "paused") found.push(["wish", "paused"]);
  if (shard.forced) found.push(["alarm", "its owner was removed by force, claimable after its lease"]);
  if (shard.move) found.push(["wish", wished(String(shard.move))]);
  if (shard.trouble) found.push(["alarm", printable(shard.trouble)]);
  if (shard.policy === "hold" && !shard.holding) found.push(["fact", "holds in an outage"]);
  return found;
}

function wished(move) {
  const byPeer = move.endsWith(" balance");
  const target = byPeer ? move.slice(0, -" balance".length) : move;
  if (target === "any") return "moves to anybody else";
  return `moves to ${called(target)}${byPeer ? " (balance)" : ""}`;
}

/** The heading and the sentence below it. */
function verdict(data) {
  const counts = data.counts ?? {};
  const total = data.shards.length;
  const wrong = data.shards.filter((each) => !each.fine).length;
  const known = data.shards.filter((each) => each.owner && !each.starting);
  const open = known.reduce((sum, each) => sum + each.open, 0);
  const want = known.reduce((sum, each) => sum + each.want, 0);
  const beside = ["draining", "stale"].map((state) => [data.supervisors.filter((each) => each.state === state).length, state]);
  const others = beside.filter(([number]) => number > 0).map(([number, state]) => `${grouped(number)} ${state}`);
  const supervisors = [`${count(data.supervisors.length, "supervisor")}`, ...others].join(", ");
  const summary = `${supervisors} · ${grouped(open)} of ${count(want, "connection")} open`;
  if (total === 0) return { kind: "wait", headline: "No shards yet", summary };
  const bad = Object.keys(data.bad ?? {}).length;
  const refusing = data.supervisors.filter((each) => each.rejected && each.state !== "stale").length;
  if (!data.degraded) return { kind: "good", headline: allIsWell(total, counts), summary };
  if (wrong === 0 && bad > 0) return { kind: "bad", headline: `${count(bad, "row does", "rows do")} not parse`, summary };
  if (wrong === 0) return { kind: "bad", headline: `${count(refusing, "reload was", "reloads were")} rejected`, summary };
  const need = wrong === 1 ? "needs" : "need";
  return { kind: "bad", headline: `${grouped(wrong)} of ${count(total, "shard")} ${need} attention`, summary };
}

function allIsWell(total, counts) {
  const held = counts.held ?? 0;
  if (held === total) return total === 1 ? "The one shard is held" : `All ${count(total, "shard")} are held`;
  const rest = ["paused", "retired"].filter((state) => counts[state]).map((state) => `${grouped(counts[state])} ${state}`);
  return [`${count(held, "shard")} held`, ...rest].join(", ");
}

/** What deserves a look besides the states of shards, with how urgent it is, who, and what. */
function notes(data) {
  const found = [];
  for (const each of data.supervisors) {
    if (each.state === "stale") found.push(["alarm", called(each.id), `has not renewed for ${age(each.renewed_ago_ms)}`]);
    if (each.rejected) found.push(["alarm", called(each.id), `rejected its new configuration: ${printable(each.rejected)}`]);
    if (each.drift) found.push(["warn", called(each.id), "runs another configuration than most"]);
  }
  for (const [key, reason] of Object.entries(data.bad ?? {})) {
    found.push(["alarm", printable(key), `does not parse: ${printable(reason)}`]);
  }
  for (const [key, reason] of Object.entries(data.flaws ?? {})) {
    found.push(["warn", printable(key), `has a flaw: ${printable(reason)}`]);
  }
  return found.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
}

/** What happened, in words. */
function happened(change) {
  if (change.reason === "crashed" && change.times > 1) return `gave it up, its child had ended ${grouped(change.times)} times`;
  const told = REASONS[change.reason] ?? printable(change.reason);
  return change.times > 1 ? `${told}, ${grouped(change.times)} times in a row` : told;
}

/** Who had the shard from when to when, oldest first, `owner` null where nobody had it. `until` of the last is `now`. */
function spans(shard, nowMs) {
  const known = (shard.history ?? []).filter((each) => Number.isFinite(each.at) && Number.isFinite(each.epoch));
  return known.map((each, index) => {
    const from = each.at * 1000;
    const until = index + 1 < known.length ? known[index + 1].at * 1000 : nowMs;
    const takes = TAKING.has(each.reason);
    return {
      owner: takes ? each.owner : null,
      epoch: each.epoch,
      from,
      until: Math.max(from, until),
      last: index + 1 === known.length,
      times: each.times,
    };
  });
}

/** Where spans begin and end on a line of length 1. Days and seconds must both be seen, so that a span is as long as
 *  the root of its time, and none is too short to be read. */
function placed(found) {
  const weights = found.map((each) => Math.max(1, (each.until - each.from) / 1000) ** 0.3);
  const total = weights.reduce((sum, each) => sum + each, 0);
  const least = 0.8 / Math.max(1, found.length);
  const lengths = weights.map((each) => Math.max(each / total, least));
  const scale = lengths.reduce((sum, each) => sum + each, 0);
  let at = 0;
  return found.map((each, index) => {
    const start = at;
    at += lengths[index] / scale;
    return { ...each, start, length: lengths[index] / scale };
  });
}
