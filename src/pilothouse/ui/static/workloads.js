// Workloads: who owns what, down to the pods, and how far each revision is.

import { drawBars, revisionsOf } from "./bars.js";
import { collator, counted, duration, fill, h, kindOf, number, partsOf, say, sign, STATES } from "./dom.js";
import { hrefOf } from "./route.js";

const STEP = 60;
const MAX_PODS = 60;
const CREATIONS = ["FailedCreate", "SuccessfulCreate"];

export class Workloads {
  title = "Workloads";

  constructor(world) {
    this.world = world;
    this.text = "";
    this.limit = STEP;
    this.entries = new Map();
    this.open = new Set();
    this.onlyMoving = false;
  }

  mount(main) {
    this.summary = h("p", { class: "summary" });
    this.list = h("ul", { class: "workloads" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#showMore() });
    const moving = h("input", { type: "checkbox", id: "moving", onchange: (event) => this.#onlyMoving(event.target.checked) });
    fill(main,
      h("h1", { text: "Workloads" }),
      this.summary,
      h("p", {}, moving, h("label", { for: "moving", text: " only those that are not as desired" })),
      this.list,
      this.more);
    this.#rebuild();
  }

  search(text) {
    this.text = text.toLowerCase();
    this.limit = STEP;
    this.#rebuild();
  }

  update(changes) {
    const model = this.world.shown;
    if (changes.reset) return this.#rebuild();
    const roots = new Set();
    for (const uid of changes.owners) {
      const root = model.rootOf(uid);
      if (root) roots.add(root.key);
    }
    for (const key of changes.tables.workloads) {
      const known = this.entries.has(key);
      const row = model.workloads.get(key);
      const isRoot = row && model.rootOf(row.uid) === row;
      if (Boolean(isRoot) !== known) return this.#rebuild();
    }
    if (this.onlyMoving && roots.size) return this.#rebuild();
    // An event may be the last thing that is heard of a workload that gets no pods.
    if (changes.tables.events.size) for (const row of model.roots()) if (isMoving(model, row)) roots.add(row.key);
    for (const key of roots) this.#draw(key);
    if (changes.tables.workloads.size) this.#summarize();
  }

  #onlyMoving(only) {
    this.onlyMoving = only;
    this.#rebuild();
  }

  #showMore() {
    this.limit += STEP;
    this.#rebuild();
  }

  #rebuild() {
    const model = this.world.shown;
    const roots = model.roots()
      .filter((each) => !this.text || `${kindOf(each.key)} ${each.key}`.toLowerCase().includes(this.text))
      .filter((each) => !this.onlyMoving || isMoving(model, each))
      .sort((a, b) => collator.compare(sortKey(a), sortKey(b)));
    const entries = new Map();
    for (const root of roots.slice(0, this.limit)) entries.set(root.key, this.entries.get(root.key) ?? this.#entry(root.key));
    // What is listed no further is known as a root all the same.
    for (const root of roots.slice(this.limit)) entries.set(root.key, null);
    if (this.text || this.onlyMoving) for (const root of model.roots()) if (!entries.has(root.key)) entries.set(root.key, null);
    this.entries = entries;
    const items = [...entries.values()].filter(Boolean).map(({ item }) => item);
    if (items.length !== this.list.children.length || items.some((item, place) => this.list.children[place] !== item)) {
      fill(this.list, items);
    }
    for (const key of entries.keys()) this.#draw(key);
    this.more.hidden = roots.length <= this.limit;
    say(this.more, `Show ${Math.min(STEP, roots.length - this.limit)} more of ${number.format(roots.length)}`);
    this.#summarize(roots.length);
  }

  #summarize(shown) {
    const model = this.world.shown;
    const roots = model.roots();
    if (shown !== undefined) this.count = shown;
    const moving = roots.filter((each) => isMoving(model, each)).length;
    say(this.summary, roots.length
      ? `${counted(roots.length, "workload")}, ${moving ? `${number.format(moving)} not as desired` : "all as desired"}${this.count < roots.length ? `; ${number.format(this.count)} fit what is searched for` : ""}`
      : "There are no Deployments, StatefulSets, DaemonSets, Jobs or CronJobs.");
  }

  #entry(key) {
    const { namespace, name } = partsOf(key);
    const state = h("span", { class: "state" });
    const note = h("p", { class: "note" });
    const bars = h("div", { class: "bars" });
    const tree = h("div", { class: "tree" });
    const link = h("a", { text: name });
    const details = h("details", { ontoggle: () => this.#toggle(key, details.open) },
      h("summary", {}, "Pods and owners"), tree);
    const item = h("li", { class: "workload" },
      h("h2", {}, state, h("span", { class: "kind", text: kindOf(key) }), " ", link, " ", h("span", { class: "namespace", text: namespace })),
      bars, note, details);
    return { item, link, state, note, bars, tree, details };
  }

  #toggle(key, open) {
    if (open) this.open.add(key);
    else this.open.delete(key);
    this.#draw(key);
  }

  #draw(key) {
    const entry = this.entries.get(key);
    const model = this.world.shown;
    const row = model.workloads.get(key);
    if (!entry || !row) return;
    entry.link.href = hrefOf(key);
    fill(entry.state, row.state ? sign(row.state) : null);
    say(entry.note, noteOf(model, row));
    drawBars(entry.bars, revisionsOf(model, row));
    if (this.open.has(key)) fill(entry.tree, ownerTree(this.world, row));
  }
}

const ORDER = ["deployments", "statefulsets", "daemonsets", "cronjobs", "jobs", "replicasets"];

function sortKey(row) {
  const { resource, namespace, name } = partsOf(row.key);
  return `${namespace}/${ORDER.indexOf(resource) + 1}/${name}`;
}

/** Whether it is not as its spec says. */
export function isMoving(model, row) {
  const { resource } = partsOf(row.key);
  if (row.state === "failing" || row.state === "terminating" || !row.observed) return true;
  if (resource === "cronjobs") return false;
  if (resource === "jobs") return row.state !== "succeeded" && row.state !== "paused";
  return row.ready !== row.desired || row.total !== row.desired || row.updated < row.desired;
}

function noteOf(model, row) {
  const { resource } = partsOf(row.key);
  const notes = [];
  if (!row.observed) notes.push("the newest spec has not been observed by its controller yet");
  if (row.state === "paused") notes.push(resource === "deployments" ? "paused" : "suspended");
  if (resource === "deployments" && row.updated < row.desired) notes.push(`${row.updated} of ${row.desired} updated`);
  if (resource === "statefulsets" && row.updated < row.desired) notes.push(`${row.updated} of ${row.desired} updated`);
  if (row.failed) notes.push(`${row.failed} failed`);
  if (row.note) notes.push(row.note);
  else if (isMoving(model, row)) notes.push(...rejections(model, row));
  return notes.join("; ");
}

/** The last FailedCreate of a workload or of what it owns, unless something was created since. */
function rejections(model, row) {
  const uids = new Set([row.uid, ...model.workloadsOf(row.uid).map((each) => each.uid)]);
  let last = null;
  for (const event of model.events.values()) {
    if (uids.has(event.uid) && CREATIONS.includes(event.reason) && (!last || event.at >= last.at)) last = event;
  }
  return last?.reason === "FailedCreate" ? [`FailedCreate: ${last.message}`] : [];
}

/** What it owns, as nested lists. */
export function ownerTree(world, row) {
  const model = world.shown;
  const owned = model.workloadsOf(row.uid).sort((a, b) => collator.compare(b.revision || b.key, a.revision || a.key));
  const pods = model.podsOf(row.uid).sort((a, b) => collator.compare(a.key, b.key));
  const items = [
    ...owned.map((each) => h("li", {}, workloadLabel(each), ownerTree(world, each))),
    ...pods.slice(0, MAX_PODS).map((pod) => h("li", {}, podLabel(world, pod))),
    pods.length > MAX_PODS ? h("li", { text: `and ${number.format(pods.length - MAX_PODS)} more pods` }) : null,
  ];
  return items.some(Boolean) ? h("ul", { class: "owned" }, items) : null;
}

function workloadLabel(row) {
  const isJob = partsOf(row.key).resource === "jobs";
  const revision = row.revision ? `, revision ${row.revision}` : "";
  return [h("span", { class: "kind", text: kindOf(row.key) }), " ", h("a", { href: hrefOf(row.key), text: partsOf(row.key).name }),
    h("span", { class: "note", text: ` ${isJob ? row.succeeded : row.ready} of ${row.desired} ${isJob ? "succeeded" : "ready"}${revision}` })];
}

export function podLabel(world, pod) {
  const restarts = pod.restarts ? `, ${pod.restarts} restarts` : "";
  return [sign(pod.state), " ", h("a", { href: hrefOf(pod.key), text: partsOf(pod.key).name }),
    h("span", { class: "note", text: ` ${pod.status} ${pod.ready}${restarts}, ${duration(world.now - pod.created)}${pod.node ? `, on ${pod.node}` : ""}` }),
    pod.note ? h("span", { class: "note why", text: ` ${pod.note}` }) : null];
}

export { STATES };
