// One message as an element: author, time, the interaction that it answers, and its contents.

import { appsAtPointer, appsButton } from "./apps_menu.js";
import { avatar } from "./avatar.js";
import { controlsOf, renderComponents } from "./components.js";
import { h, iconButton } from "./dom.js";
import { renderEmbeds } from "./embeds.js";
import { plainText } from "./markdown.js";
import { renderProse } from "./markdown_view.js";
import { renderAttachments } from "./media.js";
import { renderReactions, starButton } from "./reactions.js";

const EPHEMERAL = 1 << 6;
const LOADING = 1 << 7;
const COMPONENTS_V2 = 1 << 15;

/**
 * `context`: {names, people, find(id), press(message, custom_id, values, element), remove(message),
 * react(message, emoji, on), menus, use(message, menu), moderates}.
 */
export function renderMessage(message, context) {
  const { author } = message;
  const name = author.global_name ?? author.username;
  const nameId = `author-${message.id}`;
  const ephemeral = Boolean(message.flags & EPHEMERAL);
  const loading = Boolean(message.flags & LOADING);
  const apps = (event) => loading || appsAtPointer(event, message, context);
  return h(
    "article",
    {
      class: ephemeral ? "message ephemeral" : "message",
      "aria-labelledby": nameId,
      tabindex: -1, // takes the focus of a button that is gone
      on: { contextmenu: apps },
    },
    usedLine(message, context),
    avatar(author.id, name, { bot: author.bot }),
    h(
      "div",
      { class: "body" },
      h(
        "header",
        {},
        h("span", { class: "author", id: nameId, text: name }),
        author.bot ? h("span", { class: "tag", text: "BOT" }) : null,
        clock(message.timestamp),
      ),
      loading ? inProgress(`${name} is thinking …`) : content(message, context),
      ephemeral ? ephemeralNote(message, context) : renderReactions(message, context),
    ),
    ephemeral ? null : starButton(message, context),
    loading ? null : appsButton(message, context),
    context.moderates && !ephemeral ? deleteButton(message, name, context) : null,
  );
}

// The last tab stop of a message, after the message's own buttons.
function deleteButton(message, name, context) {
  const ask = () => confirm(`Delete this message of ${name} for everyone?`) && context.remove(message);
  return iconButton("trash", "Delete as a moderator", ask, { class: "icon-button moderate" });
}

function content(message, context) {
  const v2 = Boolean(message.flags & COMPONENTS_V2);
  const inner = {
    message,
    names: context.names,
    people: context.people,
    press: (customId, values, element) => context.press(message, customId, values, element),
  };
  return [
    v2 || !message.content ? null : renderProse(message.content, context.names),
    v2 ? null : renderAttachments(message),
    v2 ? null : renderEmbeds(message, context.names),
    renderComponents(message.components, inner),
  ];
}

const PRESS = 3; // types of interactions
const FORM = 5;
const MENU_ANSWER = 23; // the type of a message

// "Ravi used /imagine": the command or press that the message answers.
function usedLine(message, { names, find }) {
  const interaction = message.interaction_metadata ?? message.interaction;
  const command = message.interaction?.name;
  const deed = command
    ? [" used ", h("span", { class: "mention", text: message.type === MENU_ANSWER ? command : `/${command}` })]
    : interaction?.type === FORM
      ? " filled in a form"
      : interaction?.type === PRESS
        ? pressOn(find(interaction.interacted_message_id))
        : null;
  if (!deed) return null;
  const { id } = interaction.user;
  return usedBy(id, names.user(id), deed);
}

// The data does not say which component was pressed; it is clear only if all are of one kind.
function pressOn(message) {
  const { buttons, menus } = controlsOf(message?.components);
  if (buttons && menus) return " used a button or a menu";
  return menus ? " chose from a menu" : " pressed a button";
}

function usedBy(id, name, deed) {
  const words = h("span", {}, h("b", { text: name }), deed);
  return h("p", { class: "used" }, avatar(id, name, { small: true }), words);
}

function inProgress(words) {
  const dots = h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
  return h("p", { class: "thinking" }, dots, words);
}

function ephemeralNote(message, context) {
  return h(
    "p",
    { class: "note" },
    "Only you can see this · ",
    h("button", {
      type: "button",
      class: "text-button",
      text: "Dismiss",
      on: { click: () => context.remove(message) },
    }),
  );
}

function clock(timestamp) {
  const date = new Date(timestamp);
  const today = date.toDateString() === new Date().toDateString();
  const shown = date.toLocaleString(
    undefined,
    today ? { timeStyle: "short" } : { dateStyle: "short", timeStyle: "short" },
  );
  return h("time", { datetime: timestamp, title: date.toLocaleString(), text: shown });
}

/** A command without an answer so far, or an interaction that failed. */
export function renderWaiting({ member, command, failed, reason }, onDismiss) {
  const who = command
    ? usedBy(member.id, member.name, [" used ", h("span", { class: "mention", text: `/${command}` })])
    : null;
  const state = failed ? failure(reason, onDismiss) : inProgress("Sending the command …");
  return h("article", { class: "message local" }, who, h("div", { class: "body" }, state));
}

function failure(reason, onDismiss) {
  const dismiss = h("button", {
    type: "button",
    class: "text-button",
    text: "Dismiss",
    on: { click: onDismiss },
  });
  return h("p", { class: "note bad", role: "alert" }, `${reason} · `, dismiss);
}

/** The text of a message for screen readers. */
export function spoken(message) {
  const name = message.author.global_name ?? message.author.username;
  const words = [plainText(message.content ?? ""), ...(message.components ?? []).flatMap(wordsOf)]
    .filter(Boolean)
    .join(" ");
  return `${name}: ${words.slice(0, 300)}`;
}

function wordsOf(component) {
  const own = component.type === 10 ? [plainText(component.content)] : [];
  const pictures = (component.items ?? []).map((item) => item.description ?? "picture");
  return [...own, ...pictures, ...(component.components ?? []).flatMap(wordsOf)];
}
