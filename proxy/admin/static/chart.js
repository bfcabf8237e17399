// The two pictures: a sparkline of request and failure rates, and the lanes of a cluster's hosts over time.

import { s } from "./dom.js";
import { clock, duration } from "./format.js";

const SPARK = { width: 240, height: 40, leastSamples: 30 };

/** A sparkline; `update(series)` redraws it from `{requests, failures}`, per second, oldest first; few are not stretched. */
export function sparkline() {
  const requests = s("path", { class: "spark-requests" });
  const failures = s("path", { class: "spark-failures" });
  const element = s(
    "svg",
    { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    requests,
    failures,
  );
  return {
    element,
    update(series) {
      const top = Math.max(1, ...series.requests);
      requests.setAttribute("d", area(series.requests, top));
      failures.setAttribute("d", area(series.failures, top));
    },
  };
}

function area(values, top) {
  if (values.length < 2) return "";
  const step = SPARK.width / (Math.max(values.length, SPARK.leastSamples) - 1);
  const start = SPARK.width - (values.length - 1) * step;
  const points = values.map(
    (value, index) => `${(start + index * step).toFixed(1)},${(SPARK.height - (value / top) * (SPARK.height - 2)).toFixed(1)}`,
  );
  return `M${start.toFixed(1)},${SPARK.height}L${points.join("L")}L${SPARK.width},${SPARK.height}Z`;
}

const LANE_HEIGHT = 26;

/**
 * The ejections of each host of a cluster: address -> `[{fromMs, toMs (null while it lasts), reason}]`.
 * `events` are those of the cluster, oldest first.
 */
export function spansByHost(events) {
  const byHost = new Map();
  for (const event of events) {
    if (event.upstream_url === undefined || event.type === "DEGRADED") continue;
    if (!byHost.has(event.upstream_url)) byHost.set(event.upstream_url, []);
    const spans = byHost.get(event.upstream_url);
    const open = spans.at(-1)?.toMs === null ? spans.at(-1) : null;
    if (event.kind === "ejection" && open === null) {
      spans.push({ fromMs: event.system_ms, toMs: null, reason: event.reason });
    } else if (event.kind === "unejection" && open !== null) {
      open.toMs = event.system_ms;
    }
  }
  return byHost;
}

/** One lane; `update(spans, nowMs, windowMs)` redraws it; `onpick(words)` is called when a bar is chosen. */
export function lane(onpick) {
  const bars = s("g");
  const element = s(
    "svg",
    { class: "lane", viewBox: `0 0 1000 ${LANE_HEIGHT}`, preserveAspectRatio: "none", role: "group" },
    s("line", { class: "lane-base", x1: 0, x2: 1000, y1: LANE_HEIGHT / 2, y2: LANE_HEIGHT / 2 }),
    bars,
  );
  let drawn = "";
  return {
    element,
    update(spans, nowMs, windowMs) {
      const from = nowMs - windowMs;
      const shown = spans.filter((span) => (span.toMs ?? nowMs) > from);
      if (!shown.length && drawn === "") return;
      const key = shown.length ? JSON.stringify([Math.floor(nowMs / 1000), windowMs, shown.map((span) => [span.fromMs, span.toMs])]) : "";
      if (key === drawn) return;
      drawn = key;
      const focused = document.activeElement?.dataset?.from;
      bars.replaceChildren(...shown.map((span) => bar(span, from, nowMs, windowMs, onpick)));
      if (focused) bars.querySelector(`[data-from="${CSS.escape(focused)}"]`)?.focus();
    },
  };
}

function bar(span, from, nowMs, windowMs, onpick) {
  const x = Math.max(0, ((span.fromMs - from) / windowMs) * 1000);
  const end = (((span.toMs ?? nowMs) - from) / windowMs) * 1000;
  const length = duration((span.toMs ?? nowMs) - span.fromMs);
  const words = `${clock(span.fromMs)}, out for ${length}${span.toMs === null ? " so far" : ""}: ${span.reason}`;
  const pick = () => onpick(words);
  return s(
    "rect",
    {
      class: span.toMs === null ? "bar open" : "bar",
      x: x.toFixed(1),
      y: 5,
      width: Math.max(3, end - x).toFixed(1),
      height: LANE_HEIGHT - 10,
      rx: 2,
      tabindex: 0,
      role: "button",
      "aria-label": words,
      "data-from": span.fromMs,
      onmouseenter: pick,
      onfocus: pick,
      onclick: pick,
    },
    s("title", {}, words),
  );
}
