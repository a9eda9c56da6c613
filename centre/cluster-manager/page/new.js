// Makes a cluster: an object of its class, its name for people, and the configuration that the cluster manager acts on.

import { make, show, field, form } from "./dom.js";
import { clusterName, label } from "./names.js";
import { APPLICATION, CLASS } from "./uuids.js";

export function newView(state) {
  const { site, session } = state;
  const name = field("Name", { hint: "Letters, digits and underscores. It cannot be changed later.", input: make("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: "64" }) });
  const group = make("output", { class: "quiet" });
  const chart = field("Helm chart", { hint: "What runs the edge. “Edge cluster” is the one that the centre brings.", input: make("select") });
  const namespace = field("Namespace", { hint: "Of the edge's Kubernetes; it is made if it is not there.", input: make("input", { type: "text", autocomplete: "off", spellcheck: "false", value: site.namespace }) });
  const bare = make("input", { type: "checkbox", id: "bare" });

  function check() {
    const wrong = clusterName(name.value, [...state.clusters.values()].map((cluster) => cluster.name));
    name.wrong(name.value ? wrong : null);
    group.textContent = name.value && !wrong ? `Its Sparkplug group will be ${site.organisation}-${name.value}.` : "";
    return wrong;
  }
  name.input.addEventListener("input", check);
  namespace.input.addEventListener("input", () => namespace.wrong(label(namespace.value, "A namespace")));

  show(
    "New cluster",
    form(
      "Create",
      [name.element, group, chart.element, namespace.element, make("div", { class: "check" }, bare, make("label", { for: "bare" }, "Bare: somebody else keeps Flux up to date and brings Sealed Secrets"))],
      async () => {
        const wrong = check();
        name.wrong(wrong);
        const where = label(namespace.value, "A namespace");
        namespace.wrong(where);
        if (wrong || where) return (wrong ? name : namespace).input.focus();
        const uuid = await create();
        location.hash = `#/cluster/${uuid}`;
      },
    ),
  );
  name.input.focus();

  async function create() {
    const { uuid } = await session.send("config_db", "POST", "/v2/object", { class: CLASS.edgeCluster });
    await session.send("config_db", "PUT", `/v2/app/${APPLICATION.info}/object/${uuid}`, { name: name.value });
    const configuration = { chart: chart.value, name: name.value, namespace: namespace.value };
    if (bare.checked) Object.assign(configuration, { bare: true, values: { sealedSecrets: { enabled: false } } });
    await session.send("config_db", "PUT", `/v2/app/${APPLICATION.edgeClusterConfiguration}/object/${uuid}`, configuration);
    return uuid;
  }

  function changed() {
    const known = state.charts.size ? state.charts : new Map([[site.chart, "Edge cluster"]]);
    if (chart.input.options.length !== known.size) {
      chart.input.replaceChildren(...[...known].map(([uuid, text]) => make("option", { value: uuid }, text)));
      chart.input.value = site.chart;
    }
    check();
  }

  return { changed };
}
