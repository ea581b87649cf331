// Discord's message components as elements: containers, sections, texts, galleries, buttons and
// selects. A kind this page does not know is named instead of being dropped silently.

import { h } from "./dom.js";
import { renderProse } from "./markdown_view.js";
import { renderFile, renderGallery, resolveUrl, safeHref } from "./media.js";

export const Kind = Object.freeze({
  ROW: 1,
  BUTTON: 2,
  STRING_SELECT: 3,
  TEXT_INPUT: 4,
  USER_SELECT: 5,
  CHANNEL_SELECT: 8,
  SECTION: 9,
  TEXT: 10,
  THUMBNAIL: 11,
  GALLERY: 12,
  FILE: 13,
  SEPARATOR: 14,
  CONTAINER: 17,
  LABEL: 18,
  FILE_UPLOAD: 19,
  RADIO_GROUP: 21,
  CHECKBOX_GROUP: 22,
  CHECKBOX: 23,
});

const STYLES = { 1: "primary", 2: "secondary", 3: "success", 4: "danger", 5: "link" };

const RENDERERS = {
  [Kind.ROW]: (row, context) => h("div", { class: "row" }, renderComponents(row.components, context)),
  [Kind.BUTTON]: button,
  [Kind.STRING_SELECT]: (select, context) => selectMenu(select, context, select.options),
  [Kind.USER_SELECT]: (select, context) => selectMenu(select, context, context.people.members.map(asOption)),
  [Kind.CHANNEL_SELECT]: (select, context) =>
    selectMenu(select, context, context.people.channels.map(asOption)),
  [Kind.SECTION]: section,
  [Kind.TEXT]: (text, context) => renderProse(text.content, context.names),
  [Kind.THUMBNAIL]: (item, context) =>
    h("div", { class: "thumbnail" }, renderGallery([picture(item, context)])),
  [Kind.GALLERY]: (gallery, context) => renderGallery(gallery.items.map((item) => picture(item, context))),
  [Kind.FILE]: (file, context) =>
    renderFile(file.name ?? "file", file.size, resolveUrl(file.file.url, context.message)),
  [Kind.SEPARATOR]: (line) =>
    h("div", {
      role: "separator",
      class: `separator ${line.spacing === 2 ? "wide" : ""} ${line.divider === false ? "blank" : ""}`,
    }),
  [Kind.CONTAINER]: container,
};

/**
 * Elements for a list of components. `context`: {message, names, people, press(custom_id, values,
 * element)}.
 */
export function renderComponents(components, context) {
  return (components ?? []).map(
    (component) =>
      RENDERERS[component.type]?.(component, context) ??
      h("p", { class: "dim", text: `(a part of kind ${component.type}, which this page does not show)` }),
  );
}

/** Whether there are {buttons, menus} among components. */
export function controlsOf(components = []) {
  const found = { buttons: false, menus: false };
  for (const { type, custom_id: id, components: inner, accessory } of components) {
    const below = controlsOf([...(inner ?? []), ...(accessory ? [accessory] : [])]);
    const own = Boolean(id);
    found.buttons ||= below.buttons || (own && type === Kind.BUTTON);
    found.menus ||= below.menus || (own && type !== Kind.BUTTON);
  }
  return found;
}

function container(box, context) {
  const accent = box.accent_color ?? null;
  const style = accent === null ? {} : { "--accent-edge": `#${accent.toString(16).padStart(6, "0")}` };
  const element = h(
    "section",
    { class: `container ${accent === null ? "" : "accented"}`, style },
    renderComponents(box.components, context),
  );
  return box.spoiler ? covered(element) : element;
}

function covered(element) {
  const cover = h("button", { type: "button", class: "cover", text: "Show the spoiler" });
  const wrap = h("div", { class: "covered" }, element, cover);
  element.inert = true;
  cover.addEventListener("click", () => {
    element.inert = false;
    cover.remove();
    wrap.classList.remove("covered");
  });
  return wrap;
}

function section(part, context) {
  return h(
    "div",
    { class: "section" },
    h("div", { class: "section-texts" }, renderComponents(part.components, context)),
    part.accessory ? h("div", { class: "accessory" }, renderComponents([part.accessory], context)) : null,
  );
}

function picture(item, { message }) {
  const { media } = item;
  const file = message.attachments?.find(
    (one) => one.url === media.url || media.url === `attachment://${one.filename}`,
  );
  return {
    url: resolveUrl(media.url, message),
    alt: item.description ?? file?.description ?? "",
    width: media.width ?? file?.width,
    height: media.height ?? file?.height,
    spoiler: item.spoiler ?? false,
  };
}

function button(part, context) {
  const emoji = part.emoji ? (part.emoji.id ? `:${part.emoji.name}:` : part.emoji.name) : null;
  const inside = [
    emoji ? h("span", { class: "emoji", text: emoji }) : null,
    part.label ? h("span", { text: part.label }) : null,
  ];
  const style = STYLES[part.style] ?? "secondary";
  if (style === "link") {
    return h(
      "a",
      { class: "button link", href: safeHref(part.url), target: "_blank", rel: "noopener noreferrer" },
      inside,
    );
  }
  const element = h(
    "button",
    {
      type: "button",
      class: `button ${style}`,
      disabled: part.disabled,
      dataset: { customId: part.custom_id },
    },
    inside,
  );
  element.addEventListener("click", () => context.press(part.custom_id, undefined, element));
  return element;
}

// A native list shows text only and is accessible to screen readers.
function optionText({ emoji, label, description }) {
  const sign = emoji && !emoji.id ? `${emoji.name} ` : "";
  return `${sign}${label}${description ? ` · ${description}` : ""}`;
}

const asOption = ({ id, name }) => ({ label: name, value: id });

function selectMenu(select, context, options) {
  const many = (select.max_values ?? 1) > 1;
  const menu = h(
    "select",
    {
      class: "select",
      multiple: many,
      disabled: select.disabled,
      "aria-label": select.placeholder ?? "Choose",
      dataset: { customId: select.custom_id },
    },
    many
      ? null
      : h("option", { value: "", text: select.placeholder ?? "Choose …", disabled: true, selected: true }),
    options.map((option) =>
      h("option", { value: option.value, selected: option.default, text: optionText(option) }),
    ),
  );
  const send = () =>
    context.press(
      select.custom_id,
      [...menu.selectedOptions].map((option) => option.value),
      menu,
    );
  if (!many) {
    sendWhenChosen(menu, send);
    return menu;
  }
  const choose = h("button", {
    type: "button",
    class: "button secondary",
    text: "Choose",
    on: { click: send },
  });
  return h("div", { class: "select-many" }, menu, choose);
}

const OPENING = [" ", "Enter", "F4"]; // the list hears the keys then, and a change is a choice

// Keys change the value of a closed menu at once. They only look around, until Enter.
function sendWhenChosen(menu, send) {
  let isLooking = false;
  for (const sign of ["pointerdown", "focus", "blur"])
    menu.addEventListener(sign, () => (isLooking = false));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && isLooking && menu.value !== "") {
      event.preventDefault();
      send();
    }
    isLooking = !OPENING.includes(event.key) && event.key !== "Tab" && !event.altKey;
  });
  menu.addEventListener("change", () => isLooking || send());
}
