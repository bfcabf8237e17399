// One cluster: who is out and since when, why each host is or is not, what a person may do about it, and the rule in force.

import { h, keyed, setAttribute, setText } from "./dom.js";
import { clusterName, count, duration, percent, plural, rate, success } from "./format.js";
import { lane, spansByHost, sparkline } from "./chart.js";
import { askOverride } from "./dialog.js";
import { isOut } from "./overview.js";
import { get, store } from "./store.js";

const EXPLAIN_PERIOD_MS = 2000;
const WINDOWS = [2, 10, 60];

export function clusterPage(name) {
  const { service, detail } = clusterName(name);
  const summary = h("p", { class: "summary" });
  const panic = h("p", { class: "panic" }, "Panic: too few hosts are healthy, so requests go to all of them, ejected or not.");
  const chart = sparkline();
  const picked = h("p", { class: "picked", "aria-live": "polite" }, "Point at a bar, or move to it with the keyboard, to read why the host was out.");
  const minutes = h("select", { onchange: update }, WINDOWS.map((value) => h("option", { value, selected: value === 10 }, plural(value, "minute"))));
  const rows = h("div", { class: "hosts", role: "list" });
  const balancer = h("ul", { class: "plain" });
  const rule = h("tbody");
  const ruleTable = h(
    "table",
    { class: "rule" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Setting"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "From"))),
    rule,
  );
  const noRule = h("p", { class: "empty" }, "Where the settings of this cluster come from is not known.");
  const notes = h("ul", { class: "plain" });
  const withDefaults = h("input", { type: "checkbox", onchange: showRule });
  const missing = h("p", { class: "empty" }, "There is no such cluster now; a configuration push may have removed it.");
  const body = h(
    "div",
    {},
    panic,
    chart.element,
    h("section", { "aria-labelledby": "hosts-heading" }, h("div", { class: "section-head" }, h("h2", { id: "hosts-heading" }, "Hosts"), h("label", { class: "detail" }, "ejections over the last ", minutes)), picked, rows),
    h("section", { "aria-labelledby": "balancer-heading" }, h("h2", { id: "balancer-heading" }, "Load balancing"), balancer),
    h("section", { "aria-labelledby": "rule-heading" }, h("div", { class: "section-head" }, h("h2", { id: "rule-heading" }, "Settings in force"), h("label", { class: "check detail" }, withDefaults, "with defaults and settings without effect")), notes, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings" }, ruleTable), noRule),
  );
  const element = h("div", {}, h("div", { class: "page-head" }, h("h1", {}, service, h("small", {}, detail)), summary), missing, body);
  const views = new Map();
  const explained = new Map();
  const opened = new Set();
  let timer = 0;
  let configVersion = null;
  let settings = { settings: [], notes: [] };
  let turns = 0;
  let states = "";

  /** Ask why, for the hosts whose "Why" is open; the balancer comes with any of them, so one is always asked. */
  async function explain() {
    clearTimeout(timer);
    const turn = ++turns; // a newer call takes over
    const hosts = new Set([...[...opened].filter((address) => views.has(address)), ...[...views.keys()].slice(0, 1)]);
    try {
      const answers = await Promise.all([...hosts].map((host) => get("/explain", { cluster: name, host, format: "json" })));
      for (const answer of answers) for (const host of answer.hosts) explained.set(host.address, host.reasons);
      if (answers.length) showBalancer(answers[0].load_balancer);
      update();
    } catch {
      // The cluster or a host has gone, or the sidecar; the next state says which.
    }
    if (turn === turns) timer = setTimeout(explain, hosts.size ? EXPLAIN_PERIOD_MS : EXPLAIN_PERIOD_MS / 10);
  }

  function unmount() {
    turns++;
    clearTimeout(timer);
  }

  function showBalancer({ priorities }) {
    const lines = priorities.map((level) => `Priority ${level.priority}: ${level.load} % of requests; ${level.reason}.`);
    if (lines.join("\n") !== balancer.dataset.lines) {
      balancer.dataset.lines = lines.join("\n");
      balancer.replaceChildren(...lines.map((line) => h("li", {}, line)));
    }
  }

  function onopen(address, isOpen) {
    if (isOpen) opened.add(address);
    else opened.delete(address);
    explain();
  }

  async function loadRule() {
    settings = await get("/dashboard/rule", { cluster: name }).catch(() => ({ settings: [], notes: [] }));
    notes.replaceChildren(...settings.notes.map((note) => h("li", {}, note)));
    ruleTable.hidden = !settings.settings.length;
    noRule.hidden = settings.settings.length > 0;
    showRule();
  }

  function showRule() {
    const shown = settings.settings.filter((setting) => withDefaults.checked || !setting.quiet);
    shown.sort((a, b) => (groupOf(a) !== "") - (groupOf(b) !== ""));
    rule.replaceChildren(...shown.flatMap((setting, index) => [groupRow(shown[index - 1], setting), ruleRow(setting)]).filter(Boolean));
  }

  function update() {
    const { state } = store;
    if (state === null) return;
    const cluster = state.clusters.find((candidate) => candidate.name === name);
    missing.hidden = cluster !== undefined;
    body.hidden = cluster === undefined;
    if (cluster === undefined) return setText(summary, "");
    if (state.config_version !== configVersion) {
      configVersion = state.config_version;
      loadRule();
    }
    panic.hidden = !cluster.panic;
    const out = cluster.hosts.filter(isOut).length;
    const series = store.history.get(name) ?? { requests: [], failures: [] };
    chart.update(series);
    setText(summary, `${cluster.hosts.length - out} of ${cluster.hosts.length} hosts in, ${rate(series.requests.at(-1) ?? 0)} requests/s, ${rate(series.failures.at(-1) ?? 0)} failures/s`);
    const now = cluster.hosts.map((host) => host.state).join();
    if (now !== states && states !== "") explain(); // what was explained no longer holds
    states = now;
    const spans = spansByHost(store.events.filter((event) => event.cluster_name === name));
    const lanes = { now: state.system_ms, windowMs: Number(minutes.value) * 60_000 };
    const items = cluster.hosts.map((host) => ({ host, spans: spans.get(host.address) ?? [], reasons: explained.get(host.address), ...lanes }));
    keyed(rows, views, items, (item) => item.host.address, () => hostRow(name, (words) => setText(picked, words), onopen));
  }

  explain();
  return { element, update, title: service, unmount };
}

function hostRow(cluster, onpick, onopen) {
  const address = h("b");
  const stateWord = h("span", { class: "state" });
  const figures = h("span", { class: "figures" });
  const override = h("p", { class: "override" });
  const reasons = h("ul", { class: "plain" });
  const why = h("details", { ontoggle: () => onopen(current.address, why.open) }, h("summary", {}, "Why"), reasons);
  const bars = lane(onpick);
  let current = null;
  const eject = h("button", { type: "button", onclick: () => askOverride("eject", cluster, current.address) }, "Eject");
  const uneject = h("button", { type: "button", onclick: () => askOverride("uneject", cluster, current.address) }, "Bring back");
  const element = h("div", { class: "host", role: "listitem" }, h("div", { class: "host-head" }, address, stateWord, figures, h("span", { class: "spacer" }), eject, uneject), bars.element, override, why);
  return {
    element,
    update({ host, spans, now, windowMs, reasons: sentences }) {
      current = host;
      setText(address, host.address);
      setAttribute(bars.element, "aria-label", `Ejections of ${host.address}`);
      setAttribute(element, "class", `host ${host.state.replace(" ", "-")}`);
      setText(stateWord, host.back_in_ms === undefined ? host.state : `${host.state}, back in ${duration(host.back_in_ms)}`);
      setText(figures, figuresOf(host));
      override.hidden = host.override === undefined;
      setText(override, host.override === undefined ? "" : `By hand: ${host.override}`);
      eject.hidden = host.state === "put out";
      uneject.hidden = !["ejected", "put out"].includes(host.state);
      setAttribute(eject, "aria-label", `Eject ${host.address}`);
      setAttribute(uneject, "aria-label", `Bring ${host.address} back`);
      bars.update(spans, now, windowMs);
      if (!why.open) return;
      const lines = sentences ?? ["Asking."];
      if (lines.join("\n") !== why.dataset.lines) {
        why.dataset.lines = lines.join("\n");
        reasons.replaceChildren(...lines.map((line) => h("li", {}, line)));
      }
    },
  };
}

function figuresOf(host) {
  const figures = [success(host.recent_success), `${host.rq_active} active`, `${count(host.rq_total)} requests`, `${count(host.rq_failed)} failures`, plural(host.num_ejections, "ejection")];
  if (host.success_rate >= 0) figures.push(`success rate ${percent(host.success_rate)} in the last interval`);
  return figures.join(" · ");
}

/** Return a row that names the group, when `setting` is the first of one. */
function groupRow(before, setting) {
  const group = groupOf(setting);
  if (group === "" || (before !== undefined && groupOf(before) === group)) return null;
  return h("tr", { class: "group" }, h("th", { colspan: 3, scope: "rowgroup" }, group));
}

function groupOf({ name }) {
  return name.includes(".") ? name.slice(0, name.indexOf(".")) : "";
}

function ruleRow({ name, value, origin, quiet }) {
  return h("tr", { class: quiet ? "default" : "" }, h("th", { scope: "row" }, name.slice(name.indexOf(".") + 1)), h("td", {}, value), h("td", {}, origin));
}
