// Assembles the page: loads the state of the acting member, listens to the member's events, and sends
// actions to the sandbox. The address's fragment (#ravi/art) names the member and the channel, so
// that two tabs can be two members.

import * as api from "./api.js";
import { createChannels } from "./channels.js";
import { createComposer } from "./composer.js";
import { byId, icon } from "./dom.js";
import { listen } from "./events.js";
import { createFaults } from "./faults.js";
import { keepTimes } from "./markdown_view.js";
import { openModal } from "./modal.js";
import { Model } from "./model.js";
import { createOwn } from "./own.js";
import { createPeople } from "./people.js";
import { createTimeline } from "./timeline.js";
import { createWelcome } from "./welcome.js";

const FIRST_MEMBER = "mina";
const BUSY_FOR = 3000; // milliseconds Discord gives a bot to answer a press
const LATE = 2000; // milliseconds after which the page shows what there is without a line

const model = new Model();
const presses = new Map(); // messages by the interaction that a press on them made
const own = createOwn(openForm);
let stopListening = () => {};
let visit = 0; // counts arrivals, so that answers to a former member's questions are let go
let early = null; // events that came before the state which they change

const timeline = createTimeline(model, {
  press,
  remove: (message) =>
    api.deleteMessage(model.me.id, message.id).catch((error) => timeline.complain(message.id, error.message)),
  react: (message, emoji, on) =>
    api
      .react(model.me.id, message.id, emoji, on)
      .catch((error) => timeline.complain(message.id, error.message)),
  use,
  forget: (id) => model.settle(id),
});
const composer = createComposer(model, sendCommand, say);
createPeople(model, act);
createChannels(model, open);
const welcome = createWelcome(
  model,
  (text) => composer.setText(text),
  (on) =>
    api
      .install(model.me.id, on)
      .then(() => load(model.me.id))
      .catch((error) => composer.fail(error)),
);
createFaults();
byId("send").append(icon("send"));

async function act(memberId) {
  visit += 1;
  const here = visit;
  stopListening();
  model.leave();
  early = [];
  await listening(memberId);
  if (here === visit) await load(memberId);
  if (here === visit) focusBox();
}

/** Resolves once the line is open, has failed or is late: what happens between loading and listening is lost. */
function listening(memberId) {
  return new Promise((resolve) => {
    let first = true;
    setTimeout(() => tried(), LATE);
    const tried = () => {
      first = false;
      resolve();
    };
    stopListening = listen(memberId, {
      onEvent: (type, data) => (early ? early.push([type, data]) : onEvent(type, data)),
      onUp: () => {
        tell(null);
        if (!first) load(memberId).catch((error) => tell(error.message));
        tried();
      },
      onDown: () => {
        tell("The line to the sandbox is down. Trying again …");
        tried();
      },
    });
  });
}

/** Load the state; events that come meanwhile are delivered afterwards. */
async function load(memberId) {
  const here = visit;
  early ??= [];
  try {
    const state = await api.fetchState(memberId);
    if (here !== visit) return;
    model.applyState(state);
    composer.online();
    await open(model.channelId, { focus: false });
  } finally {
    if (here === visit) deliverEarly();
  }
}

function deliverEarly() {
  const events = early ?? [];
  early = null;
  for (const [type, data] of events) {
    try {
      onEvent(type, data);
    } catch (error) {
      reportError(error);
    }
  }
}

async function open(channelId, { focus = true } = {}) {
  const here = visit;
  model.aim(channelId);
  const messages = await api.fetchMessages(model.me.id, channelId);
  if (here !== visit || model.aimedAt !== channelId) return;
  model.openChannel(channelId, messages);
  history.replaceState(null, "", `#${model.me.username}/${encodeURIComponent(model.channel.name)}`);
  if (focus) focusBox();
}

const HANDLERS = {
  MESSAGE_CREATE: arrived,
  MESSAGE_UPDATE: arrived,
  MESSAGE_REACTION_ADD: (message) => model.putMessage(message),
  MESSAGE_REACTION_REMOVE: (message) => model.putMessage(message),
  MESSAGE_DELETE: (data) => model.removeMessage(data.id),
  CHANNEL_CREATE: (channel) => model.putChannel(channel),
  CHANNEL_UPDATE: (channel) => model.putChannel(channel),
  THREAD_CREATE: (channel) => model.putChannel(channel),
  COMMANDS_UPDATE: (commands) => {
    model.applyCommands(commands);
    composer.refresh();
  },
  TYPING: ({ channel_id: channel, user_id: user }) => timeline.showTyping(channel, user),
  INTERACTION_FAILED: failed,
  MODAL: (data) => own.form(data),
};

function onEvent(type, data) {
  HANDLERS[type]?.(data);
}

function arrived(message) {
  timeline.release(message.id);
  timeline.release(message.interaction_metadata?.interacted_message_id);
  model.putMessage(message);
}

function openForm(data) {
  settle(data.interaction_id);
  model.settle(data.interaction_id);
  openModal(data, model.names, (values) => api.submitModal(model.me.id, data.interaction_id, values));
}

function settle(interaction) {
  if (presses.has(interaction)) timeline.release(presses.get(interaction));
  presses.delete(interaction);
}

function failed({ interaction_id: interaction, channel_id: channel, message: reason }) {
  const message = presses.get(interaction) ?? model.answerTo(interaction)?.id;
  settle(interaction);
  if (message !== undefined) timeline.complain(message, reason);
  else model.fail(interaction, { channel, member: model.me, reason });
}

async function sendCommand(command, values) {
  const { me: member, channelId: channel } = model;
  const interaction = await own.begin(api.sendCommand(member.id, channel, command.name, values));
  model.wait(interaction, { channel, member, command: command.label });
  welcome.greeted();
  timeline.toBottom();
}

async function press(message, customId, values, element) {
  element.classList.add("busy");
  setTimeout(() => element.classList.remove("busy"), BUSY_FOR);
  try {
    presses.set(await own.begin(api.press(model.me.id, message.id, customId, values)), message.id);
  } catch (error) {
    timeline.release(message.id);
    timeline.complain(message.id, error.message);
  }
}

async function use(message, menu) {
  try {
    presses.set(await own.begin(api.chooseMenu(model.me.id, message.id, menu.name)), message.id);
  } catch (error) {
    timeline.complain(message.id, error.message);
  }
}

async function say(words) {
  await api.say(model.me.id, model.channelId, words);
  welcome.greeted();
  timeline.toBottom();
}

function tell(sentence) {
  const line = byId("connection");
  line.hidden = sentence === null;
  line.textContent = sentence ?? "";
}

// On a touch screen the focus would open the keyboard over half the page.
function focusBox() {
  if (!matchMedia("(pointer: coarse)").matches) byId("box").focus();
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input:not([type=radio]), textarea, select, dialog");
  if (event.key !== "/" || writing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  composer.setText("/");
});

// Without a fragment the page opens the channel of the last message.
function newest(channels) {
  const at = ({ last_message_id: id }) => BigInt(id ?? 0);
  return channels.reduce((best, channel) => (at(channel) > at(best) ? channel : best));
}

async function goToAddress() {
  const [who, where] = decodeURIComponent(location.hash.slice(1)).split("/");
  const state = await api.fetchState(who || FIRST_MEMBER).catch(() => api.fetchState(FIRST_MEMBER));
  const there = state.channels.find((channel) => channel.name === where) ?? newest(state.channels);
  model.aim(there.id);
  await act(state.me.id);
}

setInterval(keepTimes, 1000);

const go = () => goToAddress().catch((error) => tell(error.message));
addEventListener("hashchange", go);
go();
