// The page's own script: brings pieces up to date, opens the panel, keys, search, theme. No page needs it to be read.
"use strict";

const byId = (id) => document.getElementById(id);
const panel = byId("panel");
const search = byId("search");
let stream = null;
let opener = null;

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

function replace(element, html) {
  const open = new Map([...element.parentNode.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const focused = element.contains(document.activeElement);
  element.outerHTML = html;
  for (const [id, was] of open) if (byId(id)) byId(id).open = was;
  return focused;
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
  const html = await fetched(address).catch(() => null);
  if (html === null) return location.assign(address);
  opener = panel.hidden ? document.activeElement : opener;
  panel.innerHTML = html;
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("open");
  const node = panel.querySelector("[data-panel]")?.dataset.panel;
  history.replaceState(null, "", node ? `#${node}` : location.pathname);
  mark();
}

async function refresh(node) {
  const html = await fetched(`${document.body.dataset.run}/nodes/${node}`).catch(() => null);
  const article = panel.querySelector(`[data-panel="${node}"]`);
  if (html === null || !article) return;
  const place = panel.scrollTop;
  replace(article, html);
  panel.scrollTop = place;
}

function close() {
  if (!panel || panel.hidden) return false;
  panel.hidden = true;
  panel.replaceChildren();
  document.body.classList.remove("open");
  history.replaceState(null, "", location.pathname);
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
  const link = event.target.closest("a.tonode");
  if (!link || !panel || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  show(link.getAttribute("href"));
});
document.addEventListener("submit", (event) => {
  if (!panel || !event.target.matches("form.ask")) return;
  event.preventDefault();
  show(`${event.target.getAttribute("action")}?number=${encodeURIComponent(event.target.elements.number.value)}`);
});
document.addEventListener("toggle", (event) => {
  const address = event.target.dataset?.pdf;
  if (!address || !event.target.open || event.target.querySelector("iframe")) return;
  const frame = document.createElement("iframe");
  frame.src = address;
  frame.title = "The paper";
  event.target.append(frame);
}, true);

// --- search and keys ------------------------------------------------------------------------------------------------

function filter() {
  if (!search) return;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(".rows > li")) {
    const text = row.textContent.toLowerCase();
    const out = !words.every((word) => text.includes(word));
    row.classList.toggle("out", out);
    byId(`g-${row.dataset.node}`)?.classList.toggle("out", out);
  }
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
    } else if (!byId("keys").open) close();
    return;
  }
  if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { j: () => panel && step(1), k: () => panel && step(-1), "/": () => search?.focus(), "?": () => byId("keys").showModal() };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

listen();
if (panel && /^#n\d+$/.test(location.hash)) show(`${document.body.dataset.run}/nodes/${location.hash.slice(1)}`);
