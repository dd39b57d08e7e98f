// Elements from text. Nothing here, or anywhere on this page, makes markup of text: names and messages are anybody's.

/** An element. `properties` are attributes, but for `text`, `class`, `on*` handlers and `style` (an object). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put these in the place of all children. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/** A text, written only if it is another one. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const number = new Intl.NumberFormat("en");
export const collator = new Intl.Collator("en", { numeric: true });

/** How long: `5s`, `3m10s`, `2h5m`, `4d3h`. */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  if (s < 3600) return s < 600 && s % 60 ? `${Math.floor(s / 60)}m${s % 60}s` : `${Math.floor(s / 60)}m`;
  if (s < 86400) return s < 36000 && Math.floor((s % 3600) / 60) ? `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m` : `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d${s < 864000 && Math.floor((s % 86400) / 3600) ? `${Math.floor((s % 86400) / 3600)}h` : ""}`;
}

/** A short time: microseconds to seconds. */
export function brief(seconds) {
  if (!seconds) return "0";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  return `${seconds.toPrecision(3)} s`;
}

/** A time of day, with the date if that is not today's. */
export function clock(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString("sv")} ${time}`;
}

/** What a key of the store names: `apps/deployments/default/web`. */
export function partsOf(key) {
  const parts = key.split("/");
  return parts.length === 4
    ? { group: parts[0], resource: parts[1], namespace: parts[2], name: parts[3] }
    : { group: parts[0], resource: parts[1], namespace: "", name: parts.slice(2).join("/") };
}

export const KINDS = {
  "/nodes": "Node",
  "/pods": "Pod",
  "/replicationcontrollers": "ReplicationController",
  "apps/deployments": "Deployment",
  "apps/replicasets": "ReplicaSet",
  "apps/statefulsets": "StatefulSet",
  "apps/daemonsets": "DaemonSet",
  "batch/jobs": "Job",
  "batch/cronjobs": "CronJob",
};

export function kindOf(key) {
  const { group, resource } = partsOf(key);
  return KINDS[`${group}/${resource}`] ?? resource;
}

// Each state has a sign, so that none is known by its colour alone; in the order in which a reader looks for them.
export const STATES = {
  failing: { sign: "▲", label: "failing" },
  unknown: { sign: "?", label: "unknown" },
  pending: { sign: "○", label: "pending" },
  starting: { sign: "◔", label: "starting" },
  unready: { sign: "◐", label: "not ready" },
  terminating: { sign: "✕", label: "terminating" },
  ready: { sign: "●", label: "ready" },
  succeeded: { sign: "✓", label: "succeeded" },
  paused: { sign: "‖", label: "paused" },
};
export const POD_STATES = ["failing", "unknown", "pending", "starting", "unready", "terminating", "ready", "succeeded"];

/** The sign of a state, and its name for those who don't see it. */
export function sign(state, { quiet = false } = {}) {
  const known = STATES[state] ?? STATES.unknown;
  return h("span", { class: `sign s-${state}`, title: known.label },
    h("span", { "aria-hidden": "true", text: known.sign }),
    quiet ? null : h("span", { class: "hidden", text: known.label }));
}

/** Count by state. */
export function countStates(things) {
  const counts = {};
  for (const each of things) counts[each.state] = (counts[each.state] ?? 0) + 1;
  return counts;
}

/** `1 pod`, `2 pods`. */
export function counted(count, noun) {
  return `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `9 ready, 1 failing`. */
export function spoken(counts) {
  return POD_STATES.filter((state) => counts[state])
    .map((state) => `${counts[state]} ${STATES[state].label}`)
    .join(", ");
}

/** A table that scrolls sideways where it does not fit. */
export function table(label, columns, body) {
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    h("table", {},
      h("caption", { class: "hidden", text: label }),
      h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { scope: "col", class: kind, text: name })))),
      body));
}
