// Draws what /api/leases says and keeps it true. Rows are made once and changed in place; text of a row of the store
// reaches the document as textContent alone.

const POLL_MS = 2000;
const OLD_MS = 10000;
const TIMEOUT_MS = 10000;
const NO_SUPERVISOR = "what answers here is no supervisor";

const rows = new Map(); // shard -> its drawn row
const cards = new Map(); // supervisor id -> its drawn card
const groups = new Map(); // name -> its drawn group
const chips = new Map(); // state -> its button
const hues = new Map(); // random part of an id -> its colour, as far from the last ones as can be
const chosen = { text: "", state: null, owner: null, grouping: "state" };
const link = { data: null, atMs: 0, error: "", busy: false, timer: 0 }; // atMs: when the data was read, on our clock

async function poll() {
  clearTimeout(link.timer);
  if (document.hidden || link.busy) return;
  link.busy = true;
  const { data, atMs, error } = await ask();
  link.busy = false;
  link.timer = setTimeout(poll, POLL_MS); // before anything is drawn: whatever went wrong there, the next answer may do
  link.error = error;
  if (data) show(data, atMs);
  else if (link.data) show(link.data, link.atMs);
  drawPulse();
}

/** The answer, or what is wrong with it in our own words: those of a browser say little to an operator. */
async function ask() {
  try {
    const answer = await fetch("/api/leases", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    const data = await answer.json();
    if (!answer.ok) return { error: String(data?.error ?? `the supervisor answered ${answer.status}`) };
    if (!data?.shards) return { error: NO_SUPERVISOR };
    const atMs = performance.now() - Number(answer.headers.get("Age") ?? 0) * 1000;
    return { data, atMs, error: answer.headers.get("Tenured-Error") ?? "" };
  } catch (error) {
    return { error: error instanceof SyntaxError ? NO_SUPERVISOR : "this supervisor does not answer" };
  }
}

/** What cannot be drawn is no newer picture: the age that is shown stays that of the last one. */
function show(data, atMs) {
  const last = { data: link.data, atMs: link.atMs };
  try {
    Object.assign(link, { data, atMs });
    draw(data);
  } catch (error) {
    Object.assign(link, last, { error: "the newest answer cannot be shown" });
    console.error(error);
  }
}

function nowMs() {
  return link.data.at + (performance.now() - link.atMs);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
  drawPulse();
});
setInterval(drawPulse, 1000);

poll();
