"use strict";
// Code shared by the pages of wdlrun: elements, formatted numbers, and the axes of charts.
const $ = id => document.getElementById(id);
function node(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}
function svg(tag, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}

function count(n) { return n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en"); }
function short(n, digits) { return n === null || n === undefined ? "–" : Number(n).toFixed(digits); }
function bytes(n) {
  for (const [f, u] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (n >= f) return (n / f).toFixed(1) + " " + u;
  return n + " B";
}
function duration(s) {
  if (s === null || s === undefined) return "–";
  s = Math.round(s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h ? h + " h " + m + " min" : m ? m + " min " + s % 60 + " s" : s + " s";
}

const W = 560, H = 240, L = 66, R = 12, T = 10, B = 30;
function ticks(lo, hi, n) {
  const span = hi - lo;
  if (!(span > 0)) return [lo];
  let step = 10 ** Math.floor(Math.log10(span / n));
  for (const f of [1, 2, 5, 10]) if (span / (step * f) <= n) { step *= f; break; }
  const all = [];
  for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-9 && all.length < 20; v += step) all.push(v);
  return all;
}
function label(v) {
  const a = Math.abs(v);
  for (const [f, u] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (a >= f) return +(v / f).toPrecision(4) + u;
  return String(+v.toPrecision(5));
}
function smooth(points, n) {
  const out = [], window = [];
  for (const [x, y] of points) {
    if (y === null) { out.push([x, null]); continue; }
    window.push(y);
    if (window.length > n) window.shift();
    out.push([x, window.reduce((a, b) => a + b, 0) / window.length]);
  }
  return out;
}
