// What opens above the command box: the list of commands, or the chosen command's options as chips
// with their values. It shows data and reports picks; it makes no decisions.

import { byId, h } from "./dom.js";
import { limits } from "./option_values.js";

/** `on`: {command(command), option(option), choice(choice)}, called when one is picked with the pointer. */
export function createAssist(on) {
  const panel = byId("assist");
  const box = byId("box");

  // Picking with the pointer must not take the focus out of the command box.
  panel.addEventListener("pointerdown", (event) => event.preventDefault());

  function open(...children) {
    panel.replaceChildren(...children);
    panel.hidden = false;
    const active = panel.querySelector("[aria-selected=true]");
    active?.scrollIntoView({ block: "nearest" });
    if (active) box.setAttribute("aria-activedescendant", active.id);
    else box.removeAttribute("aria-activedescendant");
  }

  return {
    get isOpen() {
      return !panel.hidden;
    },

    hide() {
      panel.hidden = true;
      panel.replaceChildren();
      box.removeAttribute("aria-activedescendant");
    },

    showCommands(commands, active) {
      if (commands.length === 0) {
        open(h("p", { class: "assist-note", text: "No command of this name. Escape leaves." }));
        return;
      }
      const rows = commands.map((command, i) =>
        row(i, i === active, () => on.command(command), [
          h("span", { class: "choice-name", text: `/${command.label}` }),
          h("span", { class: "dim", text: command.description }),
        ]),
      );
      open(h("p", { class: "assist-head", text: "Commands" }), listbox("Commands", rows));
    },

    /** `chips`: {option, state, raw}; `current`: the option the caret is in; `choices` and `active` list its values. */
    showOptions({ command, chips, current, problem, choices, active, note }) {
      const rows = choices.map((choice, i) =>
        row(i, i === active, () => on.choice(choice), [h("span", { text: choice.label })]),
      );
      open(
        ...[
          h(
            "p",
            { class: "assist-head" },
            h("span", { class: "mention", text: `/${command.label}` }),
            ` ${command.description}`,
          ),
          chips.length === 0
            ? null
            : h("div", { class: "chips", role: "group", "aria-label": "Options" }, chips.map(chip)),
          current ? help(current, chips, problem) : null,
          note ? h("p", { class: "assist-note", text: note }) : null,
          rows.length > 0
            ? listbox(
                current.label,
                rows,
                choices.every((choice) => choice.label.length <= 3),
              )
            : null,
        ].filter(Boolean),
      );
    },
  };

  function chip({ option, state, raw }) {
    const label = `${option.label}${option.required ? ", required" : ""}${raw ? `: ${raw}` : ""}`;
    return h(
      "button",
      {
        type: "button",
        class: `chip ${state}`,
        "aria-label": label,
        title: option.description,
        dataset: { option: option.name },
        on: { click: () => on.option(option) },
      },
      h("span", { class: "chip-name", text: option.label }),
      option.required && !raw ? h("span", { class: "chip-need", text: "required" }) : null,
      raw ? h("span", { class: "chip-value", text: raw }) : null,
    );
  }
}

function help(option, chips, problem) {
  const raw = chips.find((one) => one.option === option)?.raw ?? "";
  return h(
    "p",
    { class: problem ? "assist-note bad" : "assist-note" },
    h("b", { text: option.label }),
    " ",
    problem ? problem.slice(option.label.length + 1) : [option.description.replace(/\.$/, ""), " · ", limits(option, raw)],
  );
}

// Short values, such as numbers, are shown side by side.
function listbox(label, rows, short = false) {
  return h(
    "ul",
    { id: "choices", class: short ? "short" : null, role: "listbox", "aria-label": label },
    rows,
  );
}

function row(index, active, pick, children) {
  return h(
    "li",
    { id: `choice-${index}`, role: "option", "aria-selected": String(active), on: { click: pick } },
    children,
  );
}
