// Elements for the views. Whatever a queue holds becomes a text node: nothing here, or in
// any view, takes HTML.

// h makes an element. Attributes that begin with "on" are listeners; null children are left out.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((c) => c != null));
  return element;
}

const listeners = Symbol("what listens to an element, by event");

function listen(element, event, listener) {
  element[listeners] ??= {};
  if (!(event in element[listeners])) element.addEventListener(event, (e) => element[listeners][event]?.(e));
  element[listeners][event] = listener;
}

// update makes what an element holds like other children. It changes the elements that are
// there, and keeps them: a click on one, its focus, and a text that is selected in it outlive
// what changes all the time. Elements with data-as become only those with the same.
export function update(element, ...children) {
  const before = [...element.childNodes];
  const after = children.flat(Infinity).filter((c) => c != null).map((child) => {
    const node = child instanceof Node ? child : document.createTextNode(child);
    const at = before.findIndex((old) => old === node || (old.nodeName === node.nodeName && old.dataset?.as === node.dataset?.as));
    if (at < 0) return node;
    const [old] = before.splice(at, 1);
    if (old !== node) become(old, node);
    return old;
  });
  for (const old of before) old.remove();
  after.forEach((node, i) => { if (element.childNodes[i] !== node) element.insertBefore(node, element.childNodes[i] ?? null); });
  return element;
}

function become(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const event of Object.keys({ ...old[listeners], ...node[listeners] })) listen(old, event, node[listeners]?.[event]);
  update(old, ...node.childNodes);
}

// fill replaces what an element holds.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((c) => c != null));
  return element;
}

// setText changes a text, and marks the element for a moment.
export function setText(element, text) {
  if (element.textContent === text) return;
  const fresh = element.textContent !== "";
  element.textContent = text;
  if (!fresh) return;
  element.classList.remove("fresh");
  void element.offsetWidth; // the animation begins again
  element.classList.add("fresh");
}

// keep makes the rows of a table body those of a list, and reuses the ones that are there,
// so that focus and selection stay.
export function keep(body, list, key, make, update) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const staying = new Set(list.map(key));
  for (const [name, row] of known) if (!staying.has(name)) row.remove(); // or all behind it would move, and lose the focus
  let at = body.firstElementChild;
  for (const one of list) {
    let row = known.get(key(one));
    if (!row) {
      row = make(one);
      row.dataset.key = key(one);
    }
    update(row, one);
    if (row === at) at = at.nextElementSibling;
    else if (row.isConnected && body.moveBefore) body.moveBefore(row, at); // keeps the focus in the row
    else body.insertBefore(row, at);
  }
}

// showTiles has a tile for each label and its text. One whose text changes all the time is not marked when it does.
export function showTiles(tiles, numbers, restless = () => false) {
  keep(tiles, numbers, ([label]) => label, ([label]) => h("div", {}, h("dt", {}, label), h("dd")), (tile, [label, text]) => {
    const value = tile.lastElementChild;
    if (restless(label)) value.textContent = text;
    else setText(value, text);
  });
}

const mostNotes = 3; // more would cover the page

const notes = () => document.getElementById("notes");

// note tells something that the user should know, for a while.
export function note(text, bad = false) {
  const line = h("p", { class: bad ? "bad" : null }, text);
  while (notes().children.length >= mostNotes) notes().firstChild.remove();
  notes().append(line);
  setTimeout(() => line.remove(), bad ? 12000 : 5000);
}

// attempt runs an action and tells why it failed. It returns whether it did not.
export async function attempt(action, done) {
  try {
    await action();
    if (done) note(done);
    return true;
  } catch (error) {
    note(error.message, true);
    return false;
  }
}

// ask shows a form in a dialog. submit does the work; the dialog closes when that succeeds.
export function ask(title, fields, label, submit, danger = false) {
  const problem = h("p", { class: "error", role: "alert" });
  const send = h("button", { type: "submit", class: danger ? "danger" : "main" }, label);
  const form = h("form", { class: "fields", novalidate: true }, fields, problem,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), send));
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() }, h("h2", {}, title), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    problem.textContent = "";
    try {
      await submit(form.elements);
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    } finally {
      send.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// confirmTyped asks to type a word before something that cannot be undone.
export function confirmTyped(title, explanation, word, label, submit) {
  return ask(title, [
    h("p", {}, explanation),
    h("label", {}, h("span", {}, "Type ", h("strong", { class: "mono" }, word), " to confirm"), h("input", { name: "word", autocomplete: "off", spellcheck: "false" })),
  ], label, async (fields) => {
    if (fields.word.value !== word) throw new Error(`This is not ${word}.`);
    await submit();
  }, true);
}

// confirmOnce asks before something that cannot be undone but concerns one item or few.
export function confirmOnce(title, explanation, label, submit) {
  return ask(title, [h("p", {}, explanation)], label, submit, true);
}
