// The page: signs somebody in, follows the clusters, and shows the view that the address names.

import { make, show, field, form, announce } from "./dom.js";
import { Session } from "./session.js";
import { search } from "./notify.js";
import { listView } from "./list.js";
import { newView } from "./new.js";
import { clusterView } from "./cluster.js";
import { chartsOf } from "./charts.js";

const site = await (await fetch("page.json", { cache: "no-store" })).json();
document.getElementById("organisation").textContent = site.organisation;
document.getElementById("insecure").hidden = !site.insecure;

const session = new Session(site.services, () => signedOut("Your session is over."));
const state = { site, session, clusters: new Map(), charts: new Map(), complete: false };
let view, unfollow;

function signedOut(why) {
  unfollow?.();
  unfollow = view = null;
  session.signOut();
  state.clusters = new Map();
  state.complete = false;
  document.getElementById("connection").hidden = true;
  document.getElementById("who").replaceChildren();
  const user = field("User", { hint: `As in the KDC; the realm is ${site.realm}.`, input: make("input", { type: "text", autocomplete: "username", autocapitalize: "off", spellcheck: "false" }) });
  const password = field("Password", { input: make("input", { type: "password", autocomplete: "current-password" }) });
  show(
    "Sign in",
    why ? make("p", { role: "alert" }, why) : null,
    form("Sign in", [user.element, password.element], async () => {
      user.wrong(user.value ? null : "Who are you?");
      password.wrong(password.value ? null : "A password is needed.");
      if (!user.value || !password.value) return (user.value ? password : user).input.focus();
      await session.signIn(user.value, password.value);
      password.input.value = "";
      signedIn();
    }),
  );
  user.input.focus();
}

async function signedIn() {
  document.getElementById("who").replaceChildren(
    `${session.user} `,
    make("button", { type: "button", class: "plain", onclick: () => signedOut() }, "Sign out"),
  );
  unfollow = search(session, "cluster_manager", "v1/cluster/", clustersChanged, connectionChanged);
  route();
  try {
    state.charts = await chartsOf(session);
    view?.changed?.();
  } catch (error) {
    announce(error.message);
  }
}

function clustersChanged(children) {
  state.clusters = new Map([...children].sort(([, one], [, other]) => one.name.localeCompare(other.name)));
  state.complete = true;
  view?.changed?.();
}

function connectionChanged(connected) {
  const note = document.getElementById("connection");
  note.hidden = connected;
  note.textContent = connected ? "" : "The cluster manager cannot be reached; what you see may be old. Trying again…";
}

function route() {
  if (!session.user) return;
  view?.left?.();
  const [, name, argument] = location.hash.split("/");
  if (name === "new") view = newView(state);
  else if (name === "cluster") view = clusterView(state, argument);
  else view = listView(state);
  view.changed?.();
}

addEventListener("hashchange", route);
signedOut();
