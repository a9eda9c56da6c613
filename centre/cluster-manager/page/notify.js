// Follows what a service tells of its changes (change notification, version 2).

const FIRST_WAIT = 500;
const LONGEST_WAIT = 30000;

/**
 * Follows everything below `parent`: `changed(children)` is called with a Map of bodies by name, at first and after every
 * change; `connected(boolean)` when the connection is lost and found. Returns a function that ends it.
 */
export function search(session, service, parent, changed, connected) {
  let socket, timer;
  let wait = FIRST_WAIT;
  let over = false;

  function connect() {
    const children = new Map();
    const uuid = crypto.randomUUID();
    socket = new WebSocket(`${session.services[service].replace(/^http/, "ws")}/notify/v2`);
    let welcome = false;
    socket.onopen = () => socket.send(`Bearer ${session.token(service)}`);
    socket.onmessage = ({ data }) => {
      if (!welcome) {
        welcome = data === "200";
        if (welcome) socket.send(JSON.stringify({ uuid, method: "SEARCH", parent }));
        return;
      }
      const update = JSON.parse(data);
      if (update.uuid !== uuid) return;
      if (update.status >= 400) return socket.close();
      if (update.children) {
        children.clear();
        for (const [name, child] of Object.entries(update.children)) take(children, name, child);
        wait = FIRST_WAIT;
        connected(true);
      } else if (update.child) {
        take(children, update.child, update.response);
      }
      changed(children);
    };
    socket.onclose = () => {
      if (over) return;
      connected(false);
      timer = setTimeout(connect, wait * (0.5 + Math.random()));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    };
  }

  connect();
  return () => {
    over = true;
    clearTimeout(timer);
    socket.close();
  };
}

function take(children, name, response) {
  if (response.status < 300) children.set(name, response.body);
  else children.delete(name);
}
