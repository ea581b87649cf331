// The open channel's messages, oldest first. The view follows the newest message when it arrives and
// grows, unless the person has scrolled up to read.

import { byId, h } from "./dom.js";
import { renderMessage, renderWaiting, spoken } from "./message.js";

const TYPING_FOR = 8000; // milliseconds that a typing notice lasts without another
const NEAR = 48; // pixels from the bottom that still count as being there

/**
 * `actions`: {press(message, custom_id, values, element), remove(message), react(message, emoji, on),
 * use(message, menu), forget(interaction)}.
 */
export function createTimeline(model, actions) {
  const scroller = byId("timeline");
  const list = byId("messages");
  const jump = byId("jump");
  const live = byId("live");
  const items = new Map(); // list items by message id
  const typing = byId("typing");
  let typingTimer = null;
  let stuck = true;
  let lastTop = 0;

  const context = {
    names: model.names,
    find: (id) => model.messages.get(id),
    get people() {
      return model.people;
    },
    press: actions.press,
    get moderates() {
      return model.me.moderator;
    },
    remove: actions.remove,
    react: actions.react,
    get menus() {
      return model.menus;
    },
    use: actions.use,
  };

  function toBottom() {
    stuck = true;
    jump.hidden = true;
    scroller.scrollTop = scroller.scrollHeight;
  }

  // The bottom, or the beginning of a newest message that is higher than the view: its picture, not its buttons.
  function follow() {
    const bottom = scroller.scrollHeight - scroller.clientHeight;
    const newest = list.lastElementChild;
    const above = newest ? newest.getBoundingClientRect().top - scroller.getBoundingClientRect().top : 0;
    scroller.scrollTop = newest ? Math.min(bottom, scroller.scrollTop + above) : bottom;
    lastTop = scroller.scrollTop; // this is no scrolling by the person
  }

  // Only scrolling up leaves the bottom: a growing message moves the bottom for a moment.
  scroller.addEventListener(
    "scroll",
    () => {
      const near = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
      if (near) jump.hidden = true;
      stuck = near || (stuck && scroller.scrollTop >= lastTop);
      lastTop = scroller.scrollTop;
    },
    { passive: true },
  );
  jump.addEventListener("click", toBottom);
  const observer = new ResizeObserver(() => stuck && follow());
  observer.observe(list);
  observer.observe(scroller);

  function put(message) {
    const fresh = renderMessage(message, context);
    const item = items.get(message.id);
    if (item) {
      const focused = item.contains(document.activeElement) ? document.activeElement : null;
      item.replaceChildren(fresh);
      const same = `[data-custom-id="${CSS.escape(focused?.dataset.customId ?? "")}"]:enabled`;
      if (focused) (item.querySelector(same) ?? fresh).focus();
      return;
    }
    const added = h("li", { dataset: { id: message.id } }, fresh);
    items.set(message.id, added);
    list.insertBefore(added, list.querySelector("li.waiting"));
  }

  function showAll() {
    items.clear();
    list.replaceChildren();
    for (const message of model.messages.values()) put(message);
    showWaiting();
  }

  function showWaiting() {
    for (const item of list.querySelectorAll("li.waiting")) item.remove();
    for (const [interaction, what] of model.waiting) {
      if (what.channel !== model.channelId) continue;
      list.append(
        h(
          "li",
          { class: "waiting" },
          renderWaiting(what, () => actions.forget(interaction)),
        ),
      );
    }
  }

  model.on("channel", ({ moved }) => {
    stopTyping();
    showAll();
    if (moved || stuck) toBottom();
  });
  model.on("message", ({ message, fresh }) => {
    if (fresh) stopTyping();
    const before = items.get(message.id)?.querySelectorAll("img").length ?? 0;
    put(message);
    const pictures = items.get(message.id).querySelectorAll("img").length;
    if ((fresh || pictures > before) && !model.closed) live.textContent = spoken(message);
    if (fresh && !stuck) jump.hidden = false;
  });
  model.on("removed", (id) => {
    items.get(id)?.remove();
    items.delete(id);
  });
  model.on("waiting", showWaiting);
  const closed = byId("closed");
  byId("uncover").addEventListener("click", () => {
    model.uncover(model.closed);
    scroller.focus();
  });
  for (const topic of ["state", "channels", "channel"])
    model.on(topic, () => {
      closed.hidden = !model.closed;
      list.hidden = !closed.hidden;
    });
  for (const topic of ["state", "channel"])
    model.on(topic, () => list.classList.toggle("with-apps", model.menus.length > 0));

  function stopTyping() {
    clearTimeout(typingTimer);
    typing.hidden = true;
  }

  return {
    toBottom,
    /** Show under a message that a press failed, until the message's next change. */
    complain(messageId, sentence) {
      const body = items.get(messageId)?.querySelector(".body");
      body?.querySelector(".note.bad")?.remove();
      body?.append(h("p", { class: "note bad", role: "alert", text: sentence }));
    },
    showTyping(channelId, userId) {
      if (channelId !== model.channelId) return;
      stopTyping();
      typing.textContent = `${model.names.user(userId)} is typing …`;
      typing.hidden = false;
      typingTimer = setTimeout(stopTyping, TYPING_FOR);
    },
    /** Clear the waiting state of a message's components. */
    release(messageId) {
      for (const element of items.get(messageId)?.querySelectorAll(".busy") ?? [])
        element.classList.remove("busy");
    },
  };
}
