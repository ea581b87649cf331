// What stands at the top of a channel: where one is, and commands to try with one press.

import { commandForFiles, commandForWords } from "./commands.js";
import { byId, h } from "./dom.js";

const PROMPTS = [
  "a red heart left of a blue star",
  "a small yellow moon on a black background",
  "a large green flower on a pink background",
];

// What can be done here, as far as the bot has said so.
function hint(commands) {
  if (commands.length === 0) {
    return "The bot has not come online yet: its commands will appear by themselves.";
  }
  const files = commandForFiles(commands);
  const drop = files ? ` Drop or paste a file to use it with /${files.label}.` : "";
  return `Type / to see what the bot can do.${drop}`;
}

/** `tryOut(text)` puts a command into the command box. */
export function createWelcome(model, tryOut) {
  const welcome = byId("welcome");

  function render() {
    const { channel, me } = model;
    const painter = commandForWords(model.commands);
    const examples = painter ? PROMPTS.map((prompt) => `/${painter.label} ${prompt}`) : [];
    welcome.replaceChildren(
      h("h3", { text: channel.direct ? "Direct messages" : `Welcome to #${channel.name}` }),
      h(
        "p",
        { class: "dim" },
        "You act as ",
        h("b", { text: me.name }),
        me.moderator ? ", a moderator" : null,
        ". ",
        hint(model.commands),
      ),
      examples.length > 0
        ? h(
            "div",
            { class: "row" },
            h("span", { class: "dim", text: "Try:" }),
            examples.map((text) =>
              h("button", { type: "button", class: "example", text, on: { click: () => tryOut(text) } }),
            ),
          )
        : "",
    );
  }

  for (const topic of ["state", "channel"]) model.on(topic, render);
}
