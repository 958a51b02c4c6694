// A form of settings: it shows what is stored as that changes, keeps what somebody writes, and
// says at each field what is wrong with it.

import { h, note, update } from "./dom.js";

// form has fields with a name, a label, their effect, and a value as a text or a boolean, perhaps
// choices, or rows of text; what is always saved, is so even if nobody has changed it. check returns what a text is to be saved as, or throws; save stores an object of
// these by name.
export function form(context, { check, save }) {
  const known = new Map(); // to its field and elements, by name
  const general = h("p", { class: "error", role: "alert" });
  const list = h("div", { class: "settings" });
  const element = h("form", { class: "config panel", novalidate: true, onsubmit: submit }, list,
    context.admin ? h("div", { class: "actions" }, h("button", { class: "main" }, "Save"), general) : null);

  const written = (input) => (input.type === "checkbox" ? input.checked : input.type === "textarea" ? input.value : input.value.trim());
  const write = (input, value) => {
    if (input.type === "checkbox") input.checked = value;
    else input.value = value;
  };

  function make(field) {
    const id = `field-${field.name}`;
    const off = { name: field.name, disabled: !context.admin, "aria-describedby": `${id}-effect ${id}-problem` };
    const input = typeof field.value === "boolean" ? h("input", { ...off, type: "checkbox" })
      : field.choices ? h("select", off, field.choices.map((c) => h("option", { value: c }, c)))
        : field.rows ? h("textarea", { ...off, rows: field.rows, class: "mono", spellcheck: "false" })
          : h("input", { ...off, inputmode: field.numeric ? "numeric" : null, spellcheck: "false", autocomplete: "off" });
    const effect = h("small", { class: "dim", id: `${id}-effect` });
    const problem = h("small", { class: "error", id: `${id}-problem`, role: "alert" });
    input.addEventListener("input", () => tell(problem, input, ""));
    write(input, field.value);
    list.append(h("label", {}, field.label, input, effect, problem));
    return { field, input, effect, problem };
  }

  function tell(problem, input, text) {
    if (problem.textContent !== text) problem.textContent = text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  // show shows fields, and leaves those alone that somebody has changed here.
  function show(fields) {
    for (const field of fields) {
      let one = known.get(field.name);
      if (!one) known.set(field.name, one = make(field));
      const { input, effect, problem } = one;
      if (field.value !== one.field.value) {
        if (written(input) === one.field.value) write(input, field.value);
        else if (written(input) !== field.value) tell(problem, input, `Somebody has changed it to ${field.value === "" ? "nothing" : field.value} meanwhile.`);
      }
      one.field = field;
      update(effect, field.effect);
    }
  }

  async function submit(event) {
    event.preventDefault();
    const object = {};
    const wrong = [];
    general.textContent = "";
    for (const { field, input, problem } of known.values()) {
      tell(problem, input, "");
      const value = written(input);
      if (value === field.value && !field.always) continue;
      try {
        object[field.name] = check(field, value);
      } catch (error) {
        tell(problem, input, error.message);
        wrong.push(input);
      }
    }
    const names = Object.keys(object);
    if (wrong.length === 0 && names.length > 0) {
      try {
        show(await save(object));
        for (const name of names) tell(known.get(name).problem, known.get(name).input, "");
        note(`Changed ${names.join(", ")}.`);
        return;
      } catch (error) {
        // The text begins with the field, such as configuration: lease is 13h.
        const name = /^(?:configuration|schedule): (?:unknown field )?"?(\w+)/.exec(error.message)?.[1];
        const one = known.get(name);
        if (one) {
          tell(one.problem, one.input, error.message.replace(/^\w+: /, ""));
          wrong.push(one.input);
        } else general.textContent = error.message;
      }
    }
    wrong[0]?.focus();
  }

  // values are what is written now, by name.
  const values = () => Object.fromEntries([...known].map(([name, { input }]) => [name, written(input)]));

  return { element, show, values };
}
