// Builds elements from plain data. Strings always become text nodes, never markup,
// so nothing that came from a person or a bot is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

// Single-path outlines on a 24 × 24 grid, drawn for this page.
const ICONS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  send: "M4 12l16-7-6 15-3-6z",
  lock: "M7 11V8a5 5 0 0110 0v3M5 11h14v9H5z",
  sliders: "M4 8h9m4 0h3M4 16h3m4 0h9M13 8a2 2 0 104 0 2 2 0 10-4 0M7 16a2 2 0 104 0 2 2 0 10-4 0",
  star: "M12 4l2.5 5.2 5.5.8-4 4 1 5.6-5-2.7-5 2.7 1-5.6-4-4 5.5-.8z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  apps: "M5 5h5v5H5zM14 5h5v5h-5zM5 14h5v5H5zM14 14h5v5h-5z",
  down: "M6 9l6 6 6-6",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  attach: "M8 12.5l6-6a3.2 3.2 0 014.5 4.5l-8 8a5.2 5.2 0 01-7.4-7.4L11 4",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
};

/**
 * Make an element. `props` keys: `class`, `text`, `dataset`, `style` (custom properties and
 * properties by CSS name), `on` (event name → listener), anything else is an attribute; null,
 * undefined and false leave the attribute out and true writes it empty.
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) setProperty(element, key, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function setProperty(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key === "class") element.className = value;
  else if (key === "text") element.textContent = value;
  else if (key === "dataset") Object.assign(element.dataset, value);
  else if (key === "style") for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
  else if (key === "on")
    for (const [name, listener] of Object.entries(value)) element.addEventListener(name, listener);
  else element.setAttribute(key, value === true ? "" : String(value));
}

/** An outline icon; decoration only, so hidden from assistive technology. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows only an icon and is named by `label`. */
export function iconButton(name, label, onClick, props = {}) {
  return h(
    "button",
    {
      type: "button",
      class: "icon-button",
      "aria-label": label,
      title: label,
      on: { click: onClick },
      ...props,
    },
    icon(name),
  );
}

/** The element of this id in the page's own markup. */
export function byId(id) {
  return document.getElementById(id);
}
