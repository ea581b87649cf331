// The page's state: the acting member, the server's members, channels and commands, and the messages
// by channel. Changes are announced by topic; views subscribe and never change each other.

import { readCommands, readMenus } from "./commands.js";

const THREADS = [10, 11, 12]; // types of channels
const SERVER = 0; // where the server's channels and threads count
const DIRECT = 1;
const GROUP = 3;
const FORUM = 15;
const IS_SPOILER_CHANNEL = 1 << 21; // a flag of channels

export class Model {
  #listeners = new Map();
  #commands = [];
  #menus = [];
  me = null;
  guild = { name: "" };
  members = [];
  roles = []; // {id, name}
  note = ""; // Markdown for the welcome
  channels = [];
  uploadLimit = 0; // bytes of one file
  channelId = null;
  aimedAt = null; // the channel asked for last, open once its messages are there
  messages = new Map(); // of the open channel, by id, oldest first
  waiting = new Map(); // interactions of commands not answered yet, by id
  unread = new Set(); // ids of channels
  #opened = new Set(); // ids of spoiler channels that the member has opened
  #place = null; // member and channel whose messages are shown
  #missed = null; // changes that came while messages were being fetched, to be made once more
  #settled = new Set(); // interactions answered before the request that made them returned

  on(topic, listener) {
    this.#listeners.set(topic, [...(this.#listeners.get(topic) ?? []), listener]);
  }

  #emit(topic, data) {
    for (const listener of this.#listeners.get(topic) ?? []) listener(data);
  }

  /** Set the server's state as one member sees it. */
  applyState(raw) {
    this.guild = raw.guild;
    this.uploadLimit = raw.upload_limit;
    this.members = raw.members.map(readMember);
    this.roles = raw.roles;
    this.note = raw.note;
    this.me = { ...readMember(raw.me), locale: raw.me.locale, moderator: raw.me.moderator, installed: raw.me.installed };
    this.channels = withThreads(raw.channels.map(readChannel));
    this.#readCommands(raw.commands);
    const open =
      this.channels.find((channel) => channel.id === (this.aimedAt ?? this.channelId)) ?? this.channels[0];
    this.channelId = open.id;
    this.#emit("state");
  }

  /** A channel or a thread was opened or changed. */
  putChannel(raw) {
    const put = readChannel(raw);
    const known = this.channels.some((channel) => channel.id === put.id);
    this.channels = known
      ? this.channels.map((channel) => (channel.id === put.id ? put : channel))
      : withThreads([...this.channels, put]);
    this.#emit("channels");
  }

  /** Select this channel; its messages are being loaded. */
  aim(id) {
    this.aimedAt = id;
    this.#missed = [];
  }

  /** The bot has registered other commands. */
  applyCommands(raw) {
    this.#readCommands(raw);
    this.#emit("state");
  }

  #readCommands(raw) {
    this.#commands = readCommands(raw, this.me.locale);
    this.#menus = readMenus(raw, this.me.locale);
  }

  /** The commands of the open channel. */
  get commands() {
    return this.#commands.filter(this.#isHere);
  }

  /** The open channel's commands for a message. */
  get menus() {
    return this.#menus.filter(this.#isHere);
  }

  #isHere = ({ offeredIn }) => {
    const type = this.channel?.type;
    return offeredIn.includes([DIRECT, GROUP].includes(type) ? type : SERVER);
  };

  get channel() {
    return this.channels.find((channel) => channel.id === this.channelId);
  }

  /** The spoiler channel, the open one or that of the open thread, which the member has not opened yet. */
  get closed() {
    const { id, parent } = this.channel ?? {};
    const around = this.channels.filter((channel) => [id, parent].includes(channel.id));
    return around.find((channel) => channel.spoiler && !this.#opened.has(channel.id));
  }

  /** The member opens a spoiler channel. */
  uncover(channel) {
    this.#opened.add(channel.id);
    this.#emit("channels");
  }

  /** Members, channels and roles by the names people write. */
  get people() {
    return { members: this.members, channels: this.channels, roles: this.roles };
  }

  /** The name of a user or channel that a message mentions. */
  names = {
    user: (id) => this.members.find((member) => member.id === id)?.name ?? "someone",
    role: (id) => this.roles.find((role) => role.id === id)?.name.replace(/^@/, "") ?? "unknown",
    channel: (id) => this.channels.find((channel) => channel.id === id)?.name ?? "unknown",
    /** The address by which the acting member opens a channel, or null for one that is not theirs to see. */
    locale: () => this.me.locale,
    address: (id) => {
      const found = this.channels.find((channel) => channel.id === id);
      return found ? `#${this.me.username}/${encodeURIComponent(found.name)}` : null;
    },
  };

  openChannel(id, messages) {
    const place = `${this.me.id}/${id}`;
    const moved = place !== this.#place;
    this.#place = place;
    this.channelId = id;
    this.unread.delete(id);
    this.messages = new Map(messages.map((message) => [message.id, message]));
    for (const message of messages) this.#settle(interactionOf(message));
    this.#emit("channel", { moved });
    const missed = this.#missed;
    this.#missed = null;
    for (const change of missed ?? []) change();
  }

  /** Delete the state of the previous acting member. */
  leave() {
    this.messages.clear();
    this.waiting.clear();
    this.unread.clear();
    this.#opened.clear();
  }

  putMessage(message) {
    this.#missed?.push(() => this.putMessage(message));
    this.#settle(interactionOf(message));
    if (message.channel_id !== this.channelId) {
      this.unread.add(message.channel_id);
      this.#emit("unread");
      return;
    }
    const fresh = !this.messages.has(message.id);
    this.messages.set(message.id, { ...this.messages.get(message.id), ...message });
    this.#emit("message", { message: this.messages.get(message.id), fresh });
  }

  removeMessage(id) {
    this.#missed?.push(() => this.removeMessage(id));
    if (this.messages.delete(id)) this.#emit("removed", id);
  }

  /** The message of the open channel that answers an interaction, if it has arrived. */
  answerTo(interaction) {
    return [...this.messages.values()].find((message) => interactionOf(message) === interaction);
  }

  /** Note a sent command without an answer so far. */
  wait(interaction, what) {
    if (this.#settled.delete(interaction)) return;
    this.waiting.set(interaction, { ...what, failed: false });
    this.#emit("waiting");
  }

  /** Note a failed interaction; `what` is its text if the page was not waiting for it. */
  fail(interaction, what) {
    this.waiting.set(interaction, {
      ...what,
      ...this.waiting.get(interaction),
      reason: what.reason,
      failed: true,
    });
    this.#emit("waiting");
  }

  /** An interaction was answered, by a message or a form. */
  settle(interaction) {
    this.#settle(interaction);
  }

  #settle(interaction) {
    if (!interaction) return;
    if (this.waiting.delete(interaction)) this.#emit("waiting");
    else this.#settled.add(interaction);
  }
}

function readMember(raw) {
  return {
    id: raw.id,
    name: raw.nick ?? raw.global_name ?? raw.username,
    username: raw.username,
    bot: raw.bot ?? false,
  };
}

function readChannel(raw) {
  const direct = raw.type === DIRECT;
  const group = raw.type === GROUP;
  return {
    id: raw.id,
    name: raw.name ?? "direct messages",
    topic: direct ? "Only you and the bot can read this" : group ? groupTopic(raw) : (raw.topic ?? ""),
    nsfw: raw.nsfw ?? false,
    spoiler: ((raw.flags ?? 0) & IS_SPOILER_CHANNEL) !== 0,
    direct: direct || group,
    group,
    type: raw.type,
    forum: raw.type === FORUM,
    parent: THREADS.includes(raw.type) ? raw.parent_id : null,
  };
}

/** The channels, each followed by its threads. */
function withThreads(channels) {
  const known = new Set(channels.map((channel) => channel.id));
  return channels
    .filter((channel) => !known.has(channel.parent))
    .flatMap((channel) => [channel, ...channels.filter((thread) => thread.parent === channel.id)]);
}

function groupTopic(raw) {
  const names = raw.recipients.map((member) => member.global_name ?? member.username);
  return `${names.join(", ")}; the bot answers those who have it in their account`;
}

/** The interaction a message answers, if any. */
function interactionOf(message) {
  return (message.interaction_metadata ?? message.interaction)?.id ?? null;
}
