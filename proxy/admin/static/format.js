// Numbers, times and names as people read them.

/** "1.2k" for 1234; whole below 1000. */
export function count(value) {
  if (value < 1000) return String(Math.round(value));
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

/** A rate per second: one decimal below 10. */
export function rate(value) {
  return value < 10 ? value.toFixed(1) : count(value);
}

/** A success rate in percent; a dash when there is none. */
export function percent(value) {
  if (value < 0) return "–";
  return value === 100 || value === 0 ? `${value} %` : `${value.toFixed(1)} %`;
}

/** How many of a host's attempts of the last seconds succeed. */
export function success(value) {
  return value < 0 ? "idle" : `${percent(value)} ok`;
}

/** Milliseconds as "950 ms", "12.3 s" or "4 min 5 s". */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** "1 host", "2 hosts". */
export function plural(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** Time of day of a wall clock, with seconds. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}

/** `{service, detail}` of Istio's `outbound|80|v1|reviews.default.svc.cluster.local`; any other name is the service. */
export function clusterName(name) {
  const [direction, port, subset, host, ...rest] = name.split("|");
  if (direction !== "outbound" || host === undefined || rest.length) return { service: name, detail: "" };
  return { service: host.replace(/\.svc\.cluster\.local$/, ""), detail: subset ? `port ${port}, subset ${subset}` : `port ${port}` };
}
