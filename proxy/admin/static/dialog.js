// Asks for what an override needs: a reason and a time.

import { h, setText } from "./dom.js";
import { post, store } from "./store.js";

const TIMES = [
  [60, "1 minute"],
  [300, "5 minutes"],
  [1800, "30 minutes"],
  [14400, "4 hours"],
];

/** Open the dialog for `action` ("eject" or "uneject") on one host. */
export function askOverride(action, cluster, host) {
  const reason = h("input", { id: "override-reason", required: true, maxlength: 200, autocomplete: "off" });
  const seconds = h("select", { id: "override-seconds" }, TIMES.map(([value, words]) => h("option", { value, selected: value === 300 }, words)));
  const error = h("p", { class: "error", role: "alert" });
  const close = () => dialog.close();
  const form = h(
    "form",
    { method: "dialog", onsubmit: submit },
    h("h2", {}, action === "eject" ? `Eject ${host}` : `Bring ${host} back`),
    h("p", {}, action === "eject" ? "The host gets no requests until the time is over, whatever it answers." : "The host gets requests until the time is over, whatever the detector says."),
    h("label", { for: "override-reason" }, "Reason"),
    reason,
    h("label", { for: "override-seconds" }, "For"),
    seconds,
    error,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: close }, "Cancel"), h("button", { type: "submit", class: "primary" }, action === "eject" ? "Eject" : "Bring back")),
  );
  const dialog = h("dialog", { onclose: () => dialog.remove() }, form);

  async function submit(event) {
    event.preventDefault();
    try {
      await post(`/${action}`, { cluster, host, reason: reason.value, seconds: seconds.value });
      dialog.close();
      store.refresh();
    } catch (problem) {
      setText(error, problem.message);
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}
