// All clusters, each with the state it is in.

import { make, show, update, ago } from "./dom.js";

/** How old a report of an edge may be before the edge counts as silent: edges report each minute. */
export const SILENT = 180000;

const MOVING = { deleting: "Being deleted", decommissioning: "Being decommissioned" };

/** The state of a cluster in a few words: `{ text, kind, moving }`. */
export function summary(cluster, now = Date.now()) {
  if (cluster.phase === "deleted") return { text: "Deleted; its accounts are disabled", kind: "quiet" };
  if (cluster.phase === "decommissioned") return { text: `Decommissioned; its name is free from ${new Date(cluster.name_free).toLocaleString()}`, kind: "quiet" };
  if (cluster.error) return { text: `${cluster.error.retried ? "Stuck" : "Refused"}: ${cluster.error.message}`, kind: "bad" };
  if (cluster.theft) return { text: "Its bootstrap command was in two hands", kind: "bad" };
  if (!cluster.ready) return { text: MOVING[cluster.phase] ?? "Being set up", kind: "wait", moving: true };
  if (!cluster.bootstrapped) return { text: "Ready to be bootstrapped", kind: "good" };
  if (cluster.heartbeat && now - cluster.heartbeat > SILENT) return { text: `Silent; last heard of ${ago(cluster.heartbeat, now)}`, kind: "bad" };
  const ready = cluster.hosts.filter((host) => host.ready !== false).length;
  const wrong = cluster.errors?.length ?? 0;
  const problems = wrong ? `; ${wrong === 1 ? "a problem" : `${wrong} problems`} at the edge` : "";
  return { text: `${ready} of ${cluster.hosts.length} hosts ready${problems}`, kind: ready === cluster.hosts.length && !wrong ? "good" : "wait" };
}

export function listView(state) {
  const list = make("div");
  show("Edge clusters", make("p", {}, make("a", { class: "button", href: "#/new" }, "New cluster")), list);

  function changed() {
    if (!state.complete) return update(list, make("p", { class: "moving" }, "Loading…"));
    if (!state.clusters.size) return update(list, make("p", {}, "There is no cluster yet."));
    const items = [...state.clusters].map(([uuid, cluster]) => {
      const { text, kind, moving } = summary(cluster);
      return make("li", {}, make("a", { href: `#/cluster/${uuid}` }, cluster.name), make("span", { class: `${kind}${moving ? " moving" : ""}` }, text), make("span", { class: "quiet" }, cluster.group));
    });
    update(list, make("ul", { class: "cards" }, items));
  }

  return { changed };
}
