// Who is signed in, and requests to the services with their tokens. Nothing of it outlives the page.

/** What a service refused or could not do, in words for people. */
export class ServiceError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const WORDS = {
  401: "You are signed in no longer. Sign in again.",
  403: "Your account may not do this. Ask an administrator for the permission.",
  503: "The service cannot reach another one that it needs. Try again in a moment.",
};

export class Session {
  #tokens = new Map();
  #ended;

  /** `services` are origins by name; `ended` is called when a service takes the token no longer. */
  constructor(services, ended) {
    this.services = services;
    this.#ended = ended;
  }

  /** Signs in with every service; the password is not kept. */
  async signIn(user, password) {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    const basic = `Basic ${btoa(String.fromCharCode(...bytes))}`;
    const tokens = await Promise.all(
      Object.entries(this.services).map(async ([name, origin]) => {
        const answer = await reach(`${origin}/token`, { method: "POST", headers: { authorization: basic } });
        if (answer.status === 401) throw new ServiceError("The user or the password is wrong.", 401);
        if (answer.status === 429) throw new ServiceError("Too many tries. Wait a minute.", 429);
        if (!answer.ok) throw new ServiceError(await reason(answer), answer.status);
        return [name, (await answer.json()).token];
      }),
    );
    this.#tokens = new Map(tokens);
    this.user = user;
  }

  signOut() {
    this.#tokens.clear();
    this.user = null;
  }

  token(service) {
    return this.#tokens.get(service);
  }

  /** Sends a request; answers the body as JSON (or text), or null where there is none. Throws `ServiceError` otherwise. */
  async send(service, method, path, body, headers = {}) {
    const options = { method, headers: { ...headers, authorization: `Bearer ${this.token(service)}` } };
    if (body !== undefined) {
      const raw = body instanceof Uint8Array;
      options.headers["content-type"] ??= raw ? "application/octet-stream" : "application/json";
      options.body = raw ? body : JSON.stringify(body);
    }
    const answer = await reach(this.services[service] + path, options);
    if (answer.status === 401) this.#ended();
    if (answer.status === 404 && method === "GET") return null;
    if (!answer.ok) throw new ServiceError(await reason(answer), answer.status);
    const text = await answer.text();
    if (!text) return null;
    return (answer.headers.get("content-type") ?? "").startsWith("application/json") ? JSON.parse(text) : text;
  }
}

async function reach(url, options) {
  try {
    return await fetch(url, { ...options, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" });
  } catch {
    throw new ServiceError(`${new URL(url).host} cannot be reached. Is the centre running, and its certificate trusted by this browser?`, 0);
  }
}

async function reason(answer) {
  const text = (await answer.text()).slice(0, 500).trim();
  return text && !text.startsWith("<") ? text : (WORDS[answer.status] ?? `The service answered ${answer.status}.`);
}
