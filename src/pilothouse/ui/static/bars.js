// How far a workload's pods are, as bars: one for each revision.

import { collator, countStates, h, POD_STATES, sign, spoken } from "./dom.js";

const ORDER = ["ready", "succeeded", "unready", "starting", "pending", "unknown", "failing", "terminating"];

/** The bars of one workload: what they are called, and their pods. */
export function revisionsOf(model, workload) {
  const [group, resource] = workload.key.split("/");
  if (group === "apps" && resource === "deployments") {
    return model.workloadsOf(workload.uid)
      .map((each) => ({ each, pods: model.podsOf(each.uid) }))
      .filter(({ each, pods }) => each.desired || pods.length)
      .sort((a, b) => collator.compare(b.each.revision, a.each.revision))
      .map(({ each, pods }) => ({ id: each.key, name: `revision ${each.revision || "?"}`, desired: each.desired, pods }));
  }
  if (resource === "cronjobs") {
    return model.workloadsOf(workload.uid)
      .sort((a, b) => b.created - a.created)
      .slice(0, 3)
      .map((each) => ({ id: each.key, name: each.key.split("/").at(-1), desired: each.desired, pods: model.podsOf(each.uid), job: each }));
  }
  const byHash = new Map();
  for (const pod of model.podsOf(workload.uid)) {
    const hash = resource === "jobs" ? "" : pod.hash;
    if (!byHash.has(hash)) byHash.set(hash, []);
    byHash.get(hash).push(pod);
  }
  if (resource === "jobs") {
    return [{ id: workload.key, name: "pods", desired: workload.desired, pods: byHash.get("") ?? [], job: workload }];
  }
  if (!byHash.size) return [{ id: workload.key, name: "pods", desired: workload.desired, pods: [] }];
  const newest = (pods) => Math.max(...pods.map((pod) => pod.created));
  return [...byHash]
    .sort(([, a], [, b]) => newest(b) - newest(a))
    .map(([hash, pods], place, all) => ({
      id: `${workload.key} ${hash}`,
      name: all.length === 1 && !workload.hash ? "pods" : `revision ${hash.split("-").at(-1) || "?"}`,
      desired: all.length === 1 ? workload.desired : pods.length,
      pods,
    }));
}

/** The elements of the bars. Those that were there are kept, so that they move. */
export function drawBars(holder, revisions) {
  const most = Math.max(1, ...revisions.map(({ desired, pods }) => Math.max(desired, pods.length)));
  const kept = new Map([...holder.children].map((bar) => [bar.dataset.id, bar]));
  const bars = revisions.map((revision) => {
    const bar = kept.get(revision.id) ?? newBar(revision.id);
    drawBar(bar, revision, most);
    return bar;
  });
  if (bars.length !== holder.children.length || bars.some((bar, place) => holder.children[place] !== bar)) {
    holder.replaceChildren(...bars);
  }
}

function newBar(id) {
  return h("div", { class: "bar", "data-id": id },
    h("span", { class: "bar-name" }),
    h("span", { class: "track", role: "img" }, ORDER.map((state) => h("span", { class: `part b-${state}` }))),
    h("span", { class: "bar-text" }));
}

function drawBar(bar, { name, desired, pods, job }, most) {
  const counts = countStates(pods);
  const [label, track, text] = bar.children;
  const done = job ? Math.max(job.succeeded, counts.succeeded ?? 0) : counts.ready ?? 0;
  const goal = job ? `${done} of ${desired} succeeded` : `${done} of ${desired} ready`;
  const shown = `${goal}${POD_STATES.some((state) => counts[state] && state !== (job ? "succeeded" : "ready")) ? ` (${spoken(counts)})` : ""}`;
  if (label.textContent !== name) label.textContent = name;
  if (text.textContent !== shown) text.textContent = shown;
  track.setAttribute("aria-label", `${name}: ${shown}`);
  track.style.setProperty("--desired", `${(100 * desired) / most}%`);
  ORDER.forEach((state, place) => {
    const count = job && state === "succeeded" ? done : counts[state] ?? 0;
    const width = `${(100 * Math.min(count, most)) / most}%`;
    if (track.children[place].style.width !== width) track.children[place].style.width = width;
  });
}

export { sign };
