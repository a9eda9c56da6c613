// Builds elements. Text is only ever set as text, so nothing that somebody typed becomes markup.

/** Makes an element: `make("p", { class: "quiet", onclick: f }, "text", child)`. Null children are left out. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Shows a view: its heading gets the focus, as a new page's would, and the window its title. */
export function show(title, ...children) {
  const heading = make("h1", { tabindex: "-1" }, title);
  document.title = `${title} – edge clusters`;
  document.getElementById("main").replaceChildren(heading, ...children.flat().filter(Boolean));
  heading.focus();
}

/** Has a screen reader say something. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** Replaces what an element has, when it would be something else: what has the focus keeps it, and nothing is said twice. */
export function update(element, ...children) {
  const next = make("div", {}, ...children);
  if (element.innerHTML === next.innerHTML) return;
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.replaceChildren(...next.childNodes);
  if (focused) document.getElementById(focused)?.focus();
}

let fields = 0;

/** A labelled input with a hint and a place for what is wrong: `{ element, input, value, wrong(text) }`. */
export function field(label, { hint, input = make("input", { type: "text", autocomplete: "off" }) } = {}) {
  const id = `field-${++fields}`;
  input.id = id;
  const wrong = make("div", { class: "wrong", id: `${id}-wrong` });
  const note = hint ? make("div", { class: "hint", id: `${id}-hint` }, hint) : null;
  input.setAttribute("aria-describedby", `${note ? `${id}-hint ` : ""}${id}-wrong`);
  return {
    input,
    element: make("div", { class: "field" }, make("label", { for: id }, label), note, input, wrong),
    get value() {
      return input.value;
    },
    wrong(text) {
      wrong.textContent = text ?? "";
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/** A form whose button is off while it works, and that says what went wrong: `work` throws what people can read. */
export function form(button, parts, work) {
  const submit = make("button", { type: "submit" }, button);
  const failure = make("div", { role: "alert", class: "bad" });
  const element = make("form", { novalidate: true }, ...parts, failure, make("div", { class: "row" }, submit));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    failure.textContent = "";
    submit.disabled = true;
    try {
      await work();
    } catch (error) {
      failure.textContent = error.message;
    } finally {
      submit.disabled = false;
    }
  });
  return element;
}

/** Asks for a word before something is done that cannot be undone. Resolves to whether it was typed. */
export function confirmByWord(title, text, word, button) {
  return new Promise((resolve) => {
    const typed = field(`Type ${word} to go on`);
    const dialog = make("dialog", { "aria-labelledby": "confirm-title" });
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const ask = form(button, [typed.element], async () => {
      if (typed.value !== word) {
        typed.wrong(`That is not ${word}.`);
        typed.input.focus();
        return;
      }
      close(true);
    });
    ask.querySelector(".row").append(make("button", { type: "button", class: "plain", onclick: () => close(false) }, "Cancel"));
    dialog.append(make("h2", { id: "confirm-title" }, title), make("p", {}, text), ask);
    dialog.addEventListener("cancel", () => close(false));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** How long ago, in words. */
export function ago(milliseconds, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - milliseconds) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
