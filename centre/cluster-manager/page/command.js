// The command that bootstraps a cluster: made on request, shown with its lifetime, copied, revoked.

import { make, update, announce, ago } from "./dom.js";

export function commandPanel(state, uuid) {
  const { session } = state;
  const shown = make("div");
  const failure = make("p", { role: "alert", class: "bad" });
  const title = make("h2", {}, "Bootstrap");
  const text = make("p");
  const button = make("button", { type: "button", onclick: () => attempt(create) }, "Make the command");
  const links = make("div");
  const element = make("section", { class: "panel" }, title, text, make("div", { class: "row" }, button), failure, shown, links);
  let link = null;
  let timer;

  async function attempt(work) {
    failure.textContent = "";
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      failure.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }

  async function create() {
    link = await session.send("cluster_manager", "POST", `/v1/cluster/${uuid}/link`, {});
    draw();
    await list();
  }

  function draw() {
    clearInterval(timer);
    if (!link) return update(shown);
    const life = make("p", { class: "quiet" });
    const tick = () => {
      const left = link.expires - Date.now();
      life.textContent = left > 0 ? `Valid for ${Math.ceil(left / 60000)} more minutes, for one cluster.` : "This command is valid no longer; make a new one.";
    };
    tick();
    timer = setInterval(tick, 5000);
    shown.replaceChildren(
      make("h3", { id: "plain" }, "Command"),
      copyable(link.command, "plain"),
      make("h3", { id: "checked" }, "With the script checked before it runs"),
      copyable(link.checked, "checked"),
      make("p", { class: "quiet" }, `SHA-256 of the script: ${link.sha256}`),
      life,
    );
    announce("The command is ready.");
  }

  function copyable(command, id) {
    const box = make("pre", { tabindex: "0", role: "textbox", "aria-multiline": "true", "aria-readonly": "true", "aria-labelledby": id }, command);
    const copy = make("button", { type: "button", class: "plain" }, "Copy");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command);
        copy.textContent = "Copied";
        announce("Copied.");
        setTimeout(() => (copy.textContent = "Copy"), 2000);
      } catch {
        getSelection().selectAllChildren(box);
        box.focus();
        announce("The browser does not let this page copy. The command is selected: press Control and C.");
        copy.textContent = "Selected: press Ctrl+C";
      }
    });
    return make("div", {}, box, copy);
  }

  async function list() {
    const all = (await session.send("cluster_manager", "GET", `/v1/cluster/${uuid}/link`)) ?? [];
    const items = all.map((known) => {
      const uses = known.uses.length ? known.uses.map((use) => `${use.what} by ${use.from} ${ago(use.at)}`).join("; ") : "not used";
      const revoke = ["valid", "redeemed", "theft"].includes(known.state) ? make("button", { type: "button", class: "plain", onclick: () => attempt(() => withdraw(known.id)) }, "Revoke") : null;
      const kind = known.state === "theft" ? "bad" : "quiet";
      return make("li", {}, make("span", {}, `Made by ${known.by} ${ago(known.created)}`), make("span", { class: kind }, known.state), make("span", { class: "quiet" }, uses), revoke);
    });
    update(links, items.length ? [make("h3", {}, "Commands made before"), make("ul", { class: "cards" }, items)] : null);
  }

  async function withdraw(id) {
    await session.send("cluster_manager", "DELETE", `/v1/cluster/${uuid}/link/${id}`);
    if (link?.id === id) link = null;
    draw();
    await list();
    announce("Revoked.");
  }

  function changed(cluster) {
    title.textContent = cluster.bootstrapped ? "Bootstrap again" : "Bootstrap";
    text.textContent = cluster.bootstrapped
      ? "The cluster was bootstrapped. On new hardware, or after an interruption, the same can be done again."
      : "Run the command where kubectl reaches the edge cluster.";
  }

  attempt(list);
  return { element, changed, left: () => clearInterval(timer) };
}
