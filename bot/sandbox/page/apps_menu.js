// The bot's message commands: a button on the message, and the menu that it opens,
// also by a right click or a long press on the message.

import { h, iconButton } from "./dom.js";

const EDGE = 8; // pixels between the menu and the edges of the window
const GAP = 4; // pixels between the button and the menu
const OWN_MENU = "a, img, input, textarea, select"; // where the browser's own menu is of more use

let close = () => {};

/** `context`: {menus, use(message, menu)}; `menus` are [{name, label}]. */
export function appsButton(message, context) {
  const open = ({ currentTarget: button }) => {
    const { left, top, bottom } = button.getBoundingClientRect();
    openApps(message, context, { left, below: bottom + GAP, above: top - GAP, opener: button });
  };
  return iconButton("apps", "Apps", open, {
    class: "icon-button apps",
    "aria-haspopup": "menu",
    "aria-expanded": "false",
    dataset: { customId: "apps" },
  });
}

/** Open the menu at the pointer, unless the browser's own menu applies there. */
export function appsAtPointer(event, message, context) {
  const selected = !getSelection().isCollapsed;
  if (selected || event.target.closest(OWN_MENU) || context.menus.length === 0) return;
  event.preventDefault();
  const opener = event.currentTarget.querySelector(".apps");
  const { clientX: left, clientY: top } = event;
  openApps(message, context, { left, below: top, above: top, opener });
}

function openApps(message, context, { left, below, above, opener }) {
  const again = opener.getAttribute("aria-expanded") === "true";
  close();
  if (again) return;
  const items = context.menus.map((menu) => item(menu, () => {
    close();
    context.use(message, menu);
  }));
  const menu = h(
    "div",
    { class: "apps-menu", role: "menu", "aria-label": "Apps" },
    h("p", { class: "apps-head", "aria-hidden": "true", text: "Apps" }),
    items,
  );
  menu.addEventListener("keydown", (event) => onKey(event, items));
  document.body.append(menu);
  place(menu, left, below, above);
  opener.setAttribute("aria-expanded", "true");
  close = closer(menu, opener, message);
  items[0].focus();
}

function item({ label }, choose) {
  return h("button", { type: "button", role: "menuitem", tabindex: "-1", text: label, on: { click: choose } });
}

function onKey(event, items) {
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (to !== undefined) items[(to + items.length) % items.length].focus();
  else if (event.key === "Escape" || event.key === "Tab") close();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function place(menu, left, below, above) {
  const { width, height } = menu.getBoundingClientRect();
  const top = below + height + EDGE > innerHeight ? above - height : below;
  menu.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
  menu.style.top = `${Math.max(EDGE, top)}px`;
}

// A message that changed meanwhile has a new button, which gets the focus instead of the old one.
function closer(menu, opener, message) {
  const outside = (event) => menu.contains(event.target) || opener.contains(event.target) || close();
  const resized = () => close();
  addEventListener("pointerdown", outside, true);
  addEventListener("resize", resized);
  return () => {
    close = () => {};
    removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", resized);
    menu.remove();
    opener.setAttribute("aria-expanded", "false");
    const fresh = document.querySelector(`[data-id="${CSS.escape(message.id)}"] .apps`);
    (opener.isConnected ? opener : fresh)?.focus({ preventScroll: true });
  };
}
