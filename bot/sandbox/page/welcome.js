// The top of a channel: its name, whom one acts as, and commands to try with one press. Until the first own message
// it stays above the messages.

import { commandForFiles, commandForWords } from "./commands.js";
import { byId, h } from "./dom.js";
import { renderProse } from "./markdown_view.js";

const WELCOMED = "welcomed"; // in this browser's store once a message was sent

const PROMPTS = [
  "a red heart left of a blue star",
  "a small yellow moon on a black background",
  "a large green flower on a pink background",
];

// The actions that the bot's commands allow here.
function hint(commands, { channel, me }) {
  if (commands.length === 0 && channel.group && !me.installed) {
    return "The bot is not in this group: add it to your account to use it here.";
  }
  if (commands.length === 0) {
    return "The bot has not come online yet: its commands will appear by themselves.";
  }
  const files = commandForFiles(commands);
  const drop = files ? ` Drop or paste a file to use it with /${files.label}.` : "";
  const painter = commandForWords(commands);
  const paint = painter ? `Type /${painter.label} and what you want to see, or / for everything` : "Type / to see what";
  return `${paint} that the bot can do.${drop}`;
}

function title(channel) {
  if (channel.group) return `Group: ${channel.name}`;
  return channel.direct ? "Direct messages" : `Welcome to #${channel.name}`;
}

/**
 * `tryOut(text)` puts a command into the command box; `install(on)` installs the bot in the person's account, or
 * uninstalls it.
 */
export function createWelcome(model, tryOut, install) {
  const welcome = byId("welcome");
  const timeline = byId("timeline");

  function pin(pinned) {
    welcome.classList.toggle("pinned", pinned);
    if (pinned) timeline.before(welcome);
    else timeline.prepend(welcome);
  }

  function render() {
    const { channel, me } = model;
    const painter = commandForWords(model.commands);
    const examples = painter ? PROMPTS.map((prompt) => `/${painter.label} ${prompt}`) : [];
    welcome.replaceChildren(
      h("h3", { text: title(channel) }),
      h(
        "p",
        { class: "dim" },
        "You act as ",
        h("b", { text: me.name }),
        me.moderator && !channel.direct ? ", a moderator" : null,
        "; the faces above are the others. ",
        hint(model.commands, model),
      ),
      model.note ? renderProse(model.note, model.names) : "",
      channel.group ? account(me) : "",
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

  function account(me) {
    const text = me.installed ? "Remove the bot from my account" : "Add the bot to my account";
    return h("button", { type: "button", class: "example", text, on: { click: () => install(!me.installed) } });
  }

  for (const topic of ["state", "channel"]) model.on(topic, render);
  pin(localStorage.getItem(WELCOMED) === null);

  return {
    /** A message was sent: the welcome goes where the channel begins. */
    greeted() {
      localStorage.setItem(WELCOMED, "yes");
      pin(false);
    },
  };
}
