// The page's own script: brings pieces up to date, opens the panel, keys, search, theme. No page needs it to be read.
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

// What a person opened, wrote or focused stays so when an element is made anew.
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
    if (made.dataset.node) touched.add(made.dataset.node);
  }
  const shown = panel?.querySelector("[data-panel]")?.dataset.panel;
  if (shown && touched.has(shown)) refresh(shown);
  mark();
  filter();
}

function listen() {
  const address = document.body.dataset.live;
  if (!address || stream) return;
  stream = new EventSource(address);
  stream.onopen = () => say("live", false);
  stream.onmessage = (event) => {
    const update = JSON.parse(event.data);
    apply(update);
    document.body.dataset.live = address.replace(/v=-?\d+/, `v=${update.version}`);
  };
  stream.onerror = () => say("connection lost", true);
}

function say(text, bad) {
  const live = byId("live");
  live.hidden = false;
  live.textContent = text;
  live.classList.toggle("bad", bad);
}

// A browser keeps few connections to one server: a page that nobody sees gives its one back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && stream) {
    stream.close();
    stream = null;
  } else if (!document.hidden) listen();
});

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

// --- steering -------------------------------------------------------------------------------------------------------

async function steer(form) {
  const said = form.querySelector(".said");
  const body = new URLSearchParams(new FormData(form));
  body.set("part", "1");
  form.classList.add("busy");
  try {
    const answer = await fetch(form.action, { method: "POST", body });
    const text = await answer.text();
    if (answer.status === 200 || answer.status === 409) said.innerHTML = text;
    else said.textContent = answer.headers.get("content-type") === "application/json" ? JSON.parse(text).detail : text;
    if (answer.ok) form.elements.text.value = "";
  } catch {
    said.textContent = "The server does not answer: is 'scientist view' still running?";
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

// The legend's words become switches: several of one sort widen, sorts narrow.
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
  const nodes = [...document.querySelectorAll(".rows > li:not(.out)")].map((one) => one.dataset.node);
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
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { j: () => panel && step(1), k: () => panel && step(-1), "/": () => search?.focus(), "?": () => byId("keys").showModal() };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

listen();
if (panel && /^#n\d+$/.test(location.hash)) {
  const node = location.hash.slice(1);
  show(`${document.body.dataset.run}/nodes/${node}`).then(() => byId(`g-${node}`)?.scrollIntoView({ block: "center", inline: "center" }));
}
