"use strict";
// The page stores the messages of the server: curves, and the last state of everything else.
// It draws at most once a second, and only while it is visible.
const most = 4096, lines = 500, names = {};
let data = fresh(), shown = "recent", cursor = null, dirty = true;

function fresh() { return { run: { hosts: [], phases: [] }, status: {}, train: [], valid: [], log: [], checkpoints: [], ranks: null, end: null }; }
function take(m) {
  if (m.all) data = fresh();
  if (m.run) data.run = m.run;
  data.status = m.status;
  for (const p of m.train || []) data.train.push(p);
  for (const p of m.valid || []) data.valid.push(p);
  for (const l of m.log || []) data.log.push(l);
  for (const of of ["train", "valid"]) if (data[of].length > 2 * most) data[of] = thinned(data[of]);
  if (data.log.length > lines) data.log = data.log.slice(-lines);
  if (m.ranks) data.ranks = m.ranks;
  data.checkpoints = m.checkpoints || [];
  data.guard = m.guard;
  data.end = m.end || null;
  dirty = true;
}

// thinned keeps about one point in each of equal ranges of steps, so that the first hours
// stay as dense as the last, and the last point.
function thinned(points) {
  const gap = Math.max(1, (points.at(-1)[1] - points[0][1]) / most);
  let next = -Infinity;
  return points.filter((p, i) => {
    if (p[1] < next && i !== points.length - 1) return false;
    next = p[1] + gap;
    return true;
  });
}

function tiles() {
  const s = data.status, valid = data.valid.filter(v => !v[4]).at(-1), test = data.valid.filter(v => v[4]).at(-1);
  const all = [
    ["step", count(s.step), s.steps ? "of " + count(s.steps) : ""],
    s.span ? ["span", count(s.span)] : ["epoch", s.epochs ? count(Math.min(s.epoch, s.epochs)) : "–", s.epochs ? "of " + count(s.epochs) : ""],
    ["time left", data.end ? "–" : duration(s.left), !data.end && s.most ? "at most" : ""],
    ["training loss", s.step ? short(s.loss, 4) : "–"],
    ["validation AUC", valid ? short(valid[3], 4) : "–"],
    ["samples/s", s.speed ? count(s.speed) : "–"],
    ["samples", count(s.samples)],
    ["ranks", String(data.run.hosts.length)],
    ["phase", data.end ? "ended" : s.phase || "start"],
  ];
  if (test) all.splice(5, 0, ["test AUC", short(test[3], 4)]);
  $("tiles").replaceChildren(...all.map(([k, v, of]) => {
    const d = node("div"), value = node("dd", v);
    if (of) value.append(" ", node("small", of));
    d.append(node("dt", k), value);
    return d;
  }));
  const share = s.steps ? Math.min(100, 100 * s.step / s.steps) : 0;
  $("bar").firstElementChild.style.width = share + "%";
  $("bar").setAttribute("aria-valuenow", Math.round(share));
}

// draw draws points [step, value, test] into a chart; a value that is null is a gap.
function draw(id, points, dots, digits) {
  const box = $(id), caption = box.parentElement.querySelector("span"), figure = box.parentElement;
  names[id] = { points, digits };
  const real = points.filter(p => p[1] !== null);
  figure.hidden = real.length === 0 && id !== "loss";
  if (real.length === 0) { box.replaceChildren(svg("text", { x: W / 2, y: H / 2, "text-anchor": "middle" }, "no values yet")); return; }
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (const [x, y] of real) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
  if (x0 === x1) { x0 -= 1; x1 += 1; }
  if (y0 === y1) { const d = Math.abs(y0) * .01 || 1; y0 -= d; y1 += d; }
  const px = x => L + (x - x0) / (x1 - x0) * (W - L - R), py = y => T + (y1 - y) / (y1 - y0) * (H - T - B);
  const all = [];
  for (const v of ticks(y0, y1, 5)) all.push(svg("line", { class: "grid", x1: L, x2: W - R, y1: py(v), y2: py(v) }), svg("text", { x: L - 6, y: py(v) + 4, "text-anchor": "end" }, label(v)));
  for (const v of ticks(x0, x1, 6).filter(Number.isInteger)) all.push(svg("text", { x: px(v), y: H - 15, "text-anchor": "middle" }, label(v)));
  all.push(svg("text", { x: W - R, y: H - 2, "text-anchor": "end" }, "step"));
  const path = (ps, kind) => {
    const stride = Math.max(1, Math.ceil(ps.length / 600));
    let d = "", open = false;
    ps.forEach(([x, y], i) => {
      if (i % stride && i !== ps.length - 1) return;
      if (y === null) { open = false; return; }
      d += (open ? "L" : "M") + px(x).toFixed(1) + " " + py(y).toFixed(1);
      open = true;
    });
    all.push(svg("path", { class: kind, d }));
  };
  if (dots) {
    path(points.filter(p => !p[2]), "line");
    for (const p of real.slice(-300)) all.push(svg("circle", { class: p[2] ? "dot test" : "dot", cx: px(p[0]), cy: py(p[1]), r: p[3] ? 6 : 3 }));
  } else {
    path(points, "line faint");
    path(smooth(points, 15), "line");
  }
  let at = points.length - 1;
  while (at > 0 && points[at][1] === null) at--;
  if (cursor && cursor.id === id) {
    at = Math.max(0, Math.min(points.length - 1, cursor.at));
    all.push(svg("line", { class: "cursor", x1: px(points[at][0]), x2: px(points[at][0]), y1: T, y2: H - B }));
  }
  const p = points[at], text = "step " + count(p[0]) + ": " + (p[1] === null ? "not a number" : digits ? short(p[1], digits) : count(p[1])) + (p[2] ? " (test data)" : "");
  caption.textContent = text;
  box.setAttribute("aria-label", figure.textContent.trim());
  names[id].x = v => x0 + (v - L) / (W - L - R) * (x1 - x0);
  box.replaceChildren(...all);
}

// least returns the evaluation of validation data with the least log-loss, if the log-loss has risen by more than a
// hundredth since: the model overfits.
function least() {
  const valid = data.valid.filter(v => !v[4] && v[2] !== null);
  if (!valid.length) return null;
  const best = valid.reduce((a, b) => b[2] < a[2] ? b : a);
  return valid.at(-1)[2] > 1.01 * best[2] ? best : null;
}

function charts() {
  const best = least(), s = data.status;
  $("fit").textContent = best ? "the validation log-loss rises: the model overfits since " + (s.epochs && s.steps ? "epoch " + count(best[1] * s.epochs / s.steps) : "step " + count(best[1])) + ", the large dot" : "";
  draw("loss", data.train.map(p => [p[1], p[2]]), false, 4);
  draw("speed", data.train.map(p => [p[1], p[3]]), false, 0);
  draw("vloss", data.valid.map(p => [p[1], p[2], p[4], p === best]), true, 4);
  draw("auc", data.valid.map(p => [p[1], p[3], p[4], p === best]), true, 4);
}

function ranks() {
  const r = data.ranks, names = data.run.phases;
  if (!r) return;
  const named = (all, is) => all.map(s => "rank " + s.rank + (data.run.hosts[s.rank] ? " on host " + data.run.hosts[s.rank] : "") + " " + is + " " + short(s.factor, 1) + "× slower in " + (s.cause === "host" ? "compute" : s.cause) + " than the median of the ranks" + (s.cause === "host" ? ": its host does not let it compute" : "")).join("; ");
  const sure = r.slow.filter(s => !s.probable);
  $("slow").textContent = sure.length ? "slow: " + named(sure, "is") : r.slow.length ? "probably slow: " + named(r.slow, "is") : r.last ? "no rank stands out now; until " + new Date(r.last_at).toLocaleTimeString("en-GB") + ", " + named(r.last, "was") : data.run.hosts.length > 1 ? "no rank stands out" : "";
  $("slow").className = sure.length ? "verdict warn" : "verdict";
  $("legend").replaceChildren(...names.map((n, i) => { const s = node("span"); s.append(node("i", "", "f" + i), n + (["pull", "push", "sync"].includes(n) ? " (with waiting)" : "")); return s; }));
  const head = node("tr");
  head.append(node("th", "rank"), node("th", "share of the step", "split"), ...names.map(n => node("th", n + " %")), node("th", "host"));
  document.querySelector("#ranks thead").replaceChildren(head);
  document.querySelector("#ranks tbody").replaceChildren(...r[shown].map((parts, i) => {
    const sum = parts.reduce((a, b) => a + b, 0) || 1, row = node("tr"), cell = node("td", undefined, "split"), bar = node("div", undefined, "parts");
    parts.forEach((p, k) => {
      const part = node("i", p / sum > .025 * names[k].length ? names[k] : "", "f" + k);
      part.style.width = 100 * p / sum + "%";
      bar.append(part);
    });
    cell.append(bar);
    const mark = sure.some(s => s.rank === i) ? " (slow)" : r.slow.some(s => s.rank === i) ? " (probably slow)" : "";
    row.append(node("td", i + mark), cell, ...parts.map(p => node("td", short(100 * p / sum, 1))), node("td", data.run.hosts[i] || ""));
    if (mark) row.className = "slow";
    return row;
  }));
  document.querySelector("#tables tbody").replaceChildren(...r.tables.map(t => {
    const row = node("tr");
    row.append(node("td", t.name), node("td", count(t.rows)), node("td", bytes(t.bytes)), node("td", bytes(t.sent)), node("td", count(t.evicted)));
    return row;
  }));
}

function rest() {
  const s = data.status, dir = s.dir || "";
  $("title").textContent = dir ? "wdlrun: " + dir.split("/").pop() : "wdlrun";
  document.title = (s.step ? "step " + s.step + " – " : "") + $("title").textContent;
  const c = data.checkpoints;
  $("checkpoints").textContent = c.length ? c.length + (c.length === 1 ? " checkpoint: step " : " checkpoints: steps ") + c.slice(0, 20).map(count).join("; ") + (c.length > 20 ? "; …" : "") : "none yet";
  $("versions").hidden = data.guard === undefined;
  $("guard").textContent = data.guard ? "on hold: " + data.guard : "the guard finds the predictions good";
  const log = $("log"), low = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  log.replaceChildren(...data.log.map(l => {
    const e = node("li");
    e.append(node("time", new Date(l.t).toLocaleTimeString("en-GB")));
    if (l.warning) e.append(node("b", "warning: "));
    e.append(l.text);
    return e;
  }));
  if (low) log.scrollTop = log.scrollHeight;
}

function say(text, kind) {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = kind || "";
}

function render() {
  if (!dirty || document.hidden) return;
  dirty = false;
  tiles(); charts(); ranks(); rest();
}

function connect() {
  const source = new EventSource("/events");
  source.onmessage = e => {
    take(JSON.parse(e.data));
    if (data.end) {
      source.close();
      say((data.end.good ? "ended: " : "failed: ") + data.end.text, data.end.good ? "good" : "bad");
    } else {
      say("running" + (data.status.dir ? ", run directory " + data.status.dir : ""));
    }
    render();
  };
  source.onerror = () => {
    if (data.end) return;
    say("no connection: the training has ended, restarts, or its host does not answer; trying again. The numbers are the last ones received.", "bad");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  };
}

for (const id of ["loss", "auc", "vloss", "speed"]) {
  const box = $(id), to = at => { cursor = at === null ? null : { id, at }; charts(); };
  box.addEventListener("keydown", e => {
    const n = names[id] ? names[id].points.length : 0, at = cursor && cursor.id === id ? cursor.at : n - 1;
    const step = e.shiftKey ? 10 : 1, next = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: n - 1 }[e.key];
    if (next !== undefined && n) { to(Math.max(0, Math.min(n - 1, next))); e.preventDefault(); }
  });
  box.addEventListener("pointermove", e => {
    const c = names[id], r = box.getBoundingClientRect();
    if (!c || !c.x) return;
    const x = c.x((e.clientX - r.left) / r.width * W);
    let best = 0;
    c.points.forEach((p, i) => { if (Math.abs(p[0] - x) < Math.abs(c.points[best][0] - x)) best = i; });
    to(best);
  });
  for (const leave of ["pointerleave", "blur"]) box.addEventListener(leave, () => to(null));
}
for (const id of ["recent", "total"]) $(id).addEventListener("click", () => {
  shown = id;
  for (const o of ["recent", "total"]) $(o).setAttribute("aria-pressed", String(o === id));
  ranks();
});
document.addEventListener("visibilitychange", render);
connect();
