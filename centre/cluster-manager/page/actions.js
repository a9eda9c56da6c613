// What can be done to a cluster: an agent deployed, a secret sealed, the cluster deleted.

import { make, field, form, announce, confirmByWord } from "./dom.js";
import { label, secretKey } from "./names.js";
import { APPLICATION, CLASS } from "./uuids.js";

const section = (title, content, changed) => Object.assign(make("details", {}, make("summary", {}, title), content), { changed });

/** Deploys an edge agent onto a host of the cluster, or wherever Kubernetes likes. */
export function deployForm({ session, site }, uuid) {
  const name = field("Name of the agent", { hint: "Letters, digits and underscores." });
  const host = field("Host", { input: make("select") });
  const done = make("p", { class: "good", role: "status" });
  const element = form("Deploy", [name.element, host.element, done], async () => {
    done.textContent = "";
    const wrong = /^[A-Za-z][A-Za-z0-9_]{0,30}$/.test(name.value) ? null : "A name begins with a letter and has letters, digits and underscores, 31 at most.";
    name.wrong(wrong);
    if (wrong) return name.input.focus();
    const agent = await session.send("config_db", "POST", "/v2/object", { class: CLASS.edgeAgent });
    await session.send("config_db", "PUT", `/v2/app/${APPLICATION.info}/object/${agent.uuid}`, { name: name.value });
    const deployment = { createdAt: new Date().toISOString(), name: name.value, cluster: uuid, chart: site.agentChart };
    if (host.value) deployment.hostname = host.value;
    await session.send("config_db", "PUT", `/v2/app/${APPLICATION.edgeDeployment}/object/${agent.uuid}`, deployment);
    done.textContent = `${name.value} is being deployed.`;
  });
  let listed = null;
  return section("Deploy an edge agent", element, function (cluster) {
    this.hidden = !cluster.bootstrapped;
    const names = cluster.hosts.map((known) => known.hostname);
    if (listed === names.join()) return;
    listed = names.join();
    host.input.replaceChildren(make("option", { value: "" }, "Any host"), ...names.map((known) => make("option", { value: known }, known)));
  });
}

/** Seals a secret, so that only this cluster can read it, and puts it into the cluster's repository. */
export function sealForm({ session }, uuid) {
  const namespace = field("Namespace");
  const name = field("Secret");
  const key = field("Key");
  const value = field("Value", { hint: "It is sealed for this cluster and kept nowhere else.", input: make("textarea", { rows: "3", autocomplete: "off", spellcheck: "false" }) });
  const done = make("p", { class: "good", role: "status" });
  const element = form("Seal", [namespace.element, name.element, key.element, value.element, done], async () => {
    done.textContent = "";
    namespace.wrong(label(namespace.value, "A namespace"));
    name.wrong(label(name.value, "A name"));
    key.wrong(secretKey(key.value));
    const bad = element.querySelector("[aria-invalid]");
    if (bad) return bad.focus();
    const path = [namespace, name, key].map((part) => encodeURIComponent(part.value)).join("/");
    await session.send("cluster_manager", "PUT", `/v1/cluster/${uuid}/secret/${path}`, new TextEncoder().encode(value.value));
    value.input.value = "";
    done.textContent = "Sealed, and in the repository.";
  });
  return section("Seal a secret", element, function (cluster) {
    this.hidden = !cluster.sealing;
  });
}

/** Deletes the cluster, or takes out what is left of a deleted one. */
export function removal({ session }, uuid) {
  let name = "";
  let gone = false;
  const failure = make("p", { role: "alert", class: "bad" });
  const text = make("p");
  const button = make("button", { type: "button", class: "danger" });
  button.addEventListener("click", async () => {
    failure.textContent = "";
    const sure = gone
      ? await confirmByWord("Decommission", `Principals, repository and status of ${name} go for good. A machine that still runs it is left without credentials.`, name, "Decommission")
      : await confirmByWord("Delete", `The grants of ${name} end and its accounts are disabled. Made again, it takes them up again.`, name, "Delete");
    if (!sure) return button.focus();
    try {
      if (gone) await session.send("cluster_manager", "POST", `/v1/cluster/${uuid}/decommission`, {});
      else await session.send("config_db", "DELETE", `/v2/app/${APPLICATION.edgeClusterConfiguration}/object/${uuid}`);
      announce(gone ? "Being decommissioned." : "Being deleted.");
    } catch (error) {
      failure.textContent = error.message;
    }
  });
  return section("Delete the cluster", make("div", {}, text, failure, make("div", { class: "row" }, button)), function (cluster) {
    this.hidden = cluster.phase === "decommissioned";
    name = cluster.name;
    gone = cluster.phase === "deleted";
    button.textContent = gone ? "Decommission" : "Delete";
    text.textContent = gone ? "It was deleted; what is left of it can be taken out for good." : "What runs at the edge goes on, without access to the centre.";
  });
}
