// What the programs do: controllers with their queues, the scheduler with its decisions, and the newest events.

import { brief, clock, collator, counted, fill, h, number, partsOf, say, sign, table } from "./dom.js";
import { hrefOf } from "./route.js";

const MAX_ROWS = 200;

export class Controllers {
  title = "Controllers";

  constructor(world) {
    this.world = world;
    this.text = "";
    this.rows = new Map();
  }

  mount(main) {
    this.body = h("tbody");
    this.errors = h("tbody");
    this.none = h("p");
    this.noErrors = h("p");
    this.errorTable = table("Recent warnings and errors",
      [["Time"], ["Component"], ["Message"], ["Error"], ["About"]], this.errors);
    fill(main,
      h("h1", { text: "Controllers" }),
      this.none,
      table("Queues of the controllers",
        [["Controller"], ["Queue"], ["Depth", "n"], ["Adds / s", "n"], ["Syncs / s", "n"], ["Sync takes", "n"], ["Waits", "n"],
          ["Running for", "n"], ["Syncs", "n"], ["Retries", "n"], ["Failures", "n"]], this.body),
      h("h2", { text: "Recent warnings and errors" }),
      this.noErrors,
      this.errorTable);
    this.#draw();
  }

  search(text) {
    this.text = text.toLowerCase();
    this.#draw();
  }

  update(changes) {
    if (changes.programs || changes.reset) this.#draw();
  }

  #draw() {
    const { controllers, errors, hasManager } = this.world.shown;
    const fits = (...texts) => !this.text || texts.some((text) => text.toLowerCase().includes(this.text));
    say(this.none, !hasManager ? "This process runs no controllers."
      : !controllers ? "Nothing was recorded of the controllers at that time." : "");
    const rows = (controllers ?? [])
      .filter((each) => (each.syncs || each.depth || each.adds || each.failures) && fits(each.controller, each.queue))
      .sort((a, b) => collator.compare(a.controller || a.queue, b.controller || b.queue) || collator.compare(a.queue, b.queue));
    const kept = new Map();
    const elements = rows.map((each) => {
      const id = `${each.controller} ${each.queue}`;
      const element = this.rows.get(id) ?? h("tr", {}, h("th", { scope: "row" }), Array.from({ length: 10 }, (_, place) => h("td", { class: place ? "n" : null })));
      kept.set(id, element);
      const texts = [each.controller || "–", each.queue, number.format(each.depth), each.addsPerSecond.toFixed(1), each.syncsPerSecond.toFixed(1),
        brief(each.syncSeconds), brief(each.waitSeconds), each.longestSeconds ? brief(each.longestSeconds) : "–",
        number.format(each.syncs), number.format(each.retries), number.format(each.failures)];
      texts.forEach((text, place) => say(element.children[place], text));
      element.children[2].classList.toggle("busy", each.depth > 0);
      element.children[10].classList.toggle("bad", each.failures > 0);
      return element;
    });
    this.rows = kept;
    if (elements.length !== this.body.children.length || elements.some((each, place) => this.body.children[place] !== each)) {
      fill(this.body, elements);
    }
    const newest = errors.filter((each) => fits(each.component, each.message, each.error, each.about)).reverse();
    say(this.noErrors, newest.length ? "" : "None since this page was first served.");
    this.errorTable.hidden = !newest.length;
    fill(this.errors, newest.map((each) => h("tr", {},
      h("td", { text: clock(each.at) }),
      h("td", { text: each.component }),
      h("td", {}, sign(each.level === "error" ? "failing" : "unready", { quiet: true }), ` ${each.message}`),
      h("td", { class: "text", text: each.error }),
      h("td", { class: "text", text: each.about }))));
  }
}

export class Scheduler {
  title = "Scheduler";

  constructor(world) {
    this.world = world;
    this.text = "";
  }

  mount(main) {
    this.summary = h("p", { class: "summary" });
    this.waiting = h("div");
    this.body = h("tbody");
    this.none = h("p");
    fill(main,
      h("h1", { text: "Scheduler" }),
      this.summary,
      this.waiting,
      h("h2", { text: "Last decisions" }),
      this.none,
      table("Last decisions", [["Time"], ["Pod"], ["Decision"], ["Nodes that fit", "n"]], this.body));
    this.#draw();
  }

  search(text) {
    this.text = text.toLowerCase();
    this.#draw();
  }

  update(changes) {
    if (changes.programs || changes.reset || changes.onNodes.has("")) this.#draw();
  }

  #draw() {
    const model = this.world.shown;
    const pending = [...(model.podsByNode.get("")?.values() ?? [])].filter((pod) => pod.state === "pending");
    say(this.summary, model.hasScheduler ? `${counted(pending.length, "pod")} ${pending.length === 1 ? "waits" : "wait"} for a node` : "This process runs no scheduler.");
    const reasons = new Map();
    for (const pod of pending) {
      const reason = pod.note || "not tried yet";
      if (!reasons.has(reason)) reasons.set(reason, []);
      reasons.get(reason).push(pod);
    }
    fill(this.waiting, reasons.size ? h("ul", { class: "reasons" }, [...reasons]
      .sort(([, a], [, b]) => b.length - a.length).slice(0, 20)
      .map(([reason, pods]) => h("li", {}, h("b", { text: number.format(pods.length) }), ` ${reason} `,
        pods.slice(0, 3).map((pod) => [h("a", { href: hrefOf(pod.key), text: partsOf(pod.key).name }), " "]).flat(),
        pods.length > 3 ? "…" : null))) : null);
    const decisions = model.decisions
      .filter((each) => !this.text || `${each.pod} ${each.node} ${each.message}`.toLowerCase().includes(this.text))
      .slice(-MAX_ROWS).reverse();
    say(this.none, decisions.length ? "" : "There are none.");
    fill(this.body, decisions.map((each) => h("tr", {},
      h("td", { text: clock(each.at) }),
      h("td", {}, h("a", { href: hrefOf(`/pods/${each.pod}`), text: each.pod })),
      h("td", { class: "text" }, each.node
        ? [sign("ready", { quiet: true }), " ", h("a", { href: hrefOf(`/nodes/${each.node}`), text: each.node })]
        : [sign("failing", { quiet: true }), ` ${each.message}`,
          each.victims ? h("b", { text: ` ${counted(each.victims, "pod")} ${each.victims === 1 ? "is" : "are"} preempted on ${each.nominated}.` }) : null]),
      h("td", { class: "n", text: each.node ? number.format(each.feasible) : "0" }))));
  }
}

export class Events {
  title = "Events";

  constructor(world) {
    this.world = world;
    this.text = "";
    this.onlyWarnings = false;
  }

  mount(main) {
    this.body = h("tbody");
    this.none = h("p");
    const warnings = h("input", { type: "checkbox", id: "warnings", onchange: (event) => {
      this.onlyWarnings = event.target.checked;
      this.#draw();
    } });
    fill(main,
      h("h1", { text: "Events" }),
      h("p", {}, warnings, h("label", { for: "warnings", text: " only warnings" })),
      this.none,
      table("The newest events", [["Time"], ["Object"], ["Reason"], ["Message"], ["Count", "n"], ["From"]], this.body));
    this.#draw();
  }

  search(text) {
    this.text = text.toLowerCase();
    this.#draw();
  }

  update(changes) {
    if (changes.tables.events.size || changes.reset) this.#draw();
  }

  #draw() {
    const rows = [...this.world.shown.events.values()]
      .filter((each) => !this.onlyWarnings || each.type === "Warning")
      .filter((each) => !this.text || `${each.kind} ${each.namespace}/${each.name} ${each.reason} ${each.message} ${each.source}`.toLowerCase().includes(this.text))
      .sort((a, b) => b.at - a.at || (a.key < b.key ? 1 : -1))
      .slice(0, MAX_ROWS);
    say(this.none, rows.length ? "" : "There are none.");
    fill(this.body, rows.map((each) => h("tr", {}, eventCells(each))));
  }
}

const RESOURCES = {
  CronJob: "batch/cronjobs", DaemonSet: "apps/daemonsets", Deployment: "apps/deployments", Job: "batch/jobs", Node: "/nodes", Pod: "/pods",
  ReplicaSet: "apps/replicasets", ReplicationController: "/replicationcontrollers", Service: "/services", StatefulSet: "apps/statefulsets",
  PersistentVolumeClaim: "/persistentvolumeclaims", Namespace: "/namespaces", HorizontalPodAutoscaler: "autoscaling/horizontalpodautoscalers",
};
const WITHOUT_NAMESPACE = ["Node", "Namespace"];

export function eventCells(each) {
  const resource = RESOURCES[each.kind];
  const name = `${each.namespace ? `${each.namespace}/` : ""}${each.name}`;
  const path = WITHOUT_NAMESPACE.includes(each.kind) ? each.name : name;
  return [
    h("td", { text: clock(each.at) }),
    h("td", {}, h("span", { class: "kind", text: each.kind }), " ",
      resource ? h("a", { href: hrefOf(`${resource}/${path}`), text: name }) : name),
    h("td", {}, each.type === "Warning" ? sign("failing", { quiet: true }) : null, ` ${each.reason}`,
      each.type === "Warning" ? h("span", { class: "hidden", text: " (warning)" }) : null),
    h("td", { class: "text", text: each.message }),
    h("td", { class: "n", text: number.format(each.count) }),
    h("td", { text: each.source }),
  ];
}
