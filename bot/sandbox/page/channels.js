// The list of channels: a column beside the messages, a drawer on a narrow screen.

import { byId, h, icon, iconButton } from "./dom.js";

/** `open(id)` is called when the person picks a channel; Alt+↑ and Alt+↓ select the previous and the next channel. */
export function createChannels(model, open) {
  const nav = byId("channels");
  const menu = byId("menu");
  const scrim = byId("scrim");
  menu.append(icon("menu"));

  function setDrawer(shown) {
    document.body.classList.toggle("drawer-open", shown);
    menu.setAttribute("aria-expanded", String(shown));
    scrim.hidden = !shown;
    if (shown) nav.querySelector("[aria-current]")?.focus();
  }

  function pick(id) {
    const wasDrawer = document.body.classList.contains("drawer-open");
    setDrawer(false);
    open(id);
    if (wasDrawer) menu.focus();
  }

  function render() {
    nav.replaceChildren(
      h(
        "div",
        { class: "nav-head" },
        h("h2", { text: model.guild.name }),
        iconButton("close", "Close", () => setDrawer(false)),
      ),
      h("ul", {}, model.channels.map(row)),
    );
    byId("guild").textContent = model.guild.name;
    const { channel } = model;
    byId("channel-name").textContent = channel.direct ? channel.name : `# ${channel.name}`;
    byId("channel-topic").textContent = channel.topic;
    document.title = `${model.unread.size > 0 ? "• " : ""}${channel.direct ? "" : "#"}${channel.name} · Sandbox`;
  }

  function row(channel) {
    const current = channel.id === model.channelId;
    const unread = model.unread.has(channel.id);
    const thread = channel.parent !== null;
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: `channel ${unread ? "unread" : ""} ${thread ? "thread" : ""}`,
          disabled: channel.forum,
          "aria-current": current ? "page" : null,
          on: { click: () => pick(channel.id) },
        },
        h("span", { class: "hash", "aria-hidden": "true", text: sign(channel) }),
        h("span", { class: "channel-label", text: channel.name }),
        channel.forum ? h("span", { class: "tag quiet", text: "forum" }) : null,
        channel.spoiler ? h("span", { class: "tag quiet", text: "spoiler" }) : null,
        channel.nsfw ? h("span", { class: "tag quiet", text: "18+", title: "Adults only" }) : null,
        unread ? h("span", { class: "visually-hidden", text: "unread" }) : null,
      ),
    );
  }

  function sign(channel) {
    if (channel.direct) return "@";
    return channel.parent === null ? "#" : "↳";
  }

  menu.addEventListener("click", () => setDrawer(!document.body.classList.contains("drawer-open")));
  scrim.addEventListener("click", () => setDrawer(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.classList.contains("drawer-open")) {
      setDrawer(false);
      menu.focus();
    }
    const step = event.altKey ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : null;
    if (!step) return;
    event.preventDefault();
    const shown = model.channels.filter((channel) => !channel.forum); // only the posts have messages
    const at = shown.findIndex((channel) => channel.id === model.channelId);
    pick(shown[(at + step + shown.length) % shown.length].id);
  });
  for (const topic of ["state", "channels", "channel", "unread"]) model.on(topic, render);
}
