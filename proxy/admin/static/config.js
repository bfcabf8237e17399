// Where the configuration comes from, what is in force, and what was refused.

import { h, setText } from "./dom.js";
import { get } from "./store.js";

const PERIOD_MS = 3000;

export function configPage() {
  const version = h("p", { class: "summary" });
  const sources = h("div");
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Configuration"), version), sources);
  let timer = 0;
  let shown = "";

  async function load() {
    try {
      const status = await get("/config/status");
      setText(version, `version ${status.version} in force`);
      const key = JSON.stringify(status);
      if (key !== shown) {
        shown = key;
        sources.replaceChildren(...status.sources.map(source));
        if (!status.sources.length) sources.replaceChildren(h("p", { class: "empty" }, "No source has delivered anything yet."));
      }
    } catch (problem) {
      shown = "";
      sources.replaceChildren(h("p", { class: "empty" }, problem.message));
    }
    timer = setTimeout(load, PERIOD_MS);
  }

  load();
  return { element, update() {}, title: "Configuration", unmount: () => clearTimeout(timer) };
}

function source(found) {
  const counts = Object.entries(found.resources);
  return h(
    "section",
    { class: "card wide" },
    h("h2", {}, found.name, found.stale_since ? h("span", { class: "badge bad" }, found.rejected.length ? "older version in force" : "may be out of date") : h("span", { class: "badge" }, "up to date")),
    h("p", { class: "detail" }, `last delivery ${local(found.last_update)}${found.stale_since && found.rejected.length ? `; refused since ${local(found.stale_since)}` : ""}`),
    found.connection ? connection(found.connection) : null,
    counts.length
      ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Resources of ${found.name}` }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Collection"), h("th", { scope: "col" }, "In force"))), h("tbody", {}, counts.map(([name, number]) => h("tr", {}, h("th", { scope: "row", title: name }, name.slice(name.lastIndexOf("/") + 1)), h("td", {}, String(number)))))))
      : h("p", { class: "empty" }, "Nothing of it is in force."),
    findings("Refused", found.rejected, "bad"),
    findings("Legal, but surprising", found.warnings, "odd"),
  );
}

/** How the connection to a source stands that is a server; a file has none. */
function connection({ connected, synced, since, error }) {
  if (connected) return h("p", { class: "detail" }, `connected since ${local(since)}${synced ? "" : "; not everything has come yet"}`);
  return h("p", { class: "panic" }, `Not connected since ${local(since)}${error ? `: ${error}` : ""}. What came before stays in force.`);
}

function findings(heading, issues, kind) {
  if (!issues.length) return null;
  return h(
    "div",
    { class: `findings ${kind}` },
    h("h3", {}, heading),
    h("ul", { class: "plain" }, issues.map((issue) => h("li", {}, h("b", {}, issue.resource || issue.file), " ", h("code", {}, issue.message), h("span", { class: "detail" }, issue.file ? ` ${issue.file}${issue.line ? `:${issue.line}` : ""}` : "")))),
  );
}

function local(timestamp) {
  return new Date(timestamp).toLocaleString([], { hour12: false });
}
