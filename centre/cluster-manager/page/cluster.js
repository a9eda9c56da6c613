// One cluster: how far its setup is, the command that bootstraps it, its hosts, and what can be done to it.

import { make, show, update, announce, ago } from "./dom.js";
import { summary, SILENT } from "./list.js";
import { commandPanel } from "./command.js";
import { deployForm, sealForm, removal } from "./actions.js";

/** Phases of a cluster that has no rights any more. */
const ENDED = ["deleted", "decommissioning", "decommissioned"];

const STEPS = [
  ["accounts", "Address and accounts"],
  ["repository", "Repository"],
  ["ready", "Ready"],
];

export function clusterView(state, uuid) {
  const head = make("div");
  const hosts = make("div");
  const found = () => state.clusters.get(uuid);
  const command = commandPanel(state, uuid);
  const actions = make("div", {}, deployForm(state, uuid), sealForm(state, uuid), removal(state, uuid));
  let said = "";
  show(found()?.name ?? "Cluster", head, command.element, hosts, actions);

  function changed() {
    const cluster = found();
    const gone = !cluster || ENDED.includes(cluster.phase);
    command.element.hidden = gone || !cluster.ready;
    actions.hidden = !cluster;
    if (!cluster) {
      const text = state.complete ? "There is no such cluster (any more)." : "Loading…";
      return update(head, make("p", {}, text), make("p", {}, make("a", { href: "#/" }, "All clusters")));
    }
    document.querySelector("h1").textContent = cluster.name;
    const { text, kind, moving } = summary(cluster);
    if (said !== text) announce(`${cluster.name}: ${text}`);
    said = text;
    update(head, make("p", { class: `${kind}${moving ? " moving" : ""}` }, text), theft(cluster), problem(cluster), problems(cluster), steps(cluster), facts(state, uuid, cluster), registration(cluster));
    update(hosts, gone ? null : hostList(cluster));
    command.changed(cluster);
    for (const part of actions.children) part.changed?.(cluster);
  }

  const tick = setInterval(changed, 10000);
  return { changed, left: () => (clearInterval(tick), command.left()) };
}

function problem(cluster) {
  if (!cluster.error) return null;
  return make("div", { class: "panel" }, make("p", { class: "bad" }, cluster.error.message), make("p", {}, cluster.error.fix), make("p", { class: "quiet" }, again(cluster)));
}

function problems(cluster) {
  if (!cluster.errors?.length) return null;
  const items = cluster.errors.map((sentence) => make("li", {}, sentence));
  return make("div", { class: "panel" }, make("h2", { id: "problems" }, "Problems at the edge"), make("ul", { "aria-labelledby": "problems" }, items));
}

function theft(cluster) {
  if (!cluster.theft) return null;
  const what = `Another edge tried to redeem the bootstrap command ${ago(cluster.theft)}, after one had. If both were not yours, whoever was first has the keys of this cluster.`;
  const help = "If the one that joined is yours, revoke the command below: this notice ends with it. Otherwise revoke it, delete and decommission the cluster, and make it anew.";
  return make("div", { class: "panel", role: "alert" }, make("p", { class: "bad" }, what), make("p", {}, help));
}

function again({ attempt, error }) {
  const when = error.at ? `, ${ago(error.at)}` : "";
  return error.retried ? `Try ${attempt}${when}; it goes on by itself.` : `Not tried again${when}, until somebody mends it.`;
}

function steps(cluster) {
  if (cluster.ready || ["refused", "deleting", ...ENDED].includes(cluster.phase)) return null;
  const at = STEPS.findIndex(([phase]) => phase === cluster.phase);
  const items = STEPS.map(([, text], index) => {
    const done = index < at;
    const mark = done ? "✓" : index === at ? "…" : "·";
    const words = done ? "done" : index === at ? "now" : "later";
    return make("li", { class: done ? "good" : index === at ? "wait" : "quiet" }, make("span", { "aria-hidden": "true" }, `${mark} `), text, make("span", { class: "unseen" }, `: ${words}`));
  });
  return make("ol", { class: "steps", "aria-label": "Setup" }, items);
}

function facts(state, uuid, cluster) {
  const rows = [
    ["Sparkplug group", cluster.group],
    ["Namespace", cluster.namespace],
    ["Helm chart", `${state.charts.get(cluster.chart) ?? cluster.chart}${cluster.bare ? " (bare)" : ""}`],
    ["UUID", uuid],
    cluster.heartbeat ? ["Heard of", ago(cluster.heartbeat)] : null,
  ];
  return pairs(rows);
}

function pairs(rows) {
  return make("dl", {}, rows.filter(Boolean).flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]));
}

/** Which machine registered the cluster, what it ran, and by whose word. */
function registration({ registration: record }) {
  if (!record) return null;
  const { image, by } = record;
  const word = by.invitation ? `Invitation ${by.invitation}` : by.rule ? `Rule ${by.rule}` : `An operator's word, ${by.operator}`;
  const rows = [
    ["By whose word", word],
    ["When", new Date(record.at * 1000).toISOString().replace(/\.\d+/, "")],
    ["Endorsement key", record.ek_sha256],
    ["Image", `${image.name} ${image.version}, for ${image.machine}`],
    ["Manifest", `${image.manifest}, revision ${image.serial}`],
    ["Policy", record.policy_sha256],
  ];
  return [make("h2", {}, "Registered by a machine"), make("p", { class: "quiet" }, "What it proved by its TPM. Keys and policy are shown as SHA-256."), pairs(rows)];
}

function hostList(cluster) {
  if (!cluster.bootstrapped) return null;
  const silent = cluster.heartbeat && Date.now() - cluster.heartbeat > SILENT;
  const columns = ["Host", "State", "Role", "Kubernetes", "Operating system", "Architecture", "Taint"];
  const rows = cluster.hosts.map((host) => {
    const [state, kind] = silent ? ["Stale", "wait"] : host.ready === false ? ["Offline", "bad"] : ["Online", "good"];
    const cells = [host.hostname, make("span", { class: kind }, state), host.control_plane ? "Control plane" : "Worker", host.k8s_version, host.os_version ?? "–", host.arch, host.specialised ?? "–"];
    return make("tr", { role: "row" }, cells.map((cell, index) => make("td", { role: "cell", "data-label": columns[index] }, cell)));
  });
  return [
    make("h2", { id: "hosts" }, "Hosts"),
    silent ? make("p", { class: "wait" }, "The edge has not reported for a while: this list is as old as its last report.") : null,
    cluster.hosts.length
      ? make("table", { role: "table", "aria-labelledby": "hosts" }, make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, columns.map((text) => make("th", { role: "columnheader", scope: "col" }, text)))), make("tbody", { role: "rowgroup" }, rows))
      : make("p", {}, "The edge reports no hosts."),
  ].filter(Boolean);
}
