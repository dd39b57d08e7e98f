// One object: its YAML, its events, its history as differences, and why it is as it is.

import { drawBars, revisionsOf } from "./bars.js";
import { clock, collator, counted, duration, fill, h, kindOf, partsOf, say, sign, table } from "./dom.js";
import { get } from "./net.js";
import { eventCells } from "./programs.js";
import { href, hrefOf, route } from "./route.js";
import { ownerTree, podLabel } from "./workloads.js";
import { yaml } from "./yaml.js";

const REFRESH = 4000;
const SOON = 400;
const MAX_PODS = 120;
const TABS = [["yaml", "YAML"], ["events", "Events"], ["history", "History"], ["why", "Why"]];

export class ObjectPage {
  constructor(world, parts) {
    this.world = world;
    const [group, resource, ...rest] = parts.map((part) => (part === "-" ? "" : part));
    this.query = { group, resource, namespace: rest.length > 1 ? rest[0] : "", name: rest.at(-1) ?? "" };
    this.key = [group, resource, ...rest].join("/");
    this.title = this.query.name;
    this.tab = sessionStorage.getItem("tab") ?? "yaml";
    this.loaded = {};
  }

  mount(main) {
    this.state = h("span", { class: "state" });
    this.kind = h("span", { class: "kind" });
    this.about = h("p", { class: "about" });
    this.error = h("p", { class: "error", role: "alert" });
    this.bars = h("div", { class: "bars" });
    this.related = h("div", { class: "tree" });
    this.tabs = TABS.map(([id, label]) =>
      h("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": "panel", text: label, onclick: () => this.#choose(id) }));
    this.panel = h("div", { role: "tabpanel", id: "panel", tabindex: "0" });
    fill(main,
      h("h1", {}, this.state, " ", this.kind, " ", this.query.name),
      this.about, this.error, this.bars, this.related,
      h("div", { role: "tablist", class: "tabs", "aria-label": "About this object", onkeydown: (event) => this.#keys(event) }, this.tabs),
      this.panel);
    this.#choose(TABS.some(([id]) => id === this.tab) ? this.tab : "yaml");
    this.#relate();
    this.#load();
    this.timer = setInterval(() => !this.world.past && !document.hidden && this.#load(), REFRESH);
  }

  unmount() {
    clearInterval(this.timer);
    clearTimeout(this.soon);
    this.request?.abort();
  }

  update(changes) {
    if (changes.reset) {
      this.#load();
      return this.#relate();
    }
    const own = Object.values(changes.tables).some((keys) => keys.has(this.key));
    if (own && !this.soon) {
      this.soon = setTimeout(() => {
        this.soon = null;
        this.#load();
      }, SOON);
    }
    if (own || changes.onNodes.has(this.query.name) || changes.owners.size) this.#relate();
  }

  async #load() {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const at = route().at;
    try {
      const found = await get("object", { ...this.query, at }, request.signal);
      if (request !== this.request) return;
      this.found = found;
      say(this.error, found.exists ? "" : found.gone ? "This object has been deleted. This is its last state." : "There is no such object, and the history knows of none.");
      say(this.kind, found.kind);
      this.#describe(found.object);
      this.#draw();
      const version = `${found.revision} ${found.exists} ${at}`;
      if (this.tab === "history" && this.loaded.history !== version) this.#loadHistory(version);
      if (this.tab === "why" && this.loaded.why !== version) this.#loadWhy(version);
      this.version = version;
    } catch (error) {
      if (error.name !== "AbortError" && request === this.request) say(this.error, error.message);
    }
  }

  #describe(object) {
    const meta = object?.metadata ?? {};
    const created = meta.creationTimestamp ? Date.parse(meta.creationTimestamp) / 1000 : 0;
    const owner = (meta.ownerReferences ?? []).find((each) => each.controller) ?? meta.ownerReferences?.[0];
    const node = object?.spec?.nodeName;
    fill(this.about,
      this.query.namespace ? [h("span", { class: "label", text: "namespace " }), this.query.namespace, " · "] : null,
      created ? [h("span", { class: "label", text: "created " }), `${clock(created)} (${duration(this.world.now - created)} ago)`, " · "] : null,
      meta.deletionTimestamp ? [h("b", { text: `being deleted since ${clock(Date.parse(meta.deletionTimestamp) / 1000)}` }), " · "] : null,
      owner ? [h("span", { class: "label", text: "owned by " }), `${owner.kind} `, this.#ownerLink(owner), " · "] : null,
      node ? [h("span", { class: "label", text: "on node " }), h("a", { href: hrefOf(`/nodes/${node}`), text: node }), " · "] : null,
      h("span", { class: "label", text: "resourceVersion " }), meta.resourceVersion ?? "–");
  }

  #ownerLink(owner) {
    const known = this.world.shown.byUid.get(owner.uid);
    return known ? h("a", { href: hrefOf(known.key), text: owner.name }) : owner.name;
  }

  /** What the tables know of it: its state, its bars, what it owns, its pods. */
  #relate() {
    const model = this.world.shown;
    const { resource, name } = this.query;
    const row = model.workloads.get(this.key) ?? model.pods.get(this.key) ?? model.nodes.get(this.key);
    if (!this.kind.textContent) say(this.kind, kindOf(this.key));
    fill(this.state, row?.state ? sign(row.state) : null);
    if (model.workloads.has(this.key)) {
      drawBars(this.bars, revisionsOf(model, row));
      fill(this.related, ownerTree(this.world, row));
    } else if (resource === "nodes") {
      const pods = model.podsOn(name).sort((a, b) => collator.compare(a.key, b.key));
      fill(this.related, h("p", { class: "label", text: `${counted(pods.length, "pod")} on this node` }),
        h("ul", { class: "owned" }, pods.slice(0, MAX_PODS).map((pod) => h("li", {}, podLabel(this.world, pod))),
          pods.length > MAX_PODS ? h("li", { text: `and ${pods.length - MAX_PODS} more` }) : null));
    } else if (row?.note) {
      fill(this.related, h("p", { class: "note", text: row.note }));
    } else {
      fill(this.related);
    }
  }

  #choose(id) {
    this.tab = id;
    sessionStorage.setItem("tab", id);
    for (const tab of this.tabs) {
      const chosen = tab.id === `tab-${id}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${id}`);
    this.drawn = "";
    fill(this.panel);
    this.#draw();
    if (id === "history" && this.version) this.#loadHistory(this.version);
    if (id === "why" && this.version) this.#loadWhy(this.version);
  }

  #keys(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const place = (TABS.findIndex(([id]) => id === this.tab) + steps[event.key] + TABS.length) % TABS.length;
    this.#choose(TABS[place][0]);
    this.tabs[place].focus();
  }

  #draw() {
    const { found } = this;
    if (!found) return;
    if (this.tab === "yaml") {
      const drawn = `${found.revision} ${this.managed}`;
      if (drawn === this.drawn) return;
      this.drawn = drawn;
      this.#drawYaml(found.object);
    } else if (this.tab === "events") {
      const drawn = JSON.stringify(found.events);
      if (drawn === this.drawn) return;
      this.drawn = drawn;
      this.#drawEvents(found.events ?? []);
    }
  }

  #drawYaml(object) {
    if (!object) return fill(this.panel, h("p", { text: "There is nothing to show." }));
    const fields = object.metadata?.managedFields;
    const shown = this.managed || !fields ? object : { ...object, metadata: { ...object.metadata, managedFields: undefined } };
    if (shown !== object) delete shown.metadata.managedFields;
    const text = yaml(shown);
    const box = h("input", { type: "checkbox", id: "managed", checked: this.managed, onchange: (event) => {
      this.managed = event.target.checked;
      this.#draw();
    } });
    const copied = h("span", { role: "status" });
    fill(this.panel,
      h("p", { class: "tools" },
        fields ? [box, h("label", { for: "managed", text: " managed fields " })] : null,
        h("button", { type: "button", text: "Copy", onclick: async () => {
          await navigator.clipboard.writeText(text);
          say(copied, " copied");
        } }), copied),
      h("pre", { tabindex: "0", role: "region", "aria-label": "YAML", text }));
    if (this.managed) this.panel.querySelector("#managed").focus();
  }

  #drawEvents(rows) {
    const columns = ["key", "at", "type", "reason", "message", "kind", "namespace", "name", "uid", "count", "source"];
    const events = rows.map((row) => Object.fromEntries(columns.map((name, place) => [name, row[place]])));
    fill(this.panel, events.length
      ? table("Events of this object", [["Time"], ["Object"], ["Reason"], ["Message"], ["Count", "n"], ["From"]],
        h("tbody", {}, events.map((each) => h("tr", {}, eventCells(each)))))
      : h("p", { text: "There are no events about this object." }));
  }

  async #loadHistory(version) {
    this.loaded.history = version;
    try {
      const found = await get("history", { ...this.query, at: route().at });
      if (this.tab === "history") this.#drawHistory(found);
    } catch (error) {
      if (this.tab === "history") fill(this.panel, h("p", { class: "error", text: error.message }));
    }
  }

  #drawHistory({ versions, more }) {
    if (!versions.length) {
      return fill(this.panel, h("p", { text: "Nothing has changed since the history begins." }));
    }
    fill(this.panel,
      h("ol", { class: "versions" }, versions.map((each) => h("li", {},
        h("p", { class: "version" },
          h("b", { text: { ADDED: "Created", MODIFIED: "Changed", DELETED: "Deleted" }[each.type] ?? each.type }), " ",
          h("a", { href: href(...this.#self(), { at: each.revision }), text: clock(each.at), "aria-label": `Show the cluster at ${clock(each.at)}` }),
          h("span", { class: "note", text: ` resourceVersion ${each.revision}${each.managers.length ? `, by ${each.managers.join(", ")}` : ""}` })),
        originOf(each.origin),
        each.changes.length ? h("ul", { class: "changes" }, each.changes.map(change)) : null,
        each.moreChanges ? h("p", { class: "note", text: `and ${each.moreChanges} more fields` }) : null))),
      more ? h("p", { class: "note", text: `${more} older versions are not shown.` }) : null);
  }

  #drawWhy({ object, state, steps, unseen, rootCauses }) {
    const roots = steps.some((step) => step.because?.length) ? rootCauses : null;
    fill(this.panel,
      h("p", {}, h("b", { text: `${object}: ${state}` })),
      roots ? [h("h2", { text: roots.length === 1 ? "Root cause" : "Root causes" }),
        h("ul", { class: "roots" }, roots.map((step) => h("li", {}, headline(step), hints(step),
          step.because?.length ? h("ul", { class: "owned note" }, step.because.map((each) => h("li", {}, headline(each), hints(each)))) : null))),
        h("h2", { text: "How it happened" })] : null,
      stepTree(steps, roots ? () => null : hints),
      unseen?.length ? [h("h2", { text: "Not seen" }), h("ul", {}, unseen.map((text) => h("li", { text })))] : null);
  }

  #self() {
    const { group, resource, namespace, name } = this.query;
    return ["object", namespace ? [group, resource, namespace, name] : [group, resource, name]];
  }

  async #loadWhy(version) {
    this.loaded.why = version;
    if (!this.panel.firstChild) fill(this.panel, h("p", { text: "Searching for the causes …" }));
    try {
      const found = await get("why", { ...this.query, at: route().at });
      if (this.tab === "why") this.#drawWhy(found);
    } catch (error) {
      if (this.tab === "why") fill(this.panel, h("p", { class: "error", text: error.message }));
    }
  }
}

/** What else the same user did then, of a step of somebody's act. */
function hints(step) {
  return step.hints?.length ? h("ul", { class: "owned note" }, step.hints.map((text) => h("li", { text }))) : null;
}

/** A link of the chain, and what led to it. */
function stepTree(steps, more) {
  return h("ul", { class: "owned" }, steps.map((step) => h("li", {},
    headline(step),
    step.decision ? h("p", { class: "note", text: step.decision }) : null,
    step.table?.length ? h("pre", { tabindex: "0", role: "region", "aria-label": "Details", text: step.table.join("\n") }) : null,
    more(step),
    step.because?.length ? [h("p", { class: "label", text: "because" }), stepTree(step.because, more)] : null)));
}

function headline(step) {
  return [step.time ? h("span", { class: "note", text: `${clock(Date.parse(step.time) / 1000)} ` }) : null,
    step.text, step.by ? h("span", { class: "note", text: `, by ${step.by}` }) : null];
}

function originOf(origin) {
  if (!origin) return null;
  const { cause } = origin;
  return h("p", { class: "origin" },
    cause ? [h("b", { text: cause.component }), cause.key ? ` syncing ${cause.key}` : "", cause.decision ? `: ${cause.decision}` : "", " "] : null,
    h("span", { class: "note", text: [origin.user, origin.userAgent].filter(Boolean).join(", ") }));
}

function change({ path, before, after }) {
  const lines = [h("span", { class: "path", text: path })];
  if (before !== undefined) lines.push(h("del", {}, h("span", { class: "hidden", text: "before: " }), before));
  if (after !== undefined) lines.push(h("ins", {}, h("span", { class: "hidden", text: "after: " }), after));
  return h("li", {}, lines);
}
