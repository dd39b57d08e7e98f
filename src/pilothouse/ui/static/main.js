// Starts the page: session, views, keys.

import { Cluster } from "./cluster.js";
import { fill, h, say } from "./dom.js";
import { World } from "./model.js";
import { logIn } from "./net.js";
import { ObjectPage } from "./object.js";
import { Controllers, Events, Scheduler } from "./programs.js";
import { href, route } from "./route.js";
import { Search } from "./search.js";
import { TimeLine } from "./timeline.js";
import { Workloads } from "./workloads.js";

const VIEWS = [
  ["cluster", "Cluster", Cluster],
  ["workloads", "Workloads", Workloads],
  ["events", "Events", Events],
  ["controllers", "Controllers", Controllers],
  ["scheduler", "Scheduler", Scheduler],
];
const KEYS = [
  ["1 – 5", "the views, in their order"],
  ["/", "search in this view; Enter searches objects of every kind"],
  ["0", "all kinds of objects"],
  ["[ and ]", "ten seconds into the past, and back"],
  ["n", "now"],
  ["d", "dark, light, or as the system"],
  ["Arrow keys", "through the nodes, and through tabs"],
  ["?", "this list"],
];
const HIDDEN_FOR = 5000;
const $ = (id) => document.getElementById(id);

const world = new World(changed, connection, lost);
let view = null;
let shownPath = "";
let timeLine = null;

// Views

function changed(changes) {
  view?.update(changes);
  if (changes.reset) timeLine?.announce(failure);
}

function navigate() {
  if (location.hash.startsWith("#token=")) return start();
  const { view: name, parts, at, q } = route();
  const path = `${name}/${parts.join("/")}?${q}`;
  if (path !== shownPath) show(name, parts, q, path);
  links();
  if (at !== moment) travel(at);
}

function show(name, parts, q, path) {
  const first = !shownPath;
  shownPath = path;
  view?.unmount?.();
  const main = $("main");
  if (name === "object") view = new ObjectPage(world, parts);
  else if (name === "search") view = new Search(world, parts, q);
  else view = new (VIEWS.find(([id]) => id === name) ?? VIEWS[0])[2](world);
  if (name !== "search") $("query").value = "";
  document.title = `${view.title} – pilothouse`;
  view.mount(main);
  scrollTo(0, 0);
  // As a page that is loaded would: what is read out begins at the top of the new view.
  if (!first) main.focus({ preventScroll: true });
}

function links() {
  const { view: name } = route();
  fill($("views"), VIEWS.map(([id, label], place) =>
    h("a", { href: href(id), "aria-current": id === name ? "page" : null, "aria-keyshortcuts": String(place + 1), text: label })));
}

let moment = "";
let failure = ""; // why that moment is not shown

async function travel(at) {
  moment = at;
  failure = "";
  try {
    await world.show(at);
  } catch (error) {
    if (error.name === "AbortError" || moment !== at) return;
    if (error.status === 401) return lost(error);
    failure = error.message;
    await world.show("");
  }
}

function connection(text) {
  const element = $("connection");
  element.classList.toggle("broken", text !== "live");
  say(element, text);
}

// Sessions

function lost(error) {
  shownPath = "";
  view?.unmount?.();
  view = null;
  connection("no session");
  $("timeline").hidden = true;
  const message = h("p", { class: "error", role: "alert", text: error?.status === 401 ? "" : error?.message ?? "" });
  const field = h("input", { id: "link", type: "text", autocomplete: "off", spellcheck: "false", size: "50" });
  fill($("main"),
    h("h1", { text: "This page needs a link" }),
    h("p", {}, "Each link that pilothouse prints opens it once. ", h("code", { text: "pilothouse up --ui" }), " prints one when it starts, and ",
      h("code", { text: "pilothouse ui" }), " prints another."),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      await enter(field.value.split("#token=").at(-1).trim(), message);
    } },
    h("label", { for: "link", text: "Link " }), field, " ", h("button", { text: "Open" })),
    message);
}

async function enter(token, message) {
  try {
    await logIn(token);
  } catch (error) {
    if (message) say(message, error.message);
    else {
      lost(error);
      say($("main").querySelector("[role=alert]"), error.message);
    }
    return;
  }
  history.replaceState(null, "", "#/cluster");
  begin();
}

async function start() {
  if (location.hash.startsWith("#token=")) {
    const token = location.hash.slice("#token=".length);
    // The token must not stay in the address, nor in what is restored later.
    history.replaceState(null, "", "#/cluster");
    await enter(token, null);
  } else begin();
}

function begin() {
  timeLine ??= new TimeLine(world, $("timeline"), $("past"));
  $("timeline").hidden = false;
  shownPath = "";
  moment = "";
  connection("connecting");
  navigate();
  world.follow();
}

// Theme: as the system, unless chosen.

const THEMES = { "": "Auto", light: "Light", dark: "Dark" };

function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("pilothouse-theme", chosen);
  say($("theme"), THEMES[chosen]);
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[chosen]}`);
  timeLine?.draw();
}

function nextTheme() {
  const names = Object.keys(THEMES);
  theme(names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length]);
}

// Keys

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !view) return;
  const field = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape" && field) return field.blur();
  if (field && field.type !== "checkbox" && field.type !== "range") return;
  const place = Number(event.key);
  if (place >= 1 && place <= VIEWS.length) location.hash = href(VIEWS[place - 1][0]);
  else if (event.key === "0") location.hash = href("search");
  else if (event.key === "/") $("query").focus();
  else if (event.key === "?") help();
  else if (event.key === "d") nextTheme();
  else if (event.key === "n") timeLine.leave();
  else if (event.key === "[") timeLine.step(-10);
  else if (event.key === "]") timeLine.step(10);
  else return;
  event.preventDefault();
}

function help() {
  const dialog = $("keys");
  fill(dialog,
    h("h2", { id: "keys-title", text: "Keys" }),
    h("dl", {}, KEYS.map(([key, does]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: does })]).flat()),
    h("p", {}, h("button", { type: "button", text: "Close", onclick: () => dialog.close() })));
  dialog.showModal();
}

let away = 0;

function hide() {
  clearTimeout(away);
  // A browser has only a few connections to one server, and each page in view needs one.
  if (document.hidden) away = setTimeout(() => world.stop(), HIDDEN_FOR);
  else if (view) world.follow();
}

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  location.hash = href("search", [], { q: $("query").value.trim() });
});
$("query").addEventListener("input", (event) => view?.search?.(event.target.value.trim()));
$("theme").addEventListener("click", nextTheme);
$("help").addEventListener("click", help);
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
addEventListener("hashchange", navigate);
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", hide);
theme(localStorage.getItem("pilothouse-theme") ?? "");
// For tests and measurements: nothing on the page reads it.
window.pilothouse = world;
start();
