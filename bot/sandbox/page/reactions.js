// Reactions under a message: a button for each emoji with its count, and a star as the first offer.

import { h, iconButton } from "./dom.js";

const STAR = "⭐";

/** `context`: {react(message, emoji, on)}. */
export function renderReactions(message, context) {
  const given = message.reactions ?? [];
  if (given.length === 0) return null;
  const chips = given.map(({ emoji: { name }, count, me }) =>
    h(
      "button",
      {
        type: "button",
        class: "reaction",
        "aria-pressed": String(me),
        "aria-label": `${name}, ${count}`,
        dataset: { customId: `reaction:${name}` },
        on: { click: () => context.react(message, name, !me) },
      },
      `${name} ${count}`,
    ),
  );
  return h("div", { class: "reactions" }, ...chips);
}

export function starButton(message, context) {
  if (message.reactions?.some(({ emoji }) => emoji.name === STAR)) return null;
  const react = () => context.react(message, STAR, true);
  const known = { class: "icon-button react", dataset: { customId: `reaction:${STAR}` } };
  return iconButton("star", "React with a star", react, known);
}
