// The first page: every cluster with its hosts, its traffic, and what is wrong.

import { h, keyed, setAttribute, setText } from "./dom.js";
import { clusterName, plural, rate, success } from "./format.js";
import { sparkline } from "./chart.js";
import { store } from "./store.js";

const SHOWN = 60; // cards; beyond that a person filters
const LARGE_TILES = 12; // above that tiles are squares without words

export function overviewPage() {
  const filter = h("input", { type: "search", placeholder: "Filter clusters", "aria-label": "Filter clusters", oninput: update });
  const grid = h("div", { class: "grid" });
  const empty = h("p", { class: "empty" });
  const rest = h("p", { class: "empty" });
  const summary = h("p", { class: "summary" });
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, "Overview"), summary, h("span", { class: "spacer" }), filter), grid, empty, rest);
  const views = new Map();
  let places = new Map();

  function order(cluster) {
    return places.get(cluster.name) ?? Infinity;
  }

  function update() {
    const { state } = store;
    if (state === null) return;
    const wanted = filter.value.toLowerCase();
    const found = state.clusters.filter((cluster) => cluster.name.toLowerCase().includes(wanted)).sort(byUrgency);
    const shown = found.slice(0, SHOWN);
    if (grid.matches(":hover, :focus-within")) shown.sort((a, b) => order(a) - order(b)); // nothing moves under a pointer
    places = new Map(shown.map((cluster, index) => [cluster.name, index]));
    keyed(grid, views, shown, (cluster) => cluster.name, clusterCard);
    empty.hidden = shown.length > 0;
    if (!shown.length) setText(empty, state.clusters.length ? "No cluster has that in its name." : "No clusters: the configuration names no service. See the configuration page.");
    rest.hidden = found.length === shown.length;
    setText(rest, `${plural(found.length - shown.length, "cluster")} more; those in trouble come first. Filter to see the others.`);
    const hosts = state.clusters.flatMap((cluster) => cluster.hosts);
    const out = hosts.filter(isOut).length;
    setText(summary, `${plural(state.clusters.length, "cluster")}, ${plural(hosts.length, "host")}, ${out ? `${out} out` : "all in"}`);
  }

  return { element, update, title: "Overview" };
}

/** Whether a host gets no traffic outside panic. */
export function isOut(host) {
  return host.state === "ejected" || host.state === "put out" || host.state === "unhealthy";
}

function byUrgency(a, b) {
  return urgency(b) - urgency(a) || a.name.localeCompare(b.name);
}

function urgency(cluster) {
  return (cluster.panic ? 2 : 0) + (cluster.hosts.some(isOut) ? 1 : 0);
}

function clusterCard(cluster) {
  const { service, detail } = clusterName(cluster.name);
  const badge = h("span", { class: "badge" });
  const panic = h("p", { class: "panic" }, "Panic: too few healthy hosts, so all are used");
  const tiles = h("div", { class: "tiles", role: "img" });
  const figures = h("p", { class: "figures" });
  const chart = sparkline();
  const views = new Map();
  const link = `#/cluster/${encodeURIComponent(cluster.name)}`;
  const element = h(
    "article",
    { class: "card" },
    h("h2", {}, h("a", { href: link }, service), badge),
    h("p", { class: "detail" }, detail || cluster.name),
    panic,
    tiles,
    chart.element,
    figures,
  );
  return {
    element,
    update(now) {
      const out = now.hosts.filter(isOut);
      setText(badge, `${now.hosts.length - out.length}/${now.hosts.length} in`);
      setAttribute(badge, "class", out.length ? "badge bad" : "badge");
      panic.hidden = !now.panic;
      setAttribute(tiles, "class", now.hosts.length <= LARGE_TILES ? "tiles large" : "tiles small");
      setAttribute(tiles, "aria-label", spoken(now, out));
      keyed(tiles, views, now.hosts, (host) => host.address, now.hosts.length <= LARGE_TILES ? largeTile : smallTile);
      const series = store.history.get(now.name) ?? { requests: [], failures: [] };
      chart.update(series);
      const requests = series.requests.at(-1) ?? 0;
      const failures = series.failures.at(-1) ?? 0;
      setText(figures, `${rate(requests)} requests/s, ${rate(failures)} failures/s${now.detects ? "" : "; no outlier detection"}`);
    },
  };
}

function spoken(cluster, out) {
  const names = out.slice(0, 5).map((host) => `${host.address} ${host.state}`);
  const more = out.length > names.length ? ` and ${out.length - names.length} more` : "";
  return out.length ? `${plural(cluster.hosts.length, "host")}, out: ${names.join(", ")}${more}` : `${plural(cluster.hosts.length, "host")}, all in`;
}

function words(host) {
  return `${host.address}: ${host.state}, ${success(host.recent_success)}, ${host.rq_active} active`;
}

function smallTile() {
  const element = h("span");
  return {
    element,
    update(host) {
      setAttribute(element, "class", `tile ${host.state.replace(" ", "-")}`);
      setAttribute(element, "title", words(host));
    },
  };
}

function largeTile() {
  const name = h("b");
  const rates = h("span");
  const element = h("span", {}, name, rates);
  return {
    element,
    update(host) {
      setAttribute(element, "class", `tile ${host.state.replace(" ", "-")}`);
      setAttribute(element, "title", words(host));
      setText(name, shortAddress(host.address));
      setText(rates, host.state === "healthy" ? `${success(host.recent_success)} · ${host.rq_active} active` : host.state);
    },
  };
}

function shortAddress(address) {
  return address.startsWith("unix://") ? address.slice(address.lastIndexOf("/") + 1) : address.replace("127.0.0.1", "");
}
