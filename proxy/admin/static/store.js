// What the sidecar says, kept up to date: its state once a second, its events as they happen.

const PERIOD_MS = 1000;
const SAMPLES = 120;
const KEPT_EVENTS = 2000;
const KINDS = ["ejection", "unejection", "detection", "config", "override", "warning"];

/** Holds `state` (null before the first answer), `events` (oldest first) and `history` by cluster; calls `onchange`. */
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
    const series = this.history.get(cluster.name) ?? { requests: [], failures: [], last: null };
    const { last } = series;
    if (last !== null && nowMs > last.nowMs && cluster.rq_total >= last.rq_total) {
      const seconds = (nowMs - last.nowMs) / 1000;
      series.requests.push((cluster.rq_total - last.rq_total) / seconds);
      series.failures.push(Math.max(0, cluster.rq_error - last.rq_error) / seconds);
      if (series.requests.length > SAMPLES) {
        series.requests.shift();
        series.failures.shift();
      }
    }
    series.last = { nowMs, rq_total: cluster.rq_total, rq_error: cluster.rq_error };
    this.history.set(cluster.name, series);
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
