// Live updates, details panel, keyboard shortcuts, search and theme. Every page can be read without this script.
"use strict";

const byId = (id) => document.getElementById(id);
const panel = byId("panel");
const search = byId("search");
let stream = null;
let opener = null;
let trail = [];

// --- theme ----------------------------------------------------------------------------------------------------------

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
byId("theme").addEventListener("click", () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (document.documentElement.dataset.theme || system) === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
});
byId("help").addEventListener("click", () => byId("keys").showModal());

// --- live updates ---------------------------------------------------------------------------------------------------

// Keeps what the user opened, typed or focused when an element is replaced.
function replace(element, html) {
  const open = new Map([element, ...element.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const fields = [...element.querySelectorAll("textarea[id], select[id], input[type=radio][id]")];
  const written = fields.map((one) => [one.id, one.type === "radio" ? "checked" : "value", one.type === "radio" ? one.checked : one.value]);
  const inside = element.contains(document.activeElement);
  const name = inside ? document.activeElement.id : "";
  element.outerHTML = html;
  for (const [id, was] of open) if (byId(id)?.matches("details")) byId(id).open = was;
  for (const [id, property, was] of written) if (byId(id)) byId(id)[property] = was;
  if (name) byId(name)?.focus({ preventScroll: true });
  return inside && !(name && byId(name));
}

function apply(update) {
  const touched = new Set();
  for (const id of update.gone) byId(id)?.remove();
  for (const [id, parent, html, attributes] of update.pieces) {
    const known = byId(id);
    if (attributes) {
      for (const [name, value] of Object.entries(attributes)) known?.setAttribute(name, value);
      continue;
    }
    const focused = known ? replace(known, html) : void byId(parent)?.insertAdjacentHTML("beforeend", html);
    const made = byId(id);
    if (!made) continue;
    if (focused) made.querySelector("a, button, input")?.focus({ preventScroll: true });
    for (const part of made.querySelectorAll(".lazy")) sight.observe(part);
    if (made.dataset.node) touched.add(made.dataset.node);
  }
  const shown = panel?.querySelector("[data-panel]")?.dataset.panel;
  if (shown && touched.has(shown)) refresh(shown);
  mark();
  filter();
  tell();
  stale();
}

function listen() {
  const address = document.body.dataset.live;
  if (!address || stream) return;
  stream = new EventSource(address);
  stream.onopen = tell;
  stream.onmessage = (event) => {
    const update = JSON.parse(event.data);
    apply(update);
    document.body.dataset.live = address.replace(/v=-?\d+/, `v=${update.version}`);
  };
  stream.onerror = () => say("connection lost", true);
}

// Only running runs are shown as live; a finished run stays connected silently.
const running = () => document.querySelector("#state.c-running, tr.run .c-running") !== null;
const tell = () => say(running() ? "live" : "", false);

function say(text, bad) {
  const live = byId("live");
  live.hidden = !text;
  live.textContent = text;
  live.classList.toggle("bad", bad);
}

// Browsers limit connections per server, so a hidden page closes its own.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && stream) {
    stream.close();
    stream = null;
  } else if (!document.hidden) listen();
});

// Marks tables that are wider than the window.
function wide() {
  for (const one of document.querySelectorAll(".scroll")) one.toggleAttribute("data-wide", one.scrollWidth > one.clientWidth + 8);
}
addEventListener("resize", wide);
document.addEventListener("toggle", wide, true);

// --- parts that are fetched when they become visible ----------------------------------------------------------------

const EVERY = 2000;
const inSight = new Set();
let late = null;

async function load(part) {
  const html = await fetched(part.dataset.part).catch(() => null);
  if (html === null) return;
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const across = part.querySelector(".scroll")?.scrollLeft;
  part.innerHTML = html;
  part.classList.add("there");
  if (across) part.querySelector(".scroll")?.scrollTo(across, 0);
  wide();
  if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  mark();
}

// Visible parts are fetched again after updates, at most every two seconds.
function stale() {
  late ??= setTimeout(() => {
    late = null;
    for (const part of inSight) if (part.isConnected) load(part); else inSight.delete(part);
  }, EVERY);
}

const sight = new IntersectionObserver((seen) => {
  for (const one of seen) {
    const known = inSight.has(one.target);
    inSight[one.isIntersecting ? "add" : "delete"](one.target);
    if (one.isIntersecting && !known) load(one.target);
  }
}, { rootMargin: "200px" });
// Only after the page itself is painted.
addEventListener("load", () => requestAnimationFrame(() => setTimeout(() => {
  wide();
  for (const part of document.querySelectorAll(".lazy")) sight.observe(part);
})));
setInterval(() => document.hidden || document.querySelectorAll("#now .lazy").forEach(load), 5000);

// --- the panel ------------------------------------------------------------------------------------------------------

async function fetched(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("part", "1");
  const answer = await fetch(url);
  return answer.ok ? answer.text() : null;
}

async function show(address) {
  panel.setAttribute("aria-busy", "true");
  const html = await fetched(address).catch(() => null);
  if (html === null) return location.assign(address);
  const first = panel.hidden;
  opener = first ? document.activeElement : opener;
  panel.innerHTML = html;
  if (trail.at(-1) !== address) trail.push(address);
  if (trail.length > 1) panel.querySelector(".panelhead").insertAdjacentHTML("afterbegin", '<button class="quiet back" type="button">← back</button>');
  panel.hidden = false;
  wide();
  panel.scrollTop = 0;
  panel.setAttribute("aria-busy", "false");
  document.body.classList.add("open");
  const node = panel.querySelector("[data-panel]")?.dataset.panel;
  history.replaceState(null, "", node ? `#${node}` : location.pathname + location.search);
  mark();
  if (first) panel.focus({ preventScroll: true });
}

async function refresh(node) {
  const html = await fetched(`${document.body.dataset.run}/nodes/${node}`).catch(() => null);
  const article = panel.querySelector(`[data-panel="${node}"]`);
  if (html === null || !article) return;
  const place = panel.scrollTop;
  const back = article.querySelector(".back");
  replace(article, html);
  if (back) panel.querySelector(".panelhead").prepend(back);
  panel.scrollTop = place;
}

function close() {
  if (!panel || panel.hidden) return false;
  panel.hidden = true;
  panel.replaceChildren();
  trail = [];
  document.body.classList.remove("open");
  history.replaceState(null, "", location.pathname + location.search);
  mark();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
  return true;
}

function mark() {
  const shown = panel?.querySelector("[data-panel]")?.dataset.panel;
  for (const one of document.querySelectorAll("[data-node]")) one.classList.toggle("shown", one.dataset.node === shown);
}

document.addEventListener("click", (event) => {
  if (event.target.closest(".close")) return void (close() || history.back());
  if (event.target.closest(".back")) {
    trail.pop();
    return void show(trail.at(-1));
  }
  const link = event.target.closest("a.tonode");
  if (!link || !panel || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  for (const one of document.querySelectorAll(".chosen")) one.classList.remove("chosen");
  if (link.closest(".sheet")) link.classList.add("chosen");
  show(link.getAttribute("href"));
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("form.steer")) {
    event.preventDefault();
    steer(form);
  } else if (panel && form.matches("form.ask")) {
    event.preventDefault();
    show(`${form.getAttribute("action")}?number=${encodeURIComponent(form.elements.number.value)}`);
  }
});

// --- actions --------------------------------------------------------------------------------------------------------

async function steer(form) {
  const said = form.querySelector(".said");
  const body = new URLSearchParams(new FormData(form));
  body.set("part", "1");
  form.classList.add("busy");
  try {
    const answer = await fetch(form.action, { method: "POST", body });
    const text = await answer.text();
    if (answer.status === 200 || answer.status === 409) said.innerHTML = text;
    else said.textContent = text;
    if (answer.ok) form.elements.text.value = "";
  } catch {
    said.textContent = "The server is not responding: is 'scientist view' still running?";
  }
  form.classList.remove("busy");
}

document.addEventListener("toggle", (event) => {
  const act = event.target;
  if (!act.matches?.("details.act") || !act.open) return;
  for (const other of document.querySelectorAll("details.act[open]")) if (other !== act) other.open = false;
  act.querySelector("textarea").focus({ preventScroll: true });
}, true);

function closeActs() {
  const open = [...document.querySelectorAll("details.act[open]")];
  for (const act of open) {
    act.open = false;
    if (act.contains(document.activeElement)) act.querySelector("summary").focus();
  }
  return open.length > 0;
}

// --- search, chips, keys --------------------------------------------------------------------------------------------

const chosen = { kind: new Set(), status: new Set(), path: new Set() };

function fits(row) {
  const of = { kind: row.dataset.kind, status: row.dataset.status, path: row.dataset.path };
  return Object.entries(chosen).every(([what, wanted]) => !wanted.size || wanted.has(of[what]));
}

function filter() {
  if (!search) return;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let all = 0, shown = 0;
  for (const row of document.querySelectorAll(".rows > li")) {
    const text = row.textContent.toLowerCase();
    const out = !fits(row) || !words.every((word) => text.includes(word));
    row.classList.toggle("out", out);
    byId(`g-${row.dataset.node}`)?.classList.toggle("out", out);
    all += 1;
    shown += !out;
  }
  byId("found").textContent = shown < all ? `${shown} of ${all} nodes` : "";
}

// Legend entries are filters: entries of one kind are combined with or, different kinds with and.
for (const chip of document.querySelectorAll("#legend > span")) {
  const [what, value] = Object.entries(chip.dataset)[0];
  chip.setAttribute("role", "button");
  chip.setAttribute("aria-pressed", "false");
  chip.tabIndex = 0;
  const press = () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", String(on));
    chosen[what][on ? "add" : "delete"](value);
    filter();
  };
  chip.addEventListener("click", press);
  chip.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  });
}
search?.addEventListener("input", filter);

function step(by) {
  const nodes = [...document.querySelectorAll(".rows > li:not(.out), table tr[data-node]")].map((one) => one.dataset.node);
  const at = nodes.indexOf(panel.querySelector("[data-panel]")?.dataset.panel);
  const next = nodes[at < 0 ? (by > 0 ? 0 : nodes.length - 1) : Math.min(nodes.length - 1, Math.max(0, at + by))];
  if (!next) return;
  byId(`g-${next}`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  show(`${document.body.dataset.run}/nodes/${next}`);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (document.activeElement === search && search) {
      search.value = "";
      search.blur();
      filter();
    } else if (!byId("keys").open) void (closeActs() || close());
    return;
  }
  if (event.target.matches("input:not([type=checkbox]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { j: () => panel && step(1), k: () => panel && step(-1), "/": () => document.querySelector("input[type=search]")?.focus(), "?": () => byId("keys").showModal() };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

// --- values of curves under the pointer -------------------------------------------------------------------------------

const short = (value) => String(Number(value.toPrecision(4)));

document.addEventListener("pointermove", (event) => {
  const plot = event.target.closest?.("svg.plot[data-low]");
  if (!plot) return;
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
  const { low, high, first, last, length, height } = Object.fromEntries(Object.entries(plot.dataset).map(([key, text]) => [key, Number(text)]));
  let best = null;
  for (const line of plot.querySelectorAll("polyline")) {
    for (const point of line.points) {
      const away = Math.abs(point.x - at.x) + Math.abs(point.y - at.y) / 4;
      if (!best || away < best.away) best = { away, point, line };
    }
  }
  if (!best) return;
  const x = short(first + (best.point.x / length) * (last - first));
  const y = short(low + (1 - best.point.y / height) * (high - low));
  plot.parentElement.querySelector(".read").textContent = `${best.line.dataset.label ? `${best.line.dataset.label}: ` : ""}${y} at ${x}`;
  let mark = plot.querySelector(".here");
  if (!mark) {
    mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
    mark.setAttribute("class", "here");
    mark.setAttribute("r", "3.5");
    plot.append(mark);
  }
  mark.setAttribute("cx", best.point.x);
  mark.setAttribute("cy", best.point.y);
});

listen();
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
if (panel && /^#n\d+$/.test(location.hash)) {
  const node = location.hash.slice(1);
  show(`${document.body.dataset.run}/nodes/${node}`).then(() => byId(`g-${node}`)?.scrollIntoView({ block: "center", inline: "center" }));
}
