// Draws what /api/leases says and keeps it true. Rows are made once and changed in place; text of a row of the store
// reaches the document as textContent alone.

const POLL_MS = 2000;
const OLD_MS = 10000;
const TIMEOUT_MS = 10000;

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
  link.timer = setTimeout(poll, POLL_MS); // before anything is drawn: whatever went wrong there, the next answer may do
  if (link.data) draw(link.data);
  drawPulse();
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
