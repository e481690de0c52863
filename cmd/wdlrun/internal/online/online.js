"use strict";
// The page reads the status of the loop once a second.
const $ = id => document.getElementById(id);
const seconds = s => s === undefined || s === null || s < 0 ? "–" : s.toFixed(s < 10 ? 2 : 1) + " s";
const digits = x => x === undefined || x === null ? "–" : x.toFixed(4);

function table(id, rows) {
  $(id).tBodies[0].replaceChildren(...rows.map(cells => {
    const row = document.createElement("tr");
    for (const text of cells) row.append(Object.assign(document.createElement("td"), { textContent: text }));
    return row;
  }));
}

function show(s) {
  const now = Date.parse(s.time), l = s.loop, f = s.freshness;
  $("state").textContent = "step " + l.step + ", " + l.trained + " samples trained; version " + l.version + " is published, " + l.served + " is served";
  table("parts", s.parts.map(p => [p.name, p.state || "starts", p.restarts, p.error || p.note || ""]));
  table("freshness", f ? [[f.version, f.event_to_joined, f.joined_to_trained, f.trained_to_published, f.published_to_loaded, f.event_to_loaded].map((x, i) => i ? seconds(x) : x)] : []);
  const d = s.event_to_loaded;
  $("spread").textContent = d ? "The last " + d.versions + " versions: half within " + seconds(d.p50) + ", 99 % within " + seconds(d.p99) + "." : "";
  const a = s.first_answer;
  $("answered").textContent = a ? "Version " + a.version + " gave its first answer " + seconds(a.loaded_to_answer) + " after it was loaded." : "";
  $("guard").className = l.hold ? "verdict warn" : "";
  $("guard").textContent = l.hold ? "on hold: " + l.hold : "versions are published";
  $("samples").textContent = l.samples + " samples; " + l.open + " impressions are open; " + l.rejected + " records were rejected";
  table("sources", (l.sources || []).map(x => [x.name, x.time ? seconds(Math.max(0, now - x.time) / 1e3) : "–", x.behind || 0, x.ended ? "ended" : x.idle ? "idle" : "reading", x.time ? new Date(x.time).toISOString() : "–"]));
  const failed = l.failed;
  $("failed").className = failed ? "verdict warn" : "";
  $("failed").textContent = failed ? "version " + failed.version + " cannot be served: " + failed.error : "";
  table("versions", (l.versions || []).map(v => {
    const w = v.window || {};
    return [v.version, v.rollback === undefined ? v.kind : "rollback to " + v.rollback, v.step, v.taken ? seconds((now - v.taken / 1e6) / 1e3) : "–", digits(w.auc), digits(w.logloss), digits(w.calibration), (v.pins || []).join(", "), failed && failed.version === v.version ? "not served" : v.state];
  }));
}

async function read() {
  try {
    const answer = await fetch("/status.json");
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
  } catch (e) {
    $("state").textContent = "the loop does not answer: " + e.message;
  }
  setTimeout(read, 1000);
}
read();
