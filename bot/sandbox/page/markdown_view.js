// Turns the Markdown tree into elements. Text reaches the page as text nodes only, and links
// only to http and https addresses, opened in another tab.

import { h } from "./dom.js";
import { parse } from "./markdown.js";

const TAGS = {
  strong: "strong",
  em: "em",
  underline: "u",
  strike: "s",
  quote: "blockquote",
  list: "ul",
  item: "li",
  paragraph: "p",
  line: "span",
};

const TIME_STYLES = {
  t: { timeStyle: "short" },
  T: { timeStyle: "medium" },
  d: { dateStyle: "short" },
  D: { dateStyle: "long" },
  f: { dateStyle: "long", timeStyle: "short" },
  F: { dateStyle: "full", timeStyle: "short" },
};

/** Elements for a message's text; `names` has the names of users and channels by id. */
export function renderMarkdown(source, names) {
  return parse(source).map((node) => view(node, names));
}

const SCRIPTS = [
  [/\p{Script=Hangul}/u, "ko"],
  [/\p{Script=Arabic}/u, "ar"],
  [/\p{Script=Han}/u, "zh"],
];

/** A block of a message's text, with the language and direction of its letters. */
export function renderProse(source, names) {
  const lang = SCRIPTS.find(([script]) => script.test(source))?.[1];
  return h("div", { class: "text", dir: "auto", lang }, renderMarkdown(source, names));
}

function view(node, names) {
  const children = () => (node.children ?? []).map((child) => view(child, names));
  switch (node.type) {
    case "text":
      return document.createTextNode(node.text);
    case "code":
      return h("code", { text: node.text });
    case "codeblock":
      return h("pre", {}, h("code", { text: node.text }));
    case "heading":
      return h(`h${node.level + 2}`, { class: `md-h${node.level}` }, children());
    case "subtext":
      return h("p", { class: "subtext" }, children());
    case "line":
      return h("span", { class: "line" }, children());
    case "numbered":
      return h("ol", { start: node.first }, children());
    case "link":
      return h("a", { href: node.href, target: "_blank", rel: "noopener noreferrer" }, children());
    case "spoiler":
      return spoiler(children());
    case "mention":
      return h("span", { class: "mention", text: `@${names.user(node.id)}` });
    case "role":
      return h("span", { class: "mention", text: `@${names.role(node.id)}` });
    case "channel":
      return h("a", { class: "mention", href: names.address(node.id), text: `#${names.channel(node.id)}` });
    case "command":
      return h("span", { class: "mention", text: `/${node.text}` });
    case "time":
      return time(node, names.locale());
    default:
      return h(TAGS[node.type], {}, children());
  }
}

function spoiler(children) {
  const inside = h("span", { class: "spoiler-text" }, children);
  const cover = h(
    "button",
    { type: "button", class: "spoiler", "aria-expanded": "false", title: "Show the spoiler" },
    inside,
  );
  cover.addEventListener("click", () => {
    cover.classList.add("shown");
    cover.setAttribute("aria-expanded", "true");
  });
  return cover;
}

/** Discord shows times in the language of the member's client, whatever the sentence's is. */
function time({ seconds, style }, lang) {
  const date = new Date(seconds * 1000);
  const known = { lang, datetime: date.toISOString(), title: date.toLocaleString(lang) };
  if (style !== "R") {
    const shown = new Intl.DateTimeFormat(lang, TIME_STYLES[style]).format(date);
    return h("time", { ...known, text: shown });
  }
  return h("time", { ...known, "data-seconds": seconds, text: relative(seconds - Date.now() / 1000, lang) });
}

/** Keep the relative times of the page right. */
export function keepTimes() {
  for (const element of document.querySelectorAll("time[data-seconds]")) {
    const shown = relative(element.dataset.seconds - Date.now() / 1000, element.lang);
    if (element.textContent !== shown) element.textContent = shown;
  }
}

/** "in 12 seconds", "3 minutes ago". */
export function relative(seconds, lang) {
  const units = [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
    ["second", 1],
  ];
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(Math.round(seconds / size), unit);
}
