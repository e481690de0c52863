"use strict";
// The page requests the rows that it shows, and the curves of the selected runs. Its state is
// in the address, so that a bookmark or a copied address shows the same.
const shapes = 6, mostSelected = 12, falling = ["logloss", "train_logloss", "normalised_entropy", "rmse", "mae", "seconds"];
const few = ["auc", "logloss", "rmse", "train_logloss", "steps", "seconds", "ranks"];
let view = { where: "", sort: "began", reverse: true, every: false, runs: [] }, most = 100;
let table = null, chosen = null, cursor = null, asked = 0, known = "";

function restore() {
  const p = new URLSearchParams(location.hash.slice(1));
  if (p.has("where")) view.where = p.get("where");
  if (p.has("sort")) { view.sort = p.get("sort"); view.reverse = p.has("reverse"); }
  view.every = p.has("every");
  view.runs = p.getAll("run").slice(0, mostSelected);
  $("where").value = view.where;
  $("every").checked = view.every;
}
function keep() {
  const p = new URLSearchParams({ where: view.where, sort: view.sort });
  if (view.reverse) p.set("reverse", "1");
  if (view.every) p.set("every", "1");
  for (const r of view.runs) p.append("run", r);
  history.replaceState(null, "", "#" + p);
}

async function ask(path) {
  const r = await fetch(path);
  if (!r.ok) throw new Error((await r.text()).trim());
  return r.json();
}

async function refresh() {
  const turn = ++asked, p = new URLSearchParams({ where: view.where, sort: view.sort, most });
  if (view.reverse) p.set("reverse", "1");
  try {
    const t = await ask("/list?" + p);
    if (turn !== asked) return;
    const text = JSON.stringify(t);
    if (text === known) return;
    known = text;
    table = t;
    rows();
    say(t.found === t.met ? count(t.found) + " runs in " + t.dir : count(t.met) + " of " + count(t.found) + " runs in " + t.dir + " meet the conditions");
  } catch (e) {
    known = "";
    if (turn === asked) say(e.message === "Failed to fetch" ? "no connection: wdlrun runs -web has ended. The table is the last one received." : e.message, "bad");
  }
}
async function curves() {
  $("chosen").hidden = view.runs.length === 0;
  if (view.runs.length === 0) { chosen = null; return; }
  const p = new URLSearchParams();
  for (const r of view.runs) p.append("run", r);
  const wanted = String(p);
  try {
    const got = await ask("/curves?" + p), now = new URLSearchParams();
    for (const r of view.runs) now.append("run", r);
    if (String(now) !== wanted) return;
    chosen = got;
    selected();
  } catch (e) { say(e.message, "bad"); }
}
function say(text, kind) {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = kind || "";
}

function value(name, x) {
  if (x === undefined || x === null) return "–";
  if (name === "seconds") return x < 60 ? short(x, 1) + " s" : duration(x);
  return Math.abs(x) >= 1000 || Number.isInteger(x) ? count(x) : short(x, 4);
}
function head(name, title, kind) {
  const down = view.reverse !== (table.metrics.includes(name) && !falling.includes(name)), by = view.sort === name;
  const th = node("th", undefined, kind), b = node("button", title + (by ? (down ? " ▾" : " ▴") : ""));
  th.setAttribute("aria-sort", by ? (down ? "descending" : "ascending") : "none");
  b.type = "button";
  b.title = name;
  b.addEventListener("click", () => {
    view.reverse = view.sort === name ? !view.reverse : name === "began";
    view.sort = name;
    keep();
    refresh();
  });
  th.append(b);
  return th;
}
// rows shows as many settings as fit beside the metrics, but at least a few.
function rows() {
  const box = document.querySelector("#runs").parentElement;
  for (let n = table.differ.length; ; n--) {
    fill(n);
    if (view.every || n <= 2 || box.scrollWidth <= box.clientWidth) return;
  }
}
// broken lets a name break after dots and underscores.
function broken(name) { return name.replace(/[._]/g, "$&\u200b"); }
function fill(settings) {
  const t = table, more = t.more + t.differ.length - settings, metrics = t.metrics.filter(m => view.every || few.includes(m)), noted = t.rows.some(r => r.note), tagged = t.rows.some(r => r.tags);
  const mixed = t.rows.some(r => r.group > 1);
  const top = node("tr");
  top.append(node("th", ""), head("name", "run", "text"), head("state", "state", "text"), ...(mixed ? [node("th", "metrics of", "text")] : []), ...metrics.map(m => head(m, m.replaceAll("_", " "))));
  top.append(...t.differ.slice(0, settings).map(k => head(k, broken(k), "text")));
  if (tagged) top.append(head("tags", "tags", "text"));
  if (noted) top.append(head("note", "note", "text"));
  if (more) top.append(node("th", more + " more settings differ", "text"));
  document.querySelector("#runs thead").replaceChildren(top);
  const best = {};
  for (const m of ["auc", "logloss"]) for (const r of t.rows) {
    const x = r.metrics[m];
    if (r.group === 1 && x !== undefined && (best[m] === undefined || (falling.includes(m) ? x < best[m] : x > best[m]))) best[m] = x;
  }
  document.querySelector("#runs tbody").replaceChildren(...t.rows.map(r => {
    const row = node("tr", undefined, view.runs.includes(r.name) ? "on" : ""), pick = node("input"), cell = node("td"), name = node("td", r.name, "text");
    pick.type = "checkbox";
    pick.checked = view.runs.includes(r.name);
    pick.setAttribute("aria-label", "select " + r.name);
    pick.addEventListener("change", () => choose(r.name, pick.checked));
    cell.append(pick);
    if (r.began) name.title = "began " + new Date(r.began).toLocaleString("en-GB");
    const state = node("td", r.state, "text " + r.state);
    if (r.rejected) { state.textContent += ", rejected"; state.title = "train.gate: " + r.rejected; }
    if (r.faults) { state.textContent += " (!)"; state.title = r.faults.join("\n"); }
    row.append(cell, name, state, ...(mixed ? [node("td", r.group ? r.on + " (" + r.group + ")" : "–", "text")] : []), ...metrics.map(m => node("td", value(m, r.metrics[m]), t.met > 1 && r.group === 1 && best[m] !== undefined && best[m] === r.metrics[m] ? "best" : "")));
    row.append(...r.settings.slice(0, settings).map(s => { const c = node("td", s || "–", "text"); c.title = s; return c; }));
    if (tagged) { const c = node("td", undefined, "text tags"); c.append(...(r.tags || []).map(x => node("span", x, "tag"))); row.append(c); }
    if (noted) row.append(node("td", r.note || "", "text note"));
    if (more) row.append(node("td", ""));
    return row;
  }));
  $("groups").textContent = mixed ? "Metrics are comparable between runs with the same number in “metrics of”: the others have another label or other evaluated rows." : "";
  $("more").hidden = t.rows.length >= t.met || most >= 2000;
  $("more").textContent = "show more: " + count(t.met - t.rows.length) + " are not shown";
}
function choose(name, on) {
  view.runs = view.runs.filter(r => r !== name);
  if (on) view.runs.push(name);
  if (view.runs.length > mostSelected) { say("at most " + mostSelected + " runs are shown at once: " + view.runs.shift() + " is no longer selected"); }
  keep();
  rows();
  curves();
}

function kind(i) { return "s" + i % shapes + (i >= shapes ? " dashed" : ""); }
function selected() {
  $("legend").replaceChildren(...chosen.runs.map((r, i) => {
    const s = node("span"), mark = svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    mark.append(svg("path", { class: "line " + kind(i), d: "M0 5H26" }));
    s.append(mark, r.name);
    return s;
  }));
  charts();
  const top = node("tr");
  top.append(node("th", chosen.differ.length ? "settings that differ" : chosen.runs.length > 1 ? "all settings are the same" : ""), ...chosen.runs.map(r => node("th", chosen.runs.length > 1 ? r.name : "")));
  document.querySelector("#settings thead").replaceChildren(top);
  document.querySelector("#settings tbody").replaceChildren(...chosen.differ.map((key, i) => {
    const row = node("tr");
    row.append(node("td", key), ...chosen.values[i].map(v => node("td", v || "–")));
    return row;
  }));
}
const drawn = {};
function charts() {
  draw("train", r => smooth(r.train, Math.max(1, Math.min(50, Math.floor(r.train.length / 20)))), 4);
  draw("auc", r => r.auc, 4);
  draw("loss", r => r.loss, 4);
  draw("speed", r => r.speed, 0);
}
// draw draws the curve of each selected run; a value that is null is a gap.
function draw(id, of, digits) {
  const box = $(id), figure = box.parentElement, all = chosen.runs.map(of), real = all.flat().filter(p => p[1] !== null);
  figure.hidden = real.length === 0;
  if (real.length === 0) return;
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (const [x, y] of real) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
  if (x0 === x1) { x0 -= 1; x1 += 1; }
  if (y0 === y1) { const d = Math.abs(y0) * .01 || 1; y0 -= d; y1 += d; }
  const px = x => L + (x - x0) / (x1 - x0) * (W - L - R), py = y => T + (y1 - y) / (y1 - y0) * (H - T - B), out = [];
  for (const v of ticks(y0, y1, 5)) out.push(svg("line", { class: "grid", x1: L, x2: W - R, y1: py(v), y2: py(v) }), svg("text", { x: L - 6, y: py(v) + 4, "text-anchor": "end" }, label(v)));
  for (const v of ticks(x0, x1, 6).filter(Number.isInteger)) out.push(svg("text", { x: px(v), y: H - 15, "text-anchor": "middle" }, label(v)));
  out.push(svg("text", { x: W - R, y: H - 2, "text-anchor": "end" }, "step"));
  all.forEach((points, i) => {
    let d = "", open = false, n = 0;
    for (const [x, y] of points) {
      if (y === null) { open = false; continue; }
      d += (open ? "L" : "M") + px(x).toFixed(1) + " " + py(y).toFixed(1);
      open = true;
      n++;
    }
    out.push(svg("path", { class: "line " + kind(i), d }));
    if (n <= 40) for (const [x, y] of points) if (y !== null) out.push(svg("circle", { class: "s" + i % shapes, cx: px(x), cy: py(y), r: 2.5 }));
  });
  const steps = [...new Set(real.map(p => p[0]))].sort((a, b) => a - b);
  let at = steps.length - 1;
  if (cursor && cursor.id === id) {
    at = Math.max(0, Math.min(at, cursor.at));
    out.push(svg("line", { class: "cursor", x1: px(steps[at]), x2: px(steps[at]), y1: T, y2: H - B }));
  }
  const near = points => points.filter(p => p[0] <= steps[at] && p[1] !== null).at(-1);
  figure.querySelector("span").textContent = "step " + count(steps[at]) + ": " + all.map(p => near(p) ? short(near(p)[1], digits) : "–").join("  ");
  box.setAttribute("aria-label", figure.textContent.trim());
  drawn[id] = { steps, x: v => x0 + (v - L) / (W - L - R) * (x1 - x0) };
  box.replaceChildren(...out);
}

for (const id of ["train", "auc", "loss", "speed"]) {
  const box = $(id), to = at => { cursor = at === null ? null : { id, at }; if (chosen) charts(); };
  box.addEventListener("keydown", e => {
    const n = drawn[id] ? drawn[id].steps.length : 0, at = cursor && cursor.id === id ? cursor.at : n - 1, step = e.shiftKey ? 10 : 1;
    const next = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: n - 1 }[e.key];
    if (next !== undefined && n) { to(Math.max(0, Math.min(n - 1, next))); e.preventDefault(); }
  });
  box.addEventListener("pointermove", e => {
    const c = drawn[id], r = box.getBoundingClientRect();
    if (!c) return;
    const x = c.x((e.clientX - r.left) / r.width * W);
    let best = 0;
    c.steps.forEach((s, i) => { if (Math.abs(s - x) < Math.abs(c.steps[best] - x)) best = i; });
    to(best);
  });
  for (const leave of ["pointerleave", "blur"]) box.addEventListener(leave, () => to(null));
}
let typing = null;
$("where").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { view.where = $("where").value; most = 100; keep(); refresh(); }, 250);
});
$("every").addEventListener("change", () => { view.every = $("every").checked; keep(); if (table) rows(); });
$("clear").addEventListener("click", () => { view.runs = []; keep(); if (table) rows(); curves(); });
$("more").addEventListener("click", () => { most = Math.min(2000, most * 4); refresh(); });
setInterval(() => {
  if (document.hidden) return;
  refresh();
  if (table && table.rows.some(r => r.state === "running" && view.runs.includes(r.name))) curves();
}, 5000);
window.addEventListener("hashchange", () => { restore(); refresh(); curves(); });
restore();
refresh();
curves();
