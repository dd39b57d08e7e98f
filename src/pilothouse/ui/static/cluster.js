// The cluster as a picture: each node with a sign for each of its pods.

import { clock, collator, counted, countStates, fill, h, number, partsOf, POD_STATES, say, sign, spoken, STATES } from "./dom.js";
import { hrefOf } from "./route.js";

const MAX_SIGNS = 120;

/** Taints are long: they break after their marks, with spaces of no width. */
const breakable = (text) => text.replace(/[/:=]/g, "$&\u200b");
const MAX_LISTED = 50;

export class Cluster {
  title = "Cluster";

  constructor(world) {
    this.world = world;
    this.states = new Set();
    this.text = "";
    this.cells = new Map();
  }

  mount(main) {
    this.summary = h("p", { class: "summary" });
    this.buttons = new Map(
      POD_STATES.map((state) => {
        const count = h("b");
        const button = h("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => this.#toggle(state) },
          sign(state, { quiet: true }), " ", count, ` ${STATES[state].label}`);
        return [state, { button, count }];
      }),
    );
    this.homeless = h("section", { class: "homeless", "aria-labelledby": "homeless-title", hidden: true });
    this.none = h("p", { class: "none", hidden: true });
    this.grid = h("ul", { class: "nodes", "aria-label": "Nodes", onkeydown: (event) => this.#move(event) });
    fill(main,
      h("h1", { text: "Cluster" }),
      this.summary,
      h("div", { class: "chips", role: "group", "aria-label": "Show only nodes with pods that are" },
        [...this.buttons.values()].map(({ button }) => button)),
      this.homeless,
      h("h2", { class: "hidden", text: "Nodes" }),
      this.grid,
      this.none);
    this.#rebuild();
  }

  search(text) {
    this.text = text.toLowerCase();
    this.#filter();
  }

  update(changes) {
    const { nodes } = this.world.shown;
    if (changes.reset) return this.#rebuild();
    for (const key of changes.tables.nodes) {
      if (nodes.has(key) !== this.cells.has(key)) return this.#rebuild();
      this.#draw(key);
    }
    let homeless = changes.tables.pods.size > 0 && changes.onNodes.has("");
    for (const node of changes.onNodes) {
      if (!this.cells.has(`/nodes/${node}`)) homeless = true;
      else this.#draw(`/nodes/${node}`);
    }
    if (homeless) this.#drawHomeless();
    if (changes.tables.pods.size || changes.tables.nodes.size) this.#summarize();
    if (this.states.size) this.#filter();
  }

  #rebuild() {
    const keys = [...this.world.shown.nodes.keys()].sort(collator.compare);
    const focused = document.activeElement?.dataset?.key;
    const cells = new Map();
    for (const key of keys) cells.set(key, this.cells.get(key) ?? this.#cell(key));
    this.cells = cells;
    fill(this.grid, [...cells.values()].map(({ item }) => item));
    for (const key of keys) this.#draw(key);
    this.active = cells.has(this.active) ? this.active : keys[0];
    for (const [key, { link }] of cells) link.tabIndex = key === this.active ? 0 : -1;
    if (focused && cells.has(focused)) cells.get(focused).link.focus();
    this.#drawHomeless();
    this.#summarize();
    this.#filter();
  }

  #cell(key) {
    const state = h("span", { class: "state" });
    const note = h("span", { class: "note" });
    const signs = h("span", { class: "signs", "aria-hidden": "true" });
    const link = h("a", { class: "node", "data-key": key, onfocus: () => this.#activate(key) },
      h("span", { class: "name" }, state, h("span", { text: partsOf(key).name })), note, signs);
    return { item: h("li", {}, link), link, state, note, signs, drawn: "" };
  }

  #draw(key) {
    const cell = this.cells.get(key);
    const node = this.world.shown.nodes.get(key);
    if (!cell || !node) return;
    const { name } = partsOf(key);
    const counts = countStates(this.world.shown.podsOn(name));
    const lines = [
      node.since ? `not ready since ${clock(node.since)}` : "",
      node.unschedulable ? "cordoned" : "",
      ...node.note.split(", "),
    ].filter(Boolean);
    const notes = lines.join(", ");
    const drawn = JSON.stringify([node.state, notes, counts]);
    cell.counts = counts;
    cell.link.href = hrefOf(key);
    if (drawn === cell.drawn) return;
    cell.drawn = drawn;
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
    cell.link.setAttribute("aria-label",
      `${name}: ${STATES[node.state]?.label ?? node.state}${notes ? `, ${notes}` : ""}, ${counted(total, "pod")}${total ? `: ${spoken(counts)}` : ""}`);
    fill(cell.state, sign(node.state, { quiet: true }));
    fill(cell.note, lines.map((text) => h("span", { class: "line", text: breakable(text) })));
    fill(cell.signs, POD_STATES.filter((state) => counts[state]).map((state) =>
      h("span", { class: `s-${state}`, text: STATES[state].sign.repeat(Math.min(counts[state], MAX_SIGNS)) +
        (counts[state] > MAX_SIGNS ? ` +${counts[state] - MAX_SIGNS}` : "") })));
  }

  #drawHomeless() {
    const { podsByNode } = this.world.shown;
    const pods = [];
    let lost = 0;
    for (const [node, found] of podsByNode) {
      if (node === "") pods.push(...found.values());
      else if (!this.cells.has(`/nodes/${node}`)) {
        pods.push(...found.values());
        lost += found.size;
      }
    }
    this.homeless.hidden = !pods.length;
    if (!pods.length) return fill(this.homeless);
    fill(this.homeless,
      h("h2", { id: "homeless-title", text: `${counted(pods.length, "pod")} without a node` }),
      lost ? h("p", { text: `${lost} of them are bound to a deleted node.` }) : null,
      h("ul", { class: "pods" }, pods.slice(0, MAX_LISTED).map((pod) =>
        h("li", {}, sign(pod.state), " ",
          h("a", { href: hrefOf(pod.key), text: `${partsOf(pod.key).namespace}/${partsOf(pod.key).name}` }),
          pod.note ? h("span", { class: "note", text: ` ${pod.note}` }) : null))),
      pods.length > MAX_LISTED ? h("p", { text: `and ${number.format(pods.length - MAX_LISTED)} more` }) : null);
  }

  #summarize() {
    const { nodes, pods } = this.world.shown;
    const counts = countStates(pods.values());
    const ready = [...nodes.values()].filter((node) => node.state === "ready").length;
    say(this.summary, `${counted(nodes.size, "node")}, ${number.format(ready)} ready; ${counted(pods.size, "pod")}`);
    for (const [state, { button, count }] of this.buttons) {
      say(count, number.format(counts[state] ?? 0));
      button.classList.toggle("zero", !counts[state]);
    }
  }

  #toggle(state) {
    if (this.states.has(state)) this.states.delete(state);
    else this.states.add(state);
    for (const [name, { button }] of this.buttons) button.setAttribute("aria-pressed", String(this.states.has(name)));
    this.#filter();
  }

  #filter() {
    let shown = 0;
    for (const [key, cell] of this.cells) {
      const fits = (!this.text || key.includes(this.text) || this.#hasPod(partsOf(key).name)) &&
        (!this.states.size || [...this.states].some((state) => cell.counts?.[state]));
      cell.item.hidden = !fits;
      if (fits) shown++;
    }
    this.none.hidden = shown > 0 || !this.world.shown.complete;
    say(this.none, this.cells.size ? "No node fits what is searched for." : "There are no nodes.");
  }

  #hasPod(node) {
    for (const key of this.world.shown.podsByNode.get(node)?.keys() ?? []) if (key.includes(this.text)) return true;
    return false;
  }

  #activate(key) {
    const before = this.cells.get(this.active);
    if (before) before.link.tabIndex = -1;
    this.active = key;
    this.cells.get(key).link.tabIndex = 0;
  }

  /** Arrow keys go through the grid, which is one stop of the Tab key. */
  #move(event) {
    const links = [...this.cells.values()].filter(({ item }) => !item.hidden).map(({ link }) => link);
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    const top = links[at].getBoundingClientRect();
    const across = links.filter((link) => Math.abs(link.getBoundingClientRect().top - top.top) < 2).length || 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -at, End: links.length - 1 - at };
    if (!(event.key in steps)) return;
    event.preventDefault();
    links[Math.max(0, Math.min(links.length - 1, at + steps[event.key]))].focus();
  }
}
