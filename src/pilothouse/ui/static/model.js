// The cluster at one moment: tables of rows, indexed. `live` follows the stream, `past` is what a slider chose.

import { get, lines } from "./net.js";

const TABLES = ["nodes", "workloads", "pods", "events"];
const MAX_DECISIONS = 500;
const MAX_ERRORS = 200;

/** What has changed since the last notification. */
class Changes {
  constructor() {
    this.reset = false;
    this.tables = { nodes: new Set(), workloads: new Set(), pods: new Set(), events: new Set() };
    this.owners = new Set();
    this.onNodes = new Set();
    this.programs = false;
  }
}

export class Model {
  constructor() {
    this.columns = {};
    this.revision = "";
    this.time = 0;
    this.complete = false;
    this.clear();
  }

  clear() {
    for (const name of TABLES) this[name] = new Map();
    this.podsByNode = new Map();
    this.podsByOwner = new Map();
    this.workloadsByOwner = new Map();
    this.byUid = new Map();
    this.controllers = [];
    this.decisions = [];
    this.errors = [];
    this.hasManager = this.hasScheduler = true;
    this.changes = new Changes();
    this.changes.reset = true;
  }

  /** One frame of a stream. */
  apply(frame) {
    if (frame.reset) {
      this.clear();
      this.complete = false;
      Object.assign(this.columns, frame.reset);
    } else if (frame.table) {
      for (const key of frame.gone ?? []) this.#remove(frame.table, key);
      for (const row of frame.rows ?? []) this.#set(frame.table, this.#named(this.columns[frame.table], row));
    }
    if (frame.programs) {
      Object.assign(this.columns, frame.programs);
      this.hasManager = frame.manager;
      this.hasScheduler = frame.scheduler;
    }
    if (frame.controllers !== undefined) {
      this.controllers = frame.controllers && frame.controllers.map((row) => this.#named(this.columns.controllers, row));
      this.changes.programs = true;
    }
    if (frame.decisions) this.decisions = this.#joined("decisions", frame.decisions, MAX_DECISIONS);
    if (frame.errors) this.errors = this.#joined("errors", frame.errors, MAX_ERRORS);
    if (frame.revision) {
      this.revision = frame.revision;
      this.time = frame.time;
    }
    if (frame.complete) this.complete = true;
  }

  #named(columns, row) {
    const found = {};
    for (let i = 0; i < columns.length; i++) found[columns[i]] = row[i];
    return found;
  }

  #joined(name, rows, most) {
    this.changes.programs = true;
    const newest = this[name].at(-1)?.number ?? 0;
    const added = rows.map((row) => this.#named(this.columns[name], row)).filter((each) => each.number > newest);
    return [...this[name], ...added].slice(-most);
  }

  #set(table, row) {
    this.#unlink(table, row.key);
    this[table].set(row.key, row);
    this.changes.tables[table].add(row.key);
    if (table === "pods") {
      link(this.podsByNode, row.node, row);
      link(this.podsByOwner, row.owner, row);
      this.changes.onNodes.add(row.node);
      this.changes.owners.add(row.owner);
    } else if (table === "workloads") {
      link(this.workloadsByOwner, row.owner, row);
      this.byUid.set(row.uid, row);
      this.changes.owners.add(row.uid);
      this.changes.owners.add(row.owner);
    }
  }

  #remove(table, key) {
    this.#unlink(table, key);
    this[table].delete(key);
    this.changes.tables[table].add(key);
  }

  #unlink(table, key) {
    const row = this[table].get(key);
    if (!row) return;
    if (table === "pods") {
      unlink(this.podsByNode, row.node, key);
      unlink(this.podsByOwner, row.owner, key);
      this.changes.onNodes.add(row.node);
      this.changes.owners.add(row.owner);
    } else if (table === "workloads") {
      unlink(this.workloadsByOwner, row.owner, key);
      if (this.byUid.get(row.uid) === row) this.byUid.delete(row.uid);
      this.changes.owners.add(row.owner);
    }
  }

  podsOn(node) {
    return [...(this.podsByNode.get(node)?.values() ?? [])];
  }

  podsOf(uid) {
    return [...(this.podsByOwner.get(uid)?.values() ?? [])];
  }

  workloadsOf(uid) {
    return [...(this.workloadsByOwner.get(uid)?.values() ?? [])];
  }

  /** Those that no other workload owns. */
  roots() {
    return [...this.workloads.values()].filter((each) => !each.owner || !this.byUid.has(each.owner));
  }

  /** The workload at the top of the owners of this uid. */
  rootOf(uid) {
    let found = this.byUid.get(uid);
    for (let depth = 0; found?.owner && this.byUid.has(found.owner) && depth < 10; depth++) found = this.byUid.get(found.owner);
    return found;
  }

  takeChanges() {
    const taken = this.changes;
    this.changes = new Changes();
    return taken;
  }
}

function link(index, name, row) {
  let found = index.get(name);
  if (!found) index.set(name, (found = new Map()));
  found.set(row.key, row);
}

function unlink(index, name, key) {
  const found = index.get(name);
  found?.delete(key);
  if (found?.size === 0) index.delete(name);
}

/** Both models, and which one is shown. */
export class World {
  constructor(onChange, onConnection, onLost) {
    this.live = new Model();
    this.past = null;
    this.marks = [];
    this.retention = 300;
    this.frames = 0;
    this.onChange = onChange;
    this.onConnection = onConnection;
    this.onLost = onLost;
    this.scheduled = false;
    this.stream = null;
  }

  get shown() {
    return this.past ?? this.live;
  }

  /** When it is on what is shown. */
  get now() {
    return this.past ? this.past.time : Date.now() / 1000;
  }

  /** Follow the stream until `stop`, over every break. */
  async follow() {
    if (this.stream) return;
    const stream = (this.stream = new AbortController());
    let wait = 500;
    while (!stream.signal.aborted) {
      try {
        for await (const frames of lines("stream", {}, stream.signal)) {
          for (const frame of frames) this.#take(frame);
          this.onConnection("live");
          wait = 500;
          this.#schedule();
        }
      } catch (error) {
        if (stream.signal.aborted) return;
        if (error.status === 401) {
          this.stream = null;
          this.onLost(error);
          return;
        }
        this.onConnection(error.status === 429 ? "too many pages are open" : "no connection");
      }
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 10000);
    }
  }

  stop() {
    this.stream?.abort();
    this.stream = null;
    this.onConnection("stopped while hidden");
  }

  #take(frame) {
    this.frames++;
    if (frame.marks) {
      this.marks = frame.marks;
      this.retention = frame.retention;
    }
    if (frame.revision && (!this.marks.length || frame.time - this.marks.at(-1)[0] >= 1)) {
      this.marks.push([frame.time, Number(frame.revision)]);
      while (this.marks.length > 1 && this.marks[0][0] < frame.time - this.retention) this.marks.shift();
    }
    this.live.apply(frame);
  }

  /** Once for each picture that the browser shows, however many frames came. */
  #schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const flush = () => {
      this.scheduled = false;
      if (!this.live.complete) return;
      const changes = this.live.takeChanges();
      if (!this.past) this.onChange(changes);
    };
    if (document.hidden) setTimeout(flush, 200);
    else requestAnimationFrame(flush);
  }

  /** Show what was at `at`, a resourceVersion or a time; nothing is now. */
  async show(at) {
    this.loading?.abort();
    this.loading = null;
    if (!at) {
      this.past = null;
    } else {
      const loading = (this.loading = new AbortController());
      const found = new Model();
      for await (const frames of lines("state", { at }, loading.signal)) for (const frame of frames) found.apply(frame);
      if (this.loading !== loading) return false;
      this.loading = null;
      this.past = found;
    }
    const changes = this.shown.takeChanges();
    changes.reset = true;
    this.onChange(changes);
    return true;
  }
}

export { get };
