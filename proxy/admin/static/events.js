// Everything that happened, newest first, with filters.

import { h, keyed, setText } from "./dom.js";
import { clock, clusterName, plural } from "./format.js";
import { store } from "./store.js";

const KINDS = [
  ["ejection", "Ejections"],
  ["unejection", "Returns"],
  ["detection", "Not enforced"],
  ["health", "Health checks"],
  ["override", "By hand"],
  ["config", "Configuration"],
  ["warning", "Warnings"],
];
const HEALTH = {
  eject_unhealthy_event: "out",
  add_healthy_event: "in",
  health_check_failure_event: "out",
  degraded_healthy_host: "degraded",
  no_longer_degraded_host: "no longer degraded",
};
const SHOWN = 300;

export function eventsPage() {
  const chosen = new Set(KINDS.map(([kind]) => kind));
  const search = h("input", { type: "search", placeholder: "Cluster, host or reason", "aria-label": "Search events", oninput: update });
  const boxes = KINDS.map(([kind, words]) => {
    const box = h("input", { type: "checkbox", checked: true, onchange: () => (box.checked ? chosen.add(kind) : chosen.delete(kind), update()) });
    return h("label", { class: "check" }, box, words);
  });
  const list = h("ol", { class: "events" });
  const empty = h("p", { class: "empty" });
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Events"), h("span", { class: "spacer" }), search), h("fieldset", { class: "filters" }, h("legend", { class: "visually-hidden" }, "Kinds of events"), boxes), list, empty);
  const views = new Map();

  function update() {
    const wanted = search.value.toLowerCase();
    const shown = [];
    for (let index = store.events.length - 1; index >= 0 && shown.length < SHOWN; index--) {
      const event = store.events[index];
      if (chosen.has(event.kind) && sentence(event).toLowerCase().includes(wanted)) shown.push(event);
    }
    keyed(list, views, shown, (event) => `${event.id} ${event.system_ms}`, eventRow);
    empty.hidden = shown.length > 0;
    if (!shown.length) setText(empty, store.events.length ? "No event matches." : "Nothing has happened since the sidecar started.");
  }

  return { element, update, title: "Events" };
}

/** Return an event in words. */
export function sentence(event) {
  const where = event.cluster_name ? `${clusterName(event.cluster_name).service} ${event.upstream_url ?? ""}`.trim() : "";
  switch (event.kind) {
    case "ejection":
      return `${where} ejected: ${event.reason}`;
    case "unejection":
      return `${where} is back: ${event.reason}`;
    case "detection":
      return `${where} found, not ejected: ${event.reason}`;
    case "health":
      return `${where} ${HEALTH[event.event]} by health check${event.failure_type ? `: ${event.failure_type}` : ""}`;
    case "override":
      return `${where} ${event.action} by hand${event.state === "set" ? ` until ${event.until}` : event.state === "ended" ? " ended" : ""}: ${event.reason}`;
    case "config":
      return `Configuration ${event.version} in force: ${plural(event.clusters, "cluster")}, ${event.changed.length} changed`;
    default:
      return `${where}: ${event.message}${event.state === "ended" ? " (over)" : ""}`;
  }
}

function eventRow(event) {
  const text = sentence(event);
  const element = h("li", { class: event.kind }, h("time", { datetime: new Date(event.system_ms).toISOString() }, clock(event.system_ms)), event.cluster_name ? h("a", { href: `#/cluster/${encodeURIComponent(event.cluster_name)}` }, text) : h("span", {}, text));
  return { element, update() {} };
}
