// Puts a page into the frame, and keeps the frame's own parts (state, connection, warnings, theme) up to date.

import { h, keyed, setAttribute, setText } from "./dom.js";
import { clusterName } from "./format.js";
import { clusterPage } from "./cluster.js";
import { configPage } from "./config.js";
import { eventsPage, sentence } from "./events.js";
import { overviewPage } from "./overview.js";
import { store } from "./store.js";

const main = document.getElementById("main");
const serverState = document.getElementById("server-state");
const connection = document.getElementById("connection");
const notices = document.getElementById("notices");
const announcer = document.getElementById("announcer");
const theme = document.getElementById("theme");
const noticeViews = new Map();
let page = null;
let updating = false;

function route() {
  const [, name = "", argument = ""] = location.hash.replace(/^#/, "").split("/");
  page?.unmount?.();
  if (name === "cluster") page = clusterPage(decodeURIComponent(argument));
  else if (name === "events") page = eventsPage();
  else if (name === "config") page = configPage();
  else page = overviewPage();
  main.replaceChildren(page.element);
  document.title = `${page.title} · outlier`;
  for (const link of document.querySelectorAll("nav a")) {
    setAttribute(link, "aria-current", link.hash === `#/${name}` ? "page" : null);
  }
  page.update();
}

/** Update once per frame, however many events come in together. */
function updateSoon() {
  if (!updating) requestAnimationFrame(update);
  updating = true;
}

function update() {
  updating = false;
  const { state } = store;
  setText(connection, store.connected ? "connected" : "no connection");
  setAttribute(connection, "class", store.connected ? "pill quiet" : "pill bad");
  if (state !== null) {
    setText(serverState, state.server_state.toLowerCase());
    setAttribute(serverState, "class", state.server_state === "LIVE" ? "pill good" : "pill bad");
    keyed(notices, noticeViews, notes(state), (note) => note.key, notice);
  }
  page.update();
}

const NOTICES = [
  ["panic", "Panic: requests go to ejected hosts as well, in"],
  ["cannot eject", "The cap never lets a host go in"],
];

/** What stands above every page: one line for each kind of trouble. A silent cluster is not urgent enough for that. */
function notes(state) {
  const found = [];
  if (state.config_unreachable.length) found.push({ key: "unreachable", href: "#/config", text: `No connection to ${state.config_unreachable.join(", ")}; the configuration may be out of date.` });
  if (state.config_refused) found.push({ key: "refused", href: "#/config", text: "Part of the configuration was refused; an older version of it is in force." });
  for (const [type, words] of NOTICES) {
    const names = state.warnings.filter((warning) => warning.type === type).map((warning) => warning.cluster_name);
    if (names.length) {
      const listed = names.slice(0, 3).map((name) => clusterName(name).service).join(", ");
      const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
      found.push({ key: type, href: names.length === 1 ? `#/cluster/${encodeURIComponent(names[0])}` : "#/", text: `${words} ${listed}${more}.` });
    }
  }
  return found;
}

function notice() {
  const link = h("a");
  return {
    element: h("p", { class: "notice" }, link),
    update(now) {
      setText(link, now.text);
      setAttribute(link, "href", now.href);
    },
  };
}

const THEMES = { "": "as the system", light: "light", dark: "dark" };

function applyTheme(name) {
  setAttribute(document.documentElement, "data-theme", name || null);
  setAttribute(theme, "aria-label", `Theme: ${THEMES[name]}`);
}

theme.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(localStorage.getItem("theme") ?? "") + 1) % names.length];
  localStorage.setItem("theme", next);
  applyTheme(next);
});

applyTheme(localStorage.getItem("theme") in THEMES ? localStorage.getItem("theme") : "");
store.addEventListener("change", update);
store.addEventListener("event", ({ detail: { event, replayed } }) => {
  if (!replayed && (event.kind === "ejection" || event.kind === "unejection")) setText(announcer, sentence(event));
  updateSoon();
});
window.addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true }); // it would put the heading under the bar at the top
  scrollTo(0, 0);
});
route();
store.start();
