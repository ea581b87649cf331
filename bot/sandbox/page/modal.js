// A form that the bot asks a member to fill in: title, labelled inputs, submit.

import { Kind } from "./components.js";
import { h, iconButton } from "./dom.js";
import { accepted } from "./file_types.js";
import { renderProse } from "./markdown_view.js";

const PARAGRAPH = 2;

/**
 * Open a modal as Discord describes it. `submit(values)` resolves when it was accepted, and rejects
 * with an ApiError whose sentences are shown in the form.
 */
export function openModal(modal, names, submit) {
  const fields = modal.components.flatMap((part) => fieldsOf(part, names));
  const alert = h("p", { class: "note bad", role: "alert", hidden: true });
  const send = h("button", { type: "submit", class: "button primary", text: "Submit" });
  const form = h(
    "form",
    { method: "dialog" },
    h(
      "header",
      {},
      h("h2", { id: "modal-title", text: modal.title }),
      iconButton("close", "Close", () => dialog.close()),
    ),
    h(
      "div",
      { class: "fields" },
      fields.map((field) => field.element),
      alert,
    ),
    h(
      "footer",
      {},
      h("button", {
        type: "button",
        class: "button secondary",
        text: "Cancel",
        on: { click: () => dialog.close() },
      }),
      send,
    ),
  );
  const dialog = h("dialog", { class: "modal", "aria-labelledby": "modal-title" }, form);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await submit(
        Object.fromEntries(
          fields.filter((field) => field.read).map((field) => [field.customId, field.read()]),
        ),
      );
      dialog.close();
    } catch (error) {
      alert.textContent = error.message;
      alert.hidden = false;
      send.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("textarea, input, select")?.focus();
}

function fieldsOf(part, names) {
  if (part.type === Kind.ROW) return part.components.map((inner) => field(inner, inner.label, null));
  if (part.type === Kind.LABEL) return [field(part.component, part.label, part.description)];
  if (part.type === Kind.TEXT)
    return [{ element: renderProse(part.content, names) }];
  return [
    {
      element: h("p", { class: "dim", text: `(a part of kind ${part.type}, which this page does not show)` }),
    },
  ];
}

function field(input, label, description) {
  const maker = MAKERS[input.type];
  if (!maker)
    return { element: h("p", { class: "dim", text: `${label}: (a kind of input this page does not show)` }) };
  const id = `field-${input.custom_id}`;
  const { control, read } = maker(input, id);
  const required = input.type !== Kind.CHECKBOX && (input.required ?? true);
  const group = GROUPS.includes(input.type);
  if (!group) control.required = required;
  else control.setAttribute("aria-labelledby", `${id}-label`);
  if (description) control.setAttribute("aria-describedby", `${id}-about`);
  const element = h(
    "div",
    { class: "field" },
    h(
      group ? "span" : "label",
      { class: "label", id: `${id}-label`, for: group ? null : id },
      label,
      required ? h("span", { class: "required", text: " *", "aria-hidden": "true" }) : null,
    ),
    description ? h("p", { class: "dim", id: `${id}-about`, text: description }) : null,
    control,
  );
  return { element, customId: input.custom_id, read };
}

const GROUPS = [Kind.RADIO_GROUP, Kind.CHECKBOX_GROUP];

/** A group of buttons of this `type`, "radio" or "checkbox"; `read` gives the values that are checked. */
function choices(input, id, type) {
  const boxes = input.options.map((option) =>
    h("input", { type, name: id, value: option.value, checked: option.default }),
  );
  const rows = input.options.map((option, index) =>
    h(
      "label",
      { class: "choice" },
      boxes[index],
      h(
        "span",
        {},
        option.label,
        option.description ? h("span", { class: "dim", text: option.description }) : null,
      ),
    ),
  );
  const control = h("div", { id, class: "choices", role: type === "radio" ? "radiogroup" : "group" }, rows);
  return { control, read: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}

const MAKERS = {
  [Kind.TEXT_INPUT]: (input, id) => {
    const control = h(input.style === PARAGRAPH ? "textarea" : "input", {
      id,
      placeholder: input.placeholder,
      minlength: input.min_length,
      maxlength: input.max_length ?? 4000,
      rows: input.style === PARAGRAPH ? 4 : null,
    });
    control.value = input.value ?? "";
    return { control, read: () => control.value };
  },
  [Kind.STRING_SELECT]: (input, id) => {
    const control = h(
      "select",
      { id, class: "select", multiple: (input.max_values ?? 1) > 1 },
      input.options.map((option) =>
        h("option", { value: option.value, selected: option.default, text: option.label }),
      ),
    );
    return { control, read: () => [...control.selectedOptions].map((option) => option.value) };
  },
  [Kind.RADIO_GROUP]: (input, id) => choices(input, id, "radio"),
  [Kind.CHECKBOX_GROUP]: (input, id) => choices(input, id, "checkbox"),
  [Kind.CHECKBOX]: (input, id) => {
    const control = h("input", { id, type: "checkbox", checked: input.default });
    return { control, read: () => control.checked };
  },
  [Kind.FILE_UPLOAD]: (input, id) => {
    const accept = accepted(input.file_types ?? []);
    const control = h("input", { id, type: "file", accept, multiple: (input.max_values ?? 1) > 1 });
    return { control, read: () => [...control.files] };
  },
};
