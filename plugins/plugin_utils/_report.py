# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One start as one HTML file: no script, no other file, no address that a browser would open by itself.

Takes what ``server_wait`` or ``log_diagnosis_info`` returned, and the plan where there was one. Everything that comes
from outside goes through ``text``: masked, cut, escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.llmhost.sglang.plugins.module_utils._startup.verdict import mask
from ansible_collections.llmhost.sglang.plugins.plugin_utils._words import OUTCOME_WORDS, PHASE_WORDS, STEP_WORDS

TEXT_LIMIT = 4000
TAIL_LIMIT = 32 * 1024
RANKS_SHOWN = 16
LIST_LIMIT = 40
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)

LAST = ("http", "warmup", "runtime")  # phases of the whole server
GOOD = ("ready",)
NEUTRAL = ("stopped", "in_progress", "skipped")

# Hues of the phases in their order, and of a plan's items; lightness comes from the style.
PHASE_HUES = dict(zip(PHASE_WORDS, (220, 260, 190, 215, 150, 35, 15, 290, 330, 120)))
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1d22; --soft: #5d6470; --line: #dcdfe5; --panel: #f6f7f9;
  --good: #17704a; --bad: #b3261e; --plain: #4a5260; --bar: 48%; --bar-ink: #fff; --link: #1a56a8; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171b; --ink: #e6e8ec; --soft: #9aa2af; --line: #333842;
  --panel: #1d2026; --good: #2f9e6e; --bad: #e0655c; --plain: #7b8494; --bar: 58%; --bar-ink: #101114;
  --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; }
.badge { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: var(--bar-ink); font-weight: 600;
  background: var(--plain); }
.badge.good { background: var(--good); } .badge.bad { background: var(--bad); }
.verdict { border-left: 4px solid var(--plain); background: var(--panel); padding: .7rem 1rem; margin: 1rem 0;
  border-radius: 0 .4rem .4rem 0; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.verdict p:first-child { font-size: 1.1rem; font-weight: 600; margin-top: 0; }
code, pre { font: .85rem/1.45 ui-monospace, monospace; }
code { background: var(--panel); padding: .05rem .3rem; border-radius: .25rem; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem; overflow-x: auto;
  max-height: 28rem; margin: .4rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--soft); } td.number, th.number { text-align: right; white-space: nowrap; }
ol, ul { padding-left: 1.3rem; margin: .4rem 0; } li { margin: .35rem 0; overflow-wrap: anywhere; }
svg { display: block; width: 100%; overflow: visible; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg text.soft { fill: var(--soft); font-size: 12px; } svg line { stroke: var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; list-style: none; padding: 0; font-size: .9rem; }
.legend li { margin: 0; } .swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem;
  margin-right: .35rem; vertical-align: -.05rem; }
summary { cursor: pointer; color: var(--link); }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; border-top: 1px solid var(--line); }
"""


def start_report(
    verdict: Mapping[str, Any], host: str = "", name: str = "", plan: Mapping[str, Any] | None = None
) -> str:
    """The whole page."""
    outcome = str(verdict.get("outcome") or "unknown")
    words = OUTCOME_WORDS.get(outcome, outcome)
    about = " on ".join(part for part in (name or _instance(verdict) or "SGLang", host) if part)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>%s: %s</title>" % (text(about), text(words)),
        "<style>%s%s</style></head><body><main>" % (STYLE, _hues()),
        *_head(verdict, about, outcome, words),
        *_remedies(verdict),
        *_timeline(verdict),
        *_memory(verdict),
        *_plan(verdict, plan or {}),
        *_evidence(verdict),
        *_detail(verdict),
        *_tail(verdict),
        *_foot(verdict),
        "</main></body></html>",
        "",
    ]
    return "\n".join(parts)


def text(value: Any, limit: int = TEXT_LIMIT) -> str:
    """Anything from outside, fit for a page."""
    whole = str(value)
    shown = mask(whole[: 2 * limit + 4096].replace("\r\n", "\n").replace("\r", "\n"))
    cut = len(shown) > limit or len(whole) > 2 * limit + 4096
    shown = "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in shown[:limit])
    # "{{" in somebody's log must stay text, also where the page is handed on in a variable
    return escape(shown + ("..." if cut else "")).replace("{", "&#123;")


def _instance(verdict: Mapping[str, Any]) -> str:
    unit = str(verdict.get("unit") or "")
    return unit[len("sglang-") : -len(".service")] if unit.startswith("sglang-") and unit.endswith(".service") else unit


def _mood(outcome: str) -> str:
    return "good" if outcome in GOOD else "" if outcome in NEUTRAL else "bad"


def _phase(name: Any) -> str:
    return PHASE_WORDS.get(str(name), str(name))


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 10:
        return "%.1f s" % seconds
    if seconds < 120:
        return "%d s" % round(seconds)
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return "%d min %d s" % (minutes, rest) if rest else "%d min" % minutes
    return "%d h %d min" % divmod(minutes, 60)


def _hues() -> str:
    phases = ["--%s: hsl(%d 55%% var(--bar));" % (name.replace("_", "-"), hue) for name, hue in PHASE_HUES.items()]
    return ":root { %s --item: hsl(215 55%% var(--bar)); }\n" % " ".join(phases)


def _colour(phase: str) -> str:
    return "var(--%s)" % phase.replace("_", "-") if phase in PHASE_HUES else "var(--plain)"


# -- sections ---------------------------------------------------------------------------------------------------------


def _head(verdict: Mapping[str, Any], about: str, outcome: str, words: str) -> Iterator[str]:
    mood = _mood(outcome)
    yield "<header><h1>%s</h1>" % text(about)
    facts = ['<span class="badge %s">%s</span>' % (mood, text(words))]
    if verdict.get("seconds") is not None:
        facts.append("after %s" % duration(_number(verdict["seconds"])))
    if verdict.get("phase") and outcome not in GOOD:
        facts.append("while %s" % text(_phase(verdict["phase"])))
    yield "<p>%s</p></header>" % " ".join(facts)
    yield '<section class="verdict %s"><p>%s</p>' % (mood, text(verdict.get("message") or "No verdict."))
    if verdict.get("cause"):
        again = "may succeed later without a change" if verdict.get("retryable") else "fails again without a change"
        again = "" if outcome in (*GOOD, *NEUTRAL) else ". The same start %s" % again
        yield "<p>Cause: <code>%s</code>%s.</p>" % (text(verdict["cause"]), again)
    line = _mapping(verdict.get("evidence")).get("line")
    if line and outcome not in GOOD:
        yield "<pre>%s</pre>" % text(line)
    yield "</section>"


def _remedies(verdict: Mapping[str, Any]) -> Iterator[str]:
    remedies, wrong = _list(verdict.get("remedies")), _list(verdict.get("not_remedies"))
    if remedies:
        yield "<section><h2>What to change</h2><ol>"
        for one in map(_mapping, remedies[:LIST_LIMIT]):
            yield "<li>%s" % text(one.get("text") or one.get("id") or "")
            for option, value in _mapping(one.get("arguments")).items():
                yield "<br><code>%s</code>" % text(
                    "%s: %s" % (option, value) if value is not None else "%s: leave it out" % option
                )
            if one.get("host_action"):
                yield '<br><span class="soft">On the host: %s</span>' % text(one["host_action"])
            proof = _mapping(one.get("proven_by"))
            if proof:
                yield '<br><span class="soft">Planned with it: %s</span>' % text(
                    ", ".join("%s %s" % item for item in proof.items() if item[1] is not None)
                )
            yield "</li>"
        yield "</ol></section>"
    if wrong:
        yield "<section><h2>What does not help</h2><ul>"
        yield from ("<li>%s</li>" % text(one) for one in wrong[:LIST_LIMIT])
        yield "</ul></section>"


def _timeline(verdict: Mapping[str, Any]) -> Iterator[str]:
    phases = [one for one in map(_mapping, _list(verdict.get("timeline"))) if one.get("began") is not None]
    if not phases:
        return
    begin = min(_number(one["began"]) for one in phases)
    end = max(_number(one["began"]) + _number(one.get("seconds")) for one in phases)
    span = max(end - begin, 0.001)
    yield "<section><h2>Timeline</h2>"
    rows = _rows(phases, begin, end)
    shown = rows[:RANKS_SHOWN]
    step = 34
    height = step * len(shown) + 24
    yield '<svg class="timeline" height="%d" role="img" aria-label="Phases by rank">' % height
    for moment in _ticks(span):
        left = 100.0 * moment / span
        anchor = "start" if left < 5 else "end" if left > 90 else "middle"
        yield '<line x1="%.3f%%" x2="%.3f%%" y1="0" y2="%d"/>' % (left, left, height - 18)
        yield '<text class="soft" x="%.3f%%" y="%d" text-anchor="%s">%s</text>' % (
            left, height - 4, anchor, duration(moment) if moment else "0",
        )  # fmt: skip
    for index, (label, segments) in enumerate(shown):
        top = index * step
        yield '<text x="0" y="%d">%s</text>' % (top + 12, text(label, 60))
        for phase, start, stop in segments:
            left, width = min(99.6, 100.0 * (start - begin) / span), 100.0 * max(stop - start, 0.0) / span
            yield '<rect x="%.3f%%" y="%d" width="%.3f%%" height="12" rx="2" fill="%s"><title>%s</title></rect>' % (
                left, top + 17, max(width, 0.4), _colour(phase),
                text("%s, %s: %s" % (label, _phase(phase), duration(stop - start))),
            )  # fmt: skip
    yield "</svg>"
    if len(rows) > len(shown):
        yield '<p class="soft">%d more ranks are not drawn.</p>' % (len(rows) - len(shown))
    yield '<div class="scroll"><table><tr><th>Phase</th><th class="number">Took</th><th class="number">Ranks apart</th>'
    yield "</tr>"
    for one in phases:
        name = str(one.get("phase"))
        seconds = one.get("seconds")
        apart = _number(one.get("rank_spread_s"))
        yield '<tr><td><span class="swatch" style="background:%s"></span>%s</td><td class="number">%s</td>' % (
            _colour(name), text(_phase(name)), "" if seconds is None else duration(_number(seconds)),
        )  # fmt: skip
        yield '<td class="number">%s</td></tr>' % (duration(apart) if apart > 0 else "")
    yield "</table></div></section>"


def _rows(
    phases: Sequence[Mapping[str, Any]], begin: float, end: float
) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """(label, [(phase, from, to)]) by rank; ranks that told nothing of a phase have none of it."""
    starts: dict[str, list[tuple[float, str]]] = {}
    begun = [_number(one["began"]) for one in phases]
    finish = [_number(one["began"]) for one in phases if str(one.get("phase")) in LAST]
    for one in phases:
        began = _number(one["began"])
        offsets = _mapping(one.get("by_rank")) or dict.fromkeys(_list(one.get("ranks")) or [""], 0.0)
        for rank, offset in offsets.items():
            starts.setdefault(str(rank), []).append((began + _number(offset), str(one.get("phase"))))
    named = [rank for rank in starts if rank]
    rows = []
    for rank in sorted(starts, key=_natural):
        marks = sorted(starts[rank], key=lambda mark: mark[0])
        stops = [mark[0] for mark in marks[1:]] + [end]
        if named and not rank:  # the launcher tells nothing of its ranks' phases: its own ends where theirs begins
            stops = [min([stop, *(one for one in begun if one > mark[0])]) for mark, stop in zip(marks, stops)]
        elif named and marks[-1][1] not in LAST:  # nor does every rank tell that the last phases have come
            stops[-1] = min([end, *(one for one in finish if one > marks[-1][0])])
        label = rank or ("launcher" if named else "server")
        rows.append((label, [(phase, start, max(start, stop)) for (start, phase), stop in zip(marks, stops)]))
    return rows


def _natural(rank: str) -> list[Any]:
    """TP10 after TP9; the launcher first."""
    digits = "".join(one if one.isdecimal() else " " for one in rank).split()
    return [[int(one) for one in digits[:8]], rank]


def _ticks(span: float) -> list[float]:
    step = next((one for one in TICKS if span / one <= 5), TICKS[-1])
    return [float(step * index) for index in range(int(min(span / step, 60)) + 1)]


def _memory(verdict: Mapping[str, Any]) -> Iterator[str]:
    entries = [one for one in map(_mapping, _list(verdict.get("memory"))) if _free(one) is not None]
    if not entries:
        return
    rank = _fullest(entries)
    steps = [one for one in entries if one.get("rank") == rank][:LIST_LIMIT]
    most = max(max(_free(one) or 0.0 for one in steps), 0.001)
    of = ""
    if len({str(one.get("rank")) for one in entries}) > 1:
        of = " of rank %s, which had least" % text(rank, 60)
    yield '<section><h2>Free memory, as SGLang printed it</h2><p class="soft">In GiB%s.</p>' % of
    yield '<div class="scroll"><table class="steps">'
    seen: dict[str, int] = {}
    for one in steps:
        at, free = str(one.get("at")), _free(one) or 0.0
        count = seen[at] = seen.get(at, 0) + 1
        label = STEP_WORDS.get(at, at) + (" (%d)" % count if count > 1 else "")
        yield '<tr><td>%s</td><td style="width:50%%"><svg height="16" role="img" aria-label="%s">' % (
            text(label), text("%.2f GiB free" % free),
        )  # fmt: skip
        yield '<rect x="0" y="3" height="10" rx="2" width="%.3f%%" fill="var(--item)"/></svg></td>' % (
            max(0.3, 100.0 * max(free, 0.0) / most)
        )
        yield '<td class="number">%.2f</td></tr>' % free
    yield "</table></div></section>"


def _free(entry: Mapping[str, Any]) -> float | None:
    for key in ("avail_mem_gb", "available_gpu_mem_gb"):
        if entry.get(key) is not None:
            return _number(entry[key])
    return None


def _fullest(entries: Sequence[Mapping[str, Any]]) -> Any:
    """The rank with least free memory before loading: SGLang sizes all ranks by it."""
    begun = [one for one in entries if one.get("at") == "load_begin"] or list(entries)
    return min(begun, key=lambda one: _free(one) or 0.0).get("rank")


def _plan(verdict: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    cards = [one for one in map(_mapping, _list(plan.get("budget"))) if _number(one.get("total_gib")) > 0]
    compared = [one for one in map(_mapping, _list(verdict.get("plan_compared"))) if one.get("item")]
    if not cards and not compared:
        return
    yield "<section><h2>The plan</h2>"
    if plan.get("verdict"):
        yield "<p>Planned before the start: <code>%s</code>%s.</p>" % (
            text(plan["verdict"]),
            ", %s tokens of context" % text(plan["max_total_num_tokens"]) if plan.get("max_total_num_tokens") else "",
        )
    if compared:
        off = {str(one.get("item")) for one in map(_mapping, _list(verdict.get("plan_drift")))}
        yield '<div class="scroll"><table><tr><th>Item</th><th class="number">Planned</th><th class="number">Was</th>'
        yield '<th class="number">Off</th></tr>'
        for one in compared[:LIST_LIMIT]:
            percent = "" if one.get("off_percent") is None else "%+.1f %%" % _number(one["off_percent"])
            mark = "<strong>%s</strong>" % percent if str(one["item"]) in off else percent
            unit = " " + text(one["unit"]) if one.get("unit") else ""
            yield "<tr><td>%s</td>" % text(one.get("text") or one["item"])
            for cell in (_amount(one.get("planned")) + unit, _amount(one.get("actual")) + unit, mark):
                yield '<td class="number">%s</td>' % cell
            yield "</tr>"
        yield "</table></div>"
    for card in cards[:RANKS_SHOWN]:
        yield from _card(card)
    yield "</section>"


def _amount(value: Any) -> str:
    number = _number(value)
    return "%d" % number if number == int(number) and number >= 1000 else "%.2f" % number


def _card(card: Mapping[str, Any]) -> Iterator[str]:
    missing, total = _number(card.get("missing_gib")), _number(card.get("total_gib"))
    entries = [one for one in map(_mapping, _list(card.get("entries"))) if _number(one.get("gib")) > 0]
    whole = max(total + missing, sum(_number(one["gib"]) for one in entries), 0.001)
    short = ", %.2f GiB missing" % missing if missing > 0 else ""
    yield "<h3>GPU %s %s: %.1f GiB%s</h3>" % (text(card.get("gpu")), text(card.get("name") or ""), total, short)
    yield '<svg height="30" role="img" aria-label="Planned use of the card">'
    left = 0.0
    legend = []
    for index, one in enumerate(entries):
        width = 100.0 * _number(one["gib"]) / whole
        # neighbours far apart on the wheel; what is not assigned has no colour of its own
        colour = "hsl(%d 45%% var(--bar))" % (index * 137 % 360) if one.get("item") != "unassigned" else "var(--line)"
        label = "%s: %.2f GiB" % (one.get("text") or one.get("item"), _number(one["gib"]))
        yield '<rect x="%.3f%%" y="2" width="%.3f%%" height="22" fill="%s"><title>%s</title></rect>' % (
            left, width, colour, text(label),
        )  # fmt: skip
        legend.append('<li><span class="swatch" style="background:%s"></span>%s</li>' % (colour, text(label)))
        left += width
    if missing > 0:
        edge = 100.0 * total / whole
        yield '<line x1="%.3f%%" x2="%.3f%%" y1="0" y2="28" style="stroke:var(--bad);stroke-width:2"/>' % (edge, edge)
    yield "</svg>"
    yield '<ul class="legend">%s</ul>' % "".join(legend)


def _evidence(verdict: Mapping[str, Any]) -> Iterator[str]:
    evidence = _mapping(verdict.get("evidence"))
    outside = _outside(evidence.get("outside"))
    frames, discarded = _list(evidence.get("frames")), _list(evidence.get("discarded"))
    where = []
    if evidence.get("number"):
        where.append("line %s of the output" % text(evidence["number"]))
    if evidence.get("ranks"):
        where.append("said by %s" % text(", ".join(map(str, _list(evidence["ranks"])[:64]))))
    if not (where or outside or frames or discarded):
        return
    yield "<section><h2>Evidence</h2>"
    if where:
        yield "<p>The root line: %s.</p>" % ", ".join(where)
    if outside:
        yield "<h3>Outside of the log</h3><ul>"
        for source, says, effect in outside:
            yield '<li><span class="soft">%s%s</span><br>%s</li>' % (
                text(source), " (%s)" % text(effect) if effect else "", text(says),
            )  # fmt: skip
        yield "</ul>"
    if frames:
        yield "<h3>Innermost frames</h3><pre>%s</pre>" % text("\n".join(map(str, frames)))
    if discarded:
        yield "<details><summary>%d lines that are only consequences</summary><pre>%s</pre></details>" % (
            len(discarded), text("\n".join(map(str, discarded))),
        )  # fmt: skip
    yield "</section>"


def _outside(found: Any) -> list[tuple[str, str, str]]:
    """(source, words, effect) of each piece of evidence that is not in the log."""
    if isinstance(found, str):
        return [("host", found, "")] if found else []
    rows = []
    for one in map(_mapping, _list(found)[:LIST_LIMIT]):
        rows.append((str(one.get("source") or "host"), str(one.get("says") or ""), str(one.get("effect") or "")))
    return rows


def _detail(verdict: Mapping[str, Any]) -> Iterator[str]:
    detail = _mapping(verdict.get("detail"))
    stack = detail.get("stack")
    rows = [(key, value) for key, value in detail.items() if key != "stack" and value not in (None, "", [], {})]
    if rows:
        yield '<section><h2>Details</h2><div class="scroll"><table>'
        for key, value in rows[:LIST_LIMIT]:
            name, _colon, shown = text("%s: %s" % (key, _flat(value)), 1500).partition(": ")  # the name tells a secret
            yield "<tr><th>%s</th><td>%s</td></tr>" % (name.replace("_", " "), shown)
        yield "</table></div></section>"
    if stack:
        yield "<section><h2>Stack of the process that is stuck</h2><pre>%s</pre></section>" % text(
            stack if isinstance(stack, str) else _flat(stack), 16000
        )


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join("%s %s" % (key, _flat(one)) for key, one in value.items() if one not in (None, ""))
    if isinstance(value, (list, tuple)):
        return "; ".join(_flat(one) for one in value[:LIST_LIMIT])
    return str(value)


def _tail(verdict: Mapping[str, Any]) -> Iterator[str]:
    tail = str(verdict.get("log_tail") or "")
    if tail.strip():
        yield "<section><h2>End of the output</h2><details><summary>Show it</summary>"
        yield "<pre>%s</pre></details></section>" % text(tail[-TAIL_LIMIT:], TAIL_LIMIT)


def _foot(verdict: Mapping[str, Any]) -> Iterator[str]:
    facts = [
        "%s %s" % (word, text(verdict[key]))
        for key, word in (("unit", "Unit"), ("invocation_id", "start"), ("url", "address"), ("docs", "catalogue"))
        if verdict.get(key)
    ]
    yield "<footer><p>%s</p></footer>" % ("; ".join(facts) or "llmhost.sglang")


# -- what comes in may be anything ------------------------------------------------------------------------------------


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if abs(found) < 1e15 else 0.0  # no infinity, and nan is not smaller than anything
