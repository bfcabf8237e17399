// What the sidecar says, kept up to date: its state once a second, its events as they happen.

const PERIOD_MS = 1000;
const SAMPLES = 120;
const FADE = 0.85; // weight of the second before in a host's recent success: half is forgotten after four seconds
const KEPT_EVENTS = 2000;
const KINDS = ["ejection", "unejection", "detection", "health", "config", "override", "warning"];

/**
 * Holds `state` (null before the first answer), `events` (oldest first) and `history` by cluster; dispatches `change`
 * and `event`. Each host of the state has `recent_success`, percent of the last seconds' attempts; -1 without any.
 */
export class Store extends EventTarget {
  state = null;
  events = [];
  history = new Map();
  connected = false;
  #timer = 0;
  #lastId = 0;

  start() {
    document.addEventListener("visibilitychange", () => this.#schedule(0));
    this.#schedule(0);
    const source = new EventSource("/events?since=0");
    for (const kind of KINDS) source.addEventListener(kind, (message) => this.#onEvent(JSON.parse(message.data)));
  }

  /** Ask for the state now, after something was changed by hand. */
  refresh() {
    this.#schedule(0);
  }

  #schedule(delay) {
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = setTimeout(() => this.#poll(), delay);
  }

  async #poll() {
    try {
      const response = await fetch("/dashboard/state", { cache: "no-store" });
      if (!response.ok) throw new Error(response.statusText);
      this.#onState(await response.json());
      this.connected = true;
    } catch {
      this.connected = false;
    }
    this.dispatchEvent(new Event("change"));
    this.#schedule(PERIOD_MS);
  }

  #onState(state) {
    const names = new Set();
    for (const cluster of state.clusters) {
      names.add(cluster.name);
      this.#sample(cluster, state.monotonic_ms);
    }
    for (const name of this.history.keys()) if (!names.has(name)) this.history.delete(name);
    this.state = state;
  }

  /** Add one second to the cluster's rates; counters that went back (a restart, a reset) give none. */
  #sample(cluster, nowMs) {
    const series = this.history.get(cluster.name) ?? { requests: [], failures: [], last: null, hosts: new Map() };
    const { last } = series;
    if (last !== null && nowMs > last.nowMs && cluster.rq_total >= last.rq_total) {
      const seconds = (nowMs - last.nowMs) / 1000;
      series.requests.push((cluster.rq_total - last.rq_total) / seconds);
      series.failures.push(Math.max(0, cluster.rq_failed - last.rq_failed) / seconds);
      if (series.requests.length > SAMPLES) {
        series.requests.shift();
        series.failures.shift();
      }
    }
    series.last = { nowMs, rq_total: cluster.rq_total, rq_failed: cluster.rq_failed };
    this.history.set(cluster.name, series);
    series.hosts = new Map(cluster.hosts.map((host) => [host.address, recent(series.hosts.get(host.address), host)]));
  }

  #onEvent(event) {
    if (event.id <= this.#lastId) this.events = []; // another process: its numbers begin anew
    const replayed = this.state === null || event.system_ms < this.state.system_ms - 5000;
    this.#lastId = event.id;
    this.events.push(event);
    if (this.events.length > KEPT_EVENTS) this.events.shift();
    this.dispatchEvent(new CustomEvent("event", { detail: { event, replayed } }));
    if (!replayed) this.#schedule(0);
  }
}

/** Add one second to a host's recent attempts, fading those before, and note in the host how many succeed. */
function recent(before, host) {
  const { rq_total, rq_failed } = host;
  const now = { rq_total, rq_failed, attempts: 0, failures: 0 };
  if (before !== undefined && rq_total >= before.rq_total && rq_failed >= before.rq_failed) {
    now.attempts = before.attempts * FADE + rq_total - before.rq_total;
    now.failures = before.failures * FADE + rq_failed - before.rq_failed;
  }
  host.recent_success = now.attempts < 0.5 ? -1 : 100 * Math.max(0, 1 - now.failures / now.attempts);
  return now;
}

export const store = new Store();

/** Return the JSON of an endpoint. */
export async function get(path, query = {}) {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).split("\n")[0] || response.statusText);
  return response.json();
}

/** Send a form to an endpoint that changes something; return its answer. */
export async function post(path, fields) {
  const response = await fetch(path, { method: "POST", body: new URLSearchParams(fields) });
  const text = (await response.text()).trim();
  if (!response.ok) throw new Error(text || response.statusText);
  return text;
}
