"""The status page in a real browser: what it shows, how it stays true, and that text from rows is nothing but text."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from supervisor.changes import _WORDS, Change, words
from supervisor.records import Snapshot
from tests.page import fleet
from tests.page.conftest import Shown

CONTRAST = """(() => {
  const parse = (text) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => rgb.slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return parse('white');
  };
  const poor = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('.unseen, .skip, .span, option')) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5)
      poor.push(`${node.className || node.tagName} ${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()"""


SCALE = "not to scale"


def show(shown: Shown, snapshot: Snapshot, at: int | None = None) -> None:
    at = fleet.now_ms() if at is None else at
    shown.sources.body = fleet.json_of(snapshot, at)


def edited(snapshot: Snapshot, shard: str, **changes: Any) -> Snapshot:
    return replace(snapshot, leases={**snapshot.leases, shard: replace(snapshot.leases[shard], **changes)})


@pytest.fixture
def troubled(shown: Shown) -> Shown:
    show(shown, fleet.troubled(10, 100, fleet.now_ms()))
    shown.open()
    return shown


# --- what it shows --------------------------------------------------------------------------------------------------


def test_a_fleet_that_is_well_is_called_so_in_one_line(shown: Shown) -> None:
    show(shown, fleet.healthy(10, 1000, fleet.now_ms()))
    shown.open()
    assert shown.text("h1") == "All 1,000 shards are held"
    assert shown.text("#summary") == "10 supervisors · 4,000 of 4,000 connections open"
    assert shown.text("#fleet") == "market-data"
    assert shown.text("#pulse-text") == "live"
    assert shown.tab.evaluate("document.querySelectorAll('.shard').length") == 1000
    assert shown.tab.evaluate("document.querySelectorAll('.card').length") == 10
    assert shown.tab.evaluate("document.title") == "✓ market-data · tenured"
    assert not shown.tab.evaluate("by('banner').checkVisibility() || by('notes').checkVisibility()")


def test_a_fleet_is_not_called_well_while_a_shard_is_in_trouble_or_a_reload_was_rejected(shown: Shown) -> None:
    at = fleet.now_ms()
    whole = fleet.healthy(2, 10, at)
    show(shown, edited(whole, "chat/1", trouble="its child exited with 1; it said: bye \x9b2J"))
    shown.open()
    assert shown.text("h1") == "1 of 10 shards needs attention"
    assert shown.tab.evaluate("document.title") == "! market-data · tenured"
    assert any("its child exited with 1; it said: bye \\u{9b}2J" in text for text in shown.texts(".wishes"))
    members = {id: replace(one, rejected="x.ini:3: no") for id, one in whole.members.items()}
    show(shown, replace(whole, members=members))
    shown.tab.until("document.querySelector('h1').textContent === '2 reloads were rejected'", timeout_s=20)


def test_what_is_wrong_comes_first_and_each_state_has_its_word_and_its_mark(troubled: Shown) -> None:
    assert troubled.text("h1") == "5 of 101 shards need attention"
    groups = troubled.texts(".group-title")
    assert groups == ["Stale 2", "Silent 1", "Free 2", "Paused 2", "Held 93", "Retired 1"]
    marks = troubled.tab.evaluate(
        "['depth/2', 'trades/7', 'depth/1', 'chat/2', 'chat/0', 'legacy/0'].map((each) => {"
        "  const node = rows.get(each).node;"
        "  return [node.querySelector('.state-word').textContent,"
        "          getComputedStyle(node.querySelector('.state .mark')).maskImage];"
        "})"
    )
    assert [word for word, _ in marks] == ["stale", "silent", "free", "paused", "held", "retired"]
    assert len({picture for _, picture in marks}) == 6


def test_a_homeless_shard_is_marked(shown: Shown) -> None:
    at = fleet.now_ms()
    whole = fleet.healthy(2, 10, at)
    members = {id: replace(one, capacity=4) for id, one in whole.members.items()}
    show(shown, edited(replace(whole, members=members), "chat/1", owner=None))
    shown.open()
    assert shown.text("h1") == "1 of 10 shards needs attention"
    assert shown.texts(".group-title")[0] == "Homeless 1"


def test_a_paused_shard_that_a_removed_owner_may_hold_is_not_well(shown: Shown) -> None:
    whole = fleet.healthy(2, 10, fleet.now_ms())
    show(shown, edited(whole, "chat/1", owner=None, paused=True, forced=True, policy="hold", renewed_at=1))
    shown.open()
    assert shown.text("h1") == "1 of 10 shards needs attention"


def test_wishes_and_warnings_stand_at_their_shard(troubled: Shown) -> None:
    def wishes(shard: str) -> list[str]:
        cells = f"[...{troubled.row(shard)}.querySelectorAll('.remark')].map((each) => each.textContent)"
        return list(troubled.tab.evaluate(cells))

    assert wishes("depth/2") == ["its owner may be holding: two may run it"]
    assert wishes("depth/1") == ["its owner was removed by force, claimable after its lease"]
    assert wishes("chat/5") == ["stopping"]
    assert wishes("quotes/4") == ["moves to anybody else"]
    assert wishes("trades/7") == ["connection 0: the server answered 401 (permanent) (and 3 more)"]
    assert wishes("quotes/3") == ["moves to ip-10-0-1-20 · 00017cfb (balance)"]
    assert wishes("chat/0") == []


def test_supervisors_tell_their_load_drift_and_rejected_reload(troubled: Shown) -> None:
    cards = troubled.texts(".card")
    by_host = {card.split("\n")[0]: card for card in cards}
    assert "draining" in by_host["ip-10-0-1-131"]
    assert "9 of 160 shards" in " ".join(by_host["ip-10-0-1-131"].split())
    assert "configuration differs" in by_host["ip-10-0-1-57"]
    assert "reload rejected" in by_host["ip-10-0-1-94"]
    assert "stale" in by_host["ip-10-0-3-153"]
    notes = [" ".join(note.split()) for note in troubled.texts("#notes li")]
    assert any("rejected its new configuration: /etc/tenured/tenured.ini line 14" in note for note in notes)
    assert any(note.startswith("trades/x does not parse") for note in notes)


def test_a_row_unfolds_its_history_as_a_timeline_and_as_sentences(troubled: Shown) -> None:
    row = troubled.row("trades/7")
    troubled.tab.evaluate(f"{row}.querySelector('.open-row').click()")
    assert troubled.tab.evaluate(f"{row}.querySelector('.open-row').getAttribute('aria-expanded')") == "true"
    lanes = troubled.tab.evaluate(f"[...{row}.querySelectorAll('.lane-name')].map((each) => each.textContent)")
    assert lanes == ["ip-10-0-3-153 · 8ff4c434", "nobody", "ip-10-0-1-57 · 9e38f6ac", "ip-10-0-1-20 · 00017cfb", SCALE]
    said = troubled.tab.evaluate(f"[...{row}.querySelectorAll('.changes .what')].map((each) => each.textContent)")
    assert said[0] == "ip-10-0-1-20 · 00017cfb claimed it, it was free"
    assert said[4] == "ip-10-0-3-153 · 8ff4c434 started its child again after it had ended unasked, 3 times in a row"
    edges = troubled.tab.evaluate(
        f"[...{row}.querySelectorAll('.span')].map((each) => [parseFloat(each.style.left),"
        " parseFloat(each.style.left) + parseFloat(each.style.width)]).sort((a, b) => a[0] - b[0])"
    )
    assert edges[0][0] == 0
    assert edges[-1][1] == pytest.approx(100, abs=0.1)
    assert all(end == pytest.approx(start, abs=0.1) for (_, end), (start, _) in pairwise(edges))
    troubled.tab.evaluate(f"{row}.querySelector('.open-row').click()")
    assert troubled.tab.evaluate(f"{row}.querySelector('.panel')") is None


def test_shards_are_found_by_words_states_and_owners_and_grouped_as_one_likes(troubled: Shown) -> None:
    def shards() -> list[str]:
        names = "[...document.querySelectorAll('.shard .open-row')].map((each) => each.textContent.trim())"
        return list(troubled.tab.evaluate(names))  # also what has come into sight and is not laid out yet

    def type_in(text: str) -> None:
        troubled.tab.evaluate(f"by('filter').value = {text!r}; by('filter').dispatchEvent(new Event('input'))")

    type_in("DEPTH/2 stale")
    assert shards() == ["depth/2"]
    type_in("no such thing")
    assert shards() == []
    troubled.tab.evaluate("by('show-all').click()")
    assert len(shards()) == 101
    troubled.tab.evaluate("document.querySelector('.chip[data-state=free]').click()")
    assert shards() == ["depth/1", "telemetry/0"]
    assert troubled.text("#shards-count") == "2 of 101"
    troubled.tab.evaluate("document.querySelector('.chip[data-state=free]').click()")
    owner = "ip-10-0-3-153.eu-west-1.compute.internal:7:8ff4c434"
    troubled.tab.evaluate(f"cards.get({owner!r}).querySelector('.pick').click()")
    assert len(shards()) == 12
    assert shards()[:2] == ["depth/2", "depth/6"]
    troubled.tab.evaluate(f"cards.get({owner!r}).querySelector('.pick').click()")
    troubled.tab.evaluate("by('grouping').value = 'stream'; by('grouping').dispatchEvent(new Event('change'))")
    streams = [title.split()[0] for title in troubled.texts(".group-title")]
    assert streams == ["chat", "depth", "legacy", "quotes", "telemetry", "trades"]


def test_the_keyboard_reaches_the_filter_and_walks_the_rows(troubled: Shown) -> None:
    troubled.tab.press("/")
    assert troubled.tab.evaluate("document.activeElement.id") == "filter"
    troubled.tab.evaluate("document.querySelector('.open-row').focus()")
    troubled.tab.press("ArrowDown")
    assert troubled.tab.evaluate("document.activeElement.textContent") == "depth/6"
    troubled.tab.press("ArrowUp")
    assert troubled.tab.evaluate("document.activeElement.textContent") == "depth/2"


# --- how it stays true ----------------------------------------------------------------------------------------------


def test_a_change_is_drawn_in_place_by_the_next_poll(shown: Shown) -> None:
    at = fleet.now_ms()
    whole = fleet.healthy(3, 60, at)
    show(shown, whole, at)
    shown.open()
    shown.tab.evaluate("globalThis.before = new Set(document.querySelectorAll('.shard'))")
    shown.tab.evaluate(f"{shown.row('chat/3')}.querySelector('.open-row').click()")
    shown.tab.evaluate("by('filter').focus()")
    show(shown, edited(whole, "chat/3", owner=None, open=0), at)
    shown.tab.until("document.querySelector('h1').textContent === '1 of 60 shards needs attention'", timeout_s=20)
    assert shown.texts(".group-title") == ["Free 1", "Held 59"]
    assert shown.tab.evaluate("[...document.querySelectorAll('.shard')].every((each) => before.has(each))")
    assert shown.tab.evaluate(f"{shown.row('chat/3')}.querySelector('.panel') !== null")
    assert shown.tab.evaluate("document.activeElement.id") == "filter"
    shown.tab.evaluate(f"{shown.row('chat/9')}.querySelector('.open-row').focus()")
    leases = {name: one for name, one in whole.leases.items() if name != "chat/3"}
    members = {id: replace(one, shards=tuple(leases)) for id, one in whole.members.items()}
    show(shown, Snapshot(leases, members, {}), at)
    shown.tab.until("document.querySelectorAll('.shard').length === 59")
    assert shown.text("h1") == "All 59 shards are held"
    assert shown.tab.evaluate("document.activeElement.textContent") == "chat/9"


def test_an_unchanged_fleet_changes_nothing_on_the_page(shown: Shown) -> None:
    at = fleet.now_ms()
    show(shown, fleet.healthy(3, 60, at), at)
    shown.open()
    shown.tab.evaluate(
        "globalThis.changed = [];"
        "new MutationObserver((seen) => changed.push(...seen.map((each) => each.target.className)))"
        ".observe(by('table'), { subtree: true, childList: true, attributes: true, characterData: true })"
    )
    for _ in range(3):
        shown.poll()
    assert set(shown.tab.evaluate("changed")) <= {"since number", ""}  # the ages of what has just become older
    assert len(shown.tab.evaluate("changed")) < 120


def test_an_outage_of_the_store_is_told_and_the_last_facts_stay_with_their_age(troubled: Shown) -> None:
    troubled.sources.error = "the connection timed out"
    troubled.poll()
    troubled.tab.until("by('banner').checkVisibility()")
    assert troubled.text("#banner").startswith("The store cannot be read: the connection timed out.")
    assert troubled.text("#pulse-text").endswith("ago")
    assert troubled.tab.evaluate("document.querySelectorAll('.shard').length") == 101
    troubled.sources.error = ""
    troubled.poll()
    troubled.tab.until("!by('banner').checkVisibility()")
    assert troubled.text("#pulse-text") == "live"


def test_an_outage_before_the_first_look_is_told(shown: Shown) -> None:
    shown.sources.error = "the connection timed out"
    shown.tab.open(shown.url)
    shown.tab.until("by('banner').checkVisibility()")
    assert shown.text("h1") == "Cannot tell who owns what"
    assert "the connection timed out" in shown.text("#banner")
    show(shown, fleet.healthy(3, 60, fleet.now_ms()))
    shown.sources.error = ""
    shown.tab.until("document.querySelectorAll('.shard').length === 60")
    assert shown.text("h1") == "All 60 shards are held"
    assert [each for each in shown.tab.complaints if "status of 503" not in each] == []
    shown.tab.complaints.clear()  # the browser itself tells of each 503


def test_old_data_is_called_old_although_every_answer_comes(shown: Shown) -> None:
    show(shown, fleet.healthy(3, 60, fleet.now_ms()))
    shown.sources.age_s = 42.0
    shown.open()
    shown.tab.until("by('banner').checkVisibility()")
    assert shown.text("#pulse-text") in ("42 s ago", "43 s ago", "44 s ago")


def test_a_supervisor_that_does_not_answer_is_told(troubled: Shown) -> None:
    troubled.tab.evaluate("globalThis.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    troubled.poll()
    troubled.tab.until("by('banner').checkVisibility()")
    assert troubled.text("#banner").startswith("This supervisor does not answer.")


@pytest.mark.parametrize("body", ["<html>", "null", "[]", "5", "{}", '{"error": "x"}'])
def test_what_is_no_answer_of_a_supervisor_is_told_in_plain_words(troubled: Shown, body: str) -> None:
    troubled.tab.evaluate(f"globalThis.fetch = () => Promise.resolve(new Response({body!r}))")
    troubled.poll()
    troubled.tab.until("by('banner').checkVisibility()")
    assert troubled.text("#banner").startswith("What answers here is no supervisor. What you see is what was last read")


def test_an_answer_that_cannot_be_shown_is_told_and_the_last_picture_keeps_its_age(troubled: Shown) -> None:
    broken = "new Response(JSON.stringify({ ...link.data, supervisors: 5 }))"
    troubled.tab.evaluate(f"globalThis.fetch = () => Promise.resolve({broken})")
    shown_at = troubled.tab.evaluate("link.atMs")
    troubled.poll()
    troubled.tab.until("by('banner').checkVisibility()")
    assert troubled.text("#banner").startswith("The newest answer cannot be shown.")
    assert troubled.text("#pulse-text") != "live"
    assert troubled.tab.evaluate("link.atMs") == shown_at
    troubled.tab.evaluate("drawChoice()")  # what a click does
    assert troubled.tab.evaluate("document.querySelectorAll('.shard').length") == 101
    troubled.tab.until("!link.busy")
    assert troubled.tab.complaints != []  # the cause, for who looks for it
    troubled.tab.complaints.clear()


def test_every_reason_is_told_in_the_words_of_the_history_command(troubled: Shown) -> None:
    for times in (1, 3):
        changes = {reason: Change(7, "x", 1, reason, times) for reason in (*_WORDS, "novel")}
        told = troubled.tab.evaluate(
            f"Object.fromEntries({[*changes]!r}.map((each) => [each, happened({{ reason: each, times: {times} }})]))"
        )
        assert told == {reason: words(change) for reason, change in changes.items()}
    assert set(troubled.tab.evaluate("Object.keys(REASONS)")) == set(_WORDS)


def test_a_page_that_nobody_sees_asks_nothing(troubled: Shown) -> None:
    troubled.tab.until("!link.busy")
    hide = "Object.defineProperty(document, 'hidden', { configurable: true, get: () => %s })"
    troubled.tab.evaluate(hide % "true")
    looks = troubled.sources.looks
    troubled.tab.evaluate("poll()")
    assert troubled.sources.looks == looks
    troubled.tab.evaluate(hide % "false")
    troubled.tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    troubled.tab.until("!link.busy")
    assert troubled.sources.looks > looks


# --- untrusted text -------------------------------------------------------------------------------------------------

HOSTILE = [
    "<img src=x onerror=hacked()>",
    "<script>hacked()</script>",
    "</template><svg onload=hacked()>",
    "javascript:hacked()",
    "{{constructor.constructor('hacked()')()}}",
    '" onfocus=hacked() autofocus x="',
    "__proto__",
    "constructor",
    "trades/\u202e7\u200b\n\x07",
    "x" * 4000,
    "é" * 300 + "/" + "9" * 300,
]


def hostile() -> dict[str, Any]:
    """What anybody with access to the table may have written, in each field that has room for text."""
    at = fleet.now_ms()
    whole = json.loads(fleet.json_of(fleet.healthy(3, 60, at), at))
    shard, one = whole["shards"][0], whole["supervisors"][0]
    history = [{"epoch": None, "owner": "", "at": None, "reason": HOSTILE[0], "times": 1}]
    history += [{"epoch": 5, "owner": text, "at": at // 1000, "reason": text, "times": 1} for text in HOSTILE[-5:]]
    texts = ("owner", "move", "policy", "state", "trouble")
    whole["shards"] = [
        {**shard, "shard": text, **dict.fromkeys(texts, text), "history": history, "epoch": 2**62} for text in HOSTILE
    ]
    fields = ("id", "host", "zone", "task", "version", "state", "config", "rejected")
    whole["supervisors"] = [{**one, **dict.fromkeys(fields, text), "drift": True} for text in HOSTILE]
    whole["bad"] = {text: text for text in HOSTILE}
    whole["flaws"] = {text: text for text in HOSTILE}
    whole["fleet"] = HOSTILE[0]
    whole["counts"] = {"held": len(HOSTILE)}
    return dict(whole)


@pytest.mark.parametrize("width", [1280, 360])
def test_hostile_text_is_shown_as_text_and_runs_nothing(shown: Shown, width: int) -> None:
    shown.sources.body = json.dumps(hostile()).encode()
    shown.tab.resize(width, 900)
    script = "globalThis.hacks = 0; globalThis.hacked = () => { hacks += 1; };"
    shown.tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    shown.open()
    assert shown.tab.evaluate("rows.size") == len(HOSTILE)
    shown.tab.evaluate("document.querySelectorAll('.open-row').forEach((each) => each.click())")
    for grouping in ("owner", "stream", "state"):
        shown.tab.evaluate(f"by('grouping').value = '{grouping}'; by('grouping').dispatchEvent(new Event('change'))")
        shown.tab.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 0)))")
    shown.poll()
    assert shown.tab.evaluate("hacks") == 0
    assert (
        shown.tab.evaluate("document.querySelectorAll('main img, main script, main [onload], main [onerror]').length")
        == 0
    )
    assert shown.text("#fleet") == HOSTILE[0]
    names = shown.texts(".shard .open-row")
    assert HOSTILE[0] in names
    assert "constructor constructor" in shown.texts(".changes .what")
    assert "trades/\\u{202e}7\\u{200b}\\u{a}\\u{7}" in names
    assert shown.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_obeys_a_policy_that_lets_nothing_else_run(troubled: Shown) -> None:
    """That nothing was refused meanwhile is seen by the fixture, which hears every violation."""
    for code in (
        "const each = document.createElement('script'); each.text = 'hacked = 1'; document.head.append(each)",
        "document.body.innerHTML = '<b>x</b>'",
    ):
        with pytest.raises(RuntimeError, match=r"TrustedScript|TrustedHTML"):
            troubled.tab.evaluate(f"(() => {{ {code} }})()")
    troubled.tab.evaluate("document.body.append(Object.assign(document.createElement('img'), { src: '/x.png' }))")
    troubled.tab.until("1")
    blocked = "fetch('http://127.0.0.1:1/').then(() => 'sent', (error) => error.name)"
    assert troubled.tab.evaluate(blocked) == "TypeError"
    assert troubled.tab.evaluate("typeof hacked") == "undefined"
    refused = [each for each in troubled.tab.complaints if "Content Security Policy" in each or "Trusted" in each]
    assert len(refused) >= 3
    assert any("connect-src" in each for each in refused)
    troubled.tab.complaints.clear()


# --- for every eye --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_enough_in_light_and_in_dark(troubled: Shown, scheme: str) -> None:
    troubled.tab.prefer(scheme)
    troubled.tab.evaluate(f"{troubled.row('trades/7')}.querySelector('.open-row').click()")
    assert troubled.tab.evaluate(CONTRAST) == []
    ground = troubled.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 300) == (scheme == "dark")


@pytest.mark.parametrize("width", [320, 360, 600, 900, 1280, 1920])
def test_no_width_scrolls_sideways(troubled: Shown, width: int) -> None:
    troubled.tab.resize(width, 780, mobile=width < 700)
    troubled.tab.evaluate(
        "document.querySelectorAll('.group:nth-child(-n+5) .open-row').forEach((each) => each.click())"
    )
    assert troubled.tab.evaluate("document.documentElement.scrollWidth") <= width
    over = (
        "[...document.querySelectorAll('main *')].filter((each) => each.checkVisibility() && "
        f"each.getBoundingClientRect().right > {width} + 1 && !each.closest('.track')).map((each) => each.className)"
    )
    assert troubled.tab.evaluate(over) == []


def test_everything_one_can_use_has_a_name_for_those_who_hear_the_page(troubled: Shown) -> None:
    troubled.tab.call("Accessibility.enable")
    tree = troubled.tab.call("Accessibility.getFullAXTree")["nodes"]
    usable = ("button", "searchbox", "combobox", "link")
    nodes = [each for each in tree if each.get("role", {}).get("value") in usable and not each["ignored"]]
    assert [each for each in nodes if not each.get("name", {}).get("value")] == []
    assert {"To the shards", "Filter shards", "Group by", "1 silent", "depth/2"} <= {
        each["name"]["value"] for each in nodes
    }
    rows = [each for each in tree if each.get("role", {}).get("value") == "row"]
    names = {each.get("name", {}).get("value") for each in rows}
    assert {"trades/7, silent, ip-10-0-1-20 · 00017cfb", "telemetry/0, free, nobody"} <= names
    assert len(names) > 101
    roles = {each.get("role", {}).get("value") for each in tree}
    assert {"table", "row", "columnheader", "cell", "banner", "main", "contentinfo", "heading", "status"} <= roles


def test_a_thousand_shards_are_shown_within_the_second_that_a_visitor_waits(shown: Shown) -> None:
    """With room for a machine that does much else; `tests.bench.page` measures it."""
    show(shown, fleet.healthy(10, 1000, fleet.now_ms()))
    shown.open()
    shown.tab.until("document.querySelectorAll('.shard').length === 1000", timeout_s=10)
    shown.tab.call("Page.reload")
    shown.tab.until("document.readyState === 'complete' && typeof link === 'object' && link.data !== null")
    took_ms = shown.tab.evaluate(
        "new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => drawn(performance.now()), 0)))"
    )
    assert took_ms < 5000
